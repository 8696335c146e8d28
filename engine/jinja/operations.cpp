#include "engine/jinja/operations.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/text/find_text.h"
#include "engine/text/utf8.h"
#include "engine/util/json_io.h"
#include "engine/util/utf8_chars.h"

namespace paceline::jinja {

namespace {

void append_repr(std::string& out, const Value& value, Context& context) {
  if (value.is_string()) {
    context.charge_bytes(value.string().size());
    out += string_repr(value.string());
  } else if (value.is_undefined()) {
    out += "Undefined";
  } else {
    append_text(out, value, context);
  }
  context.check_text_bytes(out.size());
}

/// `value` is a reference because the argument before it computes it.
int64_t checked(bool overflow, const int64_t& value, Context& context) {
  if (overflow) context.error("integer overflow");
  return value;
}

int64_t power(int64_t base, int64_t exponent, Context& context) {
  int64_t result = 1;
  for (; exponent > 0; exponent >>= 1) {
    bool overflow = false;
    if ((exponent & 1) != 0) overflow = __builtin_mul_overflow(result, base, &result);
    if (exponent > 1 && !overflow) overflow = __builtin_mul_overflow(base, base, &base);
    checked(overflow, result, context);
  }
  return result;
}

Value integer_arithmetic(Operator op, int64_t a, int64_t b, Context& context) {
  int64_t result = 0;
  const bool divides = op == Operator::divide || op == Operator::floor_divide || op == Operator::modulo;
  if (divides && b == 0) context.error("division by zero");
  switch (op) {
    case Operator::add: return checked(__builtin_add_overflow(a, b, &result), result, context);
    case Operator::subtract: return checked(__builtin_sub_overflow(a, b, &result), result, context);
    case Operator::multiply: return checked(__builtin_mul_overflow(a, b, &result), result, context);
    case Operator::divide: return static_cast<double>(a) / static_cast<double>(b);
    case Operator::floor_divide:
    case Operator::modulo: {
      if (b == -1) {  // INT64_MIN / −1 traps
        if (op == Operator::modulo) return int64_t{0};
        return checked(__builtin_sub_overflow(int64_t{0}, a, &result), result, context);
      }
      const int64_t quotient = a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
      return op == Operator::modulo ? a - quotient * b : quotient;
    }
    default:
      if (b < 0) return std::pow(static_cast<double>(a), static_cast<double>(b));
      return power(a, b, context);
  }
}

/// Python's a % b and a // b: the remainder is exact and has the sign of b.
double real_modulo(double a, double b) {
  const double remainder = std::fmod(a, b);
  if (remainder == 0) return std::copysign(0.0, b);
  return (remainder < 0) != (b < 0) ? remainder + b : remainder;
}
double real_floor_divide(double a, double b) {
  const double quotient = (a - real_modulo(a, b)) / b;  // a whole number but for its rounding
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double whole = std::floor(quotient);
  return quotient - whole > 0.5 ? whole + 1 : whole;
}

Value real_arithmetic(Operator op, double a, double b, Context& context) {
  const bool divides = op == Operator::divide || op == Operator::floor_divide || op == Operator::modulo;
  if (divides && b == 0) context.error("division by zero");
  switch (op) {
    case Operator::add: return a + b;
    case Operator::subtract: return a - b;
    case Operator::multiply: return a * b;
    case Operator::divide: return a / b;
    case Operator::floor_divide: return real_floor_divide(a, b);
    case Operator::modulo: return real_modulo(a, b);
    default: return std::pow(a, b);
  }
}

Value repeat(const Value& value, int64_t count, Context& context) {
  count = std::max<int64_t>(count, 0);
  const size_t size = value.is_string() ? value.string().size() : value.items().size();
  // Bounded before anything is built: the product may be huge.
  if (size != 0 && static_cast<uint64_t>(count) > kMaxTextBytes / size) context.check_text_bytes(kMaxTextBytes + 1);
  context.charge_bytes(size * static_cast<size_t>(count));
  if (value.is_string()) {
    std::string text;
    for (int64_t i = 0; i < count && size != 0; ++i) text += value.string();
    return context.text(std::move(text));
  }
  context.charge(size * static_cast<size_t>(count));
  std::vector<Value> items;
  for (int64_t i = 0; i < count && size != 0; ++i)
    items.insert(items.end(), value.items().begin(), value.items().end());
  return context.list(std::move(items), value.as<ListPtr>()->tuple);
}

void append_json_string(std::string& out, std::string_view text, bool ensure_ascii) {
  out.push_back('"');
  for (size_t pos = 0; pos < text.size();) {
    const Utf8Char c = utf8_decode(text, pos);
    const auto bytes = text.substr(pos, static_cast<size_t>(c.num_bytes));
    pos += bytes.size();
    switch (c.code) {
      case '"': out += "\\\""; continue;
      case '\\': out += "\\\\"; continue;
      case '\n': out += "\\n"; continue;
      case '\r': out += "\\r"; continue;
      case '\t': out += "\\t"; continue;
      case '\b': out += "\\b"; continue;
      case '\f': out += "\\f"; continue;
      default: break;
    }
    const auto code = static_cast<unsigned>(c.code);
    if (code < 0x20 || (ensure_ascii && code >= 0x80 && code < 0x10000)) {
      out += fmt::format("\\u{:04x}", code);
    } else if (ensure_ascii && code >= 0x10000) {
      out += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + ((code - 0x10000) >> 10), 0xDC00 + ((code - 0x10000) & 0x3FF));
    } else {
      out += bytes;
    }
  }
  out.push_back('"');
}

void append_json(std::string& out, const Value& value, const JsonStyle& style, int level, Context& context) {
  context.charge(1);
  context.check_text_bytes(out.size());
  const auto new_line = [&](int at_level) {
    if (style.indent >= 0)
      out.append("\n").append(static_cast<size_t>(style.indent) * static_cast<size_t>(at_level), ' ');
  };
  const auto separator = [&](bool first) {
    if (!first) out += style.item_separator;
    new_line(level + 1);
  };
  if (value.is_string()) {
    context.charge_bytes(value.string().size());
    append_json_string(out, value.string(), style.ensure_ascii);
  } else if (value.is_list()) {
    out.push_back('[');
    bool first = true;
    for (const Value& item : value.items()) {
      separator(std::exchange(first, false));
      append_json(out, item, style, level + 1, context);
    }
    if (!first) new_line(level);
    out.push_back(']');
  } else if (value.is_dict()) {
    const Dict& dict = *value.as<DictPtr>();
    std::vector<size_t> entries(dict.entries.size());
    std::iota(entries.begin(), entries.end(), size_t{0});
    context.charge(entries.size());
    if (style.sort_keys && !dict.keys.empty()) context.error("sort_keys of keys that are no strings is not supported");
    if (style.sort_keys)
      std::sort(entries.begin(), entries.end(),
                [&](size_t a, size_t b) { return dict.entries[a].first < dict.entries[b].first; });
    out.push_back('{');
    bool first = true;
    for (const size_t entry : entries) {
      separator(std::exchange(first, false));
      context.charge_bytes(dict.entries[entry].first.size());
      if (const Value* const key = dict.other_key(entry)) {
        out.push_back('"');
        append_json(out, *key, style, level + 1, context);
        out.push_back('"');
      } else {
        append_json_string(out, dict.entries[entry].first, style.ensure_ascii);
      }
      out += style.key_separator;
      append_json(out, dict.entries[entry].second, style, level + 1, context);
    }
    if (!first) new_line(level);
    out.push_back('}');
  } else if (value.is<bool>()) {
    out += value.as<bool>() ? "true" : "false";
  } else if (value.is_none()) {
    out += "null";
  } else if (value.is<double>() && !std::isfinite(value.as<double>())) {
    out += std::isnan(value.as<double>()) ? "NaN" : value.as<double>() < 0 ? "-Infinity" : "Infinity";
  } else if (value.is_number()) {
    append_text(out, value, context);
  } else {
    context.error("{} cannot be written as JSON", value.type_name());
  }
}

/// Python's resolution of a slice over `size` items: the indices in order.
std::vector<size_t> slice_indices(size_t size, const Value& start, const Value& stop, const Value& step,
                                  Context& context) {
  const auto bound = [&](const Value& value, int64_t absent) {
    if (value.is_undefined() || value.is_none()) return absent;
    if (!value.is_integer()) context.error("slice bounds must be integers, found {}", value.type_name());
    return value.integer();
  };
  const auto count = static_cast<int64_t>(size);
  const int64_t stride = bound(step, 1);
  if (stride == 0) context.error("slice step is zero");
  const auto clamp = [&](int64_t index) {
    if (index < 0) index = index < -count ? -1 : index + count;
    return stride > 0 ? std::clamp<int64_t>(index, 0, count) : std::clamp<int64_t>(index, -1, count - 1);
  };
  const bool no_start = start.is_undefined() || start.is_none(), no_stop = stop.is_undefined() || stop.is_none();
  const int64_t first = no_start ? (stride > 0 ? 0 : count - 1) : clamp(bound(start, 0));
  const int64_t last = no_stop ? (stride > 0 ? count : -1) : clamp(bound(stop, 0));
  std::vector<size_t> indices;
  if (stride > 0) {
    for (int64_t i = first; i < last; i += std::min(stride, count)) indices.push_back(static_cast<size_t>(i));
  } else {
    for (int64_t i = first; i > last; i += std::max(stride, -count)) indices.push_back(static_cast<size_t>(i));
  }
  return indices;
}

}  // namespace

