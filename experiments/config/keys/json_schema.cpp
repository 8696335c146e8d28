#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/config/keys/key_help.h"
#include "experiments/config/keys/schema.h"

namespace paceline {

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
  ConfigJson schema = ConfigJson::object();
  switch (key.type) {
    case KeyType::boolean: schema["type"] = "boolean"; break;
    case KeyType::integer:
    case KeyType::number:
      schema["type"] = key.type == KeyType::integer ? "integer" : "number";
      add_limits(key, schema);
      break;
    case KeyType::choice: {
      schema["enum"] = ConfigJson::array();
      for (const auto& [spelling, canonical] : key.choices) schema["enum"].push_back(spelling);
      break;
    }
    default:
      schema["type"] = "string";
      if (key.type != KeyType::text) schema["minLength"] = 1;
  }
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
      row["properties"]["published"] = {{"type", "object"},
                                        {"properties",
                                         {{"over", {{"type", "string"}}},
                                          {"speedup", {{"type", "number"}, {"exclusiveMinimum", 0}}},
                                          {"source", {{"type", "string"}}}}},
                                        {"required", {"over", "speedup"}},
                                        {"additionalProperties", false}};
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

bool is_list(const KeySpec& key) {
  return key.type == KeyType::integer_list || key.type == KeyType::text_list || key.type == KeyType::assignments ||
         key.type == KeyType::patterns || key.type == KeyType::groups || key.type == KeyType::constraints;
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
  if (is_list(key)) section["patternProperties"][fmt::format("^\\+{}$", name)] = reference(key.path);
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
