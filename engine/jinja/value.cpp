#include "engine/jinja/value.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <utf8proc.h>

#include <fmt/format.h>

#include "engine/text/utf8.h"

namespace paceline::jinja {

namespace {
constexpr size_t kIndexFrom = 16;  // entries; below, a scan is faster than a hash
}

const Value* Dict::find(std::string_view text) const {
  if (!index.empty()) {
    const auto it = index.find(text);
    return it == index.end() ? nullptr : &entries[it->second].second;
  }
  for (const auto& [name, value] : entries) {
    if (name == text) return &value;
  }
  return nullptr;
}

const Value* Dict::other_key(size_t entry) const {
  return keys.empty() || keys[entry].is_string() ? nullptr : &keys[entry];
}

const Value* Namespace::find(std::string_view key) const {
  for (const auto& [name, value] : entries) {
    if (name == key) return &value;
  }
  return nullptr;
}

void Namespace::set(std::string_view key, Value value) {
  for (auto& entry : entries) {
    if (entry.first == key) {
      entry.second = std::move(value);
      return;
    }
  }
  entries.emplace_back(key, std::move(value));
}

double Value::number() const {
  if (is<double>()) return as<double>();
  return static_cast<double>(integer());
}

bool Value::truth() const {
  if (is<bool>()) return as<bool>();
  if (is<int64_t>()) return as<int64_t>() != 0;
  if (is<double>()) return as<double>() != 0;
  if (is_string()) return !string().empty();
  if (is_list()) return !items().empty();
  if (is_dict()) return !as<DictPtr>()->entries.empty();
  return !is_undefined() && !is_none();
}

int Value::depth() const {
  if (is_list()) return as<ListPtr>()->depth;
  if (is_dict()) return as<DictPtr>()->depth;
  if (is<LoopPtr>()) return as<LoopPtr>()->items->depth;
  if (is_generator()) return as<GeneratorPtr>()->items->depth;
  if (is<MacroPtr>()) return as<MacroPtr>()->depth;
  return 0;
}

const char* Value::type_name() const {
  static constexpr const char* kNames[] = {"undefined", "None", "bool",      "int",  "float",    "str",  "list",
                                           "generator", "dict", "namespace", "loop", "function", "macro"};
  return is_list() && as<ListPtr>()->tuple ? "tuple" : kNames[data_.index()];
}

Value make_string(std::string text) { return StringPtr(std::make_shared<const std::string>(std::move(text))); }

Value make_list(std::vector<Value> items, bool tuple) {
  auto list = std::make_shared<List>();
  list->items = std::move(items);
  list->tuple = tuple;
  for (const Value& item : list->items) list->depth = std::max(list->depth, item.depth() + 1);
  return ListPtr(std::move(list));
}

Value make_generator(std::vector<Value> items) {
  return std::make_shared<Generator>(Generator{.items = make_list(std::move(items)).as<ListPtr>()});
}

Value make_macro(Macro macro) {
  for (const auto& [variable, value] : macro.around) macro.depth = std::max(macro.depth, value.depth() + 1);
  return std::make_shared<const Macro>(std::move(macro));
}

std::optional<std::string> key_text(const Value& key) {
  constexpr char kNoUtf8 = '\xff';
  if (key.is_string()) return key.string();
  if (key.is_none()) return std::string{kNoUtf8} + "None";
  if (!key.is_number()) return std::nullopt;
  const double number = key.number();
  const bool is_whole = key.is_integer() || (std::floor(number) == number && std::fabs(number) < 9.2e18);
  if (!is_whole) return kNoUtf8 + float_repr(number);
  return kNoUtf8 + std::to_string(key.is_integer() ? key.integer() : static_cast<int64_t>(number));
}

Value make_dict(std::vector<std::pair<std::string, Value>> entries, std::vector<Value> keys) {
  auto dict = std::make_shared<Dict>();
  dict->entries = std::move(entries);
  dict->keys = std::move(keys);
  if (dict->entries.size() > kIndexFrom) {
    for (size_t i = 0; i < dict->entries.size(); ++i) dict->index[dict->entries[i].first] = i;
  }
  for (const auto& entry : dict->entries) dict->depth = std::max(dict->depth, entry.second.depth() + 1);
  return DictPtr(std::move(dict));
}

Value from_json(const nlohmann::ordered_json& json) {
  using Type = nlohmann::ordered_json::value_t;
  switch (json.type()) {
    case Type::boolean: return json.get<bool>();
    case Type::number_integer: return json.get<int64_t>();
    case Type::number_unsigned:
      if (json.get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX)) return json.get<int64_t>();
      return json.get<double>();
    case Type::number_float: return json.get<double>();
    case Type::string: return make_string(utf8_repair(json.get_ref<const std::string&>()));
    case Type::array: {
      std::vector<Value> items;
      items.reserve(json.size());
      for (const auto& item : json) items.push_back(from_json(item));
      return make_list(std::move(items));
    }
    case Type::object: {
      std::vector<std::pair<std::string, Value>> entries;
      entries.reserve(json.size());
      for (const auto& [key, value] : json.items()) entries.emplace_back(utf8_repair(key), from_json(value));
      return make_dict(std::move(entries));
    }
    default: return None{};
  }
}