std::vector<std::string_view> characters(std::string_view text) {
  std::vector<std::string_view> result;
  result.reserve(text.size());
  for (size_t pos = 0; pos < text.size();) {
    const auto num_bytes = static_cast<size_t>(utf8_decode(text, pos).num_bytes);
    result.push_back(text.substr(pos, num_bytes));
    pos += num_bytes;
  }
  return result;
}

std::string to_text(const Value& value, Context& context) {
  std::string out;
  append_text(out, value, context);
  return out;
}

void append_text(std::string& out, const Value& value, Context& context) {
  context.charge(1);
  if (value.is_string()) {
    context.charge_bytes(value.string().size());
    out += value.string();
  } else if (value.is_none()) {
    out += "None";
  } else if (value.is<bool>()) {
    out += value.as<bool>() ? "True" : "False";
  } else if (value.is<int64_t>()) {
    out += std::to_string(value.as<int64_t>());
  } else if (value.is<double>()) {
    out += float_repr(value.as<double>());
  } else if (value.is_list()) {
    const bool tuple = value.as<ListPtr>()->tuple;
    out.push_back(tuple ? '(' : '[');
    for (size_t i = 0; i < value.items().size(); ++i) {
      if (i > 0) out += ", ";
      append_repr(out, value.items()[i], context);
    }
    if (tuple && value.items().size() == 1) out.push_back(',');
    out.push_back(tuple ? ')' : ']');
  } else if (value.is_dict()) {
    const Dict& dict = *value.as<DictPtr>();
    out.push_back('{');
    for (size_t entry = 0; entry < dict.entries.size(); ++entry) {
      if (entry > 0) out += ", ";
      if (const Value* const key = dict.other_key(entry)) {
        append_repr(out, *key, context);
      } else {
        context.charge_bytes(dict.entries[entry].first.size());
        out += string_repr(dict.entries[entry].first);
      }
      out += ": ";
      append_repr(out, dict.entries[entry].second, context);
    }
    out.push_back('}');
  } else if (!value.is_undefined()) {
    context.error("a {} cannot be printed", value.type_name());
  }
  context.check_text_bytes(out.size());
}

