"""The golden of a family that nobody has: its forward pass written out in PyTorch, random weights.

usage: make_made_up_golden.py OUT_DIR SEED      (pip install torch safetensors; float32, CPU)
OUT_DIR gets config.json, model.safetensors and golden.json, of the form that make_goldens.py writes.
"""
import json
import math
import os
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

C = dict(architectures=['MadeUpForCausalLM'], dtype='float32', depth=3, width=64, heads=4, kv_heads=2, inner=96,
         vocab_size=131, places=96, window=9, softcap=7.0, theta=5000.0, eps=1e-5)
HEAD = C['width'] // C['heads']
GROUP = C['heads'] // C['kv_heads']


def random_weights(seed):
    generator = torch.Generator().manual_seed(seed)
    normal = lambda *shape, std=0.12: torch.randn(*shape, generator=generator) * std
    w = {'body.words.weight': normal(C['vocab_size'], C['width'], std=0.5),
         'body.places.weight': normal(C['places'], C['width']), 'body.norm.weight': normal(C['width'])}
    for i in range(C['depth']):
        at = f'body.block.{i}.'
        stack = (C['heads'] + 2 * C['kv_heads']) * HEAD
        w |= {at + 'norm_a.weight': normal(C['width']), at + 'norm_b.weight': normal(C['width']),
              at + 'norm_q.weight': 1 + normal(HEAD), at + 'norm_k.weight': 1 + normal(HEAD),
              at + 'look.weight': normal(C['width'], stack), at + 'look.bias': normal(stack),
              at + 'say.weight': normal(C['width'], C['width']),
              at + 'think.weight': normal(2 * C['inner'], C['width']), at + 'think.bias': normal(2 * C['inner']),
              at + 'act.weight': normal(C['width'], C['inner']), at + 'act.bias': normal(C['width'])}
    return w


def rms(x, weight):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + C['eps']) * weight


def turned(x):  # [tokens, heads, HEAD]: the first half of each head, halves against each other
    rotary = HEAD // 2
    frequency = C['theta'] ** (-torch.arange(0, rotary, 2).double() / rotary)
    angle = (torch.arange(x.shape[0]).double()[:, None] * frequency).float()[:, None]
    a, b, rest = x[..., :rotary // 2], x[..., rotary // 2:rotary], x[..., rotary:]
    return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin(), rest], -1)


def attention(w, i, x):
    at, n = f'body.block.{i}.', x.shape[0]
    stack = (x @ w[at + 'look.weight'] + w[at + 'look.bias']).view(n, C['kv_heads'], GROUP + 2, HEAD)
    q, k, v = stack[:, :, :GROUP].reshape(n, C['heads'], HEAD), stack[:, :, GROUP], stack[:, :, GROUP + 1]
    q, k = rms(q, w[at + 'norm_q.weight']), rms(k, w[at + 'norm_k.weight'])
    if i > 0:
        q, k = turned(q), turned(k)
    k, v = k.repeat_interleave(GROUP, 1), v.repeat_interleave(GROUP, 1)
    scores = torch.einsum('qhd,khd->hqk', q, k) / math.sqrt(HEAD)
    back = torch.arange(n)[:, None] - torch.arange(n)
    seen = (back >= 0) & ((back < C['window']) | (i == 0))
    weights = scores.masked_fill(~seen, -math.inf).softmax(-1)
    return torch.einsum('hqk,khd->qhd', weights, v).reshape(n, -1) @ w[at + 'say.weight'].T


def mlp(w, i, x):
    at = f'body.block.{i}.'
    both = x @ w[at + 'think.weight'].T + w[at + 'think.bias']
    inner = F.gelu(both[:, ::2], approximate='tanh') * both[:, 1::2]
    return inner @ w[at + 'act.weight'].T + w[at + 'act.bias']


def logits(w, ids):
    x = w['body.words.weight'][ids] + w['body.places.weight'][:len(ids)]
    for i in range(C['depth']):
        norm = lambda y, name: rms(y, 1 + w[f'body.block.{i}.{name}.weight'])
        told = attention(w, i, norm(x, 'norm_a'))
        x = x + told + mlp(w, i, norm(x if i > 0 else x + told, 'norm_b'))
    last = rms(x[-1], 1 + w['body.norm.weight']) @ w['body.words.weight'].T
    return C['softcap'] * torch.tanh(last / C['softcap'])


def main(out, seed):
    os.makedirs(out, exist_ok=True)
    w = random_weights(seed)
    generator = torch.Generator().manual_seed(seed)
    prompts = [torch.randint(4, C['vocab_size'], (n,), generator=generator).tolist() for n in (1, 2, 7, 33)]
    golden = dict(torch=torch.__version__, seed=seed, prompts=prompts, greedy=[], last_logits=[],
                  smallest_top2_margin=math.inf)
    for prompt in prompts:
        ids = list(prompt)
        for step in range(16):
            row = logits(w, ids)
            if step == 0:
                golden['last_logits'].append([round(x, 6) for x in row.tolist()])
            top = row.topk(2).values
            golden['smallest_top2_margin'] = min(golden['smallest_top2_margin'], float(top[0] - top[1]))
            ids.append(int(row.argmax()))
        golden['greedy'].append(ids[len(prompt):])
    save_file(w, os.path.join(out, 'model.safetensors'), metadata={'format': 'pt'})
    with open(os.path.join(out, 'config.json'), 'w') as file:
        json.dump(C, file, indent=2)
    with open(os.path.join(out, 'golden.json'), 'w') as file:
        json.dump(golden, file)
    print('smallest margin of the top two', golden['smallest_top2_margin'])


if __name__ == '__main__':
    main(sys.argv[1], int(sys.argv[2]))
