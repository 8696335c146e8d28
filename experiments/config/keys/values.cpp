// Values of single keys: what a literal in a file means for its row of the table, or what is wrong with it.

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "engine/util/suggest.h"
#include "experiments/config/keys/expression.h"
#include "experiments/config/keys/schema.h"

namespace paceline {

namespace {

constexpr int64_t kMaxAxisValues = 100'000;

std::string number_text(double value) {
  return std::abs(value) < 1e15 && value == std::floor(value) ? fmt::format("{}", static_cast<int64_t>(value))
                                                              : fmt::format("{}", value);
}

std::vector<std::string> choice_names(const KeySpec& key) {
  std::vector<std::string> names;
  for (const auto& [spelling, canonical] : key.choices) names.push_back(spelling);
  return names;
}

bool is_number_type(KeyType type) { return type == KeyType::integer || type == KeyType::number; }
bool is_scalar_type(KeyType type) { return type <= KeyType::shape; }

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

/// What to write instead, for the mistakes that people make.
std::string fix_hint(const KeySpec& key, const ConfigNode& node) {
  if (key.type == KeyType::choice) {
    std::vector<std::string> names = choice_names(key);
    if (!key.absent.empty()) names.push_back(key.absent);
    const std::string near = node.kind == NodeKind::string ? did_you_mean(node.text, names) : "";
    return near.empty() && node.kind == NodeKind::string ? key.hint : near;
  }
  if (key.type == KeyType::boolean) {
    static const std::set<std::string> kYes = {"true", "True", "TRUE", "yes", "Yes", "on", "1"};
    static const std::set<std::string> kNo = {"false", "False", "FALSE", "no", "No", "off", "0"};
    if (kYes.contains(node.text)) return "; write true, without quotes";
    if (kNo.contains(node.text)) return "; write false, without quotes";
    return "";
  }
  if (node.kind == NodeKind::list && can_differ_between_cells(key)) {
    return "; to compare several values, put the list under \"sweep.axes\"";
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
    constexpr double kEndOf64Bits = 9223372036854775808.0;
    if (node.text.find_first_of(".eE") == std::string::npos && std::abs(node.number) >= kEndOf64Bits)
      return "; it does not fit in 64 bits";
    if (node.text.find_first_of(".eE") == std::string::npos)
      return "; an expression is exact up to 2^53: write the number itself";
    if (node.number == std::floor(node.number) && std::abs(node.number) < 1e15) {
      return fmt::format("; write {}", static_cast<int64_t>(node.number));
    }
  }
  const bool is_number = node.kind == NodeKind::number || node.kind == NodeKind::integer;
  if (is_number && key.max == 1 && node.number > 1) return share_hint(node.text);
  if (is_number && node.number < key.min) return key.hint;
  return "";
}

void complain(const KeySpec& key, const ConfigNode& node, Diagnostics& out) {
  if (node.unreadable) return;
  out.add(node.origin, fmt::format("\"{}\" is {}: expected {}{}", key.path, node.describe(), key.expectation(),
                                   fix_hint(key, node)));
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

std::optional<ConfigJson> convert_scalar(const KeySpec& key, const ConfigNode& node) {
  if (!key.absent.empty()) {
    if (key.absent == "null" && node.kind == NodeKind::null) return ConfigJson(nullptr);
    if (node.kind == NodeKind::string && node.text == key.absent) return ConfigJson(key.absent);
  }
  switch (key.type) {
    case KeyType::boolean:
      if (node.kind == NodeKind::boolean) return ConfigJson(node.boolean);
      return std::nullopt;
    case KeyType::integer:
      if (node.kind == NodeKind::integer && in_range(key, static_cast<double>(node.integer)))
        return ConfigJson(node.integer);
      return std::nullopt;
    case KeyType::number:
      // Integers become doubles, so that 0 and 0.0 are the same value everywhere.
      if ((node.kind == NodeKind::integer || node.kind == NodeKind::number) && in_range(key, node.number)) {
        return ConfigJson(node.number);
      }
      return std::nullopt;
    case KeyType::choice:
      for (const auto& [spelling, canonical] : key.choices) {
        if (node.kind == NodeKind::string && node.text == spelling) return ConfigJson(canonical);
      }
      return std::nullopt;
    case KeyType::path:
      // A NUL would end the path for the system, and the message for whoever prints it.
      if (node.kind == NodeKind::string && !node.text.empty() && node.text.find('\0') == std::string::npos)
        return ConfigJson(absolute_path(node));
      return std::nullopt;
    case KeyType::shape:
      if (node.kind != NodeKind::string || node.text.empty()) return std::nullopt;
      return ConfigJson(is_shape_name(node.text) ? node.text : absolute_path(node));
    case KeyType::text:
      if (node.kind == NodeKind::string) return ConfigJson(node.text);
      return std::nullopt;
    default: return std::nullopt;
  }
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
  if (!last || *last < *first || *last > (int64_t{1} << 53) || *first < 0) return std::nullopt;
  char op = '+';
  int64_t step = 1;
  if (!text.empty()) {
    op = text[0];
    text.remove_prefix(1);
    const std::optional<int64_t> given = take_integer(text);
    if (!given || !text.empty() || (op != '+' && op != '*') || *given < (op == '+' ? 1 : 2)) return std::nullopt;
    if (op == '*' && *first < 1) return std::nullopt;
    step = std::min<int64_t>(*given, int64_t{1} << 53);
  }
  std::vector<ConfigNode> values;
  for (int64_t value = *first; value <= *last && static_cast<int64_t>(values.size()) <= kMaxAxisValues;) {
    ConfigNode item;
    item.kind = NodeKind::integer;
    item.integer = value;
    item.number = static_cast<double>(value);
    item.text = std::to_string(value);
    item.origin = node.origin;
    values.push_back(std::move(item));
    if (op == '*' && value > *last / step) break;
    value = op == '+' ? value + step : value * step;
  }
  return values;
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

std::optional<ConfigJson> convert_axis(const KeySpec& axis, const ConfigNode& node, Diagnostics& out) {
  std::vector<ConfigNode> items = node.items;
  if (node.kind == NodeKind::string && node.text.find("..") != std::string::npos && axis.type == KeyType::integer) {
    std::optional<std::vector<ConfigNode>> range = expand_range(node);
    if (!range) {
      out.add(node.origin, fmt::format("\"{}\" is not a range: write \"1..8\", \"1..9+2\" or \"1..16*2\"", node.text));
      return std::nullopt;
    }
    items = std::move(*range);
  } else if (node.kind != NodeKind::list) {
    out.add(node.origin, fmt::format("the axis \"{}\" is {}: expected a list of values{}", axis.path, node.describe(),
                                     axis.type == KeyType::integer ? " or a range \"1..8\"" : ""));
    return std::nullopt;
  }
  if (items.empty()) {
    out.add(node.origin, fmt::format("the axis \"{}\" is empty: give it a value or take it out", axis.path));
    return std::nullopt;
  }
  if (items.size() > static_cast<size_t>(kMaxAxisValues)) {
    out.add(node.origin, fmt::format("the axis \"{}\" has more than {} values", axis.path, kMaxAxisValues));
    return std::nullopt;
  }
  ConfigJson values = ConfigJson::array();
  bool good = true;
  for (const ConfigNode& item : items) {
    const std::optional<ConfigJson> value = convert_value(axis, item, out);
    if (!value) {
      if (node.kind == NodeKind::string) return std::nullopt;  // one complaint for a range
      good = false;
    } else {
      values.push_back(*value);
    }
  }
  return good ? std::optional<ConfigJson>(std::move(values)) : std::nullopt;
}

std::optional<ConfigJson> convert_axes(const ConfigNode& node, Diagnostics& out) {
  ConfigJson axes = ConfigJson::object();
  bool good = true;
  for (const ConfigMember& member : node.members) {
    if (member.key.starts_with("-")) continue;  // deletes an inherited axis
    const std::string name = member.key.starts_with("+") ? member.key.substr(1) : member.key;
    const KeySpec* axis = sweepable(name, member.key_origin, "sweep.axes", out);
    const std::optional<ConfigJson> values = axis ? convert_axis(*axis, member.value, out) : std::nullopt;
    if (values) axes[axis->path] = *values;
    good &= values.has_value();
  }
  return good ? std::optional<ConfigJson>(std::move(axes)) : std::nullopt;
}

/// A row's {"over": label, "speedup": ratio, "source": who measured it}; the source may be missing.
std::optional<ConfigJson> convert_published(const ConfigNode& node, Diagnostics& out) {
  ConfigJson published = ConfigJson::object();
  const auto complain = [&out](const Origin& at, std::string message) -> std::optional<ConfigJson> {
    out.add(at, std::move(message));
    return std::nullopt;
  };
  const std::string expected =
      "{ \"over\": a row's label, \"speedup\": a ratio above 0, \"source\": a text (optional) }";
  if (node.kind != NodeKind::object)
    return complain(node.origin, fmt::format("\"published\" is {}: expected {}", node.describe(), expected));
  for (const auto& [key, key_origin, value] : node.members) {
    const bool is_number = value.kind == NodeKind::integer || value.kind == NodeKind::number;
    if ((key == "over" || key == "source") && value.kind == NodeKind::string)
      published[key] = value.text;
    else if (key == "speedup" && is_number && value.number > 0)
      published["speedup"] = value.number;
    else
      return complain(value.origin,
                      fmt::format("\"published\": \"{}\" is {}: expected {}", key, value.describe(), expected));
  }
  if (!published.contains("over") || !published.contains("speedup"))
    return complain(node.origin, fmt::format("\"published\" lacks a key: expected {}", expected));
  return published;
}

/// One object of include, exclude or baseline.
std::optional<ConfigJson> convert_assignment(const KeySpec& key, const ConfigNode& node, Diagnostics& out) {
  if (node.kind != NodeKind::object) {
    out.add(node.origin, fmt::format("\"{}\" takes objects of key: value, found {}", key.path, node.describe()));
    return std::nullopt;
  }
  ConfigJson object = ConfigJson::object();
  bool good = true;
  for (const ConfigMember& member : node.members) {
    if (member.key == "label" && key.type == KeyType::assignments) {
      if (member.value.kind == NodeKind::string) {
        object["label"] = member.value.text;
        continue;
      }
      out.add(member.value.origin, fmt::format("\"label\" is {}: expected a string", member.value.describe()));
      good = false;
      continue;
    }
    if (member.key == "published" && key.type == KeyType::assignments) {
      const std::optional<ConfigJson> published = convert_published(member.value, out);
      if (published) object["published"] = *published;
      good &= published.has_value();
      continue;
    }
    // In sweep.baseline, which merges with an inherited one, "-key" takes a key away.
    if (key.type == KeyType::assignment && member.key.starts_with("-")) continue;
    const KeySpec* target = sweepable(member.key, member.key_origin, key.path, out);
    std::optional<ConfigJson> value;
    if (target && key.type == KeyType::patterns && member.value.kind == NodeKind::list) {
      value = convert_axis(*target, member.value, out);
    } else if (target) {
      value = convert_value(*target, member.value, out);
    }
    if (value) object[target->path] = *value;
    good &= value.has_value();
  }
  return good ? std::optional<ConfigJson>(std::move(object)) : std::nullopt;
}

std::optional<ConfigJson> convert_group(const ConfigNode& node, Diagnostics& out) {
  if (node.kind != NodeKind::list || node.items.size() < 2) {
    out.add(node.origin, "\"sweep.zip\" takes lists of two or more axes, as in [[\"tp\", \"concurrency\"]]");
    return std::nullopt;
  }
  ConfigJson group = ConfigJson::array();
  for (const ConfigNode& item : node.items) {
    const KeySpec* axis = nullptr;
    if (item.kind == NodeKind::string) {
      axis = sweepable(item.text, item.origin, "sweep.zip", out);
    } else {
      out.add(item.origin, fmt::format("\"sweep.zip\" holds {}: expected the name of an axis", item.describe()));
    }
    if (!axis) return std::nullopt;
    group.push_back(axis->path);
  }
  return group;
}

std::optional<ConfigJson> convert_item(const KeySpec& key, const ConfigNode& node, Diagnostics& out) {
  switch (key.type) {
    case KeyType::assignments:
    case KeyType::patterns: return convert_assignment(key, node, out);
    case KeyType::groups: return convert_group(node, out);
    case KeyType::constraints:
      if (node.kind == NodeKind::string) {
        check_expression(node, node.text, 0, out);
        return ConfigJson(node.text);
      }
      break;
    case KeyType::integer_list:
      if (node.kind == NodeKind::integer && in_range(key, static_cast<double>(node.integer)))
        return ConfigJson(node.integer);
      break;
    default:
      if (node.kind == NodeKind::string) return ConfigJson(node.text);
  }
  out.add(node.origin, fmt::format("\"{}\" holds {}: expected {}", key.path, node.describe(), key.expectation()));
  return std::nullopt;
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
  std::string text;
  switch (type) {
    case KeyType::boolean: text = "true or false"; break;
    case KeyType::integer:
    case KeyType::number:
      text = fmt::format("{} {}", type == KeyType::integer ? "an integer" : "a number", range());
      if (!unit.empty()) text += fmt::format(" ({})", unit);
      break;
    case KeyType::choice: text = fmt::format("{}", fmt::join(canonical_choices(), " | ")); break;
    case KeyType::path: text = "a path or builtin:NAME, as a string"; break;
    case KeyType::shape: text = "the name of a shape or a .json file, as a string"; break;
    case KeyType::text: text = "a string"; break;
    case KeyType::integer_list: text = "a list of integers " + range(); break;
    case KeyType::text_list: text = "a list of strings"; break;
    case KeyType::axes: text = "an object of axis: list of values"; break;
    case KeyType::assignment: text = "an object of key: value"; break;
    case KeyType::assignments:
    case KeyType::patterns: text = "a list of objects of key: value"; break;
    case KeyType::groups: text = "a list of lists of axes"; break;
    case KeyType::constraints: text = "a list of expressions in strings, as in [\"tp*pp <= 4\"]"; break;
    case KeyType::outside: text = form; break;
  }
  if (absent == "null") return text + ", or null";
  if (!absent.empty()) return fmt::format("{}, or \"{}\"", text, absent);
  return text;
}

std::optional<ConfigJson> convert_value(const KeySpec& key, const ConfigNode& node, Diagnostics& diagnostics) {
  if (is_scalar_type(key.type)) {
    std::optional<ConfigJson> value = convert_scalar(key, node);
    if (!value) complain(key, node, diagnostics);
    return value;
  }
  if (key.type == KeyType::axes || key.type == KeyType::assignment) {
    if (node.kind == NodeKind::object) {
      return key.type == KeyType::axes ? convert_axes(node, diagnostics) : convert_assignment(key, node, diagnostics);
    }
    complain(key, node, diagnostics);
    return std::nullopt;
  }
  if (node.kind != NodeKind::list) {
    complain(key, node, diagnostics);
    return std::nullopt;
  }
  ConfigJson list = ConfigJson::array();
  bool good = true;
  for (const ConfigNode& item : node.items) {
    const std::optional<ConfigJson> value = convert_item(key, item, diagnostics);
    if (value) list.push_back(*value);
    good &= value.has_value();
  }
  return good ? std::optional<ConfigJson>(std::move(list)) : std::nullopt;
}

}  // namespace paceline
