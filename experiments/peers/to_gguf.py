"""Writes a GGUF file of one of our checkpoints, so that llama.cpp runs the same weights.

usage: to_gguf.py MODEL_DIR OUT.gguf [f16|f32]

MODEL_DIR: a Llama checkpoint in Hugging Face's layout with bfloat16 safetensors in one file, as configs/models/ has them.
Matrices become float16 (or float32), norms float32. bfloat16 has more exponent bits: the largest error is told.
"""
import json
import pathlib
import sys

import gguf
import numpy as np


def read_safetensors(path):
    """name -> float32 array."""
    data = path.read_bytes()
    header_bytes = int.from_bytes(data[:8], "little")
    tensors = {}
    for name, entry in json.loads(data[8 : 8 + header_bytes]).items():
        if name == "__metadata__":
            continue
        if entry["dtype"] != "BF16":
            sys.exit(f"to_gguf.py: {path}: {name} is {entry['dtype']}, expected BF16")
        begin, end = (8 + header_bytes + offset for offset in entry["data_offsets"])
        bits = np.frombuffer(data[begin:end], dtype=np.uint16).astype(np.uint32) << 16
        tensors[name] = bits.view(np.float32).reshape(entry["shape"])
    return tensors


def interleaved(weight, num_heads):
    """Rows of each head from half-split rotary order to llama.cpp's pairs."""
    rows, columns = weight.shape
    return weight.reshape(num_heads, 2, rows // num_heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)


def write_tokenizer(writer, folder, vocab_size):
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    ids = tokenizer["model"]["vocab"] | {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
    special = {token["id"] for token in tokenizer["added_tokens"]}
    tokens = [None] * vocab_size
    for text, number in ids.items():
        tokens[number] = text
    kinds = [gguf.TokenType.CONTROL if number in special else gguf.TokenType.NORMAL for number in range(vocab_size)]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("llama-bpe")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges(
        [merge if isinstance(merge, str) else " ".join(merge) for merge in tokenizer["model"]["merges"]]
    )
    writer.add_bos_token_id(ids[settings["bos_token"]])
    writer.add_eos_token_id(ids[settings["eos_token"]])
    writer.add_add_bos_token(bool(settings["add_bos_token"]))
    writer.add_chat_template(settings["chat_template"])


def main():
    if len(sys.argv) not in (3, 4) or (len(sys.argv) == 4 and sys.argv[3] not in ("f16", "f32")):
        sys.exit(__doc__)
    folder, out = pathlib.Path(sys.argv[1]), sys.argv[2]
    matrix_type = np.float32 if sys.argv[3:] == ["f32"] else np.float16
    config = json.loads((folder / "config.json").read_text())
    for key in ("rope_scaling", "rope_parameters"):
        if config.get(key):
            sys.exit(f"{folder}/config.json: {key}: positions that are scaled are not supported here")
    tensors = read_safetensors(folder / "model.safetensors")
    num_heads, num_kv_heads = config["num_attention_heads"], config["num_key_value_heads"]

    writer = gguf.GGUFWriter(out, "llama")
    writer.add_name(folder.resolve().name)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(num_heads)
    writer.add_head_count_kv(num_kv_heads)
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_rope_dimension_count(config["head_dim"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])
    write_tokenizer(writer, folder, config["vocab_size"])

    largest_error = 0.0

    def put(name, array):
        nonlocal largest_error
        stored = array.astype(matrix_type if array.ndim > 1 else np.float32)
        largest_error = max(largest_error, float(np.abs(stored.astype(np.float32) - array).max()))
        writer.add_tensor(name, stored)

    put("token_embd.weight", tensors["model.embed_tokens.weight"])
    put("output_norm.weight", tensors["model.norm.weight"])
    if not config.get("tie_word_embeddings", False):
        put("output.weight", tensors["lm_head.weight"])
    for layer in range(config["num_hidden_layers"]):
        ours, theirs = f"model.layers.{layer}.", f"blk.{layer}."
        put(theirs + "attn_norm.weight", tensors[ours + "input_layernorm.weight"])
        put(theirs + "ffn_norm.weight", tensors[ours + "post_attention_layernorm.weight"])
        put(theirs + "attn_q.weight", interleaved(tensors[ours + "self_attn.q_proj.weight"], num_heads))
        put(theirs + "attn_k.weight", interleaved(tensors[ours + "self_attn.k_proj.weight"], num_kv_heads))
        put(theirs + "attn_v.weight", tensors[ours + "self_attn.v_proj.weight"])
        put(theirs + "attn_output.weight", tensors[ours + "self_attn.o_proj.weight"])
        for part in ("gate", "up", "down"):
            put(f"{theirs}ffn_{part}.weight", tensors[f"{ours}mlp.{part}_proj.weight"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    print(f"{out}: {len(tensors)} tensors, largest error of a weight {largest_error:.2g}")


main()
