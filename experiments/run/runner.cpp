#include "experiments/run/runner.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <tuple>

#include "engine/util/machine.h"
#include "experiments/analysis/certificate.h"
#include "experiments/analysis/flips.h"
#include "experiments/analysis/summary.h"
#include "experiments/report/text.h"
#include "experiments/results/environment.h"
#include "experiments/results/store.h"
#include "experiments/run/check_splits.h"
#include "experiments/run/devices.h"
#include "experiments/run/measure_devices.h"
#include "experiments/run/planned_result.h"
#include "experiments/run/repetition.h"
#include "experiments/run/sample_texts.h"
#include "experiments/run/target_logits.h"
#include "experiments/workload/arrivals.h"
#include "experiments/workload/workload.h"
#include "kernels/cpu/cores.h"
#include "speculative/vocabulary.h"

namespace paceline {
namespace {

/// The run under way: what the steps below share.
struct Sweep {
  const LoadedConfig& loaded;
  Progress& progress;
  const RunOptions& options;
  std::vector<Cell> cells;
  RunResult run;
  std::unique_ptr<RunFolder> folder;
  std::vector<Prompt> prompts;
  ArrivalPlan arrivals;
  std::map<std::tuple<std::filesystem::path, ChatFormat, int>, std::vector<EncodedPrompt>>
      encoded;  // by model, format, max_model_len
  std::map<std::pair<std::vector<std::string>, Numerics>, DeviceCeilings> gpu_ceilings;  // by the ranks' devices
  int num_failures = 0;
  bool stop = false;
  bool told_to_wait = false;  // after the first interrupt
  bool wants_new_process = false;

  int interrupts() const { return options.interrupts ? options.interrupts() : 0; }
  std::string reason_of_stop() const {
    if (interrupts() > 0) return "not run: interrupted";
    return fmt::format("not run: the sweep stopped after {} failure{}", num_failures, num_failures == 1 ? "" : "s");
  }

  /// Asked between steps: true ends the pass under way.
  bool stop_now() {
    heed_interrupts();
    return interrupts() >= 2;
  }

  /// One interrupt ends the sweep after the pass under way.
  void heed_interrupts() {
    if (interrupts() == 0) return;
    stop = true;
    if (told_to_wait) return;
    told_to_wait = true;
    progress.message("stopping after this pass; interrupt again to stop now\n");
  }

  void fail_cell(size_t cell, const std::string& reason) {
    record_failure(cell, reason);
    count_failure();
  }

  void record_failure(size_t cell, const std::string& reason) {
    CellResult& result = run.cells[cell];
    if (result.status == CellStatus::failed) return;
    result.status = CellStatus::failed;
    result.reason = reason;
    progress.cell_finished({.label = result.id,
                            .status = "failed",
                            .reason = reason,
                            .tok_s = {},
                            .speedup = {},
                            .acceptance_length = {},
                            .acceptance_rate = {},
                            .certificate = {}});
    folder->record_failure(result);
    folder->write_cell(result);
  }

