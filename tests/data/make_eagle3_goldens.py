"""Drafts of an EAGLE-3 head and the logits behind them, in float64, by the formulas of Li et al. 2025 (section 3).

usage: make_eagle3_goldens.py TARGET HEAD PROMPTS OUT      (pip install numpy)
TARGET and HEAD are folders of a Llama and of a head in SpecForge's layout; PROMPTS is a JSON list of objects with
"prompt_ids". OUT gets "next", the target's greedy token, "drafts", a chain of five behind it, and "top5", [token, logit]
of each draft's most likely ones. Every draft computes the whole text anew.
"""
import json
import struct
import sys

import numpy as np

DRAFTS = 5


def load(folder):
    with open(f'{folder}/model.safetensors', 'rb') as file:
        size, = struct.unpack('<Q', file.read(8))
        header, data = json.loads(file.read(size)), file.read()
    tensors = {}
    for name, info in header.items():
        if name == '__metadata__':
            continue
        raw = data[slice(*info['data_offsets'])]
        if info['dtype'] == 'BF16':
            values = (np.frombuffer(raw, np.uint16).astype(np.uint32) << 16).view(np.float32)
        elif info['dtype'] == 'I64':
            tensors[name] = np.frombuffer(raw, np.int64)
            continue
        elif info['dtype'] == 'F32':
            values = np.frombuffer(raw, np.float32)
        else:
            continue
        tensors[name] = values.astype(np.float64).reshape(info['shape'])
    with open(f'{folder}/config.json') as file:
        return tensors, json.load(file)


def norm(x, weight, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * weight


def silu(x):
    return x / (1 + np.exp(-x))


class Layer:
    def __init__(self, tensors, prefix, config):
        self.tensors, self.prefix, self.config = tensors, prefix, config
        self.head_dim = config.get('head_dim', config['hidden_size'] // config['num_attention_heads'])

    def weight(self, name):
        return self.tensors[f'{self.prefix}{name}.weight']

    def heads(self, x, name, turned):
        x = (x @ self.weight(f'self_attn.{name}_proj').T).reshape(len(x), -1, self.head_dim)
        if not turned:
            return x
        half = self.head_dim // 2
        theta = self.config.get('rope_theta', 10000.0)
        angle = np.outer(np.arange(len(x)), theta ** (-np.arange(half) / half))[:, None, :]
        first, second = x[..., :half], x[..., half:]
        return np.concatenate([first * np.cos(angle) - second * np.sin(angle),
                               second * np.cos(angle) + first * np.sin(angle)], -1)

    def attention(self, x):
        q, k, v = self.heads(x, 'q', True), self.heads(x, 'k', True), self.heads(x, 'v', False)
        group = q.shape[1] // k.shape[1]
        k, v = np.repeat(k, group, 1), np.repeat(v, group, 1)
        score = np.einsum('qhd,khd->hqk', q, k) / np.sqrt(self.head_dim)
        score = np.where(np.tril(np.ones(score.shape[1:], bool)), score, -np.inf)
        score = np.exp(score - score.max(-1, keepdims=True))
        out = np.einsum('hqk,khd->qhd', score / score.sum(-1, keepdims=True), v)
        return out.reshape(len(x), -1) @ self.weight('self_attn.o_proj').T

    def mlp(self, residual):
        x = norm(residual, self.weight('post_attention_layernorm'), self.config['rms_norm_eps'])
        return (silu(x @ self.weight('mlp.gate_proj').T) * (x @ self.weight('mlp.up_proj').T)) @ self.weight('mlp.down_proj').T


def main(target_folder, head_folder, prompts, out):
    target, config = load(target_folder)
    head, head_config = load(head_folder)
    eps, head_eps = config['rms_norm_eps'], head_config['rms_norm_eps']
    embedding = target['model.embed_tokens.weight']
    output = target.get('lm_head.weight', embedding)
    taps = head_config['eagle_config']['eagle_aux_hidden_state_layer_ids']
    ids = head['d2t'] + np.arange(len(head['d2t']))

    def states(tokens):
        residual, entering = embedding[tokens], []
        for i in range(config['num_hidden_layers']):
            entering.append(residual)
            layer = Layer(target, f'model.layers.{i}.', config)
            residual = residual + layer.attention(norm(residual, layer.weight('input_layernorm'), eps))
            residual = residual + layer.mlp(residual)
        entering.append(residual)
        logits = norm(residual[-1], target['model.norm.weight'], eps) @ output.T
        return np.concatenate([entering[i] for i in taps], -1), int(logits.argmax())

    layer = Layer(head, 'midlayer.', head_config)
    goldens = []
    with open(prompts) as file:
        texts = [golden['prompt_ids'] for golden in json.load(file)]
    for text in texts:
        tapped, following = states(text)
        features, tokens, drafts, top5 = tapped @ head['fc.weight'].T, text[1:] + [following], [], []
        for _ in range(DRAFTS):
            x = np.concatenate([norm(embedding[tokens], layer.weight('input_layernorm'), head_eps),
                                norm(features, layer.weight('hidden_norm'), head_eps)], -1)
            residual = features + layer.attention(x)
            last = (residual + layer.mlp(residual))[-1]
            logits = norm(last, head['norm.weight'], head_eps) @ head['lm_head.weight'].T
            best = np.argsort(-logits, kind='stable')[:5]
            drafts.append(int(ids[best[0]]))
            top5.append([[int(ids[row]), round(float(logits[row]), 7)] for row in best])
            tokens, features = tokens + [drafts[-1]], np.vstack([features, last])
        goldens.append({'prompt_ids': text, 'next': following, 'drafts': drafts, 'top5': top5})
    with open(out, 'w') as file:
        file.write('[' + ',\n '.join(json.dumps(golden) for golden in goldens) + ']\n')


main(*sys.argv[1:])
