#include "experiments/run/runner.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <set>

#include "engine/util/clock.h"
#include "experiments/analysis/metrics/summary.h"
#include "experiments/analysis/outputs/certificate.h"
#include "experiments/config/file/builtin_root.h"
#include "experiments/config/view.h"
#include "experiments/report/documents.h"
#include "experiments/results/files/environment.h"
#include "experiments/run/measure/sample_texts.h"
#include "experiments/run/plan/forecast.h"
#include "experiments/run/plan/planned_cell.h"
#include "experiments/run/run_load.h"
#include "experiments/workload/requests.h"
#include "kernels/cpu/cores.h"
#include "speculative/proposer_entry.h"
#include "speculative/vocabulary_match.h"

namespace paceline {
namespace {

/// "strict", "fast", or both where cells differ.
std::string numerics_text(const std::vector<Cell>& cells) {
  std::set<std::string_view> used;
  for (const Cell& cell : cells) {
    const Numerics numerics = cell.config.engine.numerics;
    if (!cell.skip_reason) used.insert(names_of(numerics)[size_t(numerics)]);
  }
  return fmt::format("{}", fmt::join(used, " and "));
}

/// Of cells that another process finished.
void keep_missing_sample_texts(SweepUnderWay& sweep) {
  std::map<std::pair<std::filesystem::path, std::optional<std::string>>, std::shared_ptr<const Tokenizer>> tokenizers;
  for (size_t i = 0; i < sweep.cells.size(); ++i) {
    const CellResult& cell = sweep.run.cells[i];
    if (cell.status != CellStatus::done || cell.repetitions.empty() || sweep.cells[i].config.is_foreign()) continue;
    const TargetConfig& target = sweep.cells[i].config.engine.target;
    auto& tokenizer = tokenizers[{target.directory, target.pre}];
    if (!tokenizer) tokenizer = load_tokenizer(target);
    keep_sample_texts(cell, sweep.prompts, *tokenizer, sweep.run.sample_texts);
  }
}

/// A sweep of which no cell can run is a mistake in the configuration, not a result: throws the first reason, as
/// loading and encoding would, but reads no weights.
void check_some_cell_can_run(SweepUnderWay& sweep, const std::vector<std::vector<size_t>>& groups) {
  const std::vector<Cell>& cells = sweep.cells;
  check_not_all_skipped(cells);
  std::optional<Error> first;
  for (const std::vector<size_t>& group : groups) {
    std::set<std::string> tried;  // second models; "" stands for cells without one
    for (size_t index : group) {
      const ExperimentConfig& config = cells[index].config;
      if (config.is_foreign()) return;  // nobody knows before it is asked
      if (!tried.insert(cells[index].draft_key).second) continue;
      try {
        const LoadPlan plan =
            plan_load(config, limits_of(cells, cells[index].load_key, sweep.run.info.auto_threads_per_rank));
        check_draft_vocabulary(config);
        encode_for(sweep, config, *load_tokenizer(config.engine.target), length_limit(config, plan));
        return;
      } catch (const Error& error) {
        if (!first) first = error;
      }
    }
  }
  if (first) throw *first;
}

void run_loads(SweepUnderWay& sweep, const std::vector<std::vector<size_t>>& groups) {
  visit_loads(groups.size(), [&](size_t load, const Visit& visit) {
    if (!sweep.stop) return run_load(sweep, groups[load], visit);
    finish_load(sweep, groups[load]);
    return false;
  });
}

}  // namespace

void check_draft_vocabulary(const ExperimentConfig& config) {
  const SecondModelConfig* const draft = config.speculation.draft_model();
  if (!draft || draft->self) return;
  check_vocabularies(*load_tokenizer(config.engine.target), *load_tokenizer(*draft),
                     fmt::format("speculation.{}", config.speculation.modelled()->name));
}

LoadLimits limits_of(const std::vector<Cell>& cells, const std::string& load_key, int auto_threads) {
  LoadLimits limits;
  const int automatic = auto_threads > 0 ? auto_threads : auto_threads_per_rank(cells, usable_cores());
  for (const Cell& cell : cells) {
    if (cell.load_key != load_key || cell.skip_reason) continue;
    limits.threads_per_rank = cell.config.engine.parallel.threads_per_rank.value_or(automatic);
    limits.max_draft_len = std::max(limits.max_draft_len, cell.config.speculation.num_speculative_tokens);
    limits.takes_any_sampling |= cell.config.is_served();
  }
  return limits;
}

RunOutcome run_experiment(const LoadedConfig& loaded, Progress& progress, const RunOptions& options) {
  auto start = std::chrono::steady_clock::now();
  SweepUnderWay sweep{.loaded = loaded,
                      .progress = progress,
                      .options = options,
                      .cells = expand(loaded, machine_context(loaded.config.engine))};
  check_splits(loaded, sweep.cells, SplitRule::some_cell);
  RunResult& run = sweep.run;
  const WorkloadConfig& workload = loaded.config.workload;
  if (workload.file.empty()) fail_without_builtin_root(workload.dataset);
  for (const Cell& cell : sweep.cells)
    if (!cell.skip_reason) sweep.arrivals.prepare(cell.config.load, workload.requests);
  WorkloadPrompts prompts = read_workload(workload);
  sweep.prompts = std::move(prompts.requests);
  run.workload = std::move(prompts.facts);
  run.info = {.name = loaded.config.name,
              .profile = loaded.profile,
              .config_path = loaded.file.string(),
              .argv = options.argv,
              .variables = loaded.variables,
              .config_hash = loaded.hash,
              .started_at = utc_now(),
              .seed = uint64_t(loaded.config.sampling.seed),
              .numerics = numerics_text(sweep.cells),
              .only = loaded.only ? loaded.only->text() : std::string(),
              .builtin_root = loaded.config.builtin_root.string(),
              .inputs = inputs_of(sweep.cells)};
  run.slo = {.ttft_ms = loaded.config.report.slo_ttft_ms, .tpot_ms = loaded.config.report.slo_tpot_ms};
  run.environment = collect_environment();
  run.info.program = run.environment.value("binary_hash", std::string());
  const int recorded_threads = options.resume ? options.resume->recorded.run.info.auto_threads_per_rank : 0;
  run.info.auto_threads_per_rank =
      recorded_threads > 0 ? recorded_threads : auto_threads_per_rank(sweep.cells, usable_cores());
  run.config_resolved = config_to_json(loaded.config);
  run.config_origins = value_origins(loaded);
  Forecaster forecaster(sweep.cells, run.info.auto_threads_per_rank);  // measures some 10 ms for each size of target
  for (size_t i = 0; i < sweep.cells.size(); ++i) {
    run.cells.push_back(planned_result(sweep.cells[i], int(i), sweep.cells));
    if (!sweep.cells[i].skip_reason) run.cells.back().forecast = forecaster.step(sweep.cells[i]);
  }
  std::vector<std::vector<size_t>> groups;
  for (size_t i = 0; i < sweep.cells.size(); ++i) {
    if (sweep.cells[i].skip_reason) continue;
    if (groups.empty() || !sweep.cells[groups.back().front()].takes_turns_with(sweep.cells[i])) groups.emplace_back();
    groups.back().push_back(i);
  }
  const ConfigJson experiment = experiment_json(loaded);
  double wall_before_s = 0;
  if (options.resume) {
    const RecordedRun& recorded = options.resume->recorded;
    check_can_resume(*options.resume, run);
    const std::vector<size_t> retried = adopt_record(*options.resume, run);
    sweep.folder =
        std::make_unique<RunFolder>(recorded, options.resume->lock, run, experiment, options.resume->restart);
    if (options.resume->restart == Restart::yes)
      start = std::chrono::steady_clock::now();  // wall_before_s is until now
    sweep.log = std::make_unique<CellLog>(sweep.folder->path());
    sweep.process = recorded.num_processes;
    for (const size_t index : retried) sweep.folder->record_retry(run.cells[index]);
    for (const CellResult& cell : run.cells)
      for (const RepetitionResult& r : cell.repetitions) sweep.next_turn = std::max(sweep.next_turn, r.turn + 1);
    sweep.num_failures = count_cells(run.cells).failed - options.resume->failures_accepted;
    const SweepConfig& limits = loaded.config.sweep;
    if (sweep.num_failures >= limits.max_failures || (sweep.num_failures > 0 && limits.on_error == OnError::stop))
      sweep.stop = true;
    for (size_t i = 0; i < run.cells.size(); ++i) {  // the process may have ended before it checked them
      const CellResult& cell = run.cells[i];
      if (cell.status != CellStatus::done || cell.repetitions.empty() || lacks_repetitions(sweep, i)) continue;
      if (const auto problems = record_problems(cell); !problems.empty())
        sweep.fail_cell(i, "records: " + problems.front());
    }
    wall_before_s = sweep.folder->wall_before_s();
  } else {
    if (options.results_root.empty()) fail(ExitCode::usage, "--results: the name is empty; expected a folder");
    check_some_cell_can_run(sweep, groups);
    sweep.folder = std::make_unique<RunFolder>(options.results_root, run, experiment);
    sweep.log = std::make_unique<CellLog>(sweep.folder->path());
  }
  if (options.on_folder) options.on_folder(sweep.folder->path());
  int num_repetitions = 0;
  for (size_t i = 0; i < run.cells.size(); ++i) {
    if (lacks_repetitions(sweep, i))
      num_repetitions += sweep.cells[i].config.measure.repetitions - int(run.cells[i].repetitions.size());
  }
  progress.begin(run.info.name, int(sweep.cells.size()), num_repetitions);
  for (const Cell& cell : sweep.cells)
    if (cell.skip_reason) progress.cell_finished({.label = cell.id, .status = "skipped", .reason = *cell.skip_reason});
  run_loads(sweep, groups);
  if (options.resume && !sweep.wants_new_process) keep_missing_sample_texts(sweep);
  progress.end();
  if (sweep.wants_new_process) return {.result = std::move(run), .exit_code = ExitCode::ok, .wants_new_process = true};
  if (loaded.config.measure.verify_lossless) certify(run);
  run.wall_s = wall_before_s + std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();

  RunOutcome outcome;
  const bool any_failed = count_cells(run.cells).failed > 0;
  const bool any_wrong = std::any_of(run.cells.begin(), run.cells.end(), [](const CellResult& cell) {
    return cell.certificate.status == CertificateStatus::fail;
  });
  // once, while the last pass of the plan ran, has cut nothing
  bool interrupted = sweep.interrupts() > 1;
  for (size_t i = 0; i < run.cells.size() && sweep.interrupts() > 0; ++i)
    interrupted |= run.cells[i].not_run || lacks_repetitions(sweep, i);
  run.info.status = interrupted ? "interrupted" : any_failed ? "failed_cells" : "done";
  try {
    for (CellResult& cell : run.cells) {
      if (cell.status == CellStatus::failed) cell.log_tail = log_tail(cell_log_file(sweep.folder->path(), cell));
      sweep.folder->write_cell(cell);
    }
    sweep.folder->finish(run, run_documents(run));
  } catch (const Error& error) {
    if (error.code() != ExitCode::store) throw;
    outcome.store_error = error.what();
  }
  outcome.exit_code = !outcome.store_error.empty() ? ExitCode::store
                      : interrupted                ? ExitCode::interrupted
                      : any_wrong                  ? ExitCode::correctness
                      : any_failed                 ? ExitCode::failed_cells
                                                   : ExitCode::ok;
  outcome.result = std::move(run);
  return outcome;
}

}  // namespace paceline
