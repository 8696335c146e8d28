#include "experiments/run/host/engine_host.h"

#include <algorithm>
#include <utility>

#include "engine/util/clock.h"
#include "engine/util/counted.h"
#include "experiments/analysis/outputs/flips.h"
#include "experiments/analysis/outputs/output_comparison.h"
#include "experiments/config/devices.h"
#include "experiments/run/measure/measure_devices.h"
#include "experiments/run/measure/target_logits.h"
#include "experiments/run/plan/planned_cell.h"
#include "experiments/run/supervise.h"
#include "experiments/workload/request_sampling.h"
#include "speculative/proposer_entry.h"

namespace paceline {
namespace {

/// Says once in a run that outputs end at the length of a sequence.
void tell_of_cut_outputs(SweepUnderWay& sweep, const std::vector<size_t>& cells, std::span<const EncodedPrompt> prompts,
                         const LengthLimit& limit) {
  if (sweep.told_of_lengths) return;
  int max_tokens = 0;
  for (const size_t index : cells) max_tokens = std::max(max_tokens, sweep.cells[index].config.sampling.max_tokens);
  const std::string text = cut_outputs_text(prompts, max_tokens, limit);
  if (text.empty()) return;
  sweep.told_of_lengths = true;
  sweep.progress.message(text + "\n");
}

}  // namespace

EngineHost::EngineHost(SweepUnderWay& sweep, std::vector<size_t> planned)
    : sweep_(sweep),
      planned_(std::move(planned)),
      limits_(limits_of(sweep.cells, sweep.cells[planned_.front()].load_key, sweep.run.info.auto_threads_per_rank)) {
  limits_.kept = &sweep.kept_by_proposers;
  for (const size_t index : planned_) limits_.cells.push_back(&sweep.cells[index].config);
}

void EngineHost::open() {
  const ExperimentConfig& first = sweep_.cells[planned_.front()].config;
  const auto with_draft =
      std::find_if(planned_.begin(), planned_.end(), [&](size_t i) { return !sweep_.cells[i].draft_key.empty(); });
  const ExperimentConfig& config = with_draft == planned_.end() ? first : sweep_.cells[*with_draft].config;
  load_ = std::make_unique<EngineLoad>(config, limits_);
  ready_s_ += load_->load_seconds();
  const MemoryPlan& memory = load_->plan().memory;
  sweep_.log->line("load", fmt::format("{} on tp{} pp{}, {} a rank, in {:.3f} s: {} bytes of weights, {} of KV",
                                       target_name(config), config.engine.parallel.tp, config.engine.parallel.pp,
                                       counted(limits_.threads_per_rank, "thread"), load_->load_seconds(),
                                       memory.weight_bytes, memory.target_kv_bytes + memory.draft_kv_bytes));
  const LengthLimit limit = length_limit(first, load_->plan());
  prompts_ = encode_for(sweep_, first, *load_->tokenizer(), limit);
  tell_of_cut_outputs(sweep_, planned_, prompts_, limit);
}

RepetitionOptions EngineHost::options_for(const ExperimentConfig& config, int repetition) {
  return {.sampling = sampling_of_repetition(config.sampling, repetition, prompts_.size()),
          .concurrency = config.load.mode == LoadMode::closed ? config.load.concurrency : 0,
          .timeout_s = config.sweep.cell_timeout_s,
          .stop_now = [this] { return sweep_.stop_now(); }};
}

RepetitionResult EngineHost::run_pass(const ExperimentConfig& config, std::span<const EncodedPrompt> prompts,
                                      const RepetitionOptions& options) {
  const WatchedPass watched(options.timeout_s);
  return run_repetition(*load_, config, prompts, options);
}

void EngineHost::warm_up_pass(const Cell& cell) {
  const bool needs_all = cell.config.speculation.entry().knows_texts();
  const size_t wanted = needs_all ? prompts_.size() : size_t(std::max(0, cell.config.measure.warmup_requests));
  const size_t count = std::min(prompts_.size(), wanted);
  // Without arrivals an open loop warms up with all of these at once.
  if (count > 0) run_pass(cell.config, std::span(prompts_).first(count), options_for(cell.config));
}

/// A pass that is not measured, as noting drafts takes time.
void EngineHost::record_drafts(const Cell& cell, const CellResult& result) {
  if (!cell.config.measure.record_drafts || !cell.config.speculation.drafts()) return;
  DraftRecord record;
  RepetitionOptions options = options_for(cell.config);
  options.record_drafts = &record;
  run_pass(cell.config, prompts_, options);
  sweep_.folder->write_drafts(result, draft_record_text(record));
}

/// Of CPUs for each cell, as they depend on where its weights lie; of GPUs once for each placement and kind of
/// numerics.
DeviceCeilings EngineHost::ceilings_for(const ExperimentConfig& config) {
  if (!on_cuda(config.engine)) return measure_ceilings(*load_, config);
  const TeamOptions& team = load_->team().options();
  const auto key = std::pair(team.placement.devices, team.numerics);
  const auto found = sweep_.gpu_ceilings.find(key);
  return found != sweep_.gpu_ceilings.end()
             ? found->second
             : sweep_.gpu_ceilings.emplace(key, measure_ceilings(*load_, config)).first->second;
}

void EngineHost::warm_up(size_t index, const Visit& visit) {
  const Cell& cell = sweep_.cells[index];
  CellResult& result = sweep_.run.cells[index];
  const auto begin = Clock::now();
  warm_up_pass(cell);
  record_drafts(cell, result);
  ready_s_ += seconds_between(begin, Clock::now());
  result.effective = load_->effective(cell.config, *load_->make_engine(cell.config));
  result.oversubscribed = load_->team().oversubscribed();
  result.load_s = load_->load_seconds();
  if (visit.way == 0 || !result.ceilings.read_bytes_s) result.ceilings = ceilings_for(cell.config);
  const MemoryPlan& memory = load_->plan().memory;
  result.memory = {.weights_bytes = int64_t(memory.weight_bytes),
                   .kv_bytes = int64_t(memory.target_kv_bytes + memory.draft_kv_bytes),
                   .workspace_bytes = int64_t(memory.workspace_bytes)};
  const auto differences = effective_differences(cell, result.effective);
  if (!differences.empty()) fail(ExitCode::usage, "the engine did not run what was asked: {}", differences.front());
}

RepetitionResult EngineHost::run(size_t index, int repetition) {
  const ExperimentConfig& config = sweep_.cells[index].config;
  RepetitionOptions pass = options_for(config, repetition);
  pass.arrivals = sweep_.arrivals.arrivals(config.load, int64_t(prompts_.size()), repetition);
  pass.on_progress = [this](const ProgressUpdate& now) { sweep_.progress.update(now); };
  if (repetition == 0) pass.record_ranks = RankRecording::on;
  return run_pass(config, prompts_, pass);
}

/// A device or communication error leaves the ranks unusable: the next cell gets fresh ones. So does what nobody
/// foresaw.
Damage EngineHost::damage_of(size_t index, ExitCode code) {
  const bool on_gpu = on_cuda(sweep_.cells[index].config.engine) && code != ExitCode::usage;
  const bool is_rank_lost = load_ && load_->team().has_lost_rank();
  if (code != ExitCode::usage) load_.reset();
  return is_rank_lost ? Damage::lost_rank : on_gpu ? Damage::process : Damage::none;
}

void EngineHost::check_flips(size_t index) {
  CellResult& result = sweep_.run.cells[index];
  const ExperimentConfig& config = sweep_.cells[index].config;
  sweep_.progress.phase(fmt::format("measuring the noise of {}", result.id));
  ModelLogits logits(load_->target(), {.block_size = config.engine.kv_cache.block_size,
                                       .max_num_rows = load_->plan().max_num_rows,
                                       .max_num_logit_rows = load_->plan().max_num_logit_rows});
  const References references(sweep_.run);
  result.logits = paceline::check_flips(
      result, *references.of(result),
      {.prompts = prompts_, .sampling = config.sampling, .stop_now = [this] { return sweep_.stop_now(); }}, logits);
  if (sweep_.interrupts() >= 2)
    result.logits = {};  // cut short: half of the evidence is none
  else
    sweep_.folder->record_logits(result);
}

}  // namespace paceline
