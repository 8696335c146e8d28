// What the words of a file become before they are read: the command line lays its own over them, variables get values.

#include <algorithm>
#include <cstdlib>
#include <set>
#include <sstream>

#include "engine/util/suggest.h"
#include "experiments/config/file/load_steps.h"
#include "experiments/config/file/tree.h"
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

constexpr std::string_view kVariables = "vars.";

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
  if (option == "--set" && read.name.starts_with(kVariables)) return read;
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
  ConfigNode node = ConfigNode::make_string(text, origin);
  node.is_plain = true;
  return node;
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

/// "1..8" for "1-8"; empty for others.
std::string range_meant_by(const std::string& item) {
  const size_t dash = item.find('-');
  const auto is_number = [](std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
  };
  if (dash == std::string::npos) return "";
  const std::string from = item.substr(0, dash), to = item.substr(dash + 1);
  return is_number(from) && is_number(to) ? from + ".." + to : "";
}

/// sweep.include where each cell is a row of it, null where there are axes or no rows.
const ConfigNode* rows_alone(const LoadedConfig& loaded) {
  const ConfigNode *const rows = loaded.written("sweep.include"), *const axes = loaded.written("sweep.axes");
  return rows && !rows->items.empty() && !(axes && !axes->members.empty()) ? rows : nullptr;
}

/// `seen`: paths of the axes before it.
void apply_axis(LoadedConfig& loaded, const std::string& text, std::set<std::string>& seen, Diagnostics& diagnostics) {
  const Argument axis = read_argument("--axis", text);
  if (!seen.insert(axis.key->path).second)
    return diagnostics.add(axis.name_origin,
                           fmt::format("\"{0}\" stands twice: write all values behind one, {0}=1,2", axis.name));
  if (const ConfigNode* const rows = rows_alone(loaded))
    return diagnostics.add(
        axis.name_origin, fmt::format("cells are the {} rows of sweep.include here, and --axis would put a grid beside "
                                      "them: change a key of all with --set, or the rows",
                                      rows->items.size()));
  ConfigNode values;
  if (axis.value.starts_with("[") || axis.value.find("..") != std::string::npos) {
    values = argument_value(axis.value, nullptr, axis.value_origin);
  } else {
    values.kind = NodeKind::list;
    values.origin = axis.value_origin;
    std::istringstream items(axis.value);
    for (std::string item; std::getline(items, item, ',');) {
      const bool takes_numbers = axis.key->type == KeyType::integer || axis.key->type == KeyType::number;
      if (const std::string range = range_meant_by(item); takes_numbers && !range.empty())
        return diagnostics.add(axis.value_origin,
                               fmt::format("\"{}\" is no number: a range is written {}, a list 1,3,5", item, range));
      values.items.push_back(argument_value(item, axis.key, axis.value_origin));
    }
  }
  ConfigNode axes = ConfigNode::make_object(axis.name_origin, {{axis.key->path, axis.name_origin, std::move(values)}});
  lay_over(loaded, "sweep.axes", std::move(axes), diagnostics);
}

/// Whether a text of the tree holds `words`.
bool mentions(const ConfigNode& node, const std::string& words) {
  return (node.kind == NodeKind::string && node.text.find(words) != std::string::npos) ||
         std::any_of(node.items.begin(), node.items.end(), [&](const auto& item) { return mentions(item, words); }) ||
         std::any_of(node.members.begin(), node.members.end(),
                     [&](const ConfigMember& member) { return mentions(member.value, words); });
}

std::vector<std::string> names_in(const ConfigNode& object) {
  std::vector<std::string> names;
  for (const ConfigMember& member : object.members) names.push_back(member.key);
  return names;
}

/// Those set that the file, whose own are `names`, neither has nor asks for; once all is laid over it.
void check_variables(const LoadedConfig& loaded, const std::vector<std::string>& settings,
                     const std::vector<std::string>& names, Diagnostics& diagnostics) {
  for (const std::string& setting : settings) {
    if (!setting.starts_with(kVariables)) continue;
    const std::string name = setting.substr(kVariables.size(), setting.find('=') - kVariables.size());
    if (std::find(names.begin(), names.end(), name) != names.end() || mentions(loaded.tree, "${" + name + "}"))
      continue;
    diagnostics.add({argument("--set", setting), 1, 1},
                    fmt::format("unknown variable \"{}\"{}", name,
                                names.empty() ? ": the file has none" : did_you_mean(name, names)));
  }
}

