#include "experiments/config/keys/key_help.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/util/json_io.h"
#include "speculative/proposer_entry.h"

namespace paceline {

namespace {

constexpr std::pair<std::string_view, std::string_view> kSectionHelp[] = {
    {"", "The file itself."},
    {"engine", "What runs, and on what: models, ranks, KV cache, scheduler."},
    {"speculation", "Who drafts, how many tokens, and how drafts are judged."},
    {"sampling", "How tokens are drawn, and when a request ends."},
    {"workload", "Which prompts are sent."},
    {"load", "How requests arrive."},
    {"measure", "How often cells are measured, and what is checked."},
    {"sweep", "The grid of cells, and who is compared with whom."},
    {"report", "What the report shows."},
};

/// `"engine": { "parallel": { "tp": 1 } }`.
std::string written(std::string_view path, const std::string& value) {
  const size_t dot = path.find('.');
  if (dot == std::string_view::npos) return fmt::format("\"{}\": {}", path, value);
  return fmt::format("\"{}\": {{ {} }}", path.substr(0, dot), written(path.substr(dot + 1), value));
}

/// "fp32 for float32, bf16 for bfloat16": spellings beside the canonical ones.
std::string synonyms_text(const KeySpec& key) {
  std::string text;
  for (const auto& [spelling, canonical] : key.choices) {
    if (spelling != canonical) text += fmt::format("{}{} for {}", text.empty() ? "" : ", ", spelling, canonical);
  }
  return text;
}

std::string sweep_text(const KeySpec& key) {
  if (!can_differ_between_cells(key)) return "one value for all cells";
  return key.reload ? "may be an axis; another value needs another engine load" : "may be an axis";
}

/// A cell of a table: '|' would end it.
std::string table_cell(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

std::string taken_text(const KeySpec& key) {
  std::string text = key.expectation();
  for (const auto& [spelling, canonical] : key.choices) {
    if (spelling != canonical) text += fmt::format(", {}", spelling);
  }
  return text;
}

std::string names_text(const KeySpec& key) {
  std::string text = fmt::format("`{}`", key.path);
  for (const std::string& alias : aliases_of(key)) text += fmt::format(", `{}`", alias);
  return text;
}

}  // namespace

std::vector<KeySection> key_sections() {
  std::vector<KeySection> sections;
  for (const auto& [name, help] : kSectionHelp) {
    KeySection& section = sections.emplace_back(KeySection{std::string(name), std::string(help), {}});
    for (const KeySpec& key : config_keys())
      if (name.empty() ? key.path.find('.') == std::string::npos : is_below(key.path, name))
        section.keys.push_back(&key);
  }
  return sections;
}

std::string scope_text(const KeySpec& key) {
  if (key.scope == KeyScope::speculation) return "proposer " + proposer_names_text(ProposerNames::drafting);
  if (key.scope == KeyScope::second_model) return fmt::format("proposer {0} and not {0}.self", key.proposer->name);
  if (key.proposer) return fmt::format("proposer {}", key.proposer->name);
  const ScopeRule rule = scope_rule(key);
  return rule.key.empty() ? "" : fmt::format("{} {}", rule.key, fmt::join(rule.words, " or "));
}

std::optional<ConfigJson> default_of(const KeySpec& key) {
  if (!key.read || key.type == KeyType::outside) return std::nullopt;
  return key.read(ExperimentConfig());
}

std::string describe_key(const KeySpec& key) {
  std::string text = key.path;
  const std::vector<std::string> aliases = aliases_of(key);
  if (!aliases.empty()) text += fmt::format("   (also: {})", fmt::join(aliases, ", "));
  text += fmt::format("\n  {}\n\n", key.help);
  const auto row = [&text](std::string_view label, const std::string& value) {
    if (!value.empty()) text += fmt::format("  {:<9} {}\n", label, value);
  };
  const std::optional<ConfigJson> initial = default_of(key);
  row("type", type_text(key));
  row("range", key.range());
  row("unit", key.unit);
  row("choices", fmt::format("{}", fmt::join(key.canonical_choices(), ", ")));
  row("spelling", synonyms_text(key));
  row("or", key.absent.empty() ? "" : key.absent == "null" ? "null" : fmt::format("\"{}\"", key.absent));
  row("default", initial ? initial->dump() : "");
  if (key.type == KeyType::outside) return text;
  const std::string scope = scope_text(key);
  row("scope", scope.empty() ? "everywhere" : fmt::format("only with {}; elsewhere without effect", scope));
  row("sweep", sweep_text(key));
  if (is_computable(key)) row("computed", "\"=expression\" over other keys, as in \"=2*load.concurrency\"");
  row("in a file", written(key.path, initial->dump()));
  return text;
}

std::string describe_section(std::string_view section) {
  std::string text;
  for (const KeySection& group : key_sections()) {
    std::string lines;
    for (const KeySpec* key : group.keys)
      if (is_below(key->path, section)) lines += fmt::format("  {:<48} {}\n", key->path, key->help);
    if (lines.empty()) continue;
    text += fmt::format("{}{}: {}\n{}", text.empty() ? "" : "\n", group.name.empty() ? "(top)" : group.name, group.help,
                        lines);
  }
  return text;
}

std::optional<std::string> explain_name(std::string_view name) {
  std::string folded(name);
  std::replace(folded.begin(), folded.end(), '-', '_');
  if (const KeySpec* key = find_key_or_alias(folded)) return describe_key(*key);
  if (is_section(folded)) return describe_section(folded);
  std::string text;
  for (const KeySpec& key : config_keys()) {
    if (last_part(key.path) == folded) text += fmt::format("{}{}", text.empty() ? "" : "\n", describe_key(key));
  }
  for (const KeySpec& key : config_keys()) {  // "kv_cache" for "engine.kv_cache"
    const size_t at = fmt::format(".{}.", key.path).find(fmt::format(".{}.", folded));
    if (text.empty() && at != std::string::npos) text = describe_section(key.path.substr(0, at + folded.size()));
  }
  return text.empty() ? std::nullopt : std::optional<std::string>(text);
}

std::vector<std::string> key_names(bool axes_only) {
  std::vector<std::string> names, paths;
  for (const KeySpec& key : config_keys()) {
    if (axes_only ? !can_differ_between_cells(key) : key.type == KeyType::outside && key.path != "name") continue;
    for (std::string& alias : aliases_of(key)) names.push_back(std::move(alias));
    paths.push_back(key.path);
  }
  names.insert(names.end(), paths.begin(), paths.end());
  return names;
}

std::vector<std::string> explained_names() {
  std::vector<std::string> names = key_names(false);
  for (const KeySection& section : key_sections())
    if (!section.name.empty()) names.push_back(section.name);
  names.push_back("exit-codes");
  return names;
}

std::string key_reference_markdown() {
  std::string out;
  for (const KeySection& section : key_sections()) {
    out += fmt::format("{}### {}\n\n{}\n\n| key | takes | default | axis | meaning |\n|---|---|---|---|---|\n",
                       out.empty() ? "" : "\n", section.name.empty() ? "Top" : fmt::format("`{}`", section.name),
                       section.help);
    for (const KeySpec* key : section.keys) {
      const std::optional<ConfigJson> initial = default_of(*key);
      const std::string scope = scope_text(*key);
      const std::string help = key->help + (scope.empty() ? "" : fmt::format(" Only with {}.", scope));
      const char* const axis = !can_differ_between_cells(*key) ? "–" : key->reload ? "reload" : "yes";
      out += fmt::format("| {} | {} | {} | {} | {} |\n", names_text(*key), table_cell(taken_text(*key)),
                         initial ? fmt::format("`{}`", table_cell(initial->dump())) : "–", axis, table_cell(help));
    }
  }
  return out;
}

std::map<std::string, nlohmann::json> settings_that_change(KeyEffect least, const nlohmann::json& resolved) {
  std::map<std::string, nlohmann::json> settings;
  for (const KeySpec& key : config_keys()) {
    if (!key.in_identity || key.effect < least) continue;
    const nlohmann::json* const value = find_value(resolved, key.path);
    if (!value) continue;
    nlohmann::json& kept = settings[key.path] = *value;
    const bool is_file = key.type == KeyType::path || key.type == KeyType::shape;
    if (is_file && kept.is_string()) {
      const std::string& name = kept.get_ref<const std::string&>();
      kept = name.substr(name.find_last_of('/') + 1);
    }
  }
  return settings;
}

}  // namespace paceline
