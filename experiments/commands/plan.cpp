// runexp plan

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "engine/util/bytes.h"
#include "engine/util/counted.h"
#include "engine/util/machine.h"
#include "engine/util/printable.h"
#include "experiments/commands/command_line.h"
#include "experiments/config/devices.h"
#include "experiments/config/keys/key_help.h"
#include "experiments/results/files/environment.h"
#include "experiments/run/plan/forecast.h"
#include "experiments/run/plan/planned_cell.h"
#include "experiments/run/runner.h"
#include "experiments/ui/output_columns.h"
#include "experiments/workload/arrivals.h"
#include "kernels/cpu/cores.h"

namespace paceline {
namespace {

/// The time of the cells of a sweep that can run; nothing where one of them has no forecast.
class SweepForecast {
 public:
  explicit SweepForecast(const std::vector<Cell>& cells) : cells_(cells), forecaster_(cells) {}

  /// mean_output: tokens of a request's output at most. of_arrivals_s: until the last requests of an open loop are
  /// sent, all repetitions; else 0. The step of a cell that can run; none on GPUs.
  std::optional<StepForecast> add(const Cell& cell, double mean_output, double of_arrivals_s) {
    const std::optional<StepForecast> step = forecaster_.step(cell);
    is_whole_ = is_whole_ && step;
    if (!step) return std::nullopt;
    const ExperimentConfig& config = cell.config;
    const SecondsRange reading = forecast(config, *step, mean_output);
    floor_.low += std::max(reading.low, of_arrivals_s);
    floor_.high += std::max(reading.high, of_arrivals_s);
    longest_step_ms_ = std::max(longest_step_ms_, step->target_bytes / step->read_bytes_s * 1e3);
    read_bytes_s_ = step->read_bytes_s;
    drafts_ = drafts_ || config.speculation.drafts();
    may_end_early_ = may_end_early_ || !config.sampling.ignore_eos;
    const CellResult planned = planned_result(cell, 0, cells_);
    planned_.push_back({{.id = cell.id,
                         .kind = {.model = planned.model,
                                  .load = planned.load,
                                  .proposer = planned.axes.proposer,
                                  .concurrency = planned.axes.concurrency},
                         .num_turns = num_turns(config),
                         .mean_output = mean_output,
                         .max_tokens = config.sampling.max_tokens},
                        of_arrivals_s});
    requests_ = config.workload.requests;
    return step;
  }

  void print(const std::filesystem::path& results_root) const {
    if (!is_whole_ || planned_.empty()) return;
    const bool has_open_loop = std::ranges::any_of(planned_, [](const auto& planned) { return planned.second > 0; });
    print_line(
        "Lower bound: all cells take at least {}{}. It is the time to read the weights once for each pass, at {:.0f} "
        "GB/s as measured now on {} (a pass of the target: {:.2f} ms); prompts, loading and what lies between passes "
        "come on top{}.",
        drafts_ ? fmt::format("{} if every draft token is accepted, {} if none is", time_text(floor_.low),
                              time_text(floor_.high))
                : time_text(floor_.high),
        !may_end_early_ ? ""
        : drafts_       ? ", and if no answer ends early"
                        : " if no answer ends early",
        read_bytes_s_ / 1e9, counted(usable_cores(), "core"), longest_step_ms_,
        has_open_loop ? "; cells of an open loop take at least until their last request is sent" : "");
    std::set<CellKind> kinds;
    for (const auto& [cell, of_arrivals_s] : planned_) kinds.insert(cell.kind);
    const auto known = find_calibration(results_root, this_machine_id(), kinds, requests_);
    if (!known) {
      print_line(
          "No estimate: {} holds no finished run of the same machine, models, loads and proposers. The real time may "
          "be several times the lower bound.",
          results_root.string());
      return;
    }
    SecondsRange expected;
    for (const auto& [cell, of_arrivals_s] : planned_) {
      const SecondsRange busy = calibrated_forecast(*known, cell);
      expected.low += std::max(busy.low, of_arrivals_s);
      expected.high += std::max(busy.high, of_arrivals_s);
    }
    const std::string low = time_text(expected.low), high = time_text(expected.high);
    print_line(
        "Estimate: all cells take about {}, prompts included. It is from the times of run {} ({:.2f}x the time to read "
        "its weights), with the acceptance and the lengths of answers there; loading comes on top.",
        low == high ? low : fmt::format("{} to {}", low, high), known->run, known->ratio);
    if (known->num_noisy > 0)
      print_line("caution: that run was disturbed in {} of {} while it measured them", known->num_noisy,
                 counted(int64_t(known->cells.size()), "cell"));
    if (is_much_smaller(known->requests, requests_))
      print_line("caution: that run had {}, this sweep has {}", counted(known->requests, "request"), requests_);
  }

