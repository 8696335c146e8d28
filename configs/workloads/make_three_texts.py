#!/usr/bin/env python3
"""Writes three_texts.jsonl: the first 24 prompts of reading_qa, code_prompts and open_prompts by turns, each with the text
that it is as its category. The same output on every machine."""

import json
from pathlib import Path

HERE = Path(__file__).resolve().parent
TEXTS = {"reading": "reading_qa", "code": "code_prompts", "open": "open_prompts"}
EACH = 24


def prompts(name):
    lines = (HERE / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [row for row in map(json.loads, lines) if "_header" not in row][:EACH]


def main():
    sets = {category: prompts(name) for category, name in TEXTS.items()}
    header = {
        "name": "three_texts",
        "source": "the first prompts of reading_qa, code_prompts and open_prompts",
        "license": "reading: CC BY-SA 4.0 (README.md); code and open: same as the project",
        "prompts": sum(map(len, sets.values())),
    }
    rows = [{"_header": header}]
    for i in range(EACH):
        for category, of_set in sets.items():
            rows.append({"id": of_set[i]["id"], "category": category, "messages": of_set[i]["messages"]})
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    (HERE / "three_texts.jsonl").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
