#include "experiments/run/run_load.h"

#include <algorithm>
#include <chrono>
#include <random>
#include <set>

#include "engine/util/counted.h"
#include "engine/util/machine.h"
#include "experiments/analysis/metrics/summary.h"
#include "experiments/analysis/outputs/certificate.h"
#include "experiments/analysis/statistics/noise.h"
#include "experiments/run/host/cell_host.h"
#include "experiments/run/measure/sample_texts.h"
#include "experiments/run/supervise.h"

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
  progress.message("stopping after this repetition; interrupt again to stop now\n");
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

void record_start(SweepUnderWay& sweep, std::span<const size_t> cells, const nlohmann::json& order = nullptr) {
  std::vector<const CellResult*> results;
  for (const size_t index : cells) results.push_back(&sweep.run.cells[index]);
  sweep.folder->record_start(results, order);
  sweep.log->enter(results);
}

void log_repetition(SweepUnderWay& sweep, const CellResult& cell) {
  const RepetitionResult& last = cell.repetitions.back();
  const std::string noise = noise_of(last);
  sweep.log->line("pass",
                  fmt::format("repetition {}: {:.3f} s, {} output tokens{}{}", cell.repetitions.size(), last.wall_s,
                              output_tokens_of(last), noise.empty() ? "" : "; disturbed: ", noise));
}

/// A pass that was paused (Ctrl-Z) measured the pause: it is made again.
RepetitionResult run_undisturbed(SweepUnderWay& sweep, CellHost& host, size_t index, int repetition) {
  const auto pauses = [&] { return sweep.options.pauses ? sweep.options.pauses() : 0; };
  for (;;) {
    const int before = pauses();
    RepetitionResult result = host.run(index, repetition);
    if (pauses() == before || sweep.interrupts() > 0) return result;
    sweep.progress.message("the process was paused: this pass is made again\n");
  }
}

/// "target-7m on tp2 pp1", "2 servers"
std::string load_name(const SweepUnderWay& sweep, const std::vector<size_t>& planned) {
  const ExperimentConfig& config = sweep.cells[planned.front()].config;
  if (!config.is_served())
    return fmt::format("{} on tp{} pp{}", target_name(config), config.engine.parallel.tp, config.engine.parallel.pp);
  std::set<std::string> servers;
  for (const size_t index : planned) servers.insert(sweep.cells[index].load_key);
  return counted(int64_t(servers.size()), "server");
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
    if (sweep.cells[size_t(cell.index)].config.is_served()) continue;  // no logits of a server
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
  const auto asked = [&](size_t index) { return sweep.cells[index].config.measure.repetitions; };
  int repetitions = 0;  // of the cell with most
  for (const size_t index : planned) repetitions = std::max(repetitions, asked(index));
  const int until = visit.until(repetitions);
  bool stays_for_all = until == repetitions;
  if (!stays_for_all && !group.empty() && std::all_of(group.begin(), group.end(), [&](size_t index) {
        return int(sweep.run.cells[index].repetitions.size()) >= visit.until(asked(index));
      }))
    return true;  // on the way before this one, or in a resumed run
  record_start(sweep, group, {{"way", visit.way + 1}, {"until", until}, {"repetitions", repetitions}});
  const auto with_draft =
      std::find_if(planned.begin(), planned.end(), [&](size_t i) { return !sweep.cells[i].draft_key.empty(); });
  sweep.progress.phase(fmt::format("loading {}", load_name(sweep, planned)));
  const std::unique_ptr<CellHost> host = make_host(sweep, planned);
  try {
    host->open();
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

  const auto guarded = [&](size_t index, const auto& body) {
    try {
      if (!host->is_open()) {
        const CellResult* const cell = &sweep.run.cells[index];
        sweep.log->enter({&cell, 1});
        host->open();
      }
      body();
    } catch (const std::exception& error) {
      if (ends_the_run(error)) throw;
      const ExitCode code = failure_code(error);
      if (code == ExitCode::interrupted) {
        sweep.stop = true;  // what the cell has by now stays
        return;
      }
      const Damage damage = host->damage_of(index, code);
      sweep.fail_cell(index, failure_text(error));
      if (sweep.stop) return;
      if (damage != Damage::none && sweep.options.after_device_error == AfterDeviceError::new_process)
        sweep.wants_new_process = sweep.stop = true;
      else if (damage == Damage::lost_rank)
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
      host->warm_up(index, visit);
      sweep.folder->record_load(result);
    });
  }
  const auto measure = [&] {
    std::mt19937_64 random(uint64_t(first.config.measure.block_seed));
    for (int repetition = 0; repetition < repetitions && !sweep.stop; ++repetition) {
      std::vector<size_t> order = group;
      for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random() % i]);
      for (size_t index : order) {
        CellResult& result = sweep.run.cells[index];
        if (sweep.stop || result.status == CellStatus::failed) continue;
        if (int(result.repetitions.size()) > repetition) continue;  // recorded already
        if (repetition >= (stays_for_all ? asked(index) : visit.until(asked(index)))) continue;
        const Cell& cell = sweep.cells[index];
        guarded(index, [&] {
          sweep.progress.repetition_started(cell.id, repetition, asked(index));
          record_start(sweep, {&index, 1});
          result.repetitions.push_back(run_undisturbed(sweep, *host, index, repetition));
          sweep.stamp(result.repetitions.back());
          sweep.folder->record_repetition(result);
          log_repetition(sweep, result);
          sweep.progress.repetition_finished();
        });
        sweep.heed_interrupts();
      }
    }
  };
  measure();
  if (!stays_for_all && !sweep.stop) {
    const double so_far_s = measured_s(sweep, group);
    const int num_reloads = visit.way + 1;
    const double share = so_far_s > 0 ? num_reloads * host->ready_s() / (so_far_s * repetitions / until) : 1;
    if (share < kMostReloading) {
      sweep.log->line("order", fmt::format("{} of {} repetitions, the others when the other loads had theirs: loading "
                                           "again takes {:.3f} of the measuring",
                                           until, repetitions, share));
    } else {
      stays_for_all = true;
      record_start(
          sweep, group,
          {{"way", visit.way + 1}, {"until", repetitions}, {"repetitions", repetitions}, {"reload_share", share}});
      sweep.log->line("order", fmt::format("all that is left of {} repetitions: loading again would take {:.3f} of "
                                           "the measuring",
                                           repetitions, share));
      measure();
    }
  }
  const bool half_done = !sweep.stop && !stays_for_all;
  for (size_t index : group) {
    CellResult& result = sweep.run.cells[index];
    if (result.status != CellStatus::done || (half_done && lacks_repetitions(sweep, index))) continue;
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
  if (const auto tokenizer = host->is_open() ? host->tokenizer() : nullptr) {
    for (size_t index : group)
      keep_sample_texts(sweep.run.cells[index], sweep.prompts, *tokenizer, sweep.run.sample_texts);
  }
  if (half_done) return true;
  if (sweep.wants_new_process || sweep.interrupts() >= 2) return false;
  for (const size_t index : cells_to_check(sweep, planned)) guarded(index, [&] { host->check_flips(index); });
  return false;
}

}  // namespace paceline
