// Values of single keys: what a literal in a file means for its row of the table, or what is wrong with it.

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "engine/util/suggest.h"
#include "experiments/config/keys/schema.h"

namespace paceline {

namespace {

constexpr int64_t kMaxAxisValues = 100'000;

std::string number_text(double value) {
  return std::abs(value) < 1e15 && value == std::floor(value) ? fmt::format("{}", static_cast<int64_t>(value))
                                                              : fmt::format("{}", value);
}

/// What a key's type is called, and what it takes; the words of numbers, choices and outside keys come from the key.
struct TypeTexts {
  KeyType type;
  std::string_view name, expected;
};
constexpr TypeTexts kTypeTexts[] = {
    {KeyType::boolean, "boolean", "true or false"},
    {KeyType::integer, "integer", "an integer "},
    {KeyType::number, "number", "a number "},
    {KeyType::text, "string", "a string"},
    {KeyType::choice, "one of several words", ""},
    {KeyType::path, "path or builtin:NAME", "a path or builtin:NAME, as a string"},
    {KeyType::shape, "name of a shape or .json file", "the name of a shape or a .json file, as a string"},
    {KeyType::integer_list, "list of integers", "a list of integers "},
    {KeyType::text_list, "list of strings", "a list of strings"},
    {KeyType::fields, "object", "an object of names and values"},
    {KeyType::axes, "object of axis: list of values or range", "an object of axis: list of values"},
    {KeyType::assignment, "object of key: value", "an object of key: value"},
    {KeyType::assignments, "list of objects of key: value", "a list of objects of key: value"},
    {KeyType::patterns, "list of objects of key: value or list of values", "a list of objects of key: value"},
    {KeyType::groups, "list of lists of axes", "a list of lists of axes"},
    {KeyType::constraints, "list of expressions", "a list of expressions in strings, as in [\"tp*pp <= 4\"]"},
    {KeyType::outside, "", ""},
};

const TypeTexts& texts_of(KeyType type) { return kTypeTexts[static_cast<size_t>(type)]; }

bool is_number_type(KeyType type) { return type == KeyType::integer || type == KeyType::number; }

/// `256ms`, `"8"`: a numeral in a string, with what follows it.
std::optional<std::pair<std::string, std::string>> numeral_and_rest(const std::string& text) {
  double value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc() || !std::isfinite(value)) return std::nullopt;
  std::string rest(parsed.ptr, text.data() + text.size());
  rest.erase(0, rest.find_first_not_of(' ') == std::string::npos ? rest.size() : rest.find_first_not_of(' '));
  return std::pair(std::string(text.data(), parsed.ptr), rest);
}

/// For "90%" or 90 where a share up to 1 is meant.
std::string share_hint(const std::string& digits) {
  double percent = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), percent);
  return percent >= 10 && percent <= 100 ? fmt::format("; {} % is {}", digits, percent / 100) : std::string();
}

std::optional<int64_t> take_integer(std::string_view& text) {
  int64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(parsed.ptr - text.data()));
  return value;
}

/// "1..8", "1..9+2", "1..16*2" as integer nodes; nothing when it is not of that form or not finite.
std::optional<std::vector<ConfigNode>> expand_range(const ConfigNode& node) {
  std::string_view text = node.text;
  const std::optional<int64_t> first = take_integer(text);
  if (!first || !text.starts_with("..")) return std::nullopt;
  text.remove_prefix(2);
  const std::optional<int64_t> last = take_integer(text);
  constexpr int64_t kLargest = int64_t{1} << 53;
  if (!last || *last < *first || *last >= kLargest || *first < 0) return std::nullopt;
  char op = '+';
  int64_t step = 1;
  if (!text.empty()) {
    op = text[0];
    text.remove_prefix(1);
    const std::optional<int64_t> given = take_integer(text);
    if (!given || !text.empty() || (op != '+' && op != '*') || *given < (op == '+' ? 1 : 2)) return std::nullopt;
    if (op == '*' && *first < 1) return std::nullopt;
    step = std::min(*given, kLargest);
  }
  std::vector<ConfigNode> values;
  for (int64_t value = *first; value <= *last && static_cast<int64_t>(values.size()) <= kMaxAxisValues;) {
    values.push_back(ConfigNode::make_number(static_cast<double>(value), node.origin));
    if (op == '*' && value > *last / step) break;
    value = op == '+' ? value + step : value * step;
  }
  return values;
}

