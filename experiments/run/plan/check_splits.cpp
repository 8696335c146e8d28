#include "experiments/run/plan/check_splits.h"

#include <map>
#include <optional>
#include <set>

#include "engine/weights/shard_weights_plan.h"
#include "experiments/run/engine_load.h"

namespace paceline {

namespace {

/// Where a cell's value of an integer key was written: in its axis, else under its own name.
Origin place_of(const LoadedConfig& loaded, const std::string& path, int value) {
  const ConfigNode* axes = loaded.written("sweep.axes");
  if (const ConfigNode* axis = axes ? axes->find(path) : nullptr) {
    for (const ConfigNode& item : axis->items) {
      if (item.kind == NodeKind::integer && item.integer == value) return item.origin;
    }
    return axis->origin;
  }
  return loaded.origin_of(loaded.written(path) ? path : "sweep.include");
}

std::optional<ModelSpec> spec_of(const ExperimentConfig& config) {
  if (config.engine.target.directory.empty()) return std::nullopt;
  try {
    return source_spec(target_source(config));
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

void check_splits(const LoadedConfig& loaded, const std::vector<Cell>& cells, SplitRule rule) {
  std::map<std::string, std::optional<ModelSpec>> specs;  // by folder and shape
  Diagnostics diagnostics;
  std::set<std::string> complained;
  const auto fits = [&](const ModelSpec& spec, int tp, int pp, const std::string& path) {
    try {
      validate_parallel(spec, tp, pp);
      return true;
    } catch (const Error& error) {
      if (complained.insert(error.what()).second)
        diagnostics.add(place_of(loaded, path, tp > 1 ? tp : pp), error.what());
      return false;
    }
  };
  bool some_can_run = false;
  for (const Cell& cell : cells) {
    if (cell.skip_reason) continue;
    const ExperimentConfig& config = cell.config;
    const std::string model =
        fmt::format("{}\n{}", config.engine.target.directory.string(), config.engine.target.shape_file.string());
    if (!specs.contains(model)) specs[model] = spec_of(config);
    if (!specs[model]) continue;
    const bool by_tp = fits(*specs[model], config.engine.parallel.tp, 1, "engine.parallel.tp");
    const bool by_pp = fits(*specs[model], 1, config.engine.parallel.pp, "engine.parallel.pp");
    some_can_run = some_can_run || (by_tp && by_pp);
  }
  if (rule == SplitRule::some_cell && some_can_run) return;
  diagnostics.throw_if_any();
}

}  // namespace paceline
