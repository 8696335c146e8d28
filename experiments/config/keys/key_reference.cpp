#include <fmt/format.h>

#include "experiments/config/keys/key_help.h"

namespace paceline {

namespace {

/// A cell of a table: '|' would end it.
std::string cell(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

std::string takes(const KeySpec& key) {
  std::string text = key.expectation();
  for (const auto& [spelling, canonical] : key.choices) {
    if (spelling != canonical) text += fmt::format(", {}", spelling);
  }
  return text;
}

std::string names(const KeySpec& key) {
  std::string text = fmt::format("`{}`", key.path);
  for (const std::string& alias : aliases_of(key)) text += fmt::format(", `{}`", alias);
  return text;
}

std::string help(const KeySpec& key) {
  const std::string scope = scope_text(key);
  return scope.empty() ? key.help : fmt::format("{} Only with {}.", key.help, scope);
}

std::string axis_cell(const KeySpec& key) {
  if (!can_differ_between_cells(key)) return "–";
  return key.reload ? "reload" : "yes";
}

}  // namespace

std::string key_reference_markdown() {
  std::string out;
  for (const KeySection& section : key_sections()) {
    out += fmt::format("{}### {}\n\n{}\n\n| key | takes | default | axis | meaning |\n|---|---|---|---|---|\n",
                       out.empty() ? "" : "\n", section.name.empty() ? "Top" : fmt::format("`{}`", section.name),
                       section.help);
    for (const KeySpec* key : section.keys) {
      const std::optional<ConfigJson> initial = default_of(*key);
      out += fmt::format("| {} | {} | {} | {} | {} |\n", names(*key), cell(takes(*key)),
                         initial ? fmt::format("`{}`", cell(initial->dump())) : "–", axis_cell(*key), cell(help(*key)));
    }
  }
  return out;
}

}  // namespace paceline
