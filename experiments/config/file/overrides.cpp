#include <set>
#include <sstream>

#include "engine/util/suggest.h"
#include "experiments/config/file/load_steps.h"
#include "experiments/config/file/parse.h"
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

/// `option key=value`.
struct Argument {
  std::string name, value;
  Origin name_origin, value_origin;
  const KeySpec* key = nullptr;  // null: the name is that of a variable, "vars.NAME"
};

Argument read_argument(const std::string& option, const std::string& text) {
  const auto source = argument(option, text);
  const size_t equals = text.find('=');
  if (equals == 0 || equals == std::string::npos)
    fail_at({source, 1, 1}, fmt::format("expected key=value, found \"{}\"", text));
  Argument read = {
      text.substr(0, equals), text.substr(equals + 1), {source, 1, 1}, {source, 1, static_cast<int>(equals) + 2}};
  if (option == "--set" && read.name.starts_with("vars.")) return read;
  read.key = find_key_or_alias(read.name);
  if (!read.key || (read.key->type == KeyType::outside && read.key->path != "name"))
    fail_at(read.name_origin, fmt::format("unknown key \"{}\"{}", read.name, hint_for_unknown_key(read.name)));
  return read;
}

/// A value on the command line: JSON where it is JSON and `key` takes no text, else the text itself.
ConfigNode argument_value(const std::string& text, const KeySpec* key, const Origin& origin) {
  static const std::set<KeyType> kTexts = {KeyType::text, KeyType::choice, KeyType::path, KeyType::shape,
                                           KeyType::outside};
  if (!key || !kTexts.contains(key->type) || text.starts_with("\"")) {
    Diagnostics problems;
    ConfigNode node = parse_jsonc(argument("", text), problems);
    if (problems.empty()) {
      move_origin(node, origin);
      return node;
    }
  }
  return ConfigNode::make_string(text, origin);
}

/// Lays {"a": {"b": value}} over the tree, for the path a.b.
void lay_over(LoadedConfig& loaded, std::string_view path, ConfigNode value, Diagnostics& diagnostics) {
  const Origin origin = value.origin;
  for (size_t dot; (dot = path.rfind('.')) != std::string_view::npos; path = path.substr(0, dot))
    value = ConfigNode::make_object(origin, {{std::string(path.substr(dot + 1)), origin, std::move(value)}});
  ConfigNode overlay = ConfigNode::make_object(origin, {{std::string(path), origin, std::move(value)}});
  validate_tree(overlay, diagnostics);
  merge_config(loaded.tree, overlay, diagnostics);
}

bool apply_profile(LoadedConfig& loaded, const std::string& name, Diagnostics& diagnostics) {
  const ConfigNode* const profiles = loaded.written("profiles");
  for (const ConfigMember& member : profiles ? profiles->members : std::vector<ConfigMember>())
    loaded.profiles.push_back(member.key);
  if (name.empty()) return true;
  const ConfigNode* const profile = profiles ? profiles->find(name) : nullptr;
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
  const Argument axis = read_argument("--axis", text);
  ConfigNode values;
  if (axis.value.starts_with("[") || axis.value.find("..") != std::string::npos) {
    values = argument_value(axis.value, nullptr, axis.value_origin);
  } else {
    values.kind = NodeKind::list;
    values.origin = axis.value_origin;
    std::istringstream items(axis.value);
    for (std::string item; std::getline(items, item, ',');)
      values.items.push_back(argument_value(item, axis.key, axis.value_origin));
  }
  ConfigNode axes = ConfigNode::make_object(axis.name_origin, {{axis.key->path, axis.name_origin, std::move(values)}});
  lay_over(loaded, "sweep.axes", std::move(axes), diagnostics);
}

void apply_set(LoadedConfig& loaded, const std::string& text, Diagnostics& diagnostics) {
  const Argument set = read_argument("--set", text);
  ConfigNode value = argument_value(set.value, set.key, set.value_origin);
  if (!set.key) {
    const std::string variable = set.name.substr(std::string_view("vars.").size());
    ConfigNode vars = ConfigNode::make_object(set.name_origin, {{variable, set.name_origin, std::move(value)}});
    return lay_over(loaded, "vars", std::move(vars), diagnostics);
  }
  const ConfigNode* const axes = loaded.written("sweep.axes");
  Diagnostics of_value;  // comes when the value is laid over
  if (axes && axes->find(set.key->path) &&
      (has_substitution(value) || is_deferred_expression(*set.key, value) || convert_value(*set.key, value, of_value)))
    diagnostics.add(set.name_origin, fmt::format("\"{0}\" is an axis of the sweep, which would overrule --set: use "
                                                 "--axis {0}={1}",
                                                 set.name, set.value));
  lay_over(loaded, set.key->path, std::move(value), diagnostics);
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