Value key_of(const Dict& dict, size_t entry, Context& context) {
  const Value* const key = dict.other_key(entry);
  return key == nullptr ? context.text(dict.entries[entry].first) : *key;
}

void set_entry(std::vector<std::pair<std::string, Value>>& entries, std::vector<Value>& keys, const Value& key,
               Value value, Context& context) {
  const std::optional<std::string> text = key_text(key);
  if (!text) context.error("a {} is no key of a dict", key.type_name());
  context.charge((text->size() / 16 + 1) * entries.size() / 4);
  const auto same =
      std::find_if(entries.begin(), entries.end(), [&](const auto& entry) { return entry.first == *text; });
  if (same != entries.end()) {  // the first key stays, as in Python
    same->second = std::move(value);
    return;
  }
  if (!key.is_string() && keys.empty())
    for (const auto& entry : entries) keys.push_back(context.text(entry.first));
  if (!key.is_string() || !keys.empty()) keys.push_back(key);
  entries.emplace_back(*text, std::move(value));
}

const Value* find_entry(const Value& object, std::string_view key, Context& context) {
  if (object.is_dict()) {
    const Dict& dict = *object.as<DictPtr>();
    context.charge(key.size() / 16 * std::min<size_t>(dict.entries.size(), 16));
    return dict.find(key);
  }
  const Namespace& space = *object.as<NamespacePtr>();
  context.charge((key.size() / 16 + 1) * space.entries.size() / 8);
  return space.find(key);
}

