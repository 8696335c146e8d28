"""1,000 answers of `runexp serve` under 100 schemas at temperature 1, each checked by Python's jsonschema:
python schema_client.py URL [SEED]. Prints what was asked and how it ended, or fails.

Schemas are drawn with the seed, and bounded, so that no answer reaches the end of the context (recursion mostly ends
early): one that does is counted as cut. additionalProperties is false, as nothing bounds the number of others."""

import json
import random
import sys
import urllib.error
import urllib.request

import jsonschema

NUM_SCHEMAS, NUM_ANSWERS = 100, 10
draw = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 1)


def names(count):
    return draw.sample(["name", "a", "ab", "abc", "größe", 'q"uote', "line\nend", "x/y", "~", "id", "sort"], count)


def integer():
    low = draw.choice([-1000, -7, 0, 3])
    bounds = {
        draw.choice(["minimum", "exclusiveMinimum"]): low,
        draw.choice(["maximum", "exclusiveMaximum"]): low + draw.choice([2, 15, 5000]),
    }
    return {"type": "integer", **draw.choice([{}, bounds, {"minimum": low}])}


def string():
    if draw.random() < 0.4:
        patterns = [r"^\d{3}-[a-f]{2}$", r"^[^a-z]{1,4}$", r'^(ab|c\\|"){1,3}$|^$', r"^é?[xy]{0,5}$"]
        return {"type": "string", "pattern": draw.choice(patterns)}
    least = draw.randrange(4)
    return {"type": "string", "minLength": least, "maxLength": least + draw.randrange(8)}


def value(depth):
    kinds = [integer, string, lambda: {"type": draw.choice(["null", "boolean", "number"])}, literals]
    if depth > 0:
        kinds += [lambda: obj(depth), lambda: obj(depth), lambda: array(depth), lambda: any_of(depth)]
        kinds += [lambda: {"type": ["integer", "boolean"]}]
    schema = draw.choice(kinds)()
    if draw.random() < 0.2:
        schema = {"title": "t", **schema, "description": "d", "default": None}
    return schema


def literals():
    values = ["a", 'b"\n', 1, -2.5, None, True, [], {"k": [1, "é"]}, 7]
    return {"const": draw.choice(values)} if draw.random() < 0.3 else {"enum": draw.sample(values, 3)}


def obj(depth):
    properties = {name: value(depth - 1) for name in names(draw.randrange(5))}
    required = [name for name in properties if draw.random() < 0.6]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def array(depth):
    least = draw.randrange(3)
    if draw.random() < 0.4:
        prefix = [value(depth - 1) for _ in range(2)]
        rest = draw.choice([False, value(depth - 1)])
        return {"type": "array", "prefixItems": prefix, "items": rest, "minItems": draw.randrange(3), "maxItems": 3}
    return {"type": "array", "items": value(depth - 1), "minItems": least, "maxItems": least + draw.randrange(3)}


def any_of(depth):
    return {"anyOf": [value(depth - 1), value(depth - 1)]}


def whole(index):
    if index % 10 == 0:  # recursion that mostly ends early
        branch = {"type": "array", "items": {"$ref": "#/$defs/tree"}, "maxItems": 1}
        tree = {"anyOf": [value(0), integer(), {"type": "boolean"}, branch]}
        schema = {"allOf": [{"$ref": "#/$defs/tree"}], "$defs": {"tree": tree}}
    else:
        schema = draw.choice([obj, array])(3)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def ask(schema, seed):
    body = {
        "messages": [{"role": "user", "content": "Say something."}],
        "n": NUM_ANSWERS,
        "seed": seed,
        "temperature": 1,
        "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": schema}},
    }
    request = urllib.request.Request(
        sys.argv[1] + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)["choices"]
    except urllib.error.HTTPError as error:
        raise SystemExit(f"schema {json.dumps(schema)}\n{error.read().decode()}") from error


checked = cut = 0
texts = set()
for index in range(NUM_SCHEMAS):
    schema = whole(index)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    for choice in ask(schema, index):
        text = choice["message"]["content"]
        if choice["finish_reason"] == "length":
            cut += 1
            continue
        assert choice["finish_reason"] == "stop", choice
        try:
            validator.validate(json.loads(text))
        except Exception as error:
            raise SystemExit(f"schema {json.dumps(schema)}\nanswer {text}\n{type(error).__name__}: {error}")
        checked += 1
        texts.add(text)
print(f"{checked} valid, {cut} cut, {len(texts)} different")
