#pragma once
// From one experiment to its cells: the grid of sweep.axes, what joins and leaves it, who is compared with whom.

#include <optional>
#include <string>
#include <vector>

#include "experiments/config/devices.h"
#include "experiments/config/file/load.h"
#include "experiments/results/results.h"

namespace paceline {

struct ExpandContext {
  int devices = 1;      // value of `devices` in constraints; on the CPU devices are threads and any number "exists"
  Gpus gpus{0, false};  // that ranks may take
};

/// What this machine has for the cells of `engine`.
ExpandContext machine_context(const EngineConfig& engine);

/// One point of the sweep. A skipped cell is listed, never run.
struct Cell {
  std::string id;                             // "tp2_pp1_ngram_k5_c8", unique within the sweep
  std::string label;                          // from sweep.include, else empty
  std::optional<PublishedSpeedup> published;  // likewise
  ConfigJson axes;          // {tp, pp, proposer, num_speculative_tokens (0 for none), concurrency} and every other key
                            // that varies, by full path (null where it is void)
  ExperimentConfig config;  // with config.sweep emptied of axes, include and exclude
  std::optional<size_t> baseline;  // index of the cell this one is compared with; none for baseline cells themselves
  bool is_baseline = false;
  std::optional<std::string> skip_reason;
  std::string load_key;     // cells with equal keys share one engine load or server; they stand next to each other
  std::string draft_key;    // "" without a draft model, else equal for cells that draft with the same model
  std::string config_hash;  // of config_identity(config)

  /// They are measured by turns, repetition by repetition: cells of one load, and all that servers run.
  bool takes_turns_with(const Cell& other) const {
    return load_key == other.load_key || (config.is_served() && other.config.is_served());
  }
};

constexpr size_t kMaxCells = 100'000;

/// All cells in the order in which to run them: axes that force an engine load outermost. A draft model is attached to
/// a loaded target, so proposers share a load. Cells that only differ in void keys (k for none) collapse into the
/// first.
/// `--only` keeps the baselines of what it selects. Throws ConfigError: more than kMaxCells, duplicate include, a
/// baseline that no cell can be, nothing selected.
std::vector<Cell> expand(const LoadedConfig& loaded, const ExpandContext& context);

/// The cells, and how many points of the sweep are not among them.
struct ExpandedSweep {
  std::vector<Cell> cells;
  int64_t num_excluded = 0;    // sweep.exclude took them out
  int64_t num_collapsed = 0;   // differ from a cell in void keys only
  int64_t num_unselected = 0;  // --only left them out
};

/// expand() with counts.
ExpandedSweep expand_counted(const LoadedConfig& loaded, const ExpandContext& context);

/// Which cells must be fit to run: a sweep goes on while there is one that can.
enum class SplitRule : uint8_t { every_cell, some_cell };

/// Throws ConfigError at the places where tp or pp was written when targets cannot be split that way, as `rule` says.
/// Reads config.json of each target once. A target that cannot be read is left to plan_load(), which says why.
void check_splits(const LoadedConfig& loaded, const std::vector<Cell>& cells, SplitRule rule);

/// Threads of one CPU rank where the file says auto: cores / the largest tp*pp among the cells that fits the cores.
int auto_threads_per_rank(const std::vector<Cell>& cells, int num_cores);

}  // namespace paceline