  void count_failure() {
    const SweepConfig& sweep = loaded.config.sweep;
    if (++num_failures >= sweep.max_failures || sweep.on_error == OnError::stop) stop = true;
  }
};

RepetitionOptions repetition_options(Sweep& sweep, const ExperimentConfig& config) {
  RepetitionOptions options{.sampling = sampling_params(config.sampling),
                            .concurrency = config.load.mode == LoadMode::closed ? config.load.concurrency : 0,
                            .arrivals = {},
                            .timeout_s = config.sweep.cell_timeout_s,
                            .on_progress = {},
                            .stop_now = [&sweep] { return sweep.stop_now(); }};
  const bool drafts = config.speculation.proposer != "none";
  options.on_progress = [&sweep, drafts](const RepetitionProgress& now) {
    sweep.progress.update({.fraction = now.fraction,
                           .tok_s = now.tok_s,
                           .recent_tok_s = now.recent_tok_s,
                           .acceptance_length = drafts ? std::optional(now.acceptance_length) : std::nullopt,
                           .ttft_ms = now.ttft_ms,
                           .kv_share = now.kv_share});
  };
  return options;
}

void warm_up(EngineLoad& load, const Cell& cell, std::span<const EncodedPrompt> prompts, Sweep& sweep) {
  RepetitionOptions options = repetition_options(sweep, cell.config);
  options.on_progress = {};
  const size_t count = std::min(prompts.size(), size_t(std::max(0, cell.config.measure.warmup_requests)));
  // Without arrivals an open loop warms up with all of these at once.
  if (count > 0) run_repetition(load, cell.config, prompts.first(count), options);
}

void finish_cell(Sweep& sweep, size_t index) {
  CellResult& result = sweep.run.cells[index];
  const std::vector<std::string> problems = record_problems(result);
  if (!problems.empty()) {
    sweep.fail_cell(index, "records: " + problems.front());
    return;
  }
  const CellSummary summary = summarize_cell(result);
  sweep.progress.cell_finished({.label = result.id,
                                .status = "done",
                                .reason = {},
                                .tok_s = summary.output_tok_s,
                                .speedup = {},
                                .acceptance_length = summary.mean_acceptance_length,
                                .acceptance_rate = summary.draft_acceptance_rate,
                                .certificate = {}});
}

/// The sweep's prompts for one model, encoded once for all its loads.
const std::vector<EncodedPrompt>& encode_for(Sweep& sweep, const ExperimentConfig& config, const Tokenizer& tokenizer,
                                             int max_model_len) {
  const ChatFormat format = config.workload.chat_template ? ChatFormat::template_of_model : ChatFormat::raw_text;
  const std::filesystem::path& model = config.engine.target.directory;
  const auto key = std::tuple(model, format, max_model_len);
  const auto found = sweep.encoded.find(key);
  return found != sweep.encoded.end()
             ? found->second
             : sweep.encoded.emplace(key, encode_prompts(sweep.prompts, tokenizer, model, format, max_model_len))
                   .first->second;
}

/// Of CPUs for each cell, as they depend on where its weights lie; of GPUs once for each placement and kind of
/// numerics.
DeviceCeilings ceilings_for(Sweep& sweep, EngineLoad& load, const ExperimentConfig& config) {
  if (!on_cuda(config.engine)) return measure_ceilings(load, config);
  const TeamOptions& team = load.team().options();
  const auto key = std::pair(team.placement.devices, team.numerics);
  const auto found = sweep.gpu_ceilings.find(key);
  return found != sweep.gpu_ceilings.end()
             ? found->second
             : sweep.gpu_ceilings.emplace(key, measure_ceilings(load, config)).first->second;
}

/// "strict", "fast", or both where cells differ.
std::string numerics_text(const std::vector<Cell>& cells) {
  std::set<std::string_view> used;
  for (const Cell& cell : cells) {
    const Numerics numerics = cell.config.engine.numerics;
    if (!cell.skip_reason) used.insert(names_of(numerics)[size_t(numerics)]);
  }
  return fmt::format("{}", fmt::join(used, " and "));
}

/// Cells in fast numerics that are to be compared and whose logits `load_cells` can check: of the cell and its
/// reference, the one that ran last is among these.
std::vector<size_t> cells_to_check(const Sweep& sweep, const std::vector<size_t>& load_cells) {
  std::vector<size_t> cells;
  if (!sweep.loaded.config.measure.verify_lossless) return cells;
  const References references(sweep.run);
  const auto is_here = [&](const CellResult& cell) {
    return std::find(load_cells.begin(), load_cells.end(), size_t(cell.index)) != load_cells.end();
  };
  for (const CellResult& cell : sweep.run.cells) {
    const CellResult* const reference = has_fast_numerics(cell) ? compared_with(references, cell) : nullptr;
    if (reference && (is_here(cell) || is_here(*reference)) && cell.logits.reference != reference->id)
      cells.push_back(size_t(cell.index));
  }
  return cells;
}

void check_flips_of(Sweep& sweep, size_t index, EngineLoad& load, std::span<const EncodedPrompt> prompts) {
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

/// Whether the cell lacks repetitions that it is to have.
bool lacks_repetitions(const Sweep& sweep, size_t index) {
  const CellResult& result = sweep.run.cells[index];
  return result.status == CellStatus::done &&
         int(result.repetitions.size()) < sweep.cells[index].config.measure.repetitions;
}

void record_start(Sweep& sweep, std::span<const size_t> cells) {
  std::vector<const CellResult*> results;
  for (const size_t index : cells) results.push_back(&sweep.run.cells[index]);
  sweep.folder->record_start(results);
}

/// A pass that was paused (Ctrl-Z) measured the pause: it is made again.
RepetitionResult run_undisturbed(Sweep& sweep, EngineLoad& load, const ExperimentConfig& config,
                                 std::span<const EncodedPrompt> prompts, const RepetitionOptions& options) {
  const auto pauses = [&] { return sweep.options.pauses ? sweep.options.pauses() : 0; };
  for (;;) {
    const int before = pauses();
    RepetitionResult result = run_repetition(load, config, prompts, options);
    if (pauses() == before || sweep.interrupts() > 0) return result;
    sweep.progress.message("the process was paused: this pass is made again\n");
  }
}

/// The cells of one load that lack repetitions: warm up each, then repetitions in random blocks, so that drift spreads
/// evenly.
void run_load(Sweep& sweep, const std::vector<size_t>& planned) {
  std::vector<size_t> group;
  std::copy_if(planned.begin(), planned.end(), std::back_inserter(group),
               [&](size_t index) { return lacks_repetitions(sweep, index); });
  if (group.empty() && cells_to_check(sweep, planned).empty()) return;
  record_start(sweep, group);
  const Cell& first = sweep.cells[planned.front()];
  const auto with_draft = std::find_if(planned.begin(), planned.end(),
                                       [&](size_t i) { return sweep.cells[i].config.speculation.proposer == "draft"; });
  const ExperimentConfig& load_config = sweep.cells[with_draft == planned.end() ? planned.front() : *with_draft].config;
  sweep.progress.phase(fmt::format("loading {} on tp{} pp{}", target_name(first.config),
                                   first.config.engine.parallel.tp, first.config.engine.parallel.pp));
  const LoadLimits limits = limits_of(sweep.cells, first.load_key, sweep.run.info.auto_threads_per_rank);
  std::unique_ptr<EngineLoad> load;
  std::vector<EncodedPrompt> prompts;
  const auto open = [&] {
    load = std::make_unique<EngineLoad>(load_config, limits);
    prompts = encode_for(sweep, first.config, *load->tokenizer(), load->plan().max_model_len);
  };
  try {
    open();
  } catch (const Error& error) {
    // A draft model that does not load takes only the cells along that draft. One load is one failure.
    std::vector<size_t> others;
    for (size_t index : group) {
      if (with_draft != planned.end() && sweep.cells[index].config.speculation.proposer != "draft")
        others.push_back(index);
      else
        sweep.record_failure(index, error.what());
    }
    if (others.empty())
      sweep.count_failure();
    else
      run_load(sweep, others);
    return;
  }

  // A device or communication error leaves the ranks unusable: the next cell gets fresh ones.
  const auto guarded = [&](size_t index, const auto& body) {
    try {
      if (!load) open();
      body();
    } catch (const Error& error) {
      if (error.code() == ExitCode::store) throw;
      if (error.code() == ExitCode::interrupted) {
        sweep.stop = true;
        CellResult& result = sweep.run.cells[index];
        result.status = CellStatus::failed;
        result.reason = "interrupted";
        return;
      }
      if (error.code() != ExitCode::usage) load.reset();
      sweep.fail_cell(index, error.what());
      const bool on_gpu = on_cuda(sweep.cells[index].config.engine) && error.code() != ExitCode::usage;
      if (on_gpu && sweep.options.after_device_error == AfterDeviceError::new_process && !sweep.stop)
        sweep.wants_new_process = sweep.stop = true;
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
      warm_up(*load, cell, prompts, sweep);
      result.effective = load->effective(cell.config, *load->make_engine(cell.config));
      result.oversubscribed = load->team().oversubscribed();
      result.load_s = load->load_seconds();
      result.ceilings = ceilings_for(sweep, *load, cell.config);
      const MemoryPlan& memory = load->plan().memory;
      result.memory = {.weights_bytes = int64_t(memory.weight_bytes),
                       .kv_bytes = int64_t(memory.target_kv_bytes + memory.draft_kv_bytes),
                       .workspace_bytes = int64_t(memory.workspace_bytes)};
      const auto differences = effective_differences(cell, result.effective);
      if (!differences.empty()) fail(ExitCode::usage, "the engine did not run what was asked: {}", differences.front());
      sweep.folder->record_load(result);
    });
  }
  const int repetitions = first.config.measure.repetitions;
  std::mt19937_64 random(uint64_t(first.config.measure.block_seed));
  for (int repetition = 0; repetition < repetitions && !sweep.stop; ++repetition) {
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
        result.repetitions.push_back(run_undisturbed(sweep, *load, cell.config, prompts, pass));
        sweep.folder->record_repetition(result);
        sweep.progress.repetition_finished();
      });
      sweep.heed_interrupts();
    }
  }
  for (size_t index : group) {
    CellResult& result = sweep.run.cells[index];
    if (result.status != CellStatus::done) continue;
    if (result.repetitions.empty()) {
      result.status = CellStatus::skipped;
      result.reason = sweep.reason_of_stop();
      continue;
    }
    if (sweep.wants_new_process) continue;
    result.memory.rss_peak_bytes = int64_t(process_memory().peak_resident_bytes);
    sweep.folder->record_load(result);
    finish_cell(sweep, index);
  }
  if (load) {
    for (size_t index : group)
      keep_sample_texts(sweep.run.cells[index], sweep.prompts, *load->tokenizer(), sweep.run.sample_texts);
  }
  if (sweep.wants_new_process || sweep.interrupts() >= 2) return;
  for (const size_t index : cells_to_check(sweep, planned))
    guarded(index, [&] { check_flips_of(sweep, index, *load, prompts); });
}