const Value* find_item(const Value& dict, const Value& key, Context& context) {
  if (key.is_string()) return find_entry(dict, key.string(), context);
  const std::optional<std::string> text = key_text(key);
  return text ? find_entry(dict, *text, context) : nullptr;
}

bool equal(const Value& a, const Value& b, Context& context) {
  context.charge(1);
  if (a.is_number() && b.is_number()) {
    if (a.is_integer() && b.is_integer()) return a.integer() == b.integer();
    return a.number() == b.number();
  }
  if (a.is_string() && b.is_string()) {
    if (a.string().size() != b.string().size()) return false;
    context.charge_bytes(a.string().size());
    return a.string() == b.string();
  }
  if (a.is_list() && b.is_list()) {
    if (a.as<ListPtr>()->tuple != b.as<ListPtr>()->tuple || a.items().size() != b.items().size()) return false;
    for (size_t i = 0; i < a.items().size(); ++i) {
      if (!equal(a.items()[i], b.items()[i], context)) return false;
    }
    return true;
  }
  if (a.is_dict() && b.is_dict()) {
    const auto& entries = a.as<DictPtr>()->entries;
    if (entries.size() != b.as<DictPtr>()->entries.size()) return false;
    for (const auto& [key, value] : entries) {
      const Value* other = find_entry(b, key, context);
      if (other == nullptr || !equal(value, *other, context)) return false;
    }
    return true;
  }
  if (a.is<NamespacePtr>() && b.is<NamespacePtr>()) return a.as<NamespacePtr>() == b.as<NamespacePtr>();
  if (a.is_generator() && b.is_generator()) return a.as<GeneratorPtr>() == b.as<GeneratorPtr>();
  return (a.is_none() && b.is_none()) || (a.is_undefined() && b.is_undefined());
}

int order(const Value& a, const Value& b, Context& context) {
  if (a.is_number() && b.is_number()) {
    if (a.is_integer() && b.is_integer()) return (a.integer() > b.integer()) - (a.integer() < b.integer());
    return (a.number() > b.number()) - (a.number() < b.number());
  }
  if (a.is_string() && b.is_string()) {
    context.charge_bytes(std::min(a.string().size(), b.string().size()));
    const int result = a.string().compare(b.string());  // UTF-8 order is code point order
    return (result > 0) - (result < 0);
  }
  if (a.is_list() && b.is_list() && a.as<ListPtr>()->tuple == b.as<ListPtr>()->tuple) {
    const size_t common = std::min(a.items().size(), b.items().size());
    for (size_t i = 0; i < common; ++i)
      if (!equal(a.items()[i], b.items()[i], context)) return order(a.items()[i], b.items()[i], context);
    return (a.items().size() > b.items().size()) - (a.items().size() < b.items().size());
  }
  context.error("{} and {} have no order", a.type_name(), b.type_name());
}