 private:
  const std::vector<Cell>& cells_;
  Forecaster forecaster_;
  std::vector<std::pair<PlannedCell, double>> planned_;  // with arrivals
  SecondsRange floor_;
  double longest_step_ms_ = 0;  // of one sequence, without drafts
  double read_bytes_s_ = 0;
  int64_t requests_ = 0;
  bool drafts_ = false, may_end_early_ = false, is_whole_ = true;
};

/// Until the last request is sent, all repetitions together; 0 without arrivals.
double arrivals_s(const ArrivalPlan& arrivals, const ExperimentConfig& config) {
  double sum = 0;
  for (int repetition = 0; repetition < config.measure.repetitions; ++repetition) {
    const std::vector<Arrival> drawn = arrivals.arrivals(config.load, config.workload.requests, repetition);
    if (!drawn.empty()) sum += drawn.back().t_s;
  }
  return sum;
}

/// Equal for cells of a load that ask for the same but for speculation.
std::pair<std::string, std::string> twin_key(const Cell& cell) {
  ConfigJson json = config_to_json(cell.config);
  json.erase("speculation");
  return {cell.load_key, json.dump()};
}

/// The cells that decode plainly where others draft, by twin_key().
using PlainTwins = std::map<std::pair<std::string, std::string>, const Cell*>;

/// "; break-even AL over tp1_pp1_none_c1: 1.40": against the same placement, which the baseline need not be.
std::string break_even_text(const std::vector<Cell>& cells, const PlainTwins& twins, const Cell& cell,
                            const std::optional<StepForecast>& step) {
  const std::optional<double> length = step ? break_even_length(cell.config, *step) : std::nullopt;
  const auto twin = length ? twins.find(twin_key(cell)) : twins.end();
  if (twin == twins.end()) return "";
  const bool is_baseline = cell.baseline && &cells[*cell.baseline] == twin->second;
  const int most = cell.config.speculation.num_speculative_tokens + 1;
  constexpr double kAsPrinted = 0.005;
  return fmt::format("; break-even AL{}: {:.2f}{}", is_baseline ? "" : " over " + twin->second->id, *length,
                     *length > most - kAsPrinted ? fmt::format(" (at most k + 1 = {})", most) : "");
}

/// A load that can run, or why its cells cannot.
struct PlannedLoad {
  LengthLimit limit;
  std::string cut_outputs;              // cut_outputs_text() of its cell with the longest outputs
  std::map<std::string, Error> errors;  // of cells that cannot run, by Cell::draft_key
  std::optional<Error> problem;         // one of them, of cells without a second model where they cannot run
  bool runs = false;                    // some cells can