/// Of cells that another process finished.
void keep_missing_sample_texts(Sweep& sweep) {
  std::map<std::filesystem::path, std::shared_ptr<const Tokenizer>> tokenizers;
  for (size_t i = 0; i < sweep.cells.size(); ++i) {
    const CellResult& cell = sweep.run.cells[i];
    if (cell.status != CellStatus::done || cell.repetitions.empty()) continue;
    auto& tokenizer = tokenizers[sweep.cells[i].config.engine.target.directory];
    if (!tokenizer) tokenizer = Tokenizer::load(sweep.cells[i].config.engine.target.directory);
    keep_sample_texts(cell, sweep.prompts, *tokenizer, sweep.run.sample_texts);
  }
}

/// What EngineLoad and encode_for() would complain about, without reading weights.
void check_can_run(Sweep& sweep, const ExperimentConfig& config, const LoadLimits& limits) {
  const LoadPlan plan = plan_load(config, limits);
  const auto tokenizer = Tokenizer::load(config.engine.target.directory);
  if (config.speculation.proposer == "draft" && !config.speculation.draft.self)
    compare_vocabularies(*tokenizer, *Tokenizer::load(config.speculation.draft.directory));
  encode_for(sweep, config, *tokenizer, plan.max_model_len);
}

/// A sweep of which no cell can run is a mistake in the configuration, not a result: throws the first reason.
void check_some_cell_can_run(Sweep& sweep, const std::vector<std::vector<size_t>>& groups) {
  const std::vector<Cell>& cells = sweep.cells;
  std::optional<Error> first;
  for (const std::vector<size_t>& group : groups) {
    std::set<std::string> tried;
    for (size_t index : group) {
      const ExperimentConfig& config = cells[index].config;
      if (!tried.insert(config.speculation.proposer == "draft" ? "draft" : "other").second) continue;
      try {
        check_can_run(sweep, config, limits_of(cells, cells[index].load_key, sweep.run.info.auto_threads_per_rank));
        return;
      } catch (const Error& error) {
        if (!first) first = error;
      }
    }
  }
  if (first) throw *first;
}

}  // namespace

