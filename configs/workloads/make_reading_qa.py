#!/usr/bin/env python3
"""Makes reading_qa.jsonl from a SQuAD v1.1 file (CC BY-SA 4.0): python3 make_reading_qa.py SQUAD.json OUT.jsonl

Deterministic: no random numbers, no dependence on the Python version. Passages are taken evenly over the articles and
over each article's length; of each passage one question. Three of four prompts ask the question itself, the fourth
asks for the sentence around the answer, so that the answer quotes the passage (what n-gram lookup lives on).
"""
import hashlib
import json
import re
import sys

NUM_PROMPTS = 128
MIN_CHARS, MAX_CHARS = 350, 1200


def clean(text):
    return re.sub(r"\s+", " ", text).strip()


def sentences(passage):
    return re.split(r"(?<=[a-z0-9)\"][.!?]) (?=[A-Z\"])", passage)


def best_question(paragraph, passage):
    """The question whose wording shares most words with the sentence that holds its answer; ties by question id."""
    best = None
    for qa in paragraph["qas"]:
        question, answer = clean(qa["question"]).rstrip("? ") + "?", clean(qa["answers"][0]["text"])
        holders = [s for s in sentences(passage) if answer in s]
        if not 15 <= len(question) <= 140 or len(holders) != 1 or len(answer) > 90:
            continue
        words = set(re.findall(r"\w{4,}", question.lower()))
        shared = len(words & set(re.findall(r"\w{4,}", holders[0].lower())))
        key = (-shared, qa["id"])
        if best is None or key < best[0]:
            best = (key, qa["id"], question, answer)
    return best


def main(source, target):
    articles = json.load(open(source, encoding="utf-8"))["data"]
    articles.sort(key=lambda a: a["title"])
    lists = []
    for article in articles:
        usable = []
        for paragraph in article["paragraphs"]:
            passage = clean(paragraph["context"])
            best = best_question(paragraph, passage)
            if MIN_CHARS <= len(passage) <= MAX_CHARS and best:
                usable.append((passage, *best[1:]))
        lists.append((article["title"], usable))
    rows, turn = [], 0
    share = [NUM_PROMPTS // len(lists) + (i < NUM_PROMPTS % len(lists)) for i in range(len(lists))]
    for (title, usable), count in zip(lists, share):
        assert len(usable) >= count, (title, len(usable))
        for j in range(count):
            passage, qid, question, answer = usable[j * len(usable) // count]
            if turn % 4 == 3:
                task, category = f'Find "{answer}" in the passage and copy the whole sentence.', "find_sentence"
            else:
                task, category = question, "question"
            rows.append({"id": f"squad-{qid}", "category": category, "article": title,
                         "messages": [{"role": "user", "content": f"{task}\n\nPassage:\n{passage}"}]})
            turn += 1
    # A fixed shuffle, so that the first N requests of any profile are spread over all articles.
    rows.sort(key=lambda r: hashlib.sha256(r["id"].encode()).hexdigest())
    header = {"_header": {"name": "reading_qa", "source": "SQuAD v1.1 dev set, 12 articles",
                          "authors": "P. Rajpurkar, J. Zhang, K. Lopyrev, P. Liang (2016); passages by Wikipedia's authors",
                          "url": "https://rajpurkar.github.io/SQuAD-explorer/", "license": "CC BY-SA 4.0",
                          "changes": "passages and questions selected, white space and question marks normalised, cast as chat prompts",
                          "prompts": len(rows)}}
    with open(target, "w", encoding="utf-8", newline="\n") as out:
        for row in [header] + rows:
            out.write(json.dumps(row, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2])
