#pragma once
// Python's operators and conversions on template values. All throw Error(model_file) through the context.

#include <string>
#include <string_view>
#include <vector>

#include "engine/jinja/context.h"

namespace paceline::jinja {

/// str(value); '' for undefined.
std::string to_text(const Value& value, Context& context);
/// Same, appended.
void append_text(std::string& out, const Value& value, Context& context);

/// A key of a dict, a text of its own.
Value key_of(const Dict& dict, size_t entry, Context& context);

/// Sets an entry of a dict that is being made, in the place of one with an equal key. An error for what is no key.
void set_entry(std::vector<std::pair<std::string, Value>>& entries, std::vector<Value>& keys, const Value& key,
               Value value, Context& context);

/// The entry of a dict, by its key's text, or of a namespace; null: none. Long keys cost what comparing them costs.
/// REQUIRES one of the two.
const Value* find_entry(const Value& object, std::string_view key, Context& context);

/// The value of a dict under `key`; null: there is none, or nothing can be under such a key.
const Value* find_item(const Value& dict, const Value& key, Context& context);

bool equal(const Value& a, const Value& b, Context& context);
/// −1, 0 or 1 for two numbers, two strings or two lists; an error for anything else.
int order(const Value& a, const Value& b, Context& context);
/// `item in container`
bool contains(const Value& container, const Value& item, Context& context);
bool compare(Operator op, const Value& a, const Value& b, Context& context);
Value arithmetic(Operator op, const Value& a, const Value& b, Context& context);
Value negate(const Value& value, Context& context);

/// What a loop sees: items, keys or characters; nothing for undefined. Takes what a generator has left.
ListPtr iterate(const Value& value, Context& context);
/// len(); 0 for undefined.
int64_t length(const Value& value, Context& context);
/// value.name without a call. Missing: undefined, as Jinja has it; an error on undefined itself.
Value get_attribute(const Value& object, const std::string& name, Context& context);
/// value[key]
Value get_item(const Value& object, const Value& key, Context& context);
/// Bounds are integers, none or undefined (absent).
Value slice(const Value& object, const Value& start, const Value& stop, const Value& step, Context& context);

struct JsonStyle {
  int indent = -1;  // −1: one line
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::string item_separator = ", ", key_separator = ": ";
};
/// json.dumps(value)
std::string to_json(const Value& value, const JsonStyle& style, Context& context);

/// Code points of well-formed text, each as its bytes.
std::vector<std::string_view> characters(std::string_view text);

}  // namespace paceline::jinja