bool contains(const Value& container, const Value& item, Context& context) {
  if (container.is_string()) {
    if (!item.is_string()) context.error("expected a string before \"in\", found {}", item.type_name());
    context.charge_bytes(container.string().size() + item.string().size());
    return find_text(container.string(), item.string()) != std::string_view::npos;
  }
  if (container.is_dict()) {
    const bool is_hashable = !item.is_dict() && (!item.is_list() || item.as<ListPtr>()->tuple);
    if (!is_hashable) context.error("a {} is no key", item.type_name());
    return find_item(container, item, context) != nullptr;
  }
  if (container.is_undefined()) return false;
  if (container.is_generator()) {  // takes what comes before
    Generator& generator = *container.as<GeneratorPtr>();
    while (generator.next < generator.items->items.size())
      if (equal(generator.items->items[generator.next++], item, context)) return true;
    return false;
  }
  if (!container.is_list()) context.error("nothing can be in a {}", container.type_name());
  return std::any_of(container.items().begin(), container.items().end(),
                     [&](const Value& candidate) { return equal(candidate, item, context); });
}

bool compare(Operator op, const Value& a, const Value& b, Context& context) {
  switch (op) {
    case Operator::equal: return equal(a, b, context);
    case Operator::not_equal: return !equal(a, b, context);
    case Operator::in: return contains(b, a, context);
    case Operator::not_in: return !contains(b, a, context);
    default: break;
  }
  if (a.is<double>() && std::isnan(a.as<double>())) return false;
  if (b.is<double>() && std::isnan(b.as<double>())) return false;
  const int sign = order(a, b, context);
  switch (op) {
    case Operator::less: return sign < 0;
    case Operator::less_equal: return sign <= 0;
    case Operator::greater: return sign > 0;
    default: return sign >= 0;
  }
}

Value arithmetic(Operator op, const Value& a, const Value& b, Context& context) {
  if (a.is_integer() && b.is_integer()) return integer_arithmetic(op, a.integer(), b.integer(), context);
  if (a.is_number() && b.is_number()) return real_arithmetic(op, a.number(), b.number(), context);
  if (op == Operator::add && a.is_string() && b.is_string()) {
    context.check_text_bytes(a.string().size() + b.string().size());
    return context.text(a.string() + b.string());
  }
  if (op == Operator::add && a.is_list() && b.is_list() && a.as<ListPtr>()->tuple == b.as<ListPtr>()->tuple) {
    context.charge(a.items().size() + b.items().size());
    std::vector<Value> items = a.items();
    items.insert(items.end(), b.items().begin(), b.items().end());
    return context.list(std::move(items), a.as<ListPtr>()->tuple);
  }
  if (op == Operator::multiply && (a.is_string() || a.is_list()) && b.is_integer())
    return repeat(a, b.integer(), context);
  if (op == Operator::multiply && (b.is_string() || b.is_list()) && a.is_integer())
    return repeat(b, a.integer(), context);
  static constexpr const char* kSigns[] = {"+", "-", "*", "/", "//", "%", "**"};
  context.error("{} {} {} is not supported", a.type_name(), kSigns[static_cast<size_t>(op)], b.type_name());
}

Value negate(const Value& value, Context& context) {
  if (value.is<double>()) return -value.as<double>();
  if (!value.is_integer()) context.error("- {} is not supported", value.type_name());
  return integer_arithmetic(Operator::subtract, 0, value.integer(), context);
}

ListPtr iterate(const Value& value, Context& context) {
  if (value.is_list()) return value.as<ListPtr>();
  std::vector<Value> items;
  if (value.is_generator()) {
    Generator& generator = *value.as<GeneratorPtr>();
    const size_t first = std::exchange(generator.next, generator.items->items.size());
    if (first == 0) return generator.items;
    items.assign(generator.items->items.begin() + std::ptrdiff_t(first), generator.items->items.end());
  } else if (value.is_dict()) {
    const Dict& dict = *value.as<DictPtr>();
    context.charge(dict.entries.size());
    for (size_t entry = 0; entry < dict.entries.size(); ++entry) items.push_back(key_of(dict, entry, context));
  } else if (value.is_string()) {
    context.charge(value.string().size());
    for (const std::string_view character : characters(value.string()))
      items.push_back(context.text(std::string(character)));
  } else if (!value.is_undefined()) {
    context.error("a {} cannot be iterated over", value.type_name());
  }
  return context.list(std::move(items)).as<ListPtr>();
}

