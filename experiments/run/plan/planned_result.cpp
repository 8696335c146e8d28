#include "experiments/run/plan/planned_result.h"

#include <fmt/format.h>

#include "engine/util/json_io.h"
#include "engine/util/printable.h"
#include "experiments/run/engine_load.h"
#include "experiments/run/plan/forecast.h"
#include "experiments/workload/arrivals.h"
#include "speculative/proposer_entry.h"

namespace paceline {
namespace {

/// The row's label, or the swept keys that are no axis of the tables: "batching=static".
std::string variant_of(const Cell& cell) {
  if (!cell.label.empty()) return cell.label;
  const bool open_loop = is_open_loop(cell.config.load.mode);
  std::string text = open_loop ? load_text(cell.config.load) : "";
  for (const auto& [key, value] : cell.axes.items()) {
    if (key.find('.') == std::string::npos || value.is_null() || (open_loop && key.starts_with("load."))) continue;
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", key.substr(key.rfind('.') + 1), bare_text(value));
  }
  return text;
}

}  // namespace

CellResult planned_result(const Cell& cell, int index, const std::vector<Cell>& cells) {
  CellResult result;
  result.index = index;
  result.id = cell.id;
  result.identity = cell.config_hash;
  result.axes.tp = cell.config.engine.parallel.tp;
  result.axes.pp = cell.config.engine.parallel.pp;
  result.axes.proposer = cell.config.speculation.proposer;
  if (cell.config.speculation.drafts())
    result.axes.num_speculative_tokens = cell.config.speculation.num_speculative_tokens;
  result.axes.concurrency = cell.config.load.mode == LoadMode::closed ? cell.config.load.concurrency : 0;
  result.axes.variant = printable(variant_of(cell));
  result.requested = config_to_json(cell.config);
  result.model = target_name(cell.config);
  result.load = load_text(cell.config.load);
  result.random_weights = cell.config.engine.target.load_format == "dummy";
  result.forced = cell.config.speculation.entry().bound == DraftBound::stated;
  result.published = cell.published;
  result.baseline_id = cell.is_baseline ? cell.id : cell.baseline ? cells[*cell.baseline].id : "";
  if (cell.skip_reason) {
    result.status = CellStatus::skipped;
    result.reason = *cell.skip_reason;
  }
  return result;
}

void predict_steps(const std::vector<Cell>& cells, int auto_threads, std::vector<CellResult>& results) {
  Forecaster forecaster(cells, auto_threads);
  for (size_t i = 0; i < cells.size(); ++i) {
    if (cells[i].skip_reason) continue;
    try {
      results[i].forecast = forecaster.step(cells[i]);
    } catch (const Error&) {  // its load says so
    }
  }
}

std::vector<std::string> effective_differences(const Cell& cell, const nlohmann::json& effective) {
  std::vector<std::string> differences;
  const auto compare = [&](const char* key, const nlohmann::json& asked) {
    if (effective.at(key) != asked)
      differences.push_back(fmt::format("{}: asked {}, got {}", key, asked.dump(), effective.at(key).dump()));
  };
  const ExperimentConfig& config = cell.config;
  compare("numerics", names_of(config.engine.numerics)[size_t(config.engine.numerics)]);
  compare("tp", config.engine.parallel.tp);
  compare("pp", config.engine.parallel.pp);
  compare("proposer", config.speculation.proposer);
  compare("num_speculative_tokens", config.speculation.drafts() ? config.speculation.num_speculative_tokens : 0);
  const int target_tp = config.engine.parallel.tp;
  if (const SecondModelConfig* const draft = config.speculation.draft_model())
    compare("draft_tp", draft->self ? target_tp : draft->tp.value_or(target_tp));
  compare("load_format", config.engine.target.load_format);
  compare("shape", config.engine.target.shape_file.stem().string());
  compare("block_size", config.engine.kv_cache.block_size);
  compare("prefix_caching", config.engine.kv_cache.prefix_caching);
  if (config.engine.parallel.threads_per_rank) compare("threads_per_rank", *config.engine.parallel.threads_per_rank);
  return differences;
}

}  // namespace paceline
