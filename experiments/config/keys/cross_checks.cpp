#include <algorithm>
#include <optional>
#include <vector>

#include "engine/util/suggest.h"
#include "experiments/config/file/load_steps.h"
#include "experiments/config/keys/schema.h"

namespace paceline {

namespace {

/// Every key of the section itself, and of the parts of it whose names are like `name`.
void doubt_unknown_name(std::string_view name, std::string_view section, UnsoundKeys& unsound) {
  const std::string full = section.empty() ? std::string(name) : fmt::format("{}.{}", section, name);
  std::vector<std::string> parts;
  const auto part_of = [&](const KeySpec& key) {
    std::string_view rest = std::string_view(key.path).substr(section.empty() ? 0 : section.size() + 1);
    return std::string(rest.substr(0, rest.find('.')));
  };
  for (const KeySpec& key : config_keys())
    if (is_below(key.path, section)) parts.push_back(part_of(key));
  const std::optional<std::string> near = nearest_name(name, parts);
  const KeySpec* const alias = find_key_or_alias(name);
  for (const KeySpec& key : config_keys()) {
    const bool in_section = is_below(key.path, section);
    const bool is_own = in_section && !section.empty() && key.path.size() == section.size() + 1 + part_of(key).size();
    if (is_own || (in_section && part_of(key) == near) || key.path == full || key.path == name || &key == alias ||
        last_part(key.path) == last_part(name))
      unsound.insert(key.path);
  }
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
  const ConfigNode* axes = loaded.written("sweep.axes");
  for (const SweepAxis& axis : loaded.config.sweep.axes) {
    const ConfigNode* node = axes ? axes->find(axis.path) : nullptr;
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
  if (!varies(proposer)) {
    check(loaded.config, "");
    return;
  }
  // A proposer of the sweep that could run in no cell is a mistake, not a list of skipped cells.
  const SweepAxis* const axis = loaded.config.sweep.find_axis(proposer);
  if (!axis) return;  // rows of include alone
  for (const ConfigJson& value : axis->values) {
    if (!value.is_string()) continue;
    ExperimentConfig config = loaded.config;
    config.speculation.proposer = value.get<std::string>();
    check(config, proposer);
  }
}

}  // namespace

UnsoundKeys keys_in_doubt(const ConfigNode& tree) {
  UnsoundKeys unsound;
  doubt_section(tree, "", unsound);
  const ConfigNode* const sweep = tree.find("sweep");
  const ConfigNode* const axes = sweep ? sweep->find("axes") : nullptr;
  if (!axes) return unsound;
  for (const ConfigMember& axis : axes->members) {
    if (find_key(axis.key)) continue;
    for (const std::string& name : names_meant_by(axis.key)) unsound.insert(find_key_or_alias(name)->path);
    for (const KeySpec& key : config_keys())
      if (last_part(key.path) == last_part(axis.key)) unsound.insert(key.path);
  }
  return unsound;
}

void check_values_together(const LoadedConfig& loaded, const UnsoundKeys& unsound, Diagnostics& out) {
  check_zip(loaded, unsound, out);
  if (!unsound.contains("sweep.zip")) check_repeated_values(loaded, out);
  check_conflicts(loaded, unsound, out);
}

}  // namespace paceline
