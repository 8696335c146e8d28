#include "experiments/run/plan/planned_cell.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/util/counted.h"
#include "engine/util/json_io.h"
#include "engine/util/printable.h"
#include "experiments/config/file/builtin_root.h"
#include "experiments/run/engine_load.h"
#include "experiments/workload/arrivals.h"
#include "experiments/workload/requests.h"
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

/// Of a server that is not ours: its model by the name that it goes by.
std::string model_of_server(const ServerConfig& server) {
  return server.model ? *server.model : "the model of " + (server.endpoint ? *server.endpoint : *server.command);
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
  result.model = cell.config.is_foreign() ? model_of_server(cell.config.server) : target_name(cell.config);
  result.load = load_text(cell.config.load);
  result.random_weights = cell.config.engine.target.load_format == "dummy" && !cell.config.is_foreign();
  result.forced = cell.config.speculation.entry().bound == DraftBound::stated;
  result.published = cell.published;
  result.baseline_id = cell.is_baseline ? cell.id : cell.baseline ? cells[*cell.baseline].id : "";
  if (cell.skip_reason) {
    result.status = CellStatus::skipped;
    result.reason = *cell.skip_reason;
  }
  return result;
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

PlannedRequests::PlannedRequests(const WorkloadConfig& workload) {
  if (workload.file.empty()) fail_without_builtin_root(workload.dataset);
  std::error_code unknown;
  const uintmax_t bytes = std::filesystem::file_size(workload.file, unknown);
  were_read_ = unknown || bytes <= kMostDatasetBytes;
  if (were_read_) prompts_ = read_workload(workload).requests;
}

const std::vector<EncodedPrompt>& PlannedRequests::encoded_for(const ExperimentConfig& cell) {
  const PromptEncoding encoding = prompt_encoding(cell);
  if (const auto known = encoded_.find(encoding); known != encoded_.end()) return known->second;
  const auto tokenizer = load_tokenizer(cell.engine.target);
  return encoded_.emplace(encoding, encode_prompts(prompts_, *tokenizer, encoding.model, encoding.format))
      .first->second;
}

void PlannedRequests::check_fit(const ExperimentConfig& cell, const LengthLimit& limit) {
  constexpr int kLeastOutput = 1;
  if (!surely_fit(prompts_, kLeastOutput, limit.max_model_len)) check_prompts_fit(encoded_for(cell), limit);
}

double PlannedRequests::mean_output(const ExperimentConfig& cell, const LengthLimit& limit) {
  const int max_tokens = cell.sampling.max_tokens;
  if (prompts_.empty()) return std::min(max_tokens, limit.max_model_len - 1);
  double sum = 0;
  if (surely_fit(prompts_, max_tokens, limit.max_model_len)) {
    for (const Prompt& prompt : prompts_) sum += wanted_output(prompt.max_tokens, max_tokens);
  } else {
    for (const EncodedPrompt& prompt : encoded_for(cell)) sum += longest_output(prompt, max_tokens, limit);
  }
  return sum / double(prompts_.size());
}

std::string PlannedRequests::cut_outputs(const ExperimentConfig& cell, const LengthLimit& limit) {
  const int max_tokens = cell.sampling.max_tokens;
  return surely_fit(prompts_, max_tokens, limit.max_model_len) ? ""
                                                               : cut_outputs_text(encoded_for(cell), max_tokens, limit);
}

void check_not_all_skipped(const std::vector<Cell>& cells) {
  if (std::ranges::any_of(cells, [](const Cell& cell) { return !cell.skip_reason; })) return;
  const Cell& first = cells.front();
  fail(ExitCode::usage, "all {} are skipped; {}: {}", counted(int64_t(cells.size()), "cell"), first.id,
       *first.skip_reason);
}

}  // namespace paceline
