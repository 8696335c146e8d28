"""Reference outputs of Hugging Face transformers for tiny random checkpoints, one for each variant of a family.

usage: make_goldens.py OUT_DIR SEED [CASE...]      (pip install torch transformers; float32, CPU, eager attention)
OUT_DIR/CASE/ gets config.json, model.safetensors and golden.json: prompts and their greedy continuations as token ids, and
the logits after each prompt. Biases and norms are moved off zero and one.
"""
import json
import os
import sys

import torch
import transformers as T

STD = 0.12
LLAMA = dict(vocab_size=131, hidden_size=48, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=128, initializer_range=STD)
CASES = {
    'gpt2-unscaled': lambda: T.GPT2Config(vocab_size=131, n_positions=96, n_embd=48, n_layer=2, n_head=4,
                                          scale_attn_weights=False, activation_function='gelu_pytorch_tanh',
                                          initializer_range=STD, bos_token_id=1, eos_token_id=2),
    'gpt-neox-no-bias': lambda: T.GPTNeoXConfig(vocab_size=131, hidden_size=48, num_hidden_layers=2, num_attention_heads=4,
                                                intermediate_size=96, rotary_pct=0.5, max_position_embeddings=96,
                                                attention_bias=False, initializer_range=STD),
    'opt-no-bias': lambda: T.OPTConfig(vocab_size=131, hidden_size=48, num_hidden_layers=2, ffn_dim=96,
                                       num_attention_heads=4, max_position_embeddings=96, word_embed_proj_dim=48,
                                       enable_bias=False, init_std=STD, dropout=0.0),
    'opt-no-affine': lambda: T.OPTConfig(vocab_size=131, hidden_size=48, num_hidden_layers=2, ffn_dim=96,
                                         num_attention_heads=4, max_position_embeddings=96, word_embed_proj_dim=48,
                                         layer_norm_elementwise_affine=False, init_std=STD, dropout=0.0),
    'llama-dynamic': lambda: T.LlamaConfig(**{**LLAMA, 'max_position_embeddings': 64},
                                           rope_scaling={'rope_type': 'dynamic', 'rope_theta': 10000.0, 'factor': 2.0}),
    'llama-yarn': lambda: T.LlamaConfig(**LLAMA, rope_scaling={
        'rope_type': 'yarn', 'rope_theta': 10000.0, 'factor': 4.0, 'original_max_position_embeddings': 32}),
    'llama-longrope': lambda: T.LlamaConfig(**LLAMA, rope_scaling={
        'rope_type': 'longrope', 'rope_theta': 10000.0, 'factor': 4.0, 'original_max_position_embeddings': 128,
        'short_factor': [1.0, 1.1, 1.3, 1.5, 2.0, 2.5], 'long_factor': [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]}),
    'qwen2-windows': lambda: T.Qwen2Config(**{**LLAMA, 'num_hidden_layers': 3}, use_sliding_window=True, sliding_window=9,
                                           max_window_layers=1),
    'phi3': lambda: T.Phi3Config(**LLAMA, sliding_window=11, bos_token_id=1, eos_token_id=2, pad_token_id=None),
    'phi3-longrope': lambda: T.Phi3Config(
        **LLAMA, original_max_position_embeddings=128, sliding_window=None, bos_token_id=1, eos_token_id=2,
        pad_token_id=None, rope_scaling={'rope_type': 'longrope', 'rope_theta': 10000.0,
                                         'short_factor': [1.0, 1.1, 1.3, 1.5, 2.0, 2.5],
                                         'long_factor': [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]}),
    'stablelm': lambda: T.StableLmConfig(**{**LLAMA, 'hidden_size': 64}, use_qkv_bias=True, bos_token_id=1, eos_token_id=2),
    'stablelm-parallel': lambda: T.StableLmConfig(**{**LLAMA, 'hidden_size': 64}, use_parallel_residual=True,
                                                  qk_layernorm=True, bos_token_id=1, eos_token_id=2),
    'gemma2': lambda: T.Gemma2Config(**{**LLAMA, 'num_hidden_layers': 3}, head_dim=16, query_pre_attn_scalar=24,
                                     sliding_window=9, final_logit_softcapping=5.0, attn_logit_softcapping=3.0),
    'gemma3': lambda: T.Gemma3TextConfig(**{**LLAMA, 'num_hidden_layers': 3}, head_dim=16, query_pre_attn_scalar=24,
                                         sliding_window=9, layer_types=['sliding_attention', 'full_attention',
                                                                        'sliding_attention'],
                                         rope_parameters={
                                             'full_attention': {'rope_type': 'linear', 'factor': 2.0,
                                                                'rope_theta': 100000.0},
                                             'sliding_attention': {'rope_type': 'default', 'rope_theta': 10000.0}}),
    'falcon-multi-query': lambda: T.FalconConfig(vocab_size=131, hidden_size=48, num_hidden_layers=2,
                                                 num_attention_heads=4, multi_query=True, parallel_attn=True, bias=False,
                                                 max_position_embeddings=96, initializer_range=STD, bos_token_id=1,
                                                 eos_token_id=2),
    'falcon-new': lambda: T.FalconConfig(vocab_size=131, hidden_size=64, num_hidden_layers=2, num_attention_heads=8,
                                         num_kv_heads=2, new_decoder_architecture=True, bias=False,
                                         max_position_embeddings=96, initializer_range=STD, bos_token_id=1,
                                         eos_token_id=2),
    'falcon-sequential': lambda: T.FalconConfig(vocab_size=131, hidden_size=48, num_hidden_layers=2,
                                                num_attention_heads=4, multi_query=False, parallel_attn=False, bias=True,
                                                max_position_embeddings=96, initializer_range=STD, bos_token_id=1,
                                                eos_token_id=2),
}


def make(name, out, seed):
    config = CASES[name]()
    config._attn_implementation = 'eager'
    torch.manual_seed(seed * 1000 + sorted(CASES).index(name))
    model = T.AutoModelForCausalLM.from_config(config, attn_implementation='eager').float().eval()
    folder = os.path.join(out, name)
    generator = torch.Generator().manual_seed(seed)
    prompts = [torch.randint(4, config.vocab_size, (n,), generator=generator).tolist() for n in (1, 2, 7, 33)]
    greedy, logits, margin = [], [], float('inf')
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.1)
        model.save_pretrained(folder, safe_serialization=True)
        for prompt in prompts:
            text, ids = [], list(prompt)
            for step in range(16):
                last = model(torch.tensor([ids]), use_cache=False).logits[0, -1]
                if step == 0:
                    logits.append([round(x, 6) for x in last.tolist()])
                top = last.topk(2).values
                margin = min(margin, float(top[0] - top[1]))
                ids.append(int(last.argmax()))
                text.append(ids[-1])
            greedy.append(text)
    with open(os.path.join(folder, 'golden.json'), 'w') as file:
        json.dump({'transformers': T.__version__, 'torch': torch.__version__, 'seed': seed, 'prompts': prompts,
                   'greedy': greedy, 'last_logits': logits, 'smallest_top2_margin': margin}, file)
    os.path.exists(os.path.join(folder, 'generation_config.json')) and os.remove(
        os.path.join(folder, 'generation_config.json'))
    print(f'{name}: smallest margin of the top two {margin:.5f}')


if __name__ == '__main__':
    for case in sys.argv[3:] or CASES:
        make(case, sys.argv[1], int(sys.argv[2]))
