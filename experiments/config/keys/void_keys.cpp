#include <algorithm>

#include <fmt/format.h>

#include "experiments/config/file/load_steps.h"
#include "experiments/config/keys/key_help.h"
#include "experiments/config/keys/schema.h"
#include "speculative/proposer_entry.h"

namespace paceline {
namespace {

/// Keys whose values decide whether `proposer` drafts: the one that is chosen, and options of those that have stages.
std::vector<std::string> deciders_of(const ProposerEntry& proposer) {
  std::vector<std::string> deciders = {"speculation.proposer"};
  for (const KeySpec& key : config_keys())
    if (key.scope == KeyScope::proposer && key.proposer->stages && key.proposer != &proposer)
      deciders.push_back(key.path);
  return deciders;
}

/// Keys whose values decide whether this one has an effect.
std::vector<std::string> deciders_of(const KeySpec& key) {
  switch (key.scope) {
    case KeyScope::always: return {};
    case KeyScope::speculation: return {"speculation.proposer"};
    case KeyScope::proposer: return deciders_of(*key.proposer);
    case KeyScope::second_model: {
      std::vector<std::string> deciders = deciders_of(*key.proposer);
      const std::string self = fmt::format("speculation.{}.self", key.proposer->name);
      if (find_key(self)) deciders.push_back(self);
      return deciders;
    }
    case KeyScope::static_batching: return {"engine.scheduler.batching"};
    case KeyScope::closed_loop:
    case KeyScope::random_arrivals:
    case KeyScope::gamma_arrivals:
    case KeyScope::trace_arrivals: return {"load.mode"};
  }
  return {};
}

/// Where a value was written; a later one overrides an earlier one.
enum class Layer : uint8_t { nowhere, inherited, file, command_line };

Layer layer_of(const LoadedConfig& loaded, const ConfigNode* node) {
  if (node == nullptr || !node->origin.source) return Layer::nowhere;
  if (node->origin.source->is_argument) return Layer::command_line;
  return node->origin.source->name == loaded.file.string() ? Layer::file : Layer::inherited;
}

const ConfigNode* axis_of(const LoadedConfig& loaded, const std::string& path) {
  const ConfigNode* const axes = loaded.written("sweep.axes");
  return axes ? axes->find(path) : nullptr;
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
  const ConfigNode* const profiles = loaded.tree.find("profiles");
  if (profiles == nullptr) return false;
  return std::any_of(profiles->members.begin(), profiles->members.end(), [&](const ConfigMember& profile) {
    const ConfigNode* const sweep = profile.value.find("sweep");
    return find_path(profile.value, path) || (sweep != nullptr && (sweep->find("axes") || sweep->find("include")));
  });
}

std::string complaint(const LoadedConfig& loaded, const KeySpec& key, const ConfigNode& node) {
  const SpeculationConfig& speculation = loaded.config.speculation;
  if (key.scope == KeyScope::speculation)
    return fmt::format("the proposer \"none\" drafts nothing, yet {} is {}: drop it, or name a proposer ({})",
                       last_part(key.path), node.describe(), fmt::join(proposer_names(ProposerNames::drafting), ", "));
  std::string now;
  for (const std::string& path : deciders_of(key)) {
    if (find_key(path)->proposer && !speculation.uses(*find_key(path)->proposer)) continue;
    if (axis_of(loaded, path))
      now += fmt::format("{}the axis {} has no such value", now.empty() ? "" : ", ", path);
    else
      now += fmt::format("{}{} is {}", now.empty() ? "" : ", ", path, find_key(path)->read(loaded.config).dump());
  }
  return fmt::format("{} is {}, which has an effect only with {}: here {}; drop it, or change that", key.path,
                     node.describe(), scope_text(key), now);
}

}  // namespace

void check_void_keys(const LoadedConfig& loaded, const UnsoundKeys& unsound, Diagnostics& out) {
  const std::vector<KeySpec>& keys = config_keys();
  for (const KeySpec& key : keys) {
    if (key.scope == KeyScope::always) continue;
    if (axis_of(loaded, key.path)) continue;  // cells that differ in it alone become one
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
      decided = std::max({decided, layer_of(loaded, axis_of(loaded, path)), layer_of(loaded, loaded.written(path))});
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
