#include "experiments/config/view.h"

#include <algorithm>

#include "experiments/config/keys/schema.h"

namespace paceline {

namespace {

bool has_own_members(const KeySpec& key) {
  return key.type == KeyType::axes || key.type == KeyType::assignment || key.type == KeyType::fields;
}

constexpr const char* kDefault = "default";

std::string place(const Origin& origin) {
  if (!origin.source || origin.line <= 0) return kDefault;
  return origin.source->is_argument ? origin.source->name : fmt::format("{}:{}", origin.source->name, origin.line);
}

/// Where a value was written, and for a list that "+key" made longer, where its other items were.
std::string origin_text(const ConfigNode* node) {
  if (!node) return kDefault;
  std::string text = place(node->origin);
  const SourceText* last = node->origin.source.get();
  for (const ConfigNode& item : node->items) {
    if (item.origin.source.get() == last) continue;
    last = item.origin.source.get();
    text += fmt::format(" and {}", place(item.origin));
  }
  return text;
}

/// Null: no value has this path.
const ResolvedValue* find_resolved(const std::vector<ResolvedValue>& values, std::string_view path) {
  const auto found = std::find_if(values.begin(), values.end(), [&](const auto& value) { return value.path == path; });
  return found == values.end() ? nullptr : &*found;
}

/// Lines of an object: one leaf a line, lists on their line.
void print_object(const ConfigJson& object, const std::string& path, int depth,
                  const std::vector<ResolvedValue>& values, ShowOrigins origins, std::string& out) {
  const std::string indent(static_cast<size_t>(depth) * 2, ' ');
  size_t left = object.size();
  for (const auto& [name, value] : object.items()) {
    const std::string here = path.empty() ? name : fmt::format("{}.{}", path, name);
    const char* const comma = --left > 0 ? "," : "";
    if (value.is_object() && !value.empty()) {
      out += fmt::format("{}{}: {{\n", indent, ConfigJson(name).dump());
      print_object(value, here, depth + 1, values, origins, out);
      out += fmt::format("{}}}{}\n", indent, comma);
      continue;
    }
    out += fmt::format("{}{}: {}{}", indent, ConfigJson(name).dump(), one_line_json(value), comma);
    const ResolvedValue* const known = find_resolved(values, here);
    if (origins == ShowOrigins::yes && known) out += fmt::format("  // {}", known->place());
    out += "\n";
  }
}

/// `used` of 120 columns are taken: the indent, the key before and a comma behind.
std::string print_compact(const ConfigJson& json, size_t indent, size_t used) {
  std::string line = one_line_json(json);
  if (!json.is_structured() || json.empty() || used + line.size() <= 120) return line;
  std::string text = json.is_array() ? "[" : "{";
  const std::string blanks(indent + 2, ' ');
  size_t left = json.size();
  for (const auto& [name, value] : json.items()) {
    const std::string key = json.is_array() ? "" : fmt::format("{}: ", ConfigJson(name).dump());
    text += fmt::format("\n{}{}{}{}", blanks, key, print_compact(value, indent + 2, indent + 3 + key.size()),
                        --left > 0 ? "," : "");
  }
  return fmt::format("{}\n{}{}", text, std::string(indent, ' '), json.is_array() ? "]" : "}");
}

}  // namespace

std::string one_line_json(const ConfigJson& json) {
  if (!json.is_structured()) return json.dump();
  std::string text;
  for (const auto& [name, value] : json.items()) {
    const std::string key = json.is_array() ? "" : fmt::format("{}: ", ConfigJson(name).dump());
    text += fmt::format("{}{}{}", text.empty() ? "" : ", ", key, one_line_json(value));
  }
  if (json.is_array()) return fmt::format("[{}]", text);
  return text.empty() ? "{}" : fmt::format("{{ {} }}", text);
}

std::string compact_json(const ConfigJson& json) { return print_compact(json, 0, 0); }

std::string ResolvedValue::text() const { return expression ? ConfigJson(*expression).dump() : one_line_json(value); }

std::string ResolvedValue::place() const { return expression ? fmt::format("{}, {}", origin, *expression) : origin; }

std::vector<ResolvedValue> resolved_values(const LoadedConfig& loaded) {
  std::vector<ResolvedValue> values;
  for (const KeySpec& key : config_keys()) {
    if (!key.read) continue;
    const ConfigNode* node = loaded.written(key.path);
    const ConfigJson value = key.read(loaded.config);
    if (has_own_members(key) && !value.empty()) {
      for (const auto& [name, member] : value.items())
        values.push_back(
            {fmt::format("{}.{}", key.path, name), member, {}, origin_text(node ? node->find(name) : node)});
      continue;
    }
    const auto deferred = loaded.deferred.find(key.path);
    values.push_back({key.path, value, {}, origin_text(node)});
    if (deferred != loaded.deferred.end()) values.back().expression = "=" + deferred->second.expression.text();
  }
  return values;
}

std::string resolved_text(const LoadedConfig& loaded, ShowOrigins origins) {
  std::string out = "{\n";
  print_object(config_to_json(loaded.config), "", 1, resolved_values(loaded), origins, out);
  return out + "}\n";
}

ConfigJson value_origins(const LoadedConfig& loaded) {
  ConfigJson origins = ConfigJson::object();
  for (const ResolvedValue& value : resolved_values(loaded))
    if (value.origin != kDefault) origins[value.path] = value.place();
  return origins;
}

std::vector<ConfigDifference> config_differences(const LoadedConfig& left, const LoadedConfig& right) {
  const std::vector<ResolvedValue> lefts = resolved_values(left), rights = resolved_values(right);
  std::vector<ConfigDifference> differences;
  for (const ResolvedValue& value : lefts) {
    const ResolvedValue* const other = find_resolved(rights, value.path);
    if (!other)
      differences.push_back({value.path, value, {}});
    else if (other->text() != value.text())
      differences.push_back({value.path, value, *other});
  }
  for (const ResolvedValue& value : rights)
    if (!find_resolved(lefts, value.path)) differences.push_back({value.path, {}, value});
  return differences;
}

}  // namespace paceline