/// What to write instead, for the mistakes that people make.
std::string fix_hint(const KeySpec& key, const ConfigNode& node) {
  if (key.type == KeyType::choice) {
    if (node.kind != NodeKind::string) return "";
    std::vector<std::string> names;
    for (const auto& [spelling, canonical] : key.choices) names.push_back(spelling);
    if (!key.absent.empty()) names.push_back(key.absent);
    const std::string near = did_you_mean(node.text, names);
    return near.empty() ? key.hint : near;
  }
  if (key.type == KeyType::boolean) {
    static const std::set<std::string> kYes = {"true", "True", "TRUE", "yes", "Yes", "on", "1"};
    static const std::set<std::string> kNo = {"false", "False", "FALSE", "no", "No", "off", "0"};
    const char* const meant = kYes.contains(node.text) ? "true" : kNo.contains(node.text) ? "false" : nullptr;
    return meant ? fmt::format("; write {}{}", meant, node.is_plain ? "" : ", without quotes") : "";
  }
  const bool is_range = key.type == KeyType::integer && node.kind == NodeKind::string && expand_range(node);
  if ((node.kind == NodeKind::list || is_range) && can_differ_between_cells(key)) {
    return fmt::format("; to compare several values, put the {} under \"sweep.axes\"", is_range ? "range" : "list");
  }
  if (!is_number_type(key.type)) return "";
  if (node.kind == NodeKind::string) {
    const auto numeral = numeral_and_rest(node.text);
    if (!numeral) return key.absent.empty() ? "" : did_you_mean(node.text, {key.absent});
    const auto& [digits, rest] = *numeral;
    if (rest == "%" && key.max == 1) return share_hint(digits);
    if (rest.empty()) return fmt::format("; write {}, without quotes", digits);
    if (rest == key.unit) return fmt::format("; write {}, without the unit", digits);
    if (key.unit.empty()) return "; write a plain number, without a unit";
    return fmt::format("; write the number of {}, without a unit", key.unit);
  }
  if (node.kind == NodeKind::number && key.type == KeyType::integer) {
    if (node.text.find_first_of(".eE") == std::string::npos)
      return std::abs(node.number) >= 0x1p63 ? "; it does not fit in 64 bits"
                                             : "; an expression is exact up to 2^53: write the number itself";
    if (node.number == std::floor(node.number) && std::abs(node.number) < 1e15) {
      return fmt::format("; write {}", static_cast<int64_t>(node.number));
    }
  }
  const bool is_number = node.kind == NodeKind::number || node.kind == NodeKind::integer;
  if (is_number && key.max == 1 && node.number > 1) return share_hint(node.text);
  if (is_number && node.number < key.min) return key.hint;
  return "";
}

/// Complains about `node`, unless that was done where it was read. False.
bool refuse(const ConfigNode& node, Diagnostics& out, std::string message) {
  if (!node.unreadable) out.add(node.origin, std::move(message));
  return false;
}

bool in_range(const KeySpec& key, double value) {
  return value <= key.max && (key.above_min ? value > key.min : value >= key.min);
}

std::string absolute_path(const ConfigNode& node) {
  if (node.text.starts_with("builtin:")) return node.text;
  const SourceText* base = node.path_base ? node.path_base.get() : node.origin.source.get();
  std::filesystem::path path = node.text;
  if (path.is_relative() && base) path = base->directory / path;
  return path.lexically_normal().string();
}

