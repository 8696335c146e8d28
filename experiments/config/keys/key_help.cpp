#include "experiments/config/keys/key_help.h"

#include <algorithm>

#include <fmt/format.h>

#include "speculative/proposer_entry.h"

namespace paceline {

namespace {

std::string_view section_help(std::string_view section) {
  if (section.empty()) return "The file itself.";
  if (section == "engine") return "What runs, and on what: models, ranks, KV cache, scheduler.";
  if (section == "speculation") return "Who drafts, how many tokens, and how drafts are judged.";
  if (section == "sampling") return "How tokens are drawn, and when a request ends.";
  if (section == "workload") return "Which prompts are sent.";
  if (section == "load") return "How requests arrive.";
  if (section == "measure") return "How often cells are measured, and what is checked.";
  if (section == "sweep") return "The grid of cells, and who is compared with whom.";
  if (section == "report") return "What the report shows.";
  return "";
}

std::string_view first_part(std::string_view path) {
  const size_t dot = path.find('.');
  return dot == std::string_view::npos ? std::string_view() : path.substr(0, dot);
}

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

}  // namespace

std::vector<KeySection> key_sections() {
  std::vector<KeySection> sections;
  for (const KeySpec& key : config_keys()) {
    const std::string_view name = first_part(key.path);
    auto section = std::find_if(sections.begin(), sections.end(), [&](const KeySection& s) { return s.name == name; });
    if (section == sections.end()) {
      section = sections.insert(sections.end(), {std::string(name), std::string(section_help(name)), {}});
    }
    section->keys.push_back(&key);
  }
  return sections;
}

std::string type_text(const KeySpec& key) {
  switch (key.type) {
    case KeyType::boolean: return "boolean";
    case KeyType::integer: return "integer";
    case KeyType::number: return "number";
    case KeyType::text: return "string";
    case KeyType::choice: return "one of several words";
    case KeyType::path: return "path or builtin:NAME";
    case KeyType::shape: return "name of a shape or .json file";
    case KeyType::integer_list: return "list of integers";
    case KeyType::text_list: return "list of strings";
    case KeyType::axes: return "object of axis: list of values or range";
    case KeyType::assignment: return "object of key: value";
    case KeyType::assignments: return "list of objects of key: value";
    case KeyType::patterns: return "list of objects of key: value or list of values";
    case KeyType::groups: return "list of lists of axes";
    case KeyType::constraints: return "list of expressions";
    case KeyType::outside: return key.form;
  }
  return {};
}

std::string scope_text(const KeySpec& key) {
  switch (key.scope) {
    case KeyScope::always: return "";
    case KeyScope::speculation: return "proposer " + proposer_names_text(ProposerNames::drafting);
    case KeyScope::proposer: return fmt::format("proposer {}", key.proposer->name);
    case KeyScope::second_model: return fmt::format("proposer {0} and not {0}.self", key.proposer->name);
    case KeyScope::static_batching: return "scheduler.batching static";
    case KeyScope::closed_loop: return "load.mode closed";
    case KeyScope::random_arrivals: return "load.mode poisson or gamma";
    case KeyScope::gamma_arrivals: return "load.mode gamma";
    case KeyScope::trace_arrivals: return "load.mode trace";
  }
  return {};
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

}  // namespace paceline
