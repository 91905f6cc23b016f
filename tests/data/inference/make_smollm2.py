#!/usr/bin/env python3
"""Writes smollm2.golden.json: what SmolLM2 says in float32, by NumPy and PyPI's `gguf` alone.

    make_smollm2.py MODEL.gguf > smollm2.golden.json      # needs: pip install numpy gguf tokenizers

For each prompt: ids of the greedy text and, for each of them, how far the likeliest token lies
before the second (a gap of nothing is a toss of a coin). For a text: the mean negative log-likelihood.
"""
import json
import sys

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize

from make_tokenizers import from_gguf

reader = GGUFReader(sys.argv[1])
weights = {t.name: dequantize(t.data, t.tensor_type).astype(np.float32) for t in reader.tensors}


def number(key):
    return reader.fields["llama." + key].parts[-1][0].item()


LAYERS, HIDDEN = number("block_count"), number("embedding_length")
HEADS, KV_HEADS = number("attention.head_count"), number("attention.head_count_kv")
EPSILON, THETA = number("attention.layer_norm_rms_epsilon"), number("rope.freq_base")
SIZE = HIDDEN // HEADS


def norm(x, name):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + EPSILON) * weights[name]


def rotate(x, positions):
    """x: [tokens, heads, SIZE]; llama.cpp keeps neighbours as pairs."""
    angles = positions[:, None] * THETA ** (-np.arange(0, SIZE, 2, dtype=np.float64) / SIZE)
    cos, sin = np.cos(angles)[:, None].astype(np.float32), np.sin(angles)[:, None].astype(np.float32)
    even, odd = x[..., 0::2], x[..., 1::2]
    return np.stack([even * cos - odd * sin, even * sin + odd * cos], axis=-1).reshape(x.shape)


def logits_of(ids, cache):
    """Logits after each of ids, which follow what the cache has."""
    begin = len(cache[0][0]) if cache[0] else 0
    positions = np.arange(begin, begin + len(ids))
    x = weights["token_embd.weight"][ids]
    for layer in range(LAYERS):
        w = lambda name: weights[f"blk.{layer}.{name}.weight"]
        h = norm(x, f"blk.{layer}.attn_norm.weight")
        q = rotate((h @ w("attn_q").T).reshape(-1, HEADS, SIZE), positions)
        k = rotate((h @ w("attn_k").T).reshape(-1, KV_HEADS, SIZE), positions)
        v = (h @ w("attn_v").T).reshape(-1, KV_HEADS, SIZE)
        if cache[layer]:
            k, v = np.concatenate([cache[layer][0], k]), np.concatenate([cache[layer][1], v])
        cache[layer] = (k, v)
        out = np.empty_like(q)
        for head in range(HEADS):
            kv = head * KV_HEADS // HEADS
            scores = q[:, head] @ k[:, kv].T / np.sqrt(np.float32(SIZE))
            scores[np.arange(len(k))[None] > positions[:, None]] = -np.inf
            scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
            out[:, head] = scores / scores.sum(axis=-1, keepdims=True) @ v[:, kv]
        x = x + out.reshape(-1, HIDDEN) @ w("attn_output").T
        h = norm(x, f"blk.{layer}.ffn_norm.weight")
        gate = h @ w("ffn_gate").T
        x = x + (gate / (1 + np.exp(-gate)) * (h @ w("ffn_up").T)) @ w("ffn_down").T
    return norm(x, "output_norm.weight") @ weights["token_embd.weight"].T


def greedy(prompt, count):
    cache, ids, gaps, todo = [None] * LAYERS, [], [], prompt
    while len(ids) < count:
        last = logits_of(todo, cache)[-1]
        second, first = np.sort(last)[-2:]
        ids.append(int(last.argmax()))
        gaps.append(round(float(first - second), 4))
        todo = ids[-1:]
    return {"prompt_ids": prompt, "ids": ids, "gaps": gaps}


def nll(ids):
    logits = logits_of(ids, [None] * LAYERS).astype(np.float64)[:-1]
    logits -= logits.max(axis=-1, keepdims=True)
    likelihood = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    return -float(likelihood[np.arange(len(ids) - 1), ids[1:]].mean())


PROMPTS = ["Once upon a time", "The capital of France is", "def fibonacci(n):\n", "1, 2, 3, 5, 7, 11,",
           "Water boils at", "Dear Sir or Madam,\n", "The three laws of motion are", "Hello"]
TEXT = """A signal is a word in memory that one processor raises and another waits for. The one that \
raises it first writes its data, then the word; the one that waits looks at the word again and again, \
and only then reads the data. Nobody stands in between: no queue, no interrupt, no call into the \
kernel. When the waiting takes long, the one that waits goes to sleep, and the other must wake it. \
In 1978 a clock that orders events in a distributed system was described for the first time; in the \
years that followed, people learned how hard it is to agree on anything when messages can be lost. \
Memory that two machines share has the same trouble: one of them can stop at any time, and the other \
has to find out."""

tokenizer = from_gguf(sys.argv[1])
encode = lambda text: tokenizer.encode(text, add_special_tokens=False).ids
json.dump({"prompts": [{"text": text, **greedy(encode(text), 48)} for text in PROMPTS],
           "text": {"text": TEXT, "nll": nll(encode(TEXT)), "tokens": len(encode(TEXT)) - 1}},
          sys.stdout, indent=None)
print()