/// A string of the environment as what `key` takes.
ConfigNode typed(const KeySpec& key, ConfigNode node) {
  if (key.type == KeyType::boolean && (node.text == "true" || node.text == "false")) {
    node.kind = NodeKind::boolean;
    node.boolean = node.text == "true";
  }
  const auto numeral = is_number_type(key.type) ? numeral_and_rest(node.text) : std::nullopt;
  if (!numeral || !numeral->second.empty()) return node;
  std::string_view rest = node.text;
  const std::optional<int64_t> integer = take_integer(rest);
  node.kind = integer && rest.empty() ? NodeKind::integer : NodeKind::number;
  node.integer = integer.value_or(0);
  std::from_chars(node.text.data(), node.text.data() + node.text.size(), node.number);
  return node;
}

std::optional<ConfigJson> convert_scalar(const KeySpec& key, const ConfigNode& node) {
  if (key.absent == "null" && node.kind == NodeKind::null && !node.unreadable) return ConfigJson(nullptr);
  if (node.kind == NodeKind::boolean && key.type == KeyType::boolean) return ConfigJson(node.boolean);
  if (node.kind == NodeKind::integer && key.type == KeyType::integer && in_range(key, node.number))
    return ConfigJson(node.integer);
  // Integers become doubles, so that 0 and 0.0 are the same value everywhere.
  const bool is_number = node.kind == NodeKind::integer || node.kind == NodeKind::number;
  if (is_number && key.type == KeyType::number && in_range(key, node.number)) return ConfigJson(node.number);
  if (node.kind != NodeKind::string) return std::nullopt;
  if (!key.absent.empty() && node.text == key.absent) return ConfigJson(key.absent);
  for (const auto& [spelling, canonical] : key.choices)
    if (node.text == spelling) return ConfigJson(canonical);
  if (key.type == KeyType::text) return ConfigJson(node.text);
  // A NUL would end the path for the system, and the message for whoever prints it.
  if (node.text.empty() || node.text.find('\0') != std::string::npos) return std::nullopt;
  if (key.type == KeyType::shape && is_shape_name(node.text)) return ConfigJson(node.text);
  if (key.type == KeyType::path || key.type == KeyType::shape) return ConfigJson(absolute_path(node));
  return std::nullopt;
}

/// The key meant by a name inside sweep, when cells can set it.
const KeySpec* sweepable(const std::string& name, const Origin& origin, std::string_view where, Diagnostics& out) {
  const KeySpec* key = find_key_or_alias(name);
  if (!key) {
    out.add(origin, fmt::format("unknown key \"{}\" in \"{}\"{}", name, where, hint_for_unknown_key(name)));
  } else if (!can_differ_between_cells(*key)) {
    out.add(origin, fmt::format("\"{}\" in \"{}\" cannot differ between cells", name, where));
    return nullptr;
  }
  return key;
}

/// What follows sets `value`, or complains and is false.
bool convert(const KeySpec& key, const ConfigNode& node, Diagnostics& out, ConfigJson& value);

bool convert_axis(const KeySpec& axis, const ConfigNode& node, Diagnostics& out, ConfigJson& values) {
  std::vector<ConfigNode> items = node.items;
  const bool takes_ranges = axis.type == KeyType::integer;
  const bool is_range = takes_ranges && node.kind == NodeKind::string && node.text.find("..") != std::string::npos;
  if (is_range) {
    std::optional<std::vector<ConfigNode>> range = expand_range(node);
    if (!range)
      return refuse(node, out,
                    fmt::format("\"{}\" is not a range: write \"1..8\", \"1..9+2\" or \"1..16*2\"", node.text));
    items = std::move(*range);
  } else if (node.kind != NodeKind::list) {
    return refuse(node, out,
                  fmt::format("the axis \"{}\" is {}: expected a list of values{}", axis.path, node.describe(),
                              takes_ranges ? " or a range \"1..8\"" : ""));
  }
  if (items.empty())
    return refuse(node, out, fmt::format("the axis \"{}\" is empty: give it a value or take it out", axis.path));
  if (items.size() > static_cast<size_t>(kMaxAxisValues))
    return refuse(node, out, fmt::format("the axis \"{}\" has more than {} values", axis.path, kMaxAxisValues));
  values = ConfigJson::array();
  bool good = true;
  for (const ConfigNode& item : items) {
    good &= convert(axis, item, out, values.emplace_back());
    if (is_range && !good) return false;  // one complaint for a range
  }
  return good;
}