int json_depth(const nlohmann::ordered_json& json, int limit) {
  if (!json.is_structured()) return 0;
  if (limit == 0) return 1;
  int deepest = 0;
  for (const auto& item : json) deepest = std::max(deepest, json_depth(item, limit - 1));
  return deepest + 1;
}

std::string float_repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific).ptr;
  const std::string_view shortest(buffer, static_cast<size_t>(end - buffer));  // -d.ddde±xx
  const size_t mark = shortest.find('e');
  int exponent = 0;
  std::from_chars(shortest.data() + mark + (shortest[mark + 1] == '+' ? 2 : 1), end, exponent);
  if (exponent < -4 || exponent >= 16)
    return fmt::format("{}e{}{:02}", shortest.substr(0, mark), exponent < 0 ? '-' : '+', std::abs(exponent));
  const auto fixed_end = std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::fixed).ptr;
  std::string fixed(buffer, fixed_end);
  if (fixed.find('.') == std::string::npos) fixed += ".0";
  return fixed;
}

std::string string_repr(std::string_view text) {
  const char quote = text.find('\'') != text.npos && text.find('"') == text.npos ? '"' : '\'';
  std::string out(1, quote);
  for (size_t pos = 0; pos < text.size();) {
    const Utf8Char c = utf8_decode(text, pos);
    const auto bytes = text.substr(pos, static_cast<size_t>(c.num_bytes));
    pos += bytes.size();
    if (c.code == static_cast<unsigned char>(quote) || c.code == '\\') {
      out.append({'\\', static_cast<char>(c.code)});
    } else if (c.code == '\n') {
      out += "\\n";
    } else if (c.code == '\r') {
      out += "\\r";
    } else if (c.code == '\t') {
      out += "\\t";
    } else if (c.code < 0x20 || c.code == 0x7F) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned>(c.code));
    } else if (c.code >= 0x80) {
      // Python escapes what it calls not printable: other, and separators except the blank.
      const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(c.code));
      const bool printable = category != UTF8PROC_CATEGORY_CN && category < UTF8PROC_CATEGORY_ZS;
      const auto code = static_cast<unsigned>(c.code);
      if (printable) {
        out += bytes;
      } else if (code < 0x100) {
        out += fmt::format("\\x{:02x}", code);
      } else if (code < 0x10000) {
        out += fmt::format("\\u{:04x}", code);
      } else {
        out += fmt::format("\\U{:08x}", code);
      }
    } else {
      out += bytes;
    }
  }
  out.push_back(quote);
  return out;
}

}  // namespace paceline::jinja
