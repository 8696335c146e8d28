#pragma once
// JSON Schema as a grammar of texts of JSON. Every text of the grammar is valid under the schema; not every valid text
// is of the grammar, as the schema leaves open how JSON is written:
// - Whitespace stands behind '{', '[', ',' and ':' and before '}' and ']' of what is not empty: nothing, one blank, or
// a
//   new line with 0 to 20 blanks. None before or behind the text.
// - Named properties come in the schema's order, others behind them; the others' names have no escapes.
// - Strings have the escapes of JSON but \u of surrogates. Integers are of 64 bits; numbers have at most 16 digits
// before
//   the point, 16 behind it and 2 in the exponent. Members of enum and const have one way to be written, but for
//   whitespace.
//
// Keywords: type (a name or several), properties, required, additionalProperties, items, prefixItems, minItems,
// maxItems, enum, const, anyOf, allOf of one schema, $ref within the schema ("#", "#/$defs/x", any pointer) with
// recursion, $defs, definitions, pattern (a search, as in JSON Schema: ^ and $ bind it), minLength, maxLength (in code
// points), and minimum, maximum, exclusiveMinimum, exclusiveMaximum of integers; true and false. These mean nothing for
// a text and are taken: title, description, default, examples, deprecated, readOnly, writeOnly, $schema, $comment, and
// $id of the whole. Without a type, keywords of one kind of value stand for it: properties means an object.
//
// Not combined, hence errors: $ref, anyOf or allOf beside keywords that mean something; enum or const beside keywords
// but type, bounds and lengths; pattern beside lengths; bounds of type number.

#include <nlohmann/json.hpp>

#include "engine/grammar/byte_grammar.h"

namespace paceline {

/// Throws GrammarError where the schema has another keyword, a wrong value, or nothing that it matches, with the place
/// as a JSON pointer ("/properties/a/format"), cut for display where it is long; and beyond the limits.
ByteGrammar json_schema_grammar(const nlohmann::ordered_json& schema, const GrammarLimits& limits = {});

/// Any object.
ByteGrammar json_object_grammar(const GrammarLimits& limits = {});

}  // namespace paceline