constexpr const char* kOtherCell = "choose another cell with --cell";

/// The number of rows of sweep.include where each cell is one of them and all name the key; else 0.
size_t rows_that_decide(const LoadedConfig& loaded, const KeySpec& key) {
  const ConfigNode* const rows = rows_alone(loaded);
  if (!rows) return 0;
  const bool all_name_it = std::all_of(rows->items.begin(), rows->items.end(), [&](const ConfigNode& row) {
    return std::any_of(row.members.begin(), row.members.end(),
                       [&](const ConfigMember& member) { return find_key_or_alias(member.key) == &key; });
  });
  return all_name_it ? rows->items.size() : 0;
}

void apply_set(LoadedConfig& loaded, const std::string& text, bool takes_one_cell, Diagnostics& diagnostics) {
  const Argument set = read_argument("--set", text);
  ConfigNode value = argument_value(set.value, set.key, set.value_origin);
  if (!set.key) {
    const std::string variable = set.name.substr(kVariables.size());
    ConfigNode vars = ConfigNode::make_object(set.name_origin, {{variable, set.name_origin, std::move(value)}});
    return lay_over(loaded, "vars", std::move(vars), diagnostics);
  }
  Diagnostics of_value;  // comes when the value is laid over
  if (loaded.written_axis(set.key->path) &&
      (has_substitution(value) || is_deferred_expression(*set.key, value) || convert_value(*set.key, value, of_value)))
    diagnostics.add(set.name_origin,
                    fmt::format("\"{}\" is an axis of the sweep, which would overrule --set: {}", set.name,
                                takes_one_cell ? kOtherCell : fmt::format("use --axis {}={}", set.name, set.value)));
  if (const size_t rows = rows_that_decide(loaded, *set.key); rows > 0)
    diagnostics.add(
        set.name_origin,
        fmt::format("\"{}\" is in every row of sweep.include ({}), which would overrule --set: {}", set.name, rows,
                    takes_one_cell ? kOtherCell : "change the rows, or choose some with --only"));
  lay_over(loaded, set.key->path, std::move(value), diagnostics);
}

constexpr int kMaxLevels = 16;
constexpr size_t kMaxStringBytes = 64 << 10;
constexpr int kMaxSubstitutions = 100'000;

/// The substitution at hand cannot be done; the complaint is recorded.
struct Given {};

class Substituter {
 public:
  Substituter(const ConfigNode& root, Diagnostics& diagnostics) : diagnostics_(diagnostics) {
    if (const ConfigNode* vars = root.find("vars")) vars_ = *vars;
  }

  std::map<std::string, std::string> taken;  // from the environment

  void walk(ConfigNode& node) {
    if (node.kind == NodeKind::string && node.text.find("${") != std::string::npos) {
      ConfigNode value;
      value.unreadable = true;
      try {
        value = resolve(node, 0);
      } catch (const Given&) {
      }
      value.origin = node.origin;
      node = std::move(value);
    }
    for (ConfigNode& item : node.items) walk(item);
    for (ConfigMember& member : node.members) walk(member.value);
  }

 private:
  [[noreturn]] void give_up(const ConfigNode& node, std::string message) {
    diagnostics_.add(node.origin, std::move(message));
    throw Given{};
  }

  /// Offset of the '}' that closes the "${" at `begin`; substitutions nest in defaults.
  size_t closing(const ConfigNode& node, size_t begin) {
    int depth = 0;
    for (size_t i = begin; i < node.text.size(); ++i) {
      if (node.text.compare(i, 2, "${") == 0) {
        ++depth;
        ++i;
      } else if (node.text[i] == '}' && --depth == 0) {
        return i;
      }
    }
    give_up(node, fmt::format("\"{}\": this ${{ is never closed", node.text));
  }

