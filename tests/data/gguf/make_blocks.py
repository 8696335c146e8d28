"""Writes blocks.gguf: for each packed type random blocks, and beside them (NAME.expected) the values that the package
gguf (0.17.1, with numpy) makes of them.
usage: make_blocks.py OUT.gguf"""
import sys

import gguf
import numpy as np

# Type: (blocks a row, places of float16 scales in a block)
TYPES = {
    "Q4_0": (5, [0]), "Q4_1": (5, [0, 2]), "Q5_0": (5, [0]), "Q5_1": (5, [0, 2]), "Q8_0": (5, [0]),
    "Q2_K": (2, [80, 82]), "Q3_K": (2, [108]), "Q4_K": (2, [0, 2]), "Q5_K": (2, [0, 2]), "Q6_K": (2, [208]),
    "IQ4_NL": (5, [0]), "IQ4_XS": (2, [0]),
}
ROWS = 3

random = np.random.default_rng(30)
writer = gguf.GGUFWriter(sys.argv[1], "none")
writer.add_array("test.numbers", [3, -1, 4])
writer.add_float32("test.small", 1e-5)
for name, (blocks, scales) in TYPES.items():
    kind = gguf.GGMLQuantizationType[name]
    _, block_bytes = gguf.GGML_QUANT_SIZES[kind]
    data = random.integers(0, 256, (ROWS, blocks, block_bytes), dtype=np.uint8)
    for place in scales:  # any bits but those of NaN and infinity; both signs
        values = random.normal(0, 0.05, (ROWS, blocks)).astype(np.float16)
        data[:, :, place : place + 2] = values.view(np.uint8).reshape(ROWS, blocks, 2)
    data = data.reshape(ROWS, blocks * block_bytes)
    writer.add_tensor(name, data, raw_dtype=kind)
    writer.add_tensor(name + ".expected", gguf.quants.dequantize(data, kind))
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
