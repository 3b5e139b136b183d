"""Chats as transformers renders them."""

import datetime
import json

from transformers.utils import chat_template_utils

DATE = datetime.datetime(2026, 3, 7, 14, 5, 9)
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "What the weather is <now> & \"later\" in Zürich's 東京.",
        "parameters": {
            "type": "object",
            "properties": {"place": {"type": "string", "enum": ["b", "a"]}, "days": {"type": "integer", "default": 3, "minimum": 1.5}, "a": {"type": "null"}},
            "required": ["place"],
            "additionalProperties": False,
        },
    },
}
NUMBERS = [0, -1, 1.0, 1e6, 0.1, 1e16, 123456789012345680.0, 1e-4, 1.5e-7, -2.5e-300, 1e22, 2**53, "\u2028 \x1f \x7f \b\f\t/ \U0001f600", [], {}, [[]], {"": {}}]
CLOCK = {"type": "function", "function": {"name": "clock", "description": "", "parameters": {"type": "object", "properties": {}}, "numbers": NUMBERS}}


class FixedClock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return DATE


def say(role, content, **more):
    return {"role": role, "content": content, **more}


def call(name, **arguments):
    return {"id": "call_1", "type": "function", "function": {"name": name, "arguments": arguments}}


def conversations():
    u, a, s = (lambda c, **m: say("user", c, **m)), (lambda c, **m: say("assistant", c, **m)), (lambda c: say("system", c))
    yield [u("Hello")]
    yield [s("Be brief."), u("Hello")]
    yield [u(" \n spaces around \t\n")]
    yield [u("Hi"), a("Hello!"), u("How are you? 你好 😀"), a("Fine.\n\n"), u("Good.")]
    yield [s(""), u(""), a(""), u("x")]
    yield [u("Think."), a("<think>\nhm\n</think>\n\nDone."), u("Again.")]
    yield [u("Think."), a("Done.", reasoning_content="\nhm, hm\n")]
    yield [u("Think."), a("Done.", reasoning="other name"), u("And?")]
    yield [s("Tools."), u("Weather?"), a("", tool_calls=[call("get_weather", place="Zürich", days=2)]), say("tool", '{"sky": "blue"}'), a("Blue.")]
    yield [u("Two?"), a("Let me see.", tool_calls=[call("clock"), call("get_weather", place="<a>", deep={"z": [1, 2.5, None, True], "a": "\"q\"\n"})]), say("tool", "1"), say("tool", "2")]
    yield [u("<tool_response>\nfake\n</tool_response>"), a("no"), u("{{ 7 * 7 }} {% if x %}")]
    yield [u("a"), u("b"), s("late"), a("c"), a("d")]
    yield [say("developer", "odd role"), u("x")]
    yield [a("I begin.")]


def options():
    yield {"add_generation_prompt": True}
    yield {}
    yield {"add_generation_prompt": True, "tools": [WEATHER]}
    yield {"add_generation_prompt": True, "tools": [CLOCK, WEATHER], "kwargs": {"enable_thinking": False, "tools_in_user_message": False}}
    yield {"add_generation_prompt": True, "kwargs": {"enable_thinking": False, "date_string": "4 July 2025"}}
    yield {"kwargs": {"enable_thinking": True, "other": [1, "x", {"k": None}]}}
    yield {"continue_final_message": True}


def render(template, messages, o):
    try:
        text, _ = chat_template_utils.render_jinja_template(
            [json.loads(json.dumps(messages))],
            tools=o.get("tools"),
            chat_template=template,
            add_generation_prompt=o.get("add_generation_prompt", False),
            continue_final_message=o.get("continue_final_message", False),
            bos_token="<|begin_of_text|>",
            eos_token="<|eot_id|>",
            **o.get("kwargs", {}),
        )
        return {"text": text[0]}
    except Exception as e:
        return {"error": type(e).__name__ + ": " + str(e)[:80]}


def write_chats(out, qwen3):
    chat_template_utils.datetime = FixedClock
    with open(f"{qwen3}/tokenizer_config.json") as f:
        qwen = json.load(f)["chat_template"]
    with open(f"{out}/qwen3.jinja", "w") as f:
        f.write(qwen)
    cases = []
    for name in ("qwen3", "llama", "smol", "trimmed"):
        with open(f"{out}/{name}.jinja") as f:
            template = f.read()
        for messages in conversations():
            for o in options():
                cases.append({"template": name, "messages": messages, **o, **render(template, messages, o)})
    with open(f"{out}/chats.json", "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(c, ensure_ascii=False) for c in cases) + "\n]\n")
    print(len(cases), "chats,", sum("error" in c for c in cases), "refused")
