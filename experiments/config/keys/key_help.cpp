#include "experiments/config/keys/key_help.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "engine/util/json_io.h"
#include "engine/util/suggest.h"
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
    {"server", "With measure.level http: which server, and what is asked of it."},
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
  const std::string name = key.scope.key == "speculation.proposer" ? "proposer" : key.scope.key;
  return name + (key.scope.words.empty() ? "" : " ") + or_list(key.scope.words) +
         (key.is_void_for_self ? fmt::format(" and not {}.self", key.proposer->name) : "");
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

namespace {

ConfigJson reference(std::string_view definition) { return {{"$ref", fmt::format("#/$defs/{}", definition)}}; }
ConfigJson any_of(ConfigJson::array_t choices) { return {{"anyOf", std::move(choices)}}; }
ConfigJson array_of(ConfigJson items) { return {{"type", "array"}, {"items", std::move(items)}}; }

/// A bound as an integer where it is one: 64, not 64.0.
ConfigJson bound(double value) {
  return value == std::floor(value) ? ConfigJson(static_cast<int64_t>(value)) : ConfigJson(value);
}

void add_limits(const KeySpec& key, ConfigJson& schema) {
  schema[key.above_min ? "exclusiveMinimum" : "minimum"] = bound(key.min);
  if (key.max < 2147483647.0) schema["maximum"] = bound(key.max);
}

/// What a key takes in one value, apart from expressions and substitutions.
ConfigJson literal(const KeySpec& key) {
  if (key.type == KeyType::choice) {
    ConfigJson spellings = ConfigJson::array();
    for (const auto& [spelling, canonical] : key.choices) spellings.push_back(spelling);
    return {{"enum", spellings}};
  }
  ConfigJson schema = {{"type", is_computable(key) ? type_text(key) : "string"}};
  if (key.type == KeyType::integer || key.type == KeyType::number) add_limits(key, schema);
  if (key.type == KeyType::path || key.type == KeyType::shape) schema["minLength"] = 1;
  return schema;
}

ConfigJson value_of_scalar(const KeySpec& key) {
  ConfigJson::array_t choices = {literal(key)};
  if (key.absent == "null") {
    choices.push_back({{"type", "null"}});
  } else if (!key.absent.empty()) {
    choices.push_back({{"const", key.absent}});
  }
  if (is_computable(key)) choices.push_back(reference("expression"));
  choices.push_back(reference("substitution"));
  return any_of(std::move(choices));
}

/// An object whose members are keys that cells can differ in, by path or alias.
ConfigJson by_key(ConfigJson (*member)(const KeySpec&)) {
  ConfigJson properties = ConfigJson::object();
  for (const KeySpec& key : config_keys()) {
    if (!can_differ_between_cells(key)) continue;
    properties[key.path] = member(key);
    for (const std::string& alias : aliases_of(key)) properties[alias] = member(key);
  }
  return {{"type", "object"}, {"properties", std::move(properties)}, {"additionalProperties", false}};
}

ConfigJson value_reference(const KeySpec& key) { return reference(key.path); }

ConfigJson value_list(const KeySpec& key) {
  ConfigJson list = array_of(reference(key.path));
  list["minItems"] = 1;
  return list;
}

ConfigJson axis(const KeySpec& key) {
  ConfigJson::array_t choices = {value_list(key)};
  if (key.type == KeyType::integer) choices.push_back(reference("range"));
  choices.push_back(reference("substitution"));
  return any_of(std::move(choices));
}

ConfigJson value_or_list(const KeySpec& key) { return any_of({reference(key.path), value_list(key)}); }

/// "-key" takes an inherited member away, "+key" makes an inherited list longer.
void add_marks(ConfigJson& object) { object["patternProperties"] = {{"^-", {{"const", true}}}}; }

ConfigJson value_of(const KeySpec& key) {
  switch (key.type) {
    case KeyType::integer_list: {
      ConfigJson item = {{"type", "integer"}};
      add_limits(key, item);
      return array_of(item);
    }
    case KeyType::text_list:
    case KeyType::constraints: return array_of({{"type", "string"}});
    case KeyType::fields: return {{"type", "object"}};
    case KeyType::groups: {
      ConfigJson group = array_of(reference("axis_name"));
      group["minItems"] = 2;
      return array_of(group);
    }
    case KeyType::axes: {
      ConfigJson axes = by_key(axis);
      add_marks(axes);
      axes["patternProperties"]["^\\+"] = {{"type", "array"}};
      return axes;
    }
    case KeyType::assignment: {
      ConfigJson assignment = by_key(value_reference);
      add_marks(assignment);
      return assignment;
    }
    case KeyType::assignments: {
      ConfigJson row = by_key(value_reference);
      row["properties"]["label"] = {{"type", "string"}};
      row["properties"]["published"] = ConfigJson::parse(R"({"type": "object",
          "properties": {"over": {"type": "string"}, "speedup": {"type": "number", "exclusiveMinimum": 0},
                         "source": {"type": "string"}},
          "required": ["over", "speedup"], "additionalProperties": false})");
      return array_of(row);
    }
    case KeyType::patterns: return array_of(by_key(value_or_list));
    default: return value_of_scalar(key);
  }
}

