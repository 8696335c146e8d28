#include <algorithm>
#include <optional>
#include <vector>

#include "engine/util/suggest.h"
#include "experiments/config/file/load_steps.h"
#include "experiments/config/keys/key_help.h"
#include "speculative/proposer_entry.h"

namespace paceline {

namespace {

/// Every key of the section, or of the one whose name is like `name`, and what else is called so.
void doubt_unknown_name(std::string_view name, const std::string& section, UnsoundKeys& unsound) {
  const std::string near = section.empty() ? nearest_name(name, names_below("")).value_or("-") : section;
  const KeySpec* const alias = find_key_or_alias(name);
  for (const KeySpec& key : config_keys())
    if (is_below(key.path, near) || key.path == near || &key == alias || last_part(key.path) == last_part(name))
      unsound.insert(key.path);
}

void doubt_section(const ConfigNode& node, const std::string& section, UnsoundKeys& unsound) {
  for (const ConfigMember& member : node.members) {
    const std::string path = section.empty() ? member.key : fmt::format("{}.{}", section, member.key);
    if (find_key(path)) continue;
    if (!is_section(path)) {
      doubt_unknown_name(member.key, section, unsound);
    } else if (member.value.kind == NodeKind::object) {
      doubt_section(member.value, path, unsound);
    } else {
      for (const KeySpec& key : config_keys())
        if (is_below(key.path, path)) unsound.insert(key.path);
    }
  }
}

void check_zip(const LoadedConfig& loaded, const UnsoundKeys& unsound, Diagnostics& out) {
  std::set<std::string> used;
  const Origin at = loaded.origin_of("sweep.zip");
  for (const std::vector<std::string>& group : loaded.config.sweep.zip) {
    std::optional<size_t> length;
    std::string measured;  // the axis that has it
    for (const std::string& path : group) {
      if (unsound.contains(path)) continue;
      const SweepAxis* const axis = loaded.config.sweep.find_axis(path);
      if (!used.insert(path).second) out.add(at, fmt::format("\"{}\" stands in sweep.zip twice", path));
      if (!axis) {
        out.add(at, fmt::format("sweep.zip names \"{}\", which is not an axis", path));
      } else if (length && *length != axis->values.size()) {
        out.add(at, fmt::format("zipped axes have equal lengths: \"{}\" has {} values, \"{}\" has {}", measured,
                                *length, path, axis->values.size()));
      } else {
        length = axis->values.size();
        measured = path;
      }
    }
  }
}

/// A value that stands twice on an axis would make the same cell twice; zipped axes may repeat theirs.
void check_repeated_values(const LoadedConfig& loaded, Diagnostics& out) {
  for (const SweepAxis& axis : loaded.config.sweep.axes) {
    const ConfigNode* const node = loaded.written_axis(axis.path);
    if (loaded.config.sweep.is_zipped(axis.path) || !node || node->kind != NodeKind::list) continue;
    std::set<std::string> seen;
    for (size_t i = 0; i < axis.values.size(); ++i) {
      if (!seen.insert(axis.values[i].dump()).second) {
        out.add(node->items[i].origin,
                fmt::format("the axis \"{}\" holds {} twice", axis.path, node->items[i].describe()));
      }
    }
  }
}

/// A contradiction is named here unless cells may resolve it.
void check_conflicts(const LoadedConfig& loaded, const UnsoundKeys& unsound, Diagnostics& out) {
  const auto varies = [&](const std::string& path) {
    const SweepConfig& sweep = loaded.config.sweep;
    return sweep.find_axis(path) || std::any_of(sweep.include.begin(), sweep.include.end(),
                                                [&](const ConfigJson& row) { return row.contains(path); });
  };
  const auto check = [&](const ExperimentConfig& config, const std::string& given) {
    for (const ConfigConflict& conflict : find_conflicts(config)) {
      const bool is_open = std::any_of(conflict.involved.begin(), conflict.involved.end(), [&](const auto& path) {
        return unsound.contains(path) || (path != given && varies(path));
      });
      if (!is_open) out.add(loaded.origin_of(conflict.key), conflict.message);
    }
  };
  const std::string proposer = "speculation.proposer";
  if (!varies(proposer)) return check(loaded.config, "");
  // A proposer of the sweep that could run in no cell is a mistake, not a list of skipped cells.
  const SweepAxis* const axis = loaded.config.sweep.find_axis(proposer);
  if (!axis) return;  // rows of include alone
  for (const ConfigJson& value : axis->values) {
    ExperimentConfig config = loaded.config;
    config.speculation.proposer = value.get<std::string>();
    check(config, proposer);
  }
}

/// Keys whose values decide whether this one has an effect.
std::vector<std::string> deciders_of(const KeySpec& key) {
  std::vector<std::string> deciders = {key.scope.key};
  for (const KeySpec& other : config_keys())
    if (key.proposer && other.proposer && other.proposer->stages && other.proposer != key.proposer)
      deciders.push_back(other.path);
  if (key.is_void_for_self) deciders.push_back(fmt::format("speculation.{}.self", key.proposer->name));
  return deciders;
}

/// Where a value was written; a later one overrides an earlier one.
enum class Layer : uint8_t { nowhere, inherited, file, command_line };

Layer layer_of(const LoadedConfig& loaded, const ConfigNode* node) {
  if (node == nullptr || !node->origin.source) return Layer::nowhere;
  if (node->origin.source->is_argument) return Layer::command_line;
  return node->origin.source->name == loaded.file.string() ? Layer::file : Layer::inherited;
}

/// The file's configuration with every value that the sweep gives to the deciders.
std::vector<ExperimentConfig> variants(const LoadedConfig& loaded, const std::vector<std::string>& deciders) {
  const SweepConfig& sweep = loaded.config.sweep;
  std::vector<ExperimentConfig> all = {loaded.config};
  for (const std::string& path : deciders) {
    const KeySpec& key = *find_key(path);
    const SweepAxis* const axis = sweep.find_axis(path);
    if (!axis) continue;
    std::vector<ExperimentConfig> next;
    for (const ExperimentConfig& config : all)
      for (const ConfigJson& value : axis->values) key.assign(next.emplace_back(config), value);
    all = std::move(next);
  }
  for (const ConfigJson& row : sweep.include) {
    ExperimentConfig config = loaded.config;
    for (const std::string& path : deciders)
      if (row.contains(path)) find_key(path)->assign(config, row[path]);
    all.push_back(std::move(config));
  }
  return all;
}

bool some_profile_sets(const LoadedConfig& loaded, const std::string& path) {
  const ConfigNode* const profiles = loaded.written("profiles");
  return profiles && std::any_of(profiles->members.begin(), profiles->members.end(), [&](const ConfigMember& profile) {
           const ConfigNode& changes = profile.value;
           return find_path(changes, path) || find_path(changes, "sweep.axes") || find_path(changes, "sweep.include");
         });
}

std::string complaint(const LoadedConfig& loaded, const KeySpec& key, const ConfigNode& node) {
  const SpeculationConfig& speculation = loaded.config.speculation;
  if (!key.proposer && key.scope.key == "speculation.proposer")
    return fmt::format("the proposer \"none\" drafts nothing, yet {} is {}: drop it, or name a proposer ({})",
                       last_part(key.path), node.describe(), fmt::join(proposer_names(ProposerNames::drafting), ", "));
  std::vector<std::string> now;
  for (const std::string& path : deciders_of(key)) {
    if (find_key(path)->proposer && !speculation.uses(*find_key(path)->proposer)) continue;
    now.push_back(loaded.written_axis(path)
                      ? fmt::format("the axis {} has no such value", path)
                      : fmt::format("{} is {}", path, find_key(path)->read(loaded.config).dump()));
  }
  return fmt::format("{} is {}, which has an effect only with {}: here {}; drop it, or change that", key.path,
                     node.describe(), scope_text(key), fmt::join(now, ", "));
}

}  // namespace

UnsoundKeys keys_in_doubt(const ConfigNode& tree) {
  UnsoundKeys unsound;
  doubt_section(tree, "", unsound);
  const ConfigNode* const axes = find_path(tree, "sweep.axes");
  if (!axes) return unsound;
  for (const ConfigMember& axis : axes->members) {
    if (find_key(axis.key)) continue;
    for (const std::string& name : names_meant_by(axis.key)) unsound.insert(find_key_or_alias(name)->path);
  }
  return unsound;
}

void check_values_together(const LoadedConfig& loaded, const UnsoundKeys& unsound, Diagnostics& out) {
  check_zip(loaded, unsound, out);
  if (!unsound.contains("sweep.zip")) check_repeated_values(loaded, out);
  check_conflicts(loaded, unsound, out);
}

void check_void_keys(const LoadedConfig& loaded, const UnsoundKeys& unsound, Diagnostics& out) {
  for (const KeySpec& key : config_keys()) {
    if (key.scope.key.empty()) continue;
    if (loaded.written_axis(key.path)) continue;  // cells that differ in it alone become one
    const ConfigNode* const node = loaded.written(key.path);
    const Layer layer = layer_of(loaded, node);
    if (layer < Layer::file) continue;
    const std::vector<std::string> deciders = deciders_of(key);
    if (unsound.contains(key.path) ||
        std::any_of(deciders.begin(), deciders.end(), [&](const std::string& path) { return unsound.contains(path); }))
      continue;
    Layer decided = Layer::nowhere;
    bool by_profile = false;
    for (const std::string& path : deciders) {
      decided =
          std::max({decided, layer_of(loaded, loaded.written_axis(path)), layer_of(loaded, loaded.written(path))});
      by_profile = by_profile || some_profile_sets(loaded, path);
    }
    if (decided > layer || (by_profile && layer == Layer::file)) continue;
    // A file that others extend sets keys for proposers that those name.
    if (decided == Layer::nowhere && layer == Layer::file && key.path.starts_with("speculation.") &&
        loaded.is_fragment())
      continue;
    const std::vector<ExperimentConfig> cells = variants(loaded, deciders);
    if (std::none_of(cells.begin(), cells.end(), [&](const ExperimentConfig& c) { return key_applies(key, c); }))
      out.add(node->origin, complaint(loaded, key, *node));
  }
}

}  // namespace paceline
