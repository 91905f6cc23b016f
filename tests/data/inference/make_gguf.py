"""Writes GGUF files with PyPI's `gguf`, an independent writer, for the tests of our reader.

    python make_gguf.py OUTPUT_FOLDER [SEED]

types.gguf    for every block type a tensor NAME and its values NAME.f32, dequantised by `gguf`
metadata.gguf every kind of value, alignment 64, arrays, non-ASCII text
qwen3.gguf    a whole model of one layer
unknown.gguf  an architecture that no version of Imex reads
"""
import sys
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type

QUANTISED = [Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.Q8_0, Type.Q4_K, Type.Q5_K, Type.Q6_K]
# Where each block type keeps its float16 scales; random bits there would be NaNs now and then.
SCALES = {Type.Q4_0: [0], Type.Q4_1: [0, 2], Type.Q5_0: [0], Type.Q5_1: [0, 2], Type.Q8_0: [0],
          Type.Q4_K: [0, 2], Type.Q5_K: [0, 2], Type.Q6_K: [208]}


def random_blocks(random, kind, rows, blocks):
    """All bits random but the scales: every combination of scale, minimum and quant can occur."""
    size = gguf.GGML_QUANT_SIZES[kind][1]
    data = random.integers(0, 256, (rows, blocks, size), dtype=np.uint8)
    for at in SCALES[kind]:
        scale = random.uniform(-0.1, 0.1, (rows, blocks, 1)).astype(np.float16)
        data[:, :, at:at + 2] = scale.view(np.uint8)
    return data.reshape(rows, blocks * size)


def write_types(path, random):
    writer = gguf.GGUFWriter(path, "llama")
    plain = random.normal(size=(3, 7)).astype(np.float32)
    plain[0, :3] = [0.0, -0.0, 1e-7]  # 1e-7 is subnormal in float16
    writer.add_tensor("F32", plain)
    writer.add_tensor("F16", plain.astype(np.float16))
    writer.add_tensor("F16.f32", plain.astype(np.float16).astype(np.float32))
    bf16 = gguf.quants.quantize(plain, Type.BF16)
    writer.add_tensor("BF16", bf16, raw_dtype=Type.BF16)
    writer.add_tensor("BF16.f32", gguf.quants.dequantize(bf16, Type.BF16))
    for kind in QUANTISED:
        data = random_blocks(random, kind, 3, 2)
        writer.add_tensor(kind.name, data, raw_dtype=kind)
        writer.add_tensor(kind.name + ".f32", gguf.quants.dequantize(data, kind).astype(np.float32))
    finish(writer)


def write_metadata(path):
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_custom_alignment(64)
    writer.add_uint8("u8", 200)
    writer.add_int8("i8", -100)
    writer.add_uint16("u16", 60000)
    writer.add_int16("i16", -30000)
    writer.add_uint32("u32", 4000000000)
    writer.add_int32("i32", -2000000000)
    writer.add_uint64("u64", 2**64 - 1)
    writer.add_int64("i64", -2**63)
    writer.add_float32("f32", 1e-5)
    writer.add_float64("f64", 0.1)
    writer.add_bool("yes", True)
    writer.add_bool("no", False)
    writer.add_string("text", "Grüße, 世界")
    writer.add_array("texts", ["a", "", "▁b"])
    writer.add_array("integers", [1, -2, 3])
    writer.add_array("floats", [0.5, -1.5])
    writer.add_tensor("odd", np.arange(15, dtype=np.float32).reshape(3, 5))
    writer.add_tensor("deep", np.arange(24, dtype=np.float32).reshape(2, 3, 4))
    finish(writer)


def write_qwen3(path, random):
    hidden, feed_forward, heads, kv_heads, head, vocabulary = 32, 96, 4, 2, 16, 7
    writer = gguf.GGUFWriter(path, "qwen3")
    writer.add_context_length(128)
    writer.add_embedding_length(hidden)
    writer.add_block_count(1)
    writer.add_feed_forward_length(feed_forward)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_key_length(head)
    writer.add_value_length(head)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(1e6)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(["<unk>", "<s>", "</s>", "a", "b", "ab", "\u0120"])
    writer.add_token_types([3, 3, 3, 1, 1, 1, 1])
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)

    def add(name, *shape):
        writer.add_tensor(name, random.normal(size=shape).astype(np.float32))

    add("token_embd.weight", vocabulary, hidden)
    add("output_norm.weight", hidden)
    add("blk.0.attn_norm.weight", hidden)
    add("blk.0.attn_q.weight", heads * head, hidden)
    add("blk.0.attn_k.weight", kv_heads * head, hidden)
    add("blk.0.attn_v.weight", kv_heads * head, hidden)
    add("blk.0.attn_q_norm.weight", head)
    add("blk.0.attn_k_norm.weight", head)
    add("blk.0.attn_output.weight", hidden, heads * head)
    add("blk.0.ffn_norm.weight", hidden)
    add("blk.0.ffn_gate.weight", feed_forward, hidden)
    add("blk.0.ffn_up.weight", feed_forward, hidden)
    add("blk.0.ffn_down.weight", hidden, feed_forward)
    finish(writer)


def write_unknown(path):
    writer = gguf.GGUFWriter(path, "rwkv7")
    writer.add_block_count(1)
    finish(writer)


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    folder = Path(sys.argv[1])
    random = np.random.default_rng(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    folder.mkdir(parents=True, exist_ok=True)
    write_types(folder / "types.gguf", random)
    write_metadata(folder / "metadata.gguf")
    write_qwen3(folder / "qwen3.gguf", random)
    write_unknown(folder / "unknown.gguf")


if __name__ == "__main__":
    main()
