#!/usr/bin/env python3
"""The model of a GGUF file with its matrices in another type, for measuring.

    make_shapes.py MODEL.gguf F16|BF16|Q8_0|F32 OUT.gguf          # needs: pip install gguf==0.19.0
"""
import sys

import gguf
from gguf.constants import GGUFValueType

source, kind, target = sys.argv[1:]
kind = gguf.GGMLQuantizationType[kind]
reader = gguf.GGUFReader(source)
writer = gguf.GGUFWriter(target, reader.fields["general.architecture"].contents())
for field in reader.fields.values():
    if field.name.startswith("GGUF.") or field.name == "general.architecture":
        continue
    inner = field.types[-1] if field.types[0] == GGUFValueType.ARRAY else None
    writer.add_key_value(field.name, field.contents(), field.types[0], sub_type=inner)
for tensor in reader.tensors:
    values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
    stored = kind if len(tensor.shape) == 2 else gguf.GGMLQuantizationType.F32
    writer.add_tensor(tensor.name, gguf.quants.quantize(values, stored), raw_dtype=stored)
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
