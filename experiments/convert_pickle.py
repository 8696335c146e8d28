#!/usr/bin/env python3
"""Writes the pickled weights of a Hugging Face folder (pytorch_model.bin, or the shards that its index names) as
safetensors beside them. Needs the package torch, which reads tensors alone: code in the file is refused, not run.

usage: convert_pickle.py FOLDER

A head that is the embedding's own memory is left out where config.json ties the two; other names of one tensor become
tensors of their own."""
import ctypes
import json
import os
import sys

import torch

TYPES = {
    torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.float64: "F64", torch.int64: "I64",
    torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL",
}
HEADS = ("lm_head.weight", "embed_out.weight")


def fail(message):
    sys.exit("convert_pickle.py: " + message)


def read_json(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def pickles_of(folder):
    if os.path.exists(os.path.join(folder, "pytorch_model.bin")):
        return ["pytorch_model.bin"]
    index = os.path.join(folder, "pytorch_model.bin.index.json")
    if not os.path.exists(index):
        fail(f"{folder}: found neither pytorch_model.bin nor pytorch_model.bin.index.json")
    names = sorted(set(read_json(index)["weight_map"].values()))
    for name in names:
        if os.path.basename(name) != name:
            fail(f"{index}: shard outside the folder: {name}")
    return names


def tensors_of(path, is_tied):
    tensors = torch.load(path, map_location="cpu", weights_only=True)
    if not isinstance(tensors, dict):
        fail(f"{path}: found {type(tensors).__name__}, expected a dictionary of tensors")
    places = {}
    kept = {}
    for name, tensor in tensors.items():
        if not isinstance(tensor, torch.Tensor) or tensor.dtype not in TYPES:
            fail(f"{path}: {name}: found {getattr(tensor, 'dtype', type(tensor).__name__)}, expected a plain tensor")
        place = (tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype)
        places.setdefault(place, []).append(name)
    for name, tensor in tensors.items():
        place = (tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype)
        if is_tied and name in HEADS and len(places[place]) > 1:
            continue
        kept[name] = tensor.contiguous()
    return kept


def write_safetensors(path, tensors):
    header = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, tensor in tensors.items():
        size = tensor.numel() * tensor.element_size()
        header[name] = {"dtype": TYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    partial = path + ".partial"
    with open(partial, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for tensor in tensors.values():
            size = tensor.numel() * tensor.element_size()
            if size:
                file.write((ctypes.c_char * size).from_address(tensor.data_ptr()))
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)
    return offset


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    folder = sys.argv[1]
    config = os.path.join(folder, "config.json")
    is_tied = os.path.exists(config) and read_json(config).get("tie_word_embeddings") is True
    pickles = pickles_of(folder)
    weight_map = {}
    total = 0
    for i, name in enumerate(pickles):
        tensors = tensors_of(os.path.join(folder, name), is_tied)
        out = "model.safetensors" if len(pickles) == 1 else f"model-{i + 1:05}-of-{len(pickles):05}.safetensors"
        size = write_safetensors(os.path.join(folder, out), tensors)
        print(f"{os.path.join(folder, out)}: {len(tensors)} tensors, {size} bytes")
        weight_map.update({tensor: out for tensor in tensors})
        total += size
    if len(pickles) > 1:
        with open(os.path.join(folder, "model.safetensors.index.json"), "w", encoding="utf-8") as file:
            json.dump({"metadata": {"total_size": total}, "weight_map": weight_map}, file, indent=2)


if __name__ == "__main__":
    main()