bool convert_axes(const ConfigNode& node, Diagnostics& out, ConfigJson& axes) {
  axes = ConfigJson::object();
  bool good = true;
  for (const ConfigMember& member : node.members) {
    if (member.key.starts_with("-")) continue;  // deletes an inherited axis
    const std::string name = member.key.starts_with("+") ? member.key.substr(1) : member.key;
    const KeySpec* const axis = sweepable(name, member.key_origin, "sweep.axes", out);
    good &= axis && convert_axis(*axis, member.value, out, axes[axis->path]);
  }
  return good;
}

/// A row's {"over": label, "speedup": ratio, "source": who measured it}; the source may be missing.
bool convert_published(const ConfigNode& node, Diagnostics& out, ConfigJson& published) {
  const std::string expected =
      "{ \"over\": a row's label, \"speedup\": a ratio above 0, \"source\": a text (optional) }";
  if (node.kind != NodeKind::object)
    return refuse(node, out, fmt::format("\"published\" is {}: expected {}", node.describe(), expected));
  for (const auto& [key, key_origin, value] : node.members) {
    const bool is_number = value.kind == NodeKind::integer || value.kind == NodeKind::number;
    if ((key == "over" || key == "source") && value.kind == NodeKind::string)
      published[key] = value.text;
    else if (key == "speedup" && is_number && value.number > 0)
      published[key] = value.number;
    else
      return refuse(value, out,
                    fmt::format("\"published\": \"{}\" is {}: expected {}", key, value.describe(), expected));
  }
  return (published.contains("over") && published.contains("speedup")) ||
         refuse(node, out, fmt::format("\"published\" lacks a key: expected {}", expected));
}

/// One object of include, exclude or baseline.
bool convert_assignment(const KeySpec& key, const ConfigNode& node, Diagnostics& out, ConfigJson& object) {
  if (node.kind != NodeKind::object)
    return refuse(node, out, fmt::format("\"{}\" takes objects of key: value, found {}", key.path, node.describe()));
  object = ConfigJson::object();
  bool good = true;
  for (const auto& [name, name_origin, value] : node.members) {
    const bool is_row = key.type == KeyType::assignments;
    if (is_row && name == "label") {
      object[name] = value.text;
      good &= value.kind == NodeKind::string ||
              refuse(value, out, fmt::format("\"label\" is {}: expected a string", value.describe()));
    } else if (is_row && name == "published") {
      good &= convert_published(value, out, object[name]);
    } else if (key.type != KeyType::assignment || !name.starts_with("-")) {  // "-key" takes an inherited one away
      const KeySpec* const target = sweepable(name, name_origin, key.path, out);
      const bool is_list = key.type == KeyType::patterns && value.kind == NodeKind::list;
      good &= target && (is_list ? convert_axis(*target, value, out, object[target->path])
                                 : convert(*target, value, out, object[target->path]));
    }
  }
  return good;
}

bool convert_group(const ConfigNode& node, Diagnostics& out, ConfigJson& group) {
  if (node.kind != NodeKind::list || node.items.size() < 2)
    return refuse(node, out, "\"sweep.zip\" takes lists of two or more axes, as in [[\"tp\", \"concurrency\"]]");
  for (const ConfigNode& item : node.items) {
    if (item.kind != NodeKind::string)
      return refuse(item, out, fmt::format("\"sweep.zip\" holds {}: expected the name of an axis", item.describe()));
    const KeySpec* const axis = sweepable(item.text, item.origin, "sweep.zip", out);
    if (!axis) return false;
    group.push_back(axis->path);
  }
  return true;
}

