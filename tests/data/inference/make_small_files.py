"""Writes small valid files for tests and fuzzing: python make_small_files.py OUTPUT_FOLDER MODELS_FOLDER

*.tensors         files of MODELS_FOLDER/tensors, with the reserved table cut down to what is used
types.safetensors several types, written by PyPI's `safetensors`
tied.bin          a llama2.c checkpoint whose floats count up
"""
import struct
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

FRONT = 73


def table_entries(data, count):
    """(offset of the three numbers, the numbers) of each line of the table."""
    at = FRONT
    for _ in range(count):
        at += 2 + struct.unpack_from("<H", data, at)[0] + 1
        at += 1 + data[at]
        at += 1 + 4 * data[at]
        yield at, struct.unpack_from("<3Q", data, at)
        at += 24


def shrink(data):
    count, reserved = struct.unpack_from("<2Q", data, 57)
    entries = list(table_entries(data, count))
    used = entries[-1][0] + 24 - FRONT
    saved = reserved - used
    out = bytearray(data[:FRONT + used] + data[FRONT + reserved:])
    struct.pack_into("<Q", out, 65, used)
    for at, (header, start, size) in entries:
        struct.pack_into("<3Q", out, at, header - saved, start - saved, size)
    return bytes(out)


def main():
    out, models = Path(sys.argv[1]), Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    for name in ("shapes", "module", "encrypted-string"):
        (out / f"{name}.tensors").write_bytes(
            shrink((models / "tensors" / f"{name}.tensors").read_bytes()))
    save_file({"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b.c": np.array(5, dtype=np.int64),
               "empty": np.zeros((0, 4), dtype=np.float16), "yes": np.array([True, False])},
              out / "types.safetensors", metadata={"format": "pt"})
    hidden, feed_forward, layers, heads, kv_heads, vocabulary, context = 4, 6, 2, 2, 1, 3, 5
    per_layer = 2 * hidden + 2 * hidden * hidden + 2 * hidden * hidden // 2 + 3 * hidden * feed_forward
    floats = vocabulary * hidden + layers * per_layer + hidden + context * hidden // heads
    (out / "tied.bin").write_bytes(
        struct.pack("<7i", hidden, feed_forward, layers, heads, kv_heads, vocabulary, context)
        + np.arange(floats, dtype=np.float32).tobytes())


if __name__ == "__main__":
    main()