LoadLimits limits_of(const std::vector<Cell>& cells, const std::string& load_key, int auto_threads) {
  LoadLimits limits;
  const int automatic = auto_threads > 0 ? auto_threads : auto_threads_per_rank(cells, usable_cores());
  for (const Cell& cell : cells) {
    if (cell.load_key != load_key || cell.skip_reason) continue;
    limits.threads_per_rank = cell.config.engine.parallel.threads_per_rank.value_or(automatic);
    limits.max_draft_len = std::max(limits.max_draft_len, cell.config.speculation.num_speculative_tokens);
    limits.max_concurrency = std::max(limits.max_concurrency, cell.config.load.concurrency);
  }
  return limits;
}

RunOutcome run_experiment(const LoadedConfig& loaded, Progress& progress, const RunOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  Sweep sweep{.loaded = loaded,
              .progress = progress,
              .options = options,
              .cells = expand(loaded, machine_context(loaded.config.engine)),
              .run = {},
              .folder = nullptr,
              .prompts = {},
              .arrivals = {},
              .encoded = {},
              .gpu_ceilings = {}};
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
              .id = {},
              .profile = loaded.profile,
              .config_path = loaded.file.string(),
              .argv = options.argv,
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
  for (size_t i = 0; i < sweep.cells.size(); ++i)
    run.cells.push_back(planned_result(sweep.cells[i], int(i), sweep.cells));
  std::vector<std::vector<size_t>> groups;
  for (size_t i = 0; i < sweep.cells.size(); ++i) {
    if (sweep.cells[i].skip_reason) continue;
    if (groups.empty() || sweep.cells[groups.back().front()].load_key != sweep.cells[i].load_key) groups.emplace_back();
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
    for (const size_t index : retried) sweep.folder->record_retry(run.cells[index]);
    sweep.num_failures = int(std::count_if(run.cells.begin(), run.cells.end(),
                                           [](const CellResult& cell) { return cell.status == CellStatus::failed; }));
    const SweepConfig& limits = loaded.config.sweep;
    if (sweep.num_failures >= limits.max_failures || (sweep.num_failures > 0 && limits.on_error == OnError::stop))
      sweep.stop = true;
    for (size_t i = 0; i < run.cells.size(); ++i) {  // the process may have ended before it checked them
      const CellResult& cell = run.cells[i];
      if (cell.status != CellStatus::done || cell.repetitions.empty() || lacks_repetitions(sweep, i)) continue;
      if (const auto problems = record_problems(cell); !problems.empty())
        sweep.fail_cell(i, "records: " + problems.front());
    }
    wall_before_s = recorded.run.wall_s;
  } else {
    check_some_cell_can_run(sweep, groups);
    sweep.folder = std::make_unique<RunFolder>(options.results_root, run, experiment);
  }
  if (options.on_folder) options.on_folder(sweep.folder->path());
  int num_repetitions = 0;
  for (size_t i = 0; i < run.cells.size(); ++i) {
    if (lacks_repetitions(sweep, i))
      num_repetitions += sweep.cells[i].config.measure.repetitions - int(run.cells[i].repetitions.size());
  }
  progress.begin(run.info.name, int(sweep.cells.size()), num_repetitions);
  for (const Cell& cell : sweep.cells) {
    if (cell.skip_reason)
      progress.cell_finished({.label = cell.id,
                              .status = "skipped",
                              .reason = *cell.skip_reason,
                              .tok_s = {},
                              .speedup = {},
                              .acceptance_length = {},
                              .acceptance_rate = {},
                              .certificate = {}});
  }
  for (const auto& group : groups) {
    if (sweep.stop) {
      for (size_t index : group) {
        if (!lacks_repetitions(sweep, index) || !run.cells[index].repetitions.empty()) continue;
        run.cells[index].status = CellStatus::skipped;
        run.cells[index].reason = sweep.reason_of_stop();
      }
      continue;
    }
    run_load(sweep, group);
  }
  if (options.resume && !sweep.wants_new_process) keep_missing_sample_texts(sweep);
  progress.end();
  if (sweep.wants_new_process) return {.result = std::move(run), .exit_code = ExitCode::ok, .wants_new_process = true};
  if (loaded.config.measure.verify_lossless) certify(run);
  run.wall_s = wall_before_s + std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();

  RunOutcome outcome;
  bool any_failed = false, any_wrong = false;
  for (const CellResult& cell : run.cells) {
    any_failed = any_failed || cell.status == CellStatus::failed;
    any_wrong = any_wrong || cell.certificate.status == CertificateStatus::fail;
  }
  const bool interrupted = sweep.interrupts() > 0;
  run.info.status = interrupted ? "interrupted" : any_failed ? "failed_cells" : "done";
  for (const CellResult& cell : run.cells) sweep.folder->write_cell(cell);
  sweep.folder->finish(run);
  outcome.exit_code = interrupted  ? ExitCode::interrupted
                      : any_wrong  ? ExitCode::correctness
                      : any_failed ? ExitCode::failed_cells
                                   : ExitCode::ok;
  outcome.result = std::move(run);
  return outcome;
}

}  // namespace paceline