bool convert_item(const KeySpec& key, const ConfigNode& node, Diagnostics& out, ConfigJson& value) {
  if (key.type == KeyType::groups) return convert_group(node, out, value);
  if (key.type == KeyType::assignments || key.type == KeyType::patterns)
    return convert_assignment(key, node, out, value);
  const bool is_number = key.type == KeyType::integer_list;
  if (is_number ? node.kind != NodeKind::integer || !in_range(key, node.number) : node.kind != NodeKind::string)
    return refuse(node, out, fmt::format("\"{}\" holds {}: expected {}", key.path, node.describe(), key.expectation()));
  if (key.type == KeyType::constraints) check_expression(node, node.text, 0, out);
  value = is_number ? ConfigJson(node.integer) : ConfigJson(node.text);
  return true;
}

/// What was written, as it stands.
ConfigJson json_of_node(const ConfigNode& node) {
  switch (node.kind) {
    case NodeKind::null: return nullptr;
    case NodeKind::boolean: return node.boolean;
    case NodeKind::integer: return node.integer;
    case NodeKind::number: return node.number;
    case NodeKind::string: return node.text;
    case NodeKind::list: break;
    case NodeKind::object: {
      ConfigJson object = ConfigJson::object();
      for (const ConfigMember& member : node.members) object[member.key] = json_of_node(member.value);
      return object;
    }
  }
  ConfigJson list = ConfigJson::array();
  for (const ConfigNode& item : node.items) list.push_back(json_of_node(item));
  return list;
}

bool convert(const KeySpec& key, const ConfigNode& found, Diagnostics& out, ConfigJson& value) {
  const ConfigNode of_environment = found.is_untyped ? typed(key, found) : ConfigNode();
  const ConfigNode& node = found.is_untyped ? of_environment : found;
  if (key.type == KeyType::fields) {
    if (node.kind == NodeKind::object) {
      value = json_of_node(node);
      return true;
    }
  } else if (key.type <= KeyType::shape) {
    if (std::optional<ConfigJson> scalar = convert_scalar(key, node)) {
      value = std::move(*scalar);
      return true;
    }
  } else if (key.type == KeyType::axes || key.type == KeyType::assignment) {
    if (node.kind == NodeKind::object)
      return key.type == KeyType::axes ? convert_axes(node, out, value) : convert_assignment(key, node, out, value);
  } else if (node.kind == NodeKind::list) {
    value = ConfigJson::array();
    bool good = true;
    for (const ConfigNode& item : node.items) good &= convert_item(key, item, out, value.emplace_back());
    return good;
  }
  return refuse(
      node, out,
      fmt::format("\"{}\" is {}: expected {}{}", key.path, node.describe(), key.expectation(), fix_hint(key, node)));
}

}  // namespace

std::string KeySpec::range() const {
  if (!is_number_type(type) && type != KeyType::integer_list) return "";
  const bool open_above = max >= 2147483647.0;
  if (above_min) {
    return open_above ? fmt::format("above {}", number_text(min))
                      : fmt::format("above {}, at most {}", number_text(min), number_text(max));
  }
  return open_above ? fmt::format("of at least {}", number_text(min))
                    : fmt::format("from {} to {}", number_text(min), number_text(max));
}

std::vector<std::string> KeySpec::canonical_choices() const {
  std::vector<std::string> names;
  for (const auto& [spelling, canonical] : choices) {
    if (spelling == canonical) names.push_back(spelling);
  }
  return names;
}

std::string KeySpec::expectation() const {
  std::string text = std::string(texts_of(type).expected) + range();
  if (type == KeyType::choice) text = fmt::format("{}", fmt::join(canonical_choices(), " | "));
  if (type == KeyType::outside) text = form;
  if (!unit.empty()) text += fmt::format(" ({})", unit);
  if (absent == "null") return text + ", or null";
  return absent.empty() ? text : fmt::format("{}, or \"{}\"", text, absent);
}

std::string type_text(const KeySpec& key) {
  return key.type == KeyType::outside ? key.form : std::string(texts_of(key.type).name);
}

std::optional<ConfigJson> convert_value(const KeySpec& key, const ConfigNode& node, Diagnostics& diagnostics) {
  ConfigJson value;
  return convert(key, node, diagnostics, value) ? std::optional(std::move(value)) : std::nullopt;
}

}  // namespace paceline
