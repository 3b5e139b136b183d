"""Holds a running server to what PyPI's openai makes of it:

    python clients.py http://127.0.0.1:30000
"""

import sys

import openai

url = sys.argv[1].rstrip("/")
client = openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0)
models = [m.id for m in client.models.list()]
assert len(models) >= 2 and client.models.retrieve(models[0]).id == models[0], models
same = dict(messages=[{"role": "user", "content": "Tell me a story, 世界 🎉!"}], seed=3, temperature=0.7, max_tokens=24)

for model in models:
    whole = client.chat.completions.create(model=model, n=2, logprobs=True, top_logprobs=2, extra_body={"return_token_ids": True}, **same)
    texts, finish, ids, usage = ["", ""], [None, None], [[], []], None
    for chunk in client.chat.completions.create(
        model=model, n=2, stream=True, stream_options={"include_usage": True}, extra_body={"return_token_ids": True}, **same
    ):
        usage = chunk.usage or usage
        for c in chunk.choices:
            texts[c.index] += c.delta.content or ""
            finish[c.index] = c.finish_reason or finish[c.index]
            ids[c.index] += getattr(c, "token_ids", None) or []
    for i, c in enumerate(whole.choices):
        assert texts[i] == c.message.content and finish[i] == c.finish_reason, (model, texts[i], c)
        assert ids[i] == c.token_ids and len(ids[i]) == len(c.logprobs.content), (model, ids[i], c)
    assert usage.completion_tokens == whole.usage.completion_tokens == sum(map(len, ids)), (usage, whole.usage)

with client.chat.completions.stream(model=models[0], **same) as stream:
    for _ in stream:
        pass
    final = stream.current_completion_snapshot.choices[0]
    assert final.message.role == "assistant" and final.message.content == client.chat.completions.create(model=models[0], **same).choices[0].message.content

never = client.chat.completions.create(model=models[0], extra_body={"custom_params": {"threshold": -1}, "return_token_ids": True}, **same)
alone = client.chat.completions.create(model=models[1], extra_body={"return_token_ids": True}, **same)
assert never.choices[0].token_ids == alone.choices[0].token_ids, "a request that is never routed differs from the small model's"

texts = client.completions.create(model=models[0], prompt=["a", "b"], logprobs=2, max_tokens=4)
assert [c.index for c in texts.choices] == [0, 1] and all(len(c.logprobs.tokens) for c in texts.choices)

for wrong, error, word in [
    (dict(top_p=2), openai.BadRequestError, "top_p"),
    (dict(model="gpt-5"), openai.NotFoundError, "gpt-5"),
    (dict(seed=2**64), openai.BadRequestError, "seed"),
]:
    try:
        client.chat.completions.create(**{"model": models[0], **same, **wrong})
    except error as e:
        assert word in e.message and e.body["message"], e
    else:
        raise AssertionError(f"{wrong} was taken")

stream = client.chat.completions.create(model=models[0], stream=True, **{**same, "max_tokens": 500})
next(iter(stream))
stream.close()  # and leaves
print("PyPI openai: all well")
