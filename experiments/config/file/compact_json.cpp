#include "experiments/config/file/compact_json.h"

#include <fmt/format.h>

namespace paceline {

namespace {

constexpr size_t kColumns = 120;

}  // namespace

std::string one_line_json(const ConfigJson& json) {
  if (!json.is_structured()) return json.dump();
  std::string text;
  if (json.is_array()) {
    for (const ConfigJson& item : json) text += (text.empty() ? "" : ", ") + one_line_json(item);
    return fmt::format("[{}]", text);
  }
  for (const auto& [name, value] : json.items()) {
    text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", ConfigJson(name).dump(), one_line_json(value));
  }
  return text.empty() ? "{}" : fmt::format("{{ {} }}", text);
}

namespace {

/// `used` columns of the line are taken: the indent, the key before and a comma behind.
std::string print(const ConfigJson& json, size_t indent, size_t used) {
  std::string line = one_line_json(json);
  if (!json.is_structured() || json.empty() || used + line.size() <= kColumns) return line;
  std::string text = json.is_array() ? "[" : "{";
  const std::string blanks(indent + 2, ' ');
  size_t left = json.size();
  for (const auto& [name, value] : json.items()) {
    const std::string key = json.is_array() ? "" : fmt::format("{}: ", ConfigJson(name).dump());
    text += fmt::format("\n{}{}{}{}", blanks, key, print(value, indent + 2, indent + 3 + key.size()),
                        --left > 0 ? "," : "");
  }
  return fmt::format("{}\n{}{}", text, std::string(indent, ' '), json.is_array() ? "]" : "}");
}

}  // namespace

std::string compact_json(const ConfigJson& json) { return print(json, 0, 0); }

}  // namespace paceline