  void refuse(const Cell& cell, const Error& error) {
    errors.emplace(cell.draft_key, error);
    if (!problem || cell.draft_key.empty()) problem = error;
  }
};

/// Memory of each rank and of all against what there is, and what a pass sends between ranks.
void print_memory(const ExperimentConfig& config, const LoadPlan& plan) {
  const bool are_apart = on_cuda(config.engine);  // each rank with a memory of its own
  const auto gib = [](size_t bytes) { return double(bytes) / kGiB; };
  const int64_t num_blocks = plan.memory.num_blocks;
  size_t total = 0, sent = 0, most_sent = 0;
  for (size_t i = 0; i < plan.ranks.size(); ++i) {
    const RankMemory& rank = plan.ranks[i];
    print_line("     rank {}: weights {:.3f} + workspace {:.3f} + KV {:.3f} + draft KV {:.3f} = {:.3f} GiB{}", i,
               gib(rank.weights), gib(rank.workspace), gib(rank.kv(num_blocks)), gib(rank.draft_kv(num_blocks)),
               gib(rank.total(num_blocks)),
               are_apart ? fmt::format(" of {:.3f} free", gib(plan.devices[i].limit_bytes)) : "");
    total += rank.total(num_blocks);
    sent += rank.comm_bytes;
    most_sent = std::max(most_sent, rank.comm_bytes);
  }
  size_t limit = 0;
  for (const PlannedDevice& device : plan.devices) limit += device.limit_bytes;
  const bool one_decides = plan.devices.size() > 1 && num_blocks == plan.memory.blocks_that_fit;
  print_line("     in all: {}{}; {:.3f} of {:.3f} GiB{}; max_model_len {}{}, {}", plan.memory.describe(),
             one_decides ? fmt::format(", as many as {} holds", plan.devices[plan.memory.fullest_device].name) : "",
             gib(total), gib(limit),
             are_apart ? " free on the devices" : fmt::format(", {:.3f} free now", gib(available_memory_bytes())),
             plan.max_model_len,
             plan.max_model_len_from == LengthSource::kv_cache ? " (auto, cut to the KV cache)" : "",
             counted(plan.max_num_seqs, "sequence"));
  if (sent > 0)
    print_line(
        "     ranks send {:.1f} KiB per row of a decode pass (at most {:.1f} each); "
        "a sequence has 1 row, or k + 1 with k draft tokens",
        double(sent) / 1024, double(most_sent) / 1024);
}

/// Names a server that is not ours.
PlannedLoad print_server(const Cell& cell, int number) {
  const ServerConfig& server = cell.config.server;
  print_line("server {}: {}", number,
             user_text(server.endpoint ? *server.endpoint : fmt::format("started by {}", *server.command)));
  PlannedLoad out;
  out.limit.max_model_len = std::numeric_limits<int>::max();  // it knows
  out.runs = true;
  return out;
}

/// Names a load with its memory per rank.
PlannedLoad print_load(const std::vector<Cell>& cells, const Cell& first, int number, PlannedRequests& requests) {
  const auto& parallel = first.config.engine.parallel;
  LoadLimits limits = limits_of(cells, first.load_key);
  const int threads = parallel.tp * parallel.pp * limits.threads_per_rank;
  print_line("load {}: {} tp{} pp{}, {} a rank{}", number, user_text(target_name(first.config)), parallel.tp,
             parallel.pp, counted(limits.threads_per_rank, "thread"),
             threads > usable_cores() ? fmt::format(", oversubscribed ({} on {})", counted(threads, "thread"),
                                                    counted(usable_cores(), "core"))
                                      : "");
  std::vector<const Cell*> planned;
  std::map<std::string, const Cell*> kinds;  // one for each second model, and one without
  const Cell* longest = &first;
  for (const Cell& cell : cells) {
    if (cell.load_key != first.load_key || cell.skip_reason) continue;
    planned.push_back(&cell);
    kinds.emplace(cell.draft_key, &cell);
    if (cell.config.sampling.max_tokens > longest->config.sampling.max_tokens) longest = &cell;
  }
  PlannedLoad out;
  const auto refuse = [&](const Cell& cell, const Error& error) {
    const bool others_go_on = kinds.size() > 1 && !cell.draft_key.empty();
    print_line("     ✗ {}{}", others_go_on ? fmt::format("with proposer {}: ", cell.config.speculation.proposer) : "",
               message_text(error.what()));
    out.refuse(cell, error);
    std::erase_if(planned, [&](const Cell* other) { return other->draft_key == cell.draft_key; });
  };
  // As the runner opens it: with a draft model when one of its cells drafts; where that fails, without it.
  while (!planned.empty() && !out.runs) {
    const auto drafts =
        std::find_if(planned.begin(), planned.end(), [](const Cell* c) { return !c->draft_key.empty(); });
    const Cell& cell = drafts == planned.end() ? *planned.front() : **drafts;
    limits.cells.clear();
    for (const Cell* const other : planned) limits.cells.push_back(&other->config);
    try {
      check_gpu_code(rank_devices(cell.config.engine));
      const LoadPlan plan = plan_load(cell.config, limits);
      check_draft_vocabulary(cell.config);
      print_memory(cell.config, plan);
      out.limit = length_limit(cell.config, plan);
      requests.check_fit(cell.config, out.limit);
      out.cut_outputs = requests.cut_outputs(longest->config, out.limit);
      out.runs = true;
    } catch (const Error& error) {
      refuse(cell, error);
    }
  }
  for (const auto& [key, cell] : kinds) {  // further second models come with the first cell that asks for one
    if (key.empty() || out.errors.contains(key)) continue;
    try {
      plan_load(cell->config, limits);
      check_draft_vocabulary(cell->config);
    } catch (const Error& error) {
      refuse(*cell, error);
    }
  }
  return out;
}

/// Why points of the sweep became one: "load.concurrency acts only with load.mode closed", for each axis that some cell
/// does not read.
std::string void_axes_text(const LoadedConfig& loaded, const std::vector<Cell>& cells) {
  std::vector<std::string> texts;
  for (const SweepAxis& axis : loaded.config.sweep.axes) {
    const KeySpec* const key = find_key(axis.path);
    const bool is_read = !key || std::all_of(cells.begin(), cells.end(),
                                             [&](const Cell& cell) { return key_applies(*key, cell.config); });
    if (!is_read) texts.push_back(fmt::format("{} acts only with {}", axis.path, scope_text(*key)));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

/// What of the sweep is no cell: ""; "2 excluded, 12 duplicates dropped (load.concurrency acts only with load.mode
/// closed)".
std::string left_out_text(const LoadedConfig& loaded, const ExpandedSweep& sweep) {
  std::vector<std::string> parts;
  if (sweep.num_excluded > 0) parts.push_back(fmt::format("{} excluded by sweep.exclude", sweep.num_excluded));
  if (sweep.num_collapsed > 0) {
    const std::string why = void_axes_text(loaded, sweep.cells);
    parts.push_back(counted(sweep.num_collapsed, "duplicate") + " dropped" + (why.empty() ? "" : " (" + why + ")"));
  }
  if (sweep.num_unselected > 0) parts.push_back(fmt::format("{} left out by --only", sweep.num_unselected));
  return fmt::format("{}", fmt::join(parts, ", "));
}

/// "3 repetitions", "1 to 7 repetitions": of the cells that are not skipped.
std::string repetitions_text(const std::vector<Cell>& cells) {
  int least = 0, most = 0;
  for (const Cell& cell : cells) {
    if (cell.skip_reason) continue;
    const int count = cell.config.measure.repetitions;
    least = least == 0 ? count : std::min(least, count), most = std::max(most, count);
  }
  return least == most ? counted(most, "repetition") : fmt::format("{} to {} repetitions", least, most);
}

/// A line for each concurrency that cells are named by and cannot reach.
std::set<std::string> unreachable_concurrencies(const std::vector<Cell>& cells) {
  std::set<std::string> lines;
  for (const Cell& cell : cells) {
    if (cell.skip_reason || cell.config.is_foreign()) continue;
    const ConcurrencyLimits limits = concurrency_limits(cell.config);
    const int64_t reached = reachable_concurrency(limits);
    if (reached >= limits.concurrency) continue;
    const bool is_static = cell.config.engine.scheduler.batching == BatchingMode::static_turns;
    const char* const key = limits.requests == reached ? "workload.requests"
                            : is_static                ? "engine.scheduler.static_batch_size"
                                                       : "engine.scheduler.max_num_seqs";
    lines.insert(fmt::format("caution: c={}: at most {} at once, as {} is {}; raise it, or lower load.concurrency",
                             limits.concurrency, counted(reached, "request is", "requests are"), key, reached));
  }
  return lines;
}

/// Prints cells, skips with reasons, loads, memory per rank and the time at least; nothing is loaded. Throws the first
/// reason why a load cannot run, when all is said.
ExitCode plan_command(const RunCommand& command) {
  const LoadedConfig loaded = load_config(command.config, command.overrides);
  const ExpandedSweep expanded = expand_counted(loaded, machine_context(loaded.config.engine));
  const std::vector<Cell>& cells = expanded.cells;
  check_splits(loaded, cells, SplitRule::some_cell);
  ArrivalPlan arrivals;
  for (const Cell& cell : cells)
    if (!cell.skip_reason) arrivals.prepare(cell.config.load, loaded.config.workload.requests);
  PlannedRequests requests(loaded.config.workload);
  SweepForecast sweep(cells);
  PlainTwins twins;
  for (const Cell& cell : cells)
    if (!cell.skip_reason && !cell.config.speculation.drafts()) twins.emplace(twin_key(cell), &cell);
  int64_t num_to_run = 0, num_skipped = 0, num_cannot_run = 0, num_loads = 0;
  int num_tried = 0;
  std::optional<Error> problem;  // the first one
  PlannedLoad load;              // under way
  std::string last_load, cut_outputs;
  print_line("{}: {}", printable(command.config.string()), counted(int64_t(cells.size()), "cell"));
  if (const std::string left_out = left_out_text(loaded, expanded); !left_out.empty()) print_wrapped(left_out);
  for (const Cell& cell : cells) {
    if (cell.skip_reason) {
      print_line("  skip {:<28} {}", cell.id, *cell.skip_reason);
      ++num_skipped;
      continue;
    }
    if (cell.load_key != last_load) {
      last_load = cell.load_key;
      load =
          cell.config.is_foreign() ? print_server(cell, ++num_tried) : print_load(cells, cell, ++num_tried, requests);
      if (cut_outputs.empty()) cut_outputs = load.cut_outputs;
      if (!problem) problem = load.problem;
      num_loads += load.runs ? 1 : 0;
    }
    if (load.errors.contains(cell.draft_key)) {
      print_line("  ✗    {:<28} cannot run", cell.id);
      ++num_cannot_run;
      continue;
    }
    ++num_to_run;
    const std::optional<StepForecast> step =
        sweep.add(cell, requests.mean_output(cell.config, load.limit), arrivals_s(arrivals, cell.config));
    print_line("  run  {:<28} {}{}", cell.id,
               cell.is_baseline ? "baseline itself"
               : cell.baseline  ? "baseline " + cells[*cell.baseline].id
                                : "no baseline",
               break_even_text(cells, twins, cell, step));
  }
  print_line("{} to run in {}, {} skipped{}; {} of at most {}, {}", num_to_run, counted(num_loads, "load"), num_skipped,
             num_cannot_run > 0 ? fmt::format(", {} cannot run", num_cannot_run) : "",
             counted(loaded.config.workload.requests, "request"), counted(loaded.config.sampling.max_tokens, "token"),
             repetitions_text(cells));
  if (!requests.were_read())
    print_line("caution: {} is larger than {} MiB: its prompts are neither checked nor counted here",
               loaded.config.workload.file.string(), PlannedRequests::kMostDatasetBytes >> 20);
  if (!cut_outputs.empty()) print_line("caution: {}", cut_outputs);
  for (const std::string& line : unreachable_concurrencies(cells)) print_wrapped(line);
  sweep.print(command.results_root);
  check_not_all_skipped(cells);
  if (problem) throw *problem;
  return ExitCode::ok;
}

}  // namespace

void add_plan_command(const Command& program) {
  const auto plan = std::make_shared<RunCommand>();
  add_config_options(program.below("plan", "dry run: list cells, memory per rank, and skipped cells with the reason"),
                     plan->config, plan->overrides)
      .option("--results", &plan->results_root, "folder of earlier runs, to estimate times by",
              {.shown = true, .type = "DIR"})
      .footer(
          "Examples:\n"
          "  runexp plan configs/ngram_tp2.json --profile quick\n"
          "  runexp plan configs/ngram_tp2.json --axis tp=1,2,4\n\n"
          "Two times are printed: a lower bound (weight bytes over the bandwidth measured now) and,\n"
          "where --results has a finished run like this one, an estimate from it.\n"
          "Break-even AL: the mean acceptance length (1 + accepted tokens / verify steps with drafts)\n"
          "at which decoding is as fast as without drafts, if a pass costs what reading weights costs.")
      .calls([plan] { return plan_command(*plan); });
}

}  // namespace paceline