int64_t length(const Value& value, Context& context) {
  if (value.is_list()) return static_cast<int64_t>(value.items().size());
  if (value.is_dict()) return static_cast<int64_t>(value.as<DictPtr>()->entries.size());
  if (value.is_string()) {
    context.charge_bytes(value.string().size());
    return static_cast<int64_t>(utf8_length(value.string()));
  }
  if (!value.is_undefined()) context.error("a {} has no length", value.type_name());
  return 0;
}

Value get_attribute(const Value& object, const std::string& name, Context& context) {
  const Value* found = nullptr;
  if (object.is_dict() || object.is<NamespacePtr>()) {
    found = find_entry(object, name, context);
  } else if (object.is<LoopPtr>()) {
    const Loop& loop = *object.as<LoopPtr>();
    const size_t size = loop.items->items.size(), index = loop.index0;
    if (name == "index") return static_cast<int64_t>(index + 1);
    if (name == "index0") return static_cast<int64_t>(index);
    if (name == "revindex") return static_cast<int64_t>(size - index);
    if (name == "revindex0") return static_cast<int64_t>(size - index - 1);
    if (name == "first") return index == 0;
    if (name == "last") return index + 1 == size;
    if (name == "length") return static_cast<int64_t>(size);
    if (name == "depth") return int64_t{1};  // of loops that call themselves it would be more
    if (name == "depth0") return int64_t{0};
    if (name == "previtem") return index > 0 ? loop.items->items[index - 1] : Value();
    if (name == "nextitem") return index + 1 < size ? loop.items->items[index + 1] : Value();
    context.error("loop.{} is not supported", name);
  } else if (object.is_undefined()) {
    context.error("attribute {} of something that is undefined", json_literal(name));
  }
  return found == nullptr ? Value() : *found;
}

Value get_item(const Value& object, const Value& key, Context& context) {
  if (key.is_string()) {
    if (key.string().starts_with("__")) context.error("attribute {} is not allowed", json_literal(key.string()));
    return get_attribute(object, key.string(), context);
  }
  if (object.is_undefined()) context.error("item of something that is undefined");
  if (object.is_dict()) {
    const Value* const found = find_item(object, key, context);
    return found == nullptr ? Value() : *found;
  }
  if (!key.is_integer() || !(object.is_list() || object.is_string())) return {};
  int64_t index = key.integer();
  const int64_t size = length(object, context);
  if (index < 0) index += size;
  if (index < 0 || index >= size) return {};
  if (object.is_list()) return object.items()[static_cast<size_t>(index)];
  context.charge_bytes(object.string().size());
  const std::string& text = object.string();
  size_t pos = 0;
  for (; index > 0; --index) pos += static_cast<size_t>(utf8_decode(text, pos).num_bytes);
  return context.text(text.substr(pos, static_cast<size_t>(utf8_decode(text, pos).num_bytes)));
}

Value slice(const Value& object, const Value& start, const Value& stop, const Value& step, Context& context) {
  if (object.is_string()) {
    context.charge_bytes(4 * object.string().size());
    const auto all = characters(object.string());
    std::string text;
    for (const size_t index : slice_indices(all.size(), start, stop, step, context)) text += all[index];
    return context.text(std::move(text));
  }
  if (!object.is_list()) context.error("a {} cannot be sliced", object.type_name());
  context.charge(object.items().size());
  std::vector<Value> items;
  for (const size_t index : slice_indices(object.items().size(), start, stop, step, context))
    items.push_back(object.items()[index]);
  return context.list(std::move(items), object.as<ListPtr>()->tuple);
}

std::string to_json(const Value& value, const JsonStyle& style, Context& context) {
  std::string out;
  append_json(out, value, style, 0, context);
  context.check_text_bytes(out.size());
  return out;
}

}  // namespace paceline::jinja