  ConfigNode resolve(const ConfigNode& node, int level) {
    if (node.kind != NodeKind::string || node.text.find("${") == std::string::npos) return node;
    if (level > kMaxLevels) give_up(node, "variables refer to each other more than 16 levels deep: is there a circle?");
    ConfigNode result = ConfigNode::make_string("", node.origin);
    result.path_base = node.path_base ? node.path_base : node.origin.source;
    const std::string& text = node.text;
    for (size_t i = 0; i < text.size();) {
      if (text.compare(i, 3, "$${") == 0) {
        result.text += "${";
        i += 3;
      } else if (text.compare(i, 2, "${") == 0) {
        const size_t end = closing(node, i);
        ConfigNode value = lookup(node, text.substr(i + 2, end - i - 2), level);
        if (i == 0 && end + 1 == text.size()) return value;
        if (i == 0 && value.path_base) result.path_base = value.path_base;
        result.text += value.kind == NodeKind::boolean ? value.describe() : value.text;
        i = end + 1;
      } else {
        result.text += text[i++];
      }
      if (result.text.size() > kMaxStringBytes) give_up(node, "substitution gives a string longer than 64 KiB");
    }
    return result;
  }

  ConfigNode lookup(const ConfigNode& node, const std::string& inside, int level) {
    if (++num_substitutions_ > kMaxSubstitutions) give_up(node, "more than 100,000 substitutions");
    if (inside.starts_with("env:")) return environment(node, inside.substr(4), level);
    const ConfigNode* var = vars_.find(inside);
    if (!var) {
      give_up(node, fmt::format("unknown variable \"{}\" in \"{}\"{}", inside, node.text,
                                did_you_mean(inside, names_in(vars_))));
    }
    ConfigNode value = resolve(*var, level + 1);
    if (!value.path_base) value.path_base = var->origin.source;
    return value;
  }

  ConfigNode environment(const ConfigNode& node, const std::string& inside, int level) {
    const size_t split = inside.find(":-");
    const std::string name = inside.substr(0, split);
    ConfigNode value = ConfigNode::make_string("", node.origin);
    value.is_untyped = true;
    value.path_base = node.path_base;
    if (const char* found = std::getenv(name.c_str()); found && *found) {
      value.text = found;
      taken[name] = found;
      return value;
    }
    if (split == std::string::npos) {
      give_up(node,
              fmt::format("the environment variable {0} is not set: set it, or write ${{env:{0}:-default}}", name));
    }
    value.text = inside.substr(split + 2);
    return resolve(value, level + 1);
  }

  Diagnostics& diagnostics_;
  ConfigNode vars_;
  int num_substitutions_ = 0;
};

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
  std::set<std::string> axes;
  apply_each(overrides.axis, [&](LoadedConfig& to, const std::string& text, Diagnostics& complaints) {
    apply_axis(to, text, axes, complaints);
  });
  const ConfigNode* const vars = loaded.tree.find("vars");
  const std::vector<std::string> own_variables = vars ? names_in(*vars) : std::vector<std::string>();
  apply_each(overrides.set, [&](LoadedConfig& to, const std::string& text, Diagnostics& complaints) {
    apply_set(to, text, overrides.takes_one_cell, complaints);
  });
  check_variables(loaded, overrides.set, own_variables, diagnostics);
  if (overrides.only.empty()) return all_read;
  const ConfigNode node = ConfigNode::make_string(overrides.only, {argument("--only", overrides.only), 1, 1});
  Diagnostics of_expression;
  check_expression(node, node.text, 0, of_expression);
  if (of_expression.empty()) loaded.only = Expression::parse(overrides.only);
  diagnostics.add(of_expression.list());
  return all_read;
}

std::map<std::string, std::string> substitute_variables(ConfigNode& root, Diagnostics& diagnostics) {
  Substituter substituter(root, diagnostics);
  for (ConfigMember& member : root.members) {
    if (member.key != "vars" && member.key != "profiles") substituter.walk(member.value);
  }
  return substituter.taken;
}

}  // namespace paceline
