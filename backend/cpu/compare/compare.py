"""The CPU engine beside torch on the same shapes, in one run.

  python -m venv .venv && .venv/bin/pip install -r backend/cpu/testdata/requirements.txt
  .venv/bin/python backend/cpu/compare/compare.py

Both decode one token for 1 and for 4 requests on the model of BenchmarkStep
(bench_test.go): bf16 weights, larger than the cache. Torch gets the plain
operators that a careful person would use: F.linear in bf16, sdpa on a KV cache
that is contiguous and in bf16, where the engine's is paged and in float32; no
Python framework above them. Runs of the two alternate, and the least time of each
is compared, since other programs on the machine only add time.
"""

import os
import re
import subprocess
import time

import torch
import torch.nn.functional as F

LAYERS, HIDDEN, INTERMEDIATE, VOCAB = 10, 1024, 3072, 32768
HEADS, KV_HEADS, HEAD_DIM = 16, 8, 128
ROUNDS, STEPS = 4, 10
HERE = os.path.dirname(os.path.abspath(__file__))


class Torch:
    def __init__(self, requests, context):
        draw = lambda *shape: torch.randn(shape, dtype=torch.bfloat16) / shape[-1] ** 0.5
        self.requests, self.context = requests, context
        self.embedding = WEIGHTS["embedding"]
        past = (requests, KV_HEADS, context + 1, HEAD_DIM)
        self.caches = [(draw(*past), draw(*past)) for _ in range(LAYERS)]
        self.tokens = torch.arange(requests)
        angles = context * 1e6 ** (-torch.arange(0, HEAD_DIM, 2) / HEAD_DIM)
        self.cos = torch.cat([angles, angles]).cos().bfloat16()
        self.sin = torch.cat([angles, angles]).sin().bfloat16()

    def rotate(self, x):
        low, high = x.chunk(2, -1)
        return x * self.cos + torch.cat([-high, low], -1) * self.sin

    def step(self):
        n = self.requests
        x = self.embedding[self.tokens]
        for (k_cache, v_cache), w in zip(self.caches, WEIGHTS["layers"]):
            h = F.rms_norm(x, (HIDDEN,), w["norm"], 1e-6)
            q = F.linear(h, w["q"]).view(n, HEADS, 1, HEAD_DIM)
            k = F.linear(h, w["k"]).view(n, KV_HEADS, 1, HEAD_DIM)
            v = F.linear(h, w["v"]).view(n, KV_HEADS, 1, HEAD_DIM)
            q = self.rotate(F.rms_norm(q, (HEAD_DIM,), w["head_norm"], 1e-6))
            k_cache[:, :, self.context :] = self.rotate(F.rms_norm(k, (HEAD_DIM,), w["head_norm"], 1e-6))
            v_cache[:, :, self.context :] = v
            h = F.scaled_dot_product_attention(q, k_cache, v_cache, enable_gqa=True)
            x = x + F.linear(h.reshape(n, HEADS * HEAD_DIM), w["o"])
            h = F.rms_norm(x, (HIDDEN,), w["norm"], 1e-6)
            x = x + F.linear(F.silu(F.linear(h, w["gate"])) * F.linear(h, w["up"]), w["down"])
        logits = F.linear(F.rms_norm(x, (HIDDEN,), WEIGHTS["norm"], 1e-6), self.embedding)
        return logits.argmax(-1)

    def least_ms(self):
        times = []
        for _ in range(STEPS + 2):
            start = time.perf_counter()
            self.step()
            times.append(time.perf_counter() - start)
        return min(times) * 1e3


def weights():
    draw = lambda *shape: torch.randn(shape, dtype=torch.bfloat16) / shape[-1] ** 0.5
    layer = lambda: {
        "norm": torch.ones(HIDDEN, dtype=torch.bfloat16),
        "head_norm": torch.ones(HEAD_DIM, dtype=torch.bfloat16),
        "q": draw(HEADS * HEAD_DIM, HIDDEN),
        "k": draw(KV_HEADS * HEAD_DIM, HIDDEN),
        "v": draw(KV_HEADS * HEAD_DIM, HIDDEN),
        "o": draw(HIDDEN, HEADS * HEAD_DIM),
        "gate": draw(INTERMEDIATE, HIDDEN),
        "up": draw(INTERMEDIATE, HIDDEN),
        "down": draw(HIDDEN, INTERMEDIATE),
    }
    return {
        "embedding": draw(VOCAB, HIDDEN),
        "norm": torch.ones(HIDDEN, dtype=torch.bfloat16),
        "layers": [layer() for _ in range(LAYERS)],
    }


def engine_ms(binary, threads, context):
    """Milliseconds of a step of 1 and of 4 requests, and GB/s of reading."""
    pattern = f"Step/threads={threads}/context={context}$"
    out = subprocess.check_output(
        [binary, "-test.run", "^$", "-test.bench", pattern, "-test.benchtime", f"{STEPS}x"], text=True
    )
    value = lambda unit: float(re.search(rf"([\d.]+) {re.escape(unit)}", out).group(1))
    one = value("step1-ms")
    return one, one * value("step4/step1"), value("read-GB/s")


def main():
    global WEIGHTS
    WEIGHTS = weights()
    binary = os.path.join(HERE, "cpu.test")
    subprocess.check_call(["go", "test", "-c", "-o", binary, ".."], cwd=HERE)
    bytes_read = 2 * (VOCAB * HIDDEN + LAYERS * HIDDEN * (2 * HEADS * HEAD_DIM + 2 * KV_HEADS * HEAD_DIM + 3 * INTERMEDIATE))
    print(f"torch {torch.__version__}, {bytes_read / 1e6:.0f} MB of weights")
    print("threads context | engine ms, 1 and 4 requests | torch ms, 1 and 4 | torch / engine | engine's share of reading")
    try:
        with torch.inference_mode():
            for threads in (1, 2):
                torch.set_num_threads(threads)
                for context in (64, 1024):
                    rows = []
                    for _ in range(ROUNDS):
                        rows.append((*engine_ms(binary, threads, context), Torch(1, context).least_ms(), Torch(4, context).least_ms()))
                    e1, e4, t1, t4 = (min(r[i] for r in rows) for i in (0, 1, 3, 4))
                    share = bytes_read / e1 / 1e6 / max(r[2] for r in rows)
                    print(
                        f"{threads:7} {context:7} | {e1:12.1f} {e4:14.1f} | {t1:8.1f} {t4:8.1f} |"
                        f" {t1 / e1:5.2f} {t4 / e4:5.2f} | {share:.2f}",
                        flush=True,
                    )
    finally:
        os.remove(binary)


if __name__ == "__main__":
    main()
