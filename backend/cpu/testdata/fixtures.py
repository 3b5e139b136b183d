"""Toy checkpoints and their logits, as transformers computes them in float32.

  fixtures.py [DIR]      needs requirements.txt (make fixtures)

writes into DIR, the script's own folder by default, a folder for each model:
  config.json, generation_config.json, *.safetensors
                  as save_pretrained writes them; weights are random, in bf16
  reference.json  {"prompt": 40, "tokens": [104 ids], "vocab": 128, "gap": G,
                   "inverse_frequencies": [the rotary embedding's table, float32]}
  logits.f32      104 rows of 128 logits, little-endian float32

and rope.json, that table for the shapes of some published models and for linear
scaling: [{"head_dim", "rope_parameters", "inverse_frequencies"}, …].

Row p holds the logits after tokens[0..p]. The first 40 rows are of one prefill,
each later one of a decode step with a KV cache. From tokens[40] on each token is
the one with the largest logit of the row before; G is the least distance between
the two largest of those rows. Equal versions give equal bytes on one machine;
elsewhere logits differ in their last bits.
"""

import json
import os
import shutil
import sys

import numpy as np
import torch
import transformers

VOCAB, PROMPT, STEPS = 128, 40, 64
SHARED = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,  # times the heads it is not hidden_size
    "intermediate_size": 72,
    "max_position_embeddings": 2048,
    "bos_token_id": None,
    "eos_token_id": None,
}
SCALED = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,  # so that 104 positions see the scaling
}
MODELS = {
    "qwen3-tied": transformers.Qwen3Config(
        **SHARED, tie_word_embeddings=True, rope_parameters={"rope_type": "default", "rope_theta": 1e6}
    ),
    "qwen3-untied": transformers.Qwen3Config(
        **SHARED, tie_word_embeddings=False, rope_parameters={"rope_type": "default", "rope_theta": 1e6}
    ),
    "llama": transformers.LlamaConfig(
        **(SHARED | {"hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 3}),
        tie_word_embeddings=False,
        rms_norm_eps=1e-5,
        rope_parameters=SCALED,
    ),
}
SHARDED = "qwen3-untied"
ROPES = [
    (128, {"rope_type": "default", "rope_theta": 1000000.0}),  # Qwen3
    (64, {"rope_type": "default", "rope_theta": 100000.0}),  # SmolLM2
    (128, SCALED | {"original_max_position_embeddings": 8192}),  # Llama 3.1
    (64, SCALED | {"original_max_position_embeddings": 8192, "factor": 32.0}),  # Llama 3.2 1B
    (128, {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}),
]


def randomise(model, seed):
    """Draws weights that make attention and logits uneven, and rounds them to bf16."""
    draw = np.random.default_rng(seed)
    for name, p in sorted(model.named_parameters()):
        if p.ndim == 1:
            peaked = 2.0 if "q_norm" in name else 1.0
            values = peaked * draw.uniform(0.5, 1.5, p.shape)
        else:
            gain = {"o_proj": 3.0, "down_proj": 3.0, "q_proj": 2.0, "lm_head": 2.5, "embed_tokens": 2.5}
            scale = next((g for part, g in gain.items() if part in name), 1.0)
            values = draw.normal(0, scale / p.shape[1] ** 0.5, p.shape)
        p.data = torch.tensor(values, dtype=torch.float32).bfloat16().float()


def run(model, prompt):
    """The logits of the prompt's rows and of STEPS greedy steps, and all tokens."""
    tokens, rows, feed = list(prompt), [], prompt
    cache = transformers.DynamicCache(config=model.config)
    for step in range(STEPS + 1):
        with torch.no_grad():
            rows += list(model(torch.tensor([feed]), cache=cache).logits[0].numpy())
        if step < STEPS:
            feed = [int(rows[-1].argmax())]
            tokens += feed
    return np.array(rows, "<f4"), tokens


def write(folder, config, seed):
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation="eager").eval()
    randomise(model, seed)
    shutil.rmtree(folder, ignore_errors=True)
    shard = {"max_shard_size": 16000} if os.path.basename(folder) == SHARDED else {}
    model.bfloat16().save_pretrained(folder, **shard)
    # The reference is of what the files hold.
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    prompt = np.random.default_rng(seed).integers(0, VOCAB, PROMPT).tolist()
    logits, tokens = run(model, prompt)
    logits.tofile(os.path.join(folder, "logits.f32"))
    best = np.sort(logits[PROMPT - 1 : -1], axis=1)
    reference = {
        "prompt": PROMPT,
        "tokens": tokens,
        "vocab": VOCAB,
        "gap": float(f"{(best[:, -1] - best[:, -2]).min():.4g}"),
        "inverse_frequencies": model.model.rotary_emb.inv_freq.tolist(),
    }
    with open(os.path.join(folder, "reference.json"), "w") as f:
        f.write(json.dumps(reference) + "\n")
    print(folder, "logits", logits.min(), "to", logits.max(), "gap", reference["gap"], tokens[PROMPT:])


def write_ropes(path):
    entries = []
    for dim, parameters in ROPES:
        config = transformers.LlamaConfig(
            hidden_size=dim, num_attention_heads=1, max_position_embeddings=131072, rope_parameters=dict(parameters)
        )
        rope = transformers.models.llama.modeling_llama.LlamaRotaryEmbedding(config)
        table = rope.inv_freq.tolist()
        entries.append({"head_dim": dim, "rope_parameters": parameters, "inverse_frequencies": table})
    with open(path, "w") as f:
        f.write("[\n" + ",\n".join(map(json.dumps, entries)) + "\n]\n")


if __name__ == "__main__":
    to = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    write_ropes(os.path.join(to, "rope.json"))
    for seed, (name, config) in enumerate(MODELS.items(), 9):
        write(os.path.join(to, name), config, seed)
