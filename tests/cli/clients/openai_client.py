"""What the openai package hears from `runexp serve`: python openai_client.py URL/v1. Prints ok, or fails."""

import json
import re
import sys

import openai

client = openai.OpenAI(base_url=sys.argv[1], api_key="none", max_retries=0)
model = client.models.list().data[0].id
question = [{"role": "user", "content": "Say hello."}]
greedy = {"model": model, "messages": question, "max_tokens": 24, "temperature": 0}

whole = client.chat.completions.create(**greedy)
text = whole.choices[0].message.content
assert text and whole.choices[0].finish_reason in ("stop", "length"), whole
assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens, whole.usage
assert whole.usage.completion_tokens <= 24, whole.usage

# A stream says the same, its usage stands in the last event.
pieces, usage, finish = [], None, None
for event in client.chat.completions.create(**greedy, stream=True, stream_options={"include_usage": True}):
    if event.usage:
        usage = event.usage
    for choice in event.choices:
        pieces.append(choice.delta.content or "")
        finish = choice.finish_reason or finish
assert "".join(pieces) == text, (pieces, text)
assert usage == whole.usage, (usage, whole.usage)
assert finish == whole.choices[0].finish_reason

# Several choices; a seed gives them again.
drawn = {"model": model, "prompt": "The old bridge", "max_tokens": 12, "temperature": 0.9, "n": 3, "seed": 7}
first, again = (client.completions.create(**drawn) for _ in range(2))
texts = [choice.text for choice in first.choices]
assert len(set(texts)) > 1, texts
assert texts == [choice.text for choice in again.choices]

# A stop string is not part of the text, whole or streamed.
stop = text[len(text) // 2 :][:4]
cut = text[: text.index(stop)]
assert client.chat.completions.create(**greedy, stop=stop).choices[0].message.content == cut
stream = client.chat.completions.create(**greedy, stop=[stop], stream=True)
assert "".join(event.choices[0].delta.content or "" for event in stream if event.choices) == cut

# A list of prompts, and ids in place of text.
many = client.completions.create(model=model, prompt=["The old", "A new"], max_tokens=4, temperature=0)
assert [choice.index for choice in many.choices] == [0, 1]
ids = client.completions.create(
    model=model, prompt="The old", max_tokens=4, temperature=0, extra_body={"return_token_ids": True}
).choices[0]
assert len(ids.token_ids) == 4 and ids.prompt_token_ids, ids
by_ids = client.completions.create(model=model, prompt=ids.prompt_token_ids, max_tokens=4, temperature=0)
assert by_ids.choices[0].text == many.choices[0].text

# Log probabilities: of each token, whole or streamed, in both forms.
logged = client.chat.completions.create(**greedy, logprobs=True, top_logprobs=3)
entries = logged.choices[0].logprobs.content
assert len(entries) == logged.usage.completion_tokens
assert all(entry.logprob <= 0 and entry.top_logprobs[0].token == entry.token for entry in entries)
heard = []
for event in client.chat.completions.create(**greedy, logprobs=True, top_logprobs=3, stream=True):
    for choice in event.choices:
        heard += choice.logprobs.content if choice.logprobs else []
assert heard == entries
legacy = client.completions.create(model=model, prompt="The old", max_tokens=4, temperature=0, logprobs=2)
assert len(legacy.choices[0].logprobs.tokens) == 4
assert "".join(legacy.choices[0].logprobs.tokens) == legacy.choices[0].text

# What edits logits.
first_id = client.completions.create(
    model=model, prompt="The old", max_tokens=1, temperature=0, extra_body={"return_token_ids": True}
).choices[0]
other = client.completions.create(
    model=model, prompt="The old", max_tokens=1, temperature=0, logit_bias={str(first_id.token_ids[0]): -100}
)
assert other.choices[0].text != first_id.text
word = legacy.choices[0].text.split()[0]
without = client.completions.create(
    model=model, prompt="The old", max_tokens=24, temperature=0, extra_body={"bad_words": [word]}
)
assert word not in without.choices[0].text.split(), (word, without.choices[0].text)
repeated = client.chat.completions.create(**greedy, presence_penalty=2, frequency_penalty=2)
assert repeated.choices[0].message.content != text

# An answer in a form: a schema's, any object's, vLLM's fields.
schema = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 8},
        "size": {"type": "integer", "minimum": 1, "maximum": 40},
        "kind": {"enum": ["small", "large"]},
        "tags": {"type": "array", "items": {"type": "boolean"}, "maxItems": 2},
    },
    "required": ["name", "size", "kind", "tags"],
    "additionalProperties": False,
}
in_form = {"model": model, "messages": question, "max_tokens": 400, "temperature": 1, "seed": 3}


def format_of(schema):
    return {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": schema}}


answer = client.chat.completions.create(**in_form, n=3, response_format=format_of(schema))
for choice in answer.choices:
    assert choice.finish_reason == "stop", choice
    read = json.loads(choice.message.content)
    assert list(read) == ["name", "size", "kind", "tags"] and 1 <= read["size"] <= 40, read
assert len({choice.message.content for choice in answer.choices}) > 1
pieces = [
    choice.delta.content or ""
    for event in client.chat.completions.create(**in_form, response_format=format_of(schema), stream=True)
    for choice in event.choices
]
assert "".join(pieces) == answer.choices[0].message.content, pieces
for fields, pattern in [
    ({"structured_outputs": {"regex": "[ab]{3}-\\d"}}, r"[ab]{3}-\d"),
    ({"structured_outputs": {"choice": ["yes", "no"]}}, "yes|no"),
    ({"guided_grammar": 'root ::= "x" ("y" | "z")'}, "x[yz]"),
]:
    said = client.chat.completions.create(**in_form, extra_body=fields).choices[0].message.content
    assert re.fullmatch(pattern, said), said

# Errors carry status and field.
for kind, arguments, param in [
    (openai.BadRequestError, {"n": 17}, "n"),
    (openai.BadRequestError, {"temperature": -1}, "temperature"),
    (openai.BadRequestError, {"max_tokens": 100000}, "max_tokens"),
    (openai.BadRequestError, {"extra_body": {"colour": "red"}}, "colour"),
    (openai.BadRequestError, {"messages": [{"role": "user", "content": "word " * 5000}]}, "messages"),
    (
        openai.BadRequestError,
        {"response_format": format_of({"properties": {"a": {"format": "date"}}})},
        "response_format.json_schema.schema/properties/a/format",
    ),
    (openai.BadRequestError, {"extra_body": {"guided_regex": "(?=a)"}}, "guided_regex"),
    (openai.NotFoundError, {"model": "another"}, "model"),
]:
    try:
        client.chat.completions.create(**{**greedy, **arguments})
        raise SystemExit(f"{arguments}: no error")
    except kind as error:
        assert error.param == param, (error.param, param)

print("ok")
