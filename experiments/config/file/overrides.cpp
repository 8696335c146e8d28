#include <sstream>

#include "engine/util/suggest.h"
#include "experiments/config/file/jsonc.h"
#include "experiments/config/file/load_steps.h"
#include "experiments/config/keys/schema.h"

namespace paceline {

namespace {

std::shared_ptr<const SourceText> argument(const std::string& option, const std::string& text) {
  auto source = std::make_shared<SourceText>();
  source->name = option;
  source->text = text;
  source->directory = std::filesystem::current_path();
  source->is_argument = true;
  return source;
}

void move_origin(ConfigNode& node, const Origin& origin) {
  node.origin = origin;
  for (ConfigNode& item : node.items) move_origin(item, origin);
  for (ConfigMember& member : node.members) {
    member.key_origin = origin;
    move_origin(member.value, origin);
  }
}

/// A value on the command line: JSON where it is JSON and the key is not a text, else the text itself.
ConfigNode argument_value(const std::string& text, bool is_text, const Origin& origin) {
  if (!is_text || text.starts_with("\"")) {
    Diagnostics problems;
    ConfigNode node = parse_jsonc(argument("", text), problems);
    if (problems.empty()) {
      move_origin(node, origin);
      return node;
    }
  }
  return ConfigNode::make_string(text, origin);
}

bool is_text_key(const KeySpec& key) {
  return key.type == KeyType::text || key.type == KeyType::choice || key.type == KeyType::path ||
         key.type == KeyType::shape || key.path == "name";
}

/// {"a": {"b": value}} for the path a.b.
ConfigNode nested(const std::string& path, ConfigNode value) {
  const size_t dot = path.find('.');
  ConfigNode object = ConfigNode::make_object(value.origin);
  const Origin origin = value.origin;
  if (dot == std::string::npos) {
    object.members.push_back({path, origin, std::move(value)});
  } else {
    object.members.push_back({path.substr(0, dot), origin, nested(path.substr(dot + 1), std::move(value))});
  }
  return object;
}

struct Argument {
  std::string name;
  std::string value;
  Origin name_origin, value_origin;
};

Argument split_argument(const std::string& option, const std::string& text) {
  const auto source = argument(option, text);
  const size_t equals = text.find('=');
  if (equals == 0 || equals == std::string::npos) {
    fail_at({source, 1, 1}, fmt::format("expected key=value, found \"{}\"", text));
  }
  return {text.substr(0, equals), text.substr(equals + 1), {source, 1, 1}, {source, 1, static_cast<int>(equals) + 2}};
}

const KeySpec& key_of(const Argument& argument) {
  const KeySpec* key = find_key_or_alias(argument.name);
  if (!key || (key->type == KeyType::outside && key->path != "name")) {
    fail_at(argument.name_origin,
            fmt::format("unknown key \"{}\"{}", argument.name, hint_for_unknown_key(argument.name)));
  }
  return *key;
}

ConfigNode overlay_of_set(const std::string& text) {
  const Argument argument = split_argument("--set", text);
  if (argument.name.starts_with("vars.")) {
    const std::string variable = argument.name.substr(5);
    ConfigNode vars = ConfigNode::make_object(argument.name_origin);
    vars.members.push_back(
        {variable, argument.name_origin, argument_value(argument.value, false, argument.value_origin)});
    return nested("vars", std::move(vars));
  }
  const KeySpec& key = key_of(argument);
  return nested(key.path, argument_value(argument.value, is_text_key(key), argument.value_origin));
}

ConfigNode overlay_of_axis(const std::string& text) {
  const Argument argument = split_argument("--axis", text);
  const KeySpec& key = key_of(argument);
  ConfigNode value;
  if (argument.value.starts_with("[") || argument.value.find("..") != std::string::npos) {
    value = argument_value(argument.value, false, argument.value_origin);
  } else {
    value.kind = NodeKind::list;
    value.origin = argument.value_origin;
    std::istringstream items(argument.value);
    for (std::string item; std::getline(items, item, ',');) {
      value.items.push_back(argument_value(item, is_text_key(key), argument.value_origin));
    }
  }
  ConfigNode axes = ConfigNode::make_object(argument.name_origin);
  axes.members.push_back({key.path, argument.name_origin, std::move(value)});
  return nested("sweep.axes", std::move(axes));
}

bool apply_profile(LoadedConfig& loaded, const std::string& name, Diagnostics& diagnostics) {
  if (const ConfigNode* profiles = loaded.tree.find("profiles")) {
    for (const ConfigMember& member : profiles->members) loaded.profiles.push_back(member.key);
  }
  if (name.empty()) return true;
  const ConfigNode* profile = loaded.written("profiles");
  profile = profile ? profile->find(name) : nullptr;
  if (!profile) {
    diagnostics.add({argument("--profile", name), 1, 1},
                    loaded.profiles.empty()
                        ? fmt::format("{} has no profiles", loaded.file.string())
                        : fmt::format("{} has no profile \"{}\"{}: there are {}", loaded.file.string(), name,
                                      did_you_mean(name, loaded.profiles), fmt::join(loaded.profiles, ", ")));
    return false;
  }
  const ConfigNode changes = *profile;
  Diagnostics repeated;  // as with what a wrong file inherits
  merge_config(loaded.tree, changes, diagnostics.empty() ? diagnostics : repeated);
  return true;
}

void apply_axis(LoadedConfig& loaded, const std::string& text, Diagnostics& diagnostics) {
  ConfigNode overlay = overlay_of_axis(text);
  validate_tree(overlay, diagnostics);
  merge_config(loaded.tree, overlay, diagnostics);
}

void apply_set(LoadedConfig& loaded, const std::string& text, Diagnostics& diagnostics) {
  ConfigNode overlay = overlay_of_set(text);
  validate_tree(overlay, diagnostics);
  const Argument parts = split_argument("--set", text);
  const KeySpec* key = find_key_or_alias(parts.name);
  const ConfigNode* axes = loaded.written("sweep.axes");
  const ConfigNode* const value = key ? find_path(overlay, key->path) : nullptr;
  Diagnostics of_value;  // has been complained about
  const bool fits = value && (parts.value.find("${") != std::string::npos || is_deferred_expression(*key, *value) ||
                              convert_value(*key, *value, of_value));
  if (fits && axes && axes->find(key->path)) {
    diagnostics.add(parts.name_origin, fmt::format("\"{0}\" is an axis of the sweep, which would overrule --set: use "
                                                   "--axis {0}={1}",
                                                   parts.name, parts.value));
  }
  merge_config(loaded.tree, overlay, diagnostics);
}

}  // namespace

bool apply_overrides(LoadedConfig& loaded, const ConfigOverrides& overrides, Diagnostics& diagnostics) {
  bool all_read = apply_profile(loaded, overrides.profile, diagnostics);
  const auto apply_each = [&](const std::vector<std::string>& texts, auto apply) {
    for (const std::string& text : texts) {
      try {
        apply(loaded, text, diagnostics);
      } catch (const ConfigError& error) {
        diagnostics.add(error.diagnostics());
        all_read = false;
      }
    }
  };
  apply_each(overrides.axis, apply_axis);
  apply_each(overrides.set, apply_set);
  if (overrides.only.empty()) return all_read;
  const ConfigNode node = ConfigNode::make_string(overrides.only, {argument("--only", overrides.only), 1, 1});
  Diagnostics of_expression;
  check_expression(node, node.text, 0, of_expression);
  if (of_expression.empty()) loaded.only = Expression::parse(overrides.only);
  diagnostics.add(of_expression.list());
  return all_read;
}

}  // namespace paceline