ConfigJson value_of_outside(const KeySpec& key) {
  if (key.path == "schema_version") return {{"const", 1}};
  if (key.path == "extends") return any_of({{{"type", "string"}}, array_of({{"type", "string"}})});
  if (key.path == "vars") {
    return {{"type", "object"}, {"additionalProperties", {{"type", {"string", "number", "boolean"}}}}};
  }
  if (key.path == "profiles") return {{"type", "object"}, {"additionalProperties", reference("profile")}};
  return {{"type", "string"}};
}

/// The schema of an object that holds other keys: "engine", "engine.parallel".
ConfigJson make_section(std::string help) {
  ConfigJson section = {{"type", "object"}, {"properties", ConfigJson::object()}};
  if (!help.empty()) section["description"] = std::move(help);
  add_marks(section);
  section["additionalProperties"] = false;
  return section;
}

/// Adds the key whose path below `section` is `rest`.
void add_key(ConfigJson& section, std::string_view rest, const KeySpec& key) {
  const size_t dot = rest.find('.');
  const std::string name(rest.substr(0, dot));
  if (dot != std::string_view::npos) {
    ConfigJson& below = section["properties"][name];
    if (below.is_null()) below = make_section("");
    add_key(below, rest.substr(dot + 1), key);
    return;
  }
  section["properties"][name] = reference(key.path);
  if (type_text(key).starts_with("list of "))
    section["patternProperties"][fmt::format("^\\+{}$", name)] = reference(key.path);
}

}  // namespace

ConfigJson experiment_json_schema() {
  ConfigJson definitions = ConfigJson::object();
  ConfigJson root = make_section("");
  ConfigJson profile = make_section("Changes that --profile lays over the file.");
  for (const KeySection& section : key_sections()) {
    ConfigJson object = make_section(section.help);
    for (const KeySpec* key : section.keys) {
      const bool is_outside = key->type == KeyType::outside;
      ConfigJson value = is_outside ? value_of_outside(*key) : value_of(*key);
      value["description"] = key->help;
      if (const auto initial = default_of(*key)) value["default"] = *initial;
      if (is_outside) {
        root["properties"][key->path] = value;
        if (key->path == "name" || key->path == "vars") profile["properties"][key->path] = value;
      } else {
        definitions[key->path] = value;
        add_key(object, std::string_view(key->path).substr(section.name.size() + 1), *key);
      }
    }
    if (section.name.empty()) continue;
    definitions[section.name] = object;
    root["properties"][section.name] = reference(section.name);
    profile["properties"][section.name] = reference(section.name);
  }
  definitions["profile"] = profile;
  definitions["expression"] = {
      {"type", "string"}, {"pattern", "^="}, {"description", "Arithmetic over other keys: =2*load.concurrency"}};
  definitions["substitution"] = {
      {"type", "string"}, {"pattern", "\\$\\{"}, {"description", "A text with ${variable} or ${env:NAME:-default}"}};
  definitions["range"] = {{"type", "string"},
                          {"pattern", "^[0-9]+\\.\\.[0-9]+([+*][0-9]+)?$"},
                          {"description", "Integers from first to last: 1..8, 1..9+2, 1..16*2"}};
  ConfigJson names = ConfigJson::array();
  for (const KeySpec& key : config_keys()) {
    if (!can_differ_between_cells(key)) continue;
    names.push_back(key.path);
    for (const std::string& alias : aliases_of(key)) names.push_back(alias);
  }
  definitions["axis_name"] = {{"enum", names}};
  ConfigJson schema = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                       {"title", "Paceline experiment"},
                       {"description", "Made by `runexp config schema` from the program's table of keys."}};
  schema.update(root);
  schema["$defs"] = definitions;
  return schema;
}

}  // namespace paceline
