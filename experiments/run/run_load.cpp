#include "experiments/run/run_load.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <random>

#include "engine/util/clock.h"
#include "engine/util/counted.h"
#include "engine/util/machine.h"
#include "experiments/analysis/metrics/summary.h"
#include "experiments/analysis/outputs/certificate.h"
#include "experiments/analysis/outputs/flips.h"
#include "experiments/analysis/statistics/noise.h"
#include "experiments/config/devices.h"
#include "experiments/run/measure/measure_devices.h"
#include "experiments/run/measure/repetition.h"
#include "experiments/run/measure/sample_texts.h"
#include "experiments/run/measure/target_logits.h"
#include "experiments/run/supervise.h"
#include "experiments/workload/request_sampling.h"
#include "speculative/proposer_entry.h"

namespace paceline {

int SweepUnderWay::interrupts() const { return options.interrupts ? options.interrupts() : 0; }
std::string SweepUnderWay::reason_of_stop() const {
  if (interrupts() > 0) return "not run: interrupted";
  return fmt::format("not run: the sweep stopped after {}; \"runexp resume --keep-failed\" goes on without what failed",
                     counted(num_failures, "failure"));
}

void SweepUnderWay::stamp(RepetitionResult& repetition) {
  repetition.turn = next_turn++;
  repetition.process = process;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  repetition.ended_at_s = std::chrono::duration<double>(now).count();
}

void SweepUnderWay::leave_out(CellResult& cell) const {
  cell.status = CellStatus::skipped;
  cell.reason = reason_of_stop();
  cell.not_run = true;
}

bool SweepUnderWay::stop_now() {
  heed_interrupts();
  return interrupts() >= 2;
}

void SweepUnderWay::heed_interrupts() {
  if (interrupts() == 0) return;
  stop = true;
  if (told_to_wait) return;
  told_to_wait = true;
  progress.message("stopping after this pass; interrupt again to stop now\n");
}

void SweepUnderWay::fail_cell(size_t cell, const std::string& reason) {
  record_failure(cell, reason);
  count_failure();
}

void SweepUnderWay::record_failure(size_t cell, const std::string& reason) {
  CellResult& result = run.cells[cell];
  if (result.status == CellStatus::failed) return;
  result.status = CellStatus::failed;
  result.reason = reason;
  log->line(result, "failed", reason);
  progress.cell_finished({.label = result.id,
                          .status = "failed",
                          .reason = reason,
                          .log = cell_log_file(folder->path(), result).string()});
  folder->record_failure(result);
  folder->write_cell(result);
}

void SweepUnderWay::count_failure() {
  const SweepConfig& sweep = loaded.config.sweep;
  if (++num_failures >= sweep.max_failures || sweep.on_error == OnError::stop) stop = true;
}

const std::vector<EncodedPrompt>& encode_for(SweepUnderWay& sweep, const ExperimentConfig& config,
                                             const Tokenizer& tokenizer, const LengthLimit& limit) {
  const PromptEncoding encoding = prompt_encoding(config);
  auto found = sweep.encoded.find(encoding);
  if (found == sweep.encoded.end())
    found = sweep.encoded.emplace(encoding, encode_prompts(sweep.prompts, tokenizer, encoding.model, encoding.format))
                .first;
  check_prompts_fit(found->second, limit);
  return found->second;
}

bool lacks_repetitions(const SweepUnderWay& sweep, size_t index) {
  const CellResult& result = sweep.run.cells[index];
  return result.status == CellStatus::done &&
         int(result.repetitions.size()) < sweep.cells[index].config.measure.repetitions;
}

namespace {

constexpr const char* kRankStays =
    "a rank never came back: its thread and the memory of its load stay in this process, and may disturb what is "
    "measured from here on";

RepetitionOptions repetition_options(SweepUnderWay& sweep, const ExperimentConfig& config) {
  return {.sampling = sampling_params(config.sampling),
          .concurrency = config.load.mode == LoadMode::closed ? config.load.concurrency : 0,
          .timeout_s = config.sweep.cell_timeout_s,
          .stop_now = [&sweep] { return sweep.stop_now(); }};
}

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

void warm_up(EngineLoad& load, const Cell& cell, std::span<const EncodedPrompt> prompts, SweepUnderWay& sweep) {
  RepetitionOptions options = repetition_options(sweep, cell.config);
  const bool needs_all = cell.config.speculation.entry().knows_texts();
  const size_t wanted = needs_all ? prompts.size() : size_t(std::max(0, cell.config.measure.warmup_requests));
  const size_t count = std::min(prompts.size(), wanted);
  // Without arrivals an open loop warms up with all of these at once.
  if (count > 0) run_repetition(load, cell.config, prompts.first(count), options);
}

/// A pass that is not measured, as noting drafts takes time.
void record_drafts(EngineLoad& load, const Cell& cell, const CellResult& result, std::span<const EncodedPrompt> prompts,
                   SweepUnderWay& sweep) {
  if (!cell.config.measure.record_drafts || !cell.config.speculation.drafts()) return;
  DraftRecord record;
  RepetitionOptions options = repetition_options(sweep, cell.config);
  options.record_drafts = &record;
  run_repetition(load, cell.config, prompts, options);
  sweep.folder->write_drafts(result, draft_record_text(record));
}

void finish_cell(SweepUnderWay& sweep, size_t index) {
  CellResult& result = sweep.run.cells[index];
  const std::vector<std::string> problems = record_problems(result);
  if (!problems.empty()) {
    sweep.fail_cell(index, "records: " + problems.front());
    return;
  }
  const CellSummary summary = summarize_cell(result);
  sweep.progress.cell_finished({.label = result.id,
                                .status = "done",
                                .reason = lacks_repetitions(sweep, index)
                                              ? fmt::format("{} of {} repetitions", result.repetitions.size(),
                                                            sweep.cells[index].config.measure.repetitions)
                                              : std::string(),
                                .tok_s = summary.output_tok_s,
                                .acceptance_length = summary.mean_acceptance_length,
                                .acceptance_rate = summary.draft_acceptance_rate});
}

/// Of CPUs for each cell, as they depend on where its weights lie; of GPUs once for each placement and kind of
/// numerics.
DeviceCeilings ceilings_for(SweepUnderWay& sweep, EngineLoad& load, const ExperimentConfig& config) {
  if (!on_cuda(config.engine)) return measure_ceilings(load, config);
  const TeamOptions& team = load.team().options();
  const auto key = std::pair(team.placement.devices, team.numerics);
  const auto found = sweep.gpu_ceilings.find(key);
  return found != sweep.gpu_ceilings.end()
             ? found->second
             : sweep.gpu_ceilings.emplace(key, measure_ceilings(load, config)).first->second;
}

void check_flips_of(SweepUnderWay& sweep, size_t index, EngineLoad& load, std::span<const EncodedPrompt> prompts) {
  CellResult& result = sweep.run.cells[index];
  const ExperimentConfig& config = sweep.cells[index].config;
  sweep.progress.phase(fmt::format("measuring the noise of {}", result.id));
  ModelLogits logits(load.target(), {.block_size = config.engine.kv_cache.block_size,
                                     .max_num_rows = load.plan().max_num_rows,
                                     .max_num_logit_rows = load.plan().max_num_logit_rows});
  const References references(sweep.run);
  result.logits = check_flips(result, *references.of(result),
                              {.prompts = prompts,
                               .sampling = sampling_params(config.sampling),
                               .stop_now = [&sweep] { return sweep.stop_now(); }},
                              logits);
  if (sweep.interrupts() >= 2)
    result.logits = {};  // cut short: half of the evidence is none
  else
    sweep.folder->record_logits(result);
}

void record_start(SweepUnderWay& sweep, std::span<const size_t> cells, const nlohmann::json& order = nullptr) {
  std::vector<const CellResult*> results;
  for (const size_t index : cells) results.push_back(&sweep.run.cells[index]);
  sweep.folder->record_start(results, order);
  sweep.log->enter(results);
}

void log_repetition(SweepUnderWay& sweep, const CellResult& cell) {
  const RepetitionResult& last = cell.repetitions.back();
  const std::string noise = last.disturbance ? noise_of(*last.disturbance) : std::string();
  sweep.log->line("pass",
                  fmt::format("repetition {}: {:.3f} s, {} output tokens{}{}", cell.repetitions.size(), last.wall_s,
                              output_tokens_of(last), noise.empty() ? "" : "; disturbed: ", noise));
}

/// A pass that was paused (Ctrl-Z) measured the pause: it is made again.
RepetitionResult run_undisturbed(SweepUnderWay& sweep, EngineLoad& load, const ExperimentConfig& config,
                                 std::span<const EncodedPrompt> prompts, const RepetitionOptions& options) {
  const auto pauses = [&] { return sweep.options.pauses ? sweep.options.pauses() : 0; };
  for (;;) {
    const int before = pauses();
    RepetitionResult result = run_repetition(load, config, prompts, options);
    if (pauses() == before || sweep.interrupts() > 0) return result;
    sweep.progress.message("the process was paused: this pass is made again\n");
  }
}

/// Time in passes that the cells' repetitions took so far.
double measured_s(const SweepUnderWay& sweep, const std::vector<size_t>& group) {
  double seconds = 0;
  for (const size_t index : group)
    for (const RepetitionResult& r : sweep.run.cells[index].repetitions) seconds += r.wall_s;
  return seconds;
}

}  // namespace

std::vector<size_t> cells_to_check(const SweepUnderWay& sweep, const std::vector<size_t>& load_cells) {
  std::vector<size_t> cells;
  if (!sweep.loaded.config.measure.verify_lossless) return cells;
  const References references(sweep.run);
  const auto is_here = [&](const CellResult& cell) {
    return std::find(load_cells.begin(), load_cells.end(), size_t(cell.index)) != load_cells.end();
  };
  for (const CellResult& cell : sweep.run.cells) {
    const CellResult* const reference = has_fast_numerics(cell) ? compared_with(references, cell) : nullptr;
    if (!reference || cell.logits.reference == reference->id) continue;
    const bool is_complete = sweep.stop || !lacks_repetitions(sweep, size_t(cell.index));
    if (is_here(cell) || (is_here(*reference) && is_complete)) cells.push_back(size_t(cell.index));
  }
  return cells;
}

void finish_load(SweepUnderWay& sweep, const std::vector<size_t>& planned) {
  for (const size_t index : planned) {
    if (!lacks_repetitions(sweep, index)) continue;
    if (sweep.run.cells[index].repetitions.empty())
      sweep.leave_out(sweep.run.cells[index]);
    else if (!sweep.wants_new_process)
      finish_cell(sweep, index);
  }
}

bool run_load(SweepUnderWay& sweep, const std::vector<size_t>& planned, const Visit& visit) {
  std::vector<size_t> group;
  std::copy_if(planned.begin(), planned.end(), std::back_inserter(group),
               [&](size_t index) { return lacks_repetitions(sweep, index); });
  if (group.empty() && cells_to_check(sweep, planned).empty()) return false;
  const Cell& first = sweep.cells[planned.front()];
  const int repetitions = first.config.measure.repetitions;
  int until = visit.until(repetitions);
  if (until < repetitions && !group.empty() && std::all_of(group.begin(), group.end(), [&](size_t index) {
        return int(sweep.run.cells[index].repetitions.size()) >= until;
      }))
    return true;  // on the way before this one, or in a resumed run
  record_start(sweep, group, {{"way", visit.way + 1}, {"until", until}, {"repetitions", repetitions}});
  double reload_s = 0;  // loading and warming up
  const auto with_draft =
      std::find_if(planned.begin(), planned.end(), [&](size_t i) { return !sweep.cells[i].draft_key.empty(); });
  const ExperimentConfig& load_config = sweep.cells[with_draft == planned.end() ? planned.front() : *with_draft].config;
  sweep.progress.phase(fmt::format("loading {} on tp{} pp{}", target_name(first.config),
                                   first.config.engine.parallel.tp, first.config.engine.parallel.pp));
  LoadLimits limits = limits_of(sweep.cells, first.load_key, sweep.run.info.auto_threads_per_rank);
  limits.kept = &sweep.kept_by_proposers;
  for (const size_t index : planned) limits.cells.push_back(&sweep.cells[index].config);
  std::unique_ptr<EngineLoad> load;
  std::vector<EncodedPrompt> prompts;
  const auto open = [&] {
    load = std::make_unique<EngineLoad>(load_config, limits);
    reload_s += load->load_seconds();
    const MemoryPlan& memory = load->plan().memory;
    sweep.log->line(
        "load", fmt::format("{} on tp{} pp{}, {} a rank, in {:.3f} s: {} bytes of weights, {} of KV",
                            target_name(load_config), load_config.engine.parallel.tp, load_config.engine.parallel.pp,
                            counted(limits.threads_per_rank, "thread"), load->load_seconds(), memory.weight_bytes,
                            memory.target_kv_bytes + memory.draft_kv_bytes));
    const LengthLimit limit = length_limit(first.config, load->plan());
    prompts = encode_for(sweep, first.config, *load->tokenizer(), limit);
    tell_of_cut_outputs(sweep, planned, prompts, limit);
  };
  try {
    open();
  } catch (const std::exception& error) {
    if (ends_the_run(error)) throw;
    // A draft model that does not load takes only the cells along that draft, and where several do not fit together,
    // the others may do without it. One load is one failure.
    std::vector<size_t> others;
    for (size_t index : group) {
      if (with_draft != planned.end() && sweep.cells[index].draft_key != sweep.cells[*with_draft].draft_key)
        others.push_back(index);
      else
        sweep.record_failure(index, failure_text(error));
    }
    if (others.empty())
      sweep.count_failure();
    else
      return run_load(sweep, others, visit);
    return false;
  }

  // A device or communication error leaves the ranks unusable: the next cell gets fresh ones. So does what nobody
  // foresaw.
  const auto guarded = [&](size_t index, const auto& body) {
    try {
      if (!load) {
        const CellResult* const cell = &sweep.run.cells[index];
        sweep.log->enter({&cell, 1});
        open();
      }
      body();
    } catch (const std::exception& error) {
      if (ends_the_run(error)) throw;
      const ExitCode code = failure_code(error);
      if (code == ExitCode::interrupted) {
        sweep.stop = true;  // what the cell has by now stays
        return;
      }
      const bool on_gpu = on_cuda(sweep.cells[index].config.engine) && code != ExitCode::usage;
      const bool is_rank_lost = load && load->team().has_lost_rank();
      if (code != ExitCode::usage) load.reset();
      sweep.fail_cell(index, failure_text(error));
      if (sweep.stop) return;
      if ((on_gpu || is_rank_lost) && sweep.options.after_device_error == AfterDeviceError::new_process)
        sweep.wants_new_process = sweep.stop = true;
      else if (is_rank_lost)
        sweep.progress.message(fmt::format("warning: {}: {}\n", sweep.run.cells[index].id, kRankStays));
    }
  };
  for (size_t index : group) {
    sweep.heed_interrupts();
    if (sweep.stop) break;
    const Cell& cell = sweep.cells[index];
    CellResult& result = sweep.run.cells[index];
    guarded(index, [&] {
      sweep.progress.phase(fmt::format("warming up {}", cell.id));
      record_start(sweep, {&index, 1});
      const auto begin = Clock::now();
      warm_up(*load, cell, prompts, sweep);
      record_drafts(*load, cell, result, prompts, sweep);
      reload_s += seconds_between(begin, Clock::now());
      result.effective = load->effective(cell.config, *load->make_engine(cell.config));
      result.oversubscribed = load->team().oversubscribed();
      result.load_s = load->load_seconds();
      if (visit.way == 0 || !result.ceilings.read_bytes_s) result.ceilings = ceilings_for(sweep, *load, cell.config);
      const MemoryPlan& memory = load->plan().memory;
      result.memory = {.weights_bytes = int64_t(memory.weight_bytes),
                       .kv_bytes = int64_t(memory.target_kv_bytes + memory.draft_kv_bytes),
                       .workspace_bytes = int64_t(memory.workspace_bytes)};
      const auto differences = effective_differences(cell, result.effective);
      if (!differences.empty()) fail(ExitCode::usage, "the engine did not run what was asked: {}", differences.front());
      sweep.folder->record_load(result);
    });
  }
  std::mt19937_64 random(uint64_t(first.config.measure.block_seed));
  for (int repetition = 0; repetition < repetitions && !sweep.stop; ++repetition) {
    if (repetition == until) {
      const double so_far_s = measured_s(sweep, group);
      const int num_reloads = visit.way + 1;
      const double share = so_far_s > 0 ? num_reloads * reload_s / (so_far_s * repetitions / until) : 1;
      if (share < kMostReloading) {
        sweep.log->line("order",
                        fmt::format("{} of {} repetitions, the others when the other loads had theirs: loading "
                                    "again takes {:.3f} of the measuring",
                                    until, repetitions, share));
        break;
      }
      until = repetitions;
      record_start(sweep, group,
                   {{"way", visit.way + 1}, {"until", until}, {"repetitions", repetitions}, {"reload_share", share}});
      sweep.log->line("order", fmt::format("all that is left of {} repetitions: loading again would take {:.3f} of "
                                           "the measuring",
                                           repetitions, share));
    }
    std::vector<size_t> order = group;
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random() % i]);
    for (size_t index : order) {
      CellResult& result = sweep.run.cells[index];
      if (sweep.stop || result.status == CellStatus::failed) continue;
      if (int(result.repetitions.size()) > repetition) continue;  // recorded already
      const Cell& cell = sweep.cells[index];
      guarded(index, [&] {
        sweep.progress.repetition_started(cell.id, repetition, repetitions);
        record_start(sweep, {&index, 1});
        RepetitionOptions pass = repetition_options(sweep, cell.config);
        pass.arrivals = sweep.arrivals.arrivals(cell.config.load, int64_t(prompts.size()), repetition);
        pass.on_progress = [&sweep](const ProgressUpdate& now) { sweep.progress.update(now); };
        if (repetition == 0) pass.record_ranks = RankRecording::on;
        result.repetitions.push_back(run_undisturbed(sweep, *load, cell.config, prompts, pass));
        sweep.stamp(result.repetitions.back());
        sweep.folder->record_repetition(result);
        log_repetition(sweep, result);
        sweep.progress.repetition_finished();
      });
      sweep.heed_interrupts();
    }
  }
  const bool half_done = !sweep.stop && until < repetitions;
  for (size_t index : group) {
    CellResult& result = sweep.run.cells[index];
    if (result.status != CellStatus::done || half_done) continue;
    if (result.repetitions.empty()) {
      sweep.leave_out(result);
      continue;
    }
    if (sweep.wants_new_process) continue;
    result.memory.rss_peak_bytes = int64_t(process_memory().peak_resident_bytes);
    try {
      sweep.folder->record_load(result);
      finish_cell(sweep, index);
    } catch (const std::exception& error) {
      if (ends_the_run(error)) throw;
      sweep.fail_cell(index, failure_text(error));
    }
  }
  if (load) {
    for (size_t index : group)
      keep_sample_texts(sweep.run.cells[index], sweep.prompts, *load->tokenizer(), sweep.run.sample_texts);
  }
  if (half_done) return true;
  if (sweep.wants_new_process || sweep.interrupts() >= 2) return false;
  for (const size_t index : cells_to_check(sweep, planned))
    guarded(index, [&] { check_flips_of(sweep, index, *load, prompts); });
  return false;
}

}  // namespace paceline
