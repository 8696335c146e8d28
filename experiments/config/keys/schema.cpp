#include "experiments/config/keys/schema.h"

#include <algorithm>
#include <set>

#include "engine/util/suggest.h"
#include "experiments/config/keys/expression.h"
#include "experiments/config/vllm_flags.h"
#include "speculative/proposer_entry.h"

namespace paceline {

namespace {

constexpr std::pair<std::string_view, std::string_view> kAliases[] = {
    {"tp", "engine.parallel.tp"},
    {"pp", "engine.parallel.pp"},
    {"proposer", "speculation.proposer"},
    {"k", "speculation.num_speculative_tokens"},
    {"num_speculative_tokens", "speculation.num_speculative_tokens"},
    {"concurrency", "load.concurrency"},
    {"c", "load.concurrency"},  // as tables and ids of cells have it
    {"gpu_memory_utilization", "engine.kv_cache.memory_fraction"},
    {"swap_space", "engine.kv_cache.swap_space_gib"},
};

std::string join_path(std::string_view prefix, std::string_view name) {
  return prefix.empty() ? std::string(name) : fmt::format("{}.{}", prefix, name);
}

/// "engine.parallel" of "engine.parallel.tp"; "" of "tp".
std::string_view section_of(std::string_view path) {
  const size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? "" : path.substr(0, dot);
}

/// ` (did you mean "a" or "b"?)`; "" without a name.
std::string offer(const std::vector<std::string>& names) {
  return names.empty() ? "" : fmt::format(" (did you mean \"{}\"?)", fmt::join(names, "\" or \""));
}

/// Keys whose path ends in `name`, which may be of several parts: "draft.dtype".
std::vector<std::string> keys_ending_in(std::string_view name) {
  std::vector<std::string> keys;
  for (const KeySpec& key : config_keys())
    if (!name.empty() && key.path.ends_with(fmt::format(".{}", name))) keys.push_back(key.path);
  return keys;
}

/// Keys of `section` whose last part is the nearest to `name`; none where none is near.
std::vector<std::string> keys_like(std::string_view name, std::string_view section) {
  std::vector<std::string> parts;
  for (const KeySpec& key : config_keys())
    if (is_below(key.path, section)) parts.emplace_back(last_part(key.path));
  std::vector<std::string> keys = keys_ending_in(nearest_name(name, parts).value_or(""));
  std::erase_if(keys, [&](const std::string& key) { return !is_below(key, section); });
  return keys;
}

/// Where the keys of `section` can be read, for a name that is like none of them; of the nearest section where there is
/// no such section; "" at the top and where no section is near.
std::string where_keys_are_listed(std::string_view section) {
  if (section.empty()) return "";
  if (is_section(section)) return fmt::format(" (`runexp explain {}` lists what is there)", section);
  if (const std::string_view outer = section_of(section); !outer.empty()) return where_keys_are_listed(outer);
  const std::optional<std::string> near = nearest_name(section, names_below(""));
  if (!near || !is_section(*near)) return "";
  return fmt::format(" (did you mean \"{}\"? `runexp explain {}` lists what is there)", *near, *near);
}

/// What to do about `name`, which is no key of `section`.
std::string hint_for_unknown_name(std::string_view name, std::string_view section) {
  if (name == "<<") return " (merge keys of YAML are not read: use \"extends\")";
  const std::string path = join_path(section, name);
  if (name.find('.') != std::string_view::npos && (find_key(path) || find_key(name)))
    return " (write the dots as nested objects)";
  const std::string near = did_you_mean(name, names_below(section));
  return near.empty() ? hint_for_unknown_key(path) : near;
}

/// "+x" and "-x" without their mark; the mark, or '\0'.
char split_mark(std::string_view& name) {
  if (name.size() < 2 || (name[0] != '+' && name[0] != '-')) return '\0';
  const char mark = name[0];
  name.remove_prefix(1);
  return mark;
}

void validate_section(ConfigNode& node, const std::string& section, bool in_profile, Diagnostics& out);

void validate_outside(ConfigMember& member, const std::string& name, bool in_profile, Diagnostics& out) {
  ConfigNode& value = member.value;
  const auto expect = [&](bool fits, std::string_view expected) {
    if (!fits) out.add(value.origin, fmt::format("\"{}\" is {}: {}", name, value.describe(), expected));
  };
  if (in_profile && name != "vars" && name != "name") {
    return out.add(member.key_origin, fmt::format("\"{}\" cannot stand in a profile", name));
  } else if (name == "$schema" || name == "name") {
    expect(value.kind == NodeKind::string, "expected a string");
  } else if (name == "schema_version") {
    expect(value.kind == NodeKind::integer && value.integer == 1, "this program reads version 1");
  } else if (name == "extends") {
    const bool is_list =
        value.kind == NodeKind::list &&
        std::all_of(value.items.begin(), value.items.end(), [](auto& i) { return i.kind == NodeKind::string; });
    expect(is_list || value.kind == NodeKind::string, "expected the name of a file or a list of them");
  } else {
    expect(value.kind == NodeKind::object, "expected an object");
  }
  for (ConfigMember& each : value.members) {
    const bool is_object = each.value.kind == NodeKind::object;
    if (name == "profiles" && is_object)
      validate_section(each.value, "", true, out);
    else if (name == "profiles")
      out.add(each.value.origin,
              fmt::format("the profile \"{}\" is {}: expected an object of changes", each.key, each.value.describe()));
    else if (name == "vars" && (is_object || each.value.kind == NodeKind::list))
      out.add(each.value.origin, fmt::format("the variable \"{}\" is {}: expected a string, number or boolean",
                                             each.key, each.value.describe()));
  }
}

/// Aliases as keys become full paths; a mark stays in front. Unknown names stay and are complained about later.
void use_full_paths(ConfigNode& object, Diagnostics& out) {
  std::set<std::string> seen;
  for (ConfigMember& member : object.members) {
    std::string_view name = member.key;
    const char mark = split_mark(name);
    if (const KeySpec* key = find_key_or_alias(name)) member.key = mark ? mark + key->path : key->path;
    if (!seen.insert(member.key).second) {
      out.add(member.key_origin, fmt::format("duplicate key: \"{}\" is set twice here", member.key));
    }
  }
}

void validate_section(ConfigNode& node, const std::string& section, bool in_profile, Diagnostics& out) {
  for (ConfigMember& member : node.members) {
    std::string_view name = member.key;
    const char mark = split_mark(name);
    const std::string path = join_path(section, name);
    const bool is_dotted = name.find('.') != std::string_view::npos;
    const KeySpec* key = is_dotted ? nullptr : find_key(path);
    if (!key && (is_dotted || !is_section(path))) {
      const std::string where = section.empty() ? "" : fmt::format(" in \"{}\"", section);
      out.add(member.key_origin,
              fmt::format("unknown key \"{}\"{}{}", name, where, hint_for_unknown_name(name, section)));
    } else if (mark == '-') {
      continue;  // checked against what is inherited
    } else if (!key) {
      if (member.value.kind == NodeKind::object) {
        validate_section(member.value, path, in_profile, out);
      } else {
        out.add(member.value.origin, fmt::format("\"{}\" is {}: expected an object with the keys {}", path,
                                                 member.value.describe(), fmt::join(names_below(path), ", ")));
      }
    } else if (key->type == KeyType::outside) {
      validate_outside(member, path, in_profile, out);
    } else {
      if (key->type == KeyType::axes || key->type == KeyType::assignment) use_full_paths(member.value, out);
      if (key->type == KeyType::assignments || key->type == KeyType::patterns)
        for (ConfigNode& row : member.value.items) use_full_paths(row, out);
      if (has_substitution(member.value)) continue;
      if (is_deferred_expression(*key, member.value)) {
        check_expression(member.value, std::string_view(member.value.text).substr(1), 1, out);
      } else {
        convert_value(*key, member.value, out);
      }
    }
  }
}

}  // namespace

std::vector<std::string> names_below(std::string_view section) {
  std::vector<std::string> names;
  for (const KeySpec& key : config_keys()) {
    if (!is_below(key.path, section)) continue;
    const std::string_view rest = std::string_view(key.path).substr(section.empty() ? 0 : section.size() + 1);
    const std::string name(rest.substr(0, rest.find('.')));
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
}

const KeySpec* find_key(std::string_view path) {
  for (const KeySpec& key : config_keys()) {
    if (key.path == path) return &key;
  }
  return nullptr;
}

const KeySpec* find_key_or_alias(std::string_view name) {
  std::string folded(name);
  std::replace(folded.begin(), folded.end(), '-', '_');
  for (const auto& [alias, path] : kAliases) {
    if (folded == alias) return find_key(path);
  }
  return find_key(folded);
}

const KeySpec* key_of_setting(std::string_view setting) {
  return find_key_or_alias(setting.substr(0, setting.find('=')));
}

std::vector<std::string> aliases_of(const KeySpec& key) {
  std::vector<std::string> names;
  for (const auto& [alias, path] : kAliases) {
    if (path == key.path) names.emplace_back(alias);
  }
  return names;
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

std::vector<std::string> names_meant_by(std::string_view name) {
  if (std::vector<std::string> keys = keys_ending_in(name); !keys.empty()) return keys;
  if (const std::string_view section = section_of(name); !section.empty()) {
    if (std::vector<std::string> keys = keys_like(last_part(name), section); !keys.empty()) return keys;
    if (std::vector<std::string> keys = keys_ending_in(last_part(name)); !keys.empty()) return keys;
    if (const KeySpec* alias = find_key_or_alias(last_part(name))) return {alias->path};
  }
  const std::optional<std::string> near = nearest_name(name, key_names(false));
  // A long common section makes paths alike whose last parts have nothing in common.
  const bool ends_alike = near && nearest_name(last_part(name), {std::string(last_part(*near))});
  return ends_alike ? std::vector{*near} : std::vector<std::string>{};
}

std::string hint_for_unknown_key(std::string_view name) {
  const std::string_view section = section_of(name);
  const std::string_view last = last_part(name);
  const std::string of_vllm = keys_ending_in(last).empty() ? hint_for_vllm_name(last, section) : "";
  if (!of_vllm.empty()) return of_vllm;
  const std::vector<std::string> meant = names_meant_by(name);
  return meant.empty() ? where_keys_are_listed(section) : offer(meant);
}

bool is_below(std::string_view path, std::string_view section) {
  return section.empty() || (path.size() > section.size() && path.starts_with(section) && path[section.size()] == '.');
}

bool is_section(std::string_view path) {
  return std::any_of(config_keys().begin(), config_keys().end(),
                     [&](const KeySpec& key) { return !path.empty() && is_below(key.path, path); });
}

bool is_shape_name(std::string_view shape) {
  return shape.find('/') == std::string_view::npos && !shape.ends_with(".json");
}

std::string_view last_part(std::string_view path) {
  const size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? path : path.substr(dot + 1);
}

bool key_applies(const KeySpec& key, const ExperimentConfig& config) {
  const SpeculationConfig& speculation = config.speculation;
  if (key.proposer)
    return speculation.uses(*key.proposer) && (!key.is_void_for_self || !speculation.second_model()->self);
  const std::vector<std::string>& words = key.scope.words;
  if (words.empty()) return true;
  const nlohmann::ordered_json value = find_key(key.scope.key)->read(config);
  return std::any_of(words.begin(), words.end(), [&](const std::string& word) { return value == word; });
}

bool can_differ_between_cells(const KeySpec& key) {
  // All cells run the same requests: without that there is nothing to compare.
  const bool is_of_whole_run = key.path.starts_with("workload.") && key.path != "workload.chat_template";
  return key.in_identity && key.type <= KeyType::shape && !is_of_whole_run;
}

bool is_computable(const KeySpec& key) {
  return key.type == KeyType::integer || key.type == KeyType::number || key.type == KeyType::boolean;
}

bool is_deferred_expression(const KeySpec& key, const ConfigNode& node) {
  return is_computable(key) && node.kind == NodeKind::string && node.text.starts_with("=");
}

bool has_substitution(const ConfigNode& node) {
  if (node.kind == NodeKind::string) return node.text.find("${") != std::string::npos;
  return std::any_of(node.items.begin(), node.items.end(), has_substitution) ||
         std::any_of(node.members.begin(), node.members.end(),
                     [](const ConfigMember& member) { return has_substitution(member.value); });
}

namespace {

/// Why a word cannot be a value of the key that it is compared with, whose choices are known; else "". A comparison
/// with such a word has the same result in every cell.
std::string wrong_choice_text(const ExpressionComparison& comparison) {
  const KeySpec* const key = find_key_or_alias(comparison.name);
  if (!key || key->type != KeyType::choice || find_key_or_alias(comparison.word)) return "";
  std::vector<std::string> values = key->canonical_choices();
  if (!key->absent.empty()) values.push_back(key->absent);
  const std::string& word = comparison.word;
  if (std::find(values.begin(), values.end(), word) != values.end()) return "";
  for (const auto& [spelling, canonical] : key->choices)
    if (spelling == word) return fmt::format("\"{}\" is read as {}: write {}", word, canonical, canonical);
  return fmt::format("\"{}\" is no value of {}: there are {}{}", word, comparison.name, fmt::join(values, ", "),
                     did_you_mean(word, values));
}

}  // namespace

void check_expression(const ConfigNode& node, std::string_view text, size_t text_offset, Diagnostics& diagnostics) {
  const auto at = [&](size_t offset) {
    Origin origin = node.origin;
    const bool quoted = origin.source && !origin.source->is_argument;
    origin.column += static_cast<int>(offset + text_offset + (quoted ? 1 : 0));
    return origin;
  };
  try {
    const Expression expression = Expression::parse(text);
    std::set<size_t> complained;
    for (const ExpressionComparison& each : expression.comparisons()) {
      const std::string problem = wrong_choice_text(each);
      if (problem.empty()) continue;
      complained.insert(each.word_offset);
      diagnostics.add(at(each.word_offset), fmt::format("in the expression \"{}\": {}", text, problem));
    }
    for (const auto& [name, offset] : expression.names()) {
      if (name == "devices" || find_key_or_alias(name) || complained.contains(offset)) continue;
      const std::vector<KeySpec>& keys = config_keys();
      const bool is_choice = std::any_of(keys.begin(), keys.end(), [&, &word = name](const KeySpec& key) {
        return std::any_of(key.choices.begin(), key.choices.end(),
                           [&](const auto& choice) { return choice.first == word; });
      });
      if (is_choice) continue;  // a bare word to compare with: proposer == ngram
      std::vector<std::string> known = key_names(false);
      known.push_back("devices");
      diagnostics.add(at(offset), fmt::format("unknown name \"{}\" in the expression \"{}\"{}", name, text,
                                              did_you_mean(name, known)));
    }
  } catch (const ExpressionError& error) {
    diagnostics.add(at(error.offset), fmt::format("in the expression \"{}\": {}", text, error.message));
  }
}

void validate_tree(ConfigNode& root, Diagnostics& diagnostics) {
  if (root.kind != NodeKind::object) {
    diagnostics.add(root.origin, fmt::format("a configuration is an object {{...}}, found {}", root.describe()));
    return;
  }
  validate_section(root, "", false, diagnostics);
}

}  // namespace paceline
