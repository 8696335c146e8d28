// runexp plan

#include "experiments/commands/command_line.h"
#include "experiments/run/check_splits.h"
#include "experiments/run/forecast.h"
#include "experiments/run/runner.h"
#include "experiments/ui/progress.h"
#include "kernels/cpu/cores.h"

namespace paceline {
namespace {

/// Weights over all ranks.
struct Bytes {
  double target = 0, draft = 0;
};

Bytes bytes_of(const ExperimentConfig& config, const LoadPlan& plan, const LoadLimits& limits) {
  const auto sum = [](const LoadPlan& of) {
    double total = 0;
    for (const size_t bytes : of.weight_bytes_per_rank) total += double(bytes);
    return total;
  };
  if (config.speculation.proposer != "draft") return {.target = sum(plan), .draft = 0};
  ExperimentConfig without = config;
  without.speculation.proposer = "none";
  const double target = sum(plan_load(without, limits));
  return {.target = target, .draft = config.speculation.draft.self ? target : sum(plan) - target};
}

/// Cells, skips with reasons, loads, memory per rank and the time at least; nothing is loaded.
ExitCode plan_command(const std::filesystem::path& config, const ConfigOverrides& overrides) {
  const LoadedConfig loaded = load_config(config, overrides);
  const std::vector<Cell> cells = expand(loaded, machine_context(loaded.config.engine));
  check_splits(loaded, cells, SplitRule::some_cell);
  constexpr double kMiB = 1024.0 * 1024.0;
  int num_skipped = 0, num_loads = 0;
  std::optional<Error> problem;  // the first one
  std::string last_load;
  Bytes bytes;
  std::optional<double> rate;  // of this machine's memory
  SecondsRange seconds;
  double step_ms = 0;  // the longest of one sequence
  bool is_forecast = true;
  fmt::print("{}: {} cells\n", config.string(), cells.size());
  for (const Cell& cell : cells) {
    if (cell.skip_reason) {
      ++num_skipped;
      fmt::print("  skip {:<28} {}\n", cell.id, *cell.skip_reason);
      continue;
    }
    if (cell.load_key != last_load) {
      last_load = cell.load_key;
      ++num_loads;
      const auto& parallel = cell.config.engine.parallel;
      const LoadLimits limits = limits_of(cells, cell.load_key);
      const int threads = parallel.tp * parallel.pp * limits.threads_per_rank;
      fmt::print("load {}: {} tp{} pp{}, {} threads a rank{}\n", num_loads, target_name(cell.config), parallel.tp,
                 parallel.pp, limits.threads_per_rank,
                 threads > usable_cores()
                     ? fmt::format(", oversubscribed ({} threads on {} cores)", threads, usable_cores())
                     : "");
      try {
        // The load is planned as the runner opens it: with the draft model when one of its cells drafts.
        const Cell* planned = &cell;
        for (const Cell& other : cells) {
          if (other.load_key == cell.load_key && !other.skip_reason && other.config.speculation.proposer == "draft")
            planned = &other;
        }
        const LoadPlan plan = plan_load(planned->config, limits);
        bytes = bytes_of(planned->config, plan, limits);
        for (size_t rank = 0; rank < plan.weight_bytes_per_rank.size(); ++rank)
          fmt::print("     rank {}: weights {:.1f} MiB\n", rank, double(plan.weight_bytes_per_rank[rank]) / kMiB);
        fmt::print("     {}; max_model_len {}, {} sequences\n", plan.memory.describe(), plan.max_model_len,
                   plan.max_num_seqs);
      } catch (const Error& error) {
        if (!problem) problem = error;
        fmt::print("     ✗ {}\n", error.what());
      }
    }
    if (on_cuda(cell.config.engine) || bytes.target == 0) {
      is_forecast = false;
    } else {
      if (!rate) rate = quick_read_rate(size_t(bytes.target));
      const SecondsRange of_cell = forecast(cell.config, bytes.target, bytes.draft, *rate);
      seconds = {.low = seconds.low + of_cell.low, .high = seconds.high + of_cell.high};
      step_ms = std::max(step_ms, bytes.target / *rate * 1e3);
    }
    fmt::print("  run  {:<28} baseline {}\n", cell.id,
               cell.is_baseline ? "itself"
               : cell.baseline  ? cells[*cell.baseline].id
                                : "none");
  }
  const MeasureConfig& measure = loaded.config.measure;
  fmt::print("{} to run in {} loads, {} skipped; {} requests of at most {} tokens, {} repetitions\n",
             cells.size() - size_t(num_skipped), num_loads, num_skipped, loaded.config.workload.requests,
             loaded.config.sampling.max_tokens, measure.repetitions);
  if (rate && is_forecast)
    fmt::print(
        "reading alone, {:.0f} GB/s on {} cores: a step of the target takes at least {:.2f} ms, the sweep between {} "
        "(every draft accepted) and {} (none), prefill and arithmetic on top\n",
        *rate / 1e9, usable_cores(), step_ms, duration_text(seconds.low), duration_text(seconds.high));
  if (problem) throw *problem;
  return ExitCode::ok;
}

}  // namespace

void add_plan_command(CLI::App& app, CommandLine& line) {
  struct Plan {
    std::filesystem::path config;
    ConfigOverrides overrides;
  };
  const auto plan = std::make_shared<Plan>();
  CLI::App* plan_app = app.add_subcommand("plan", "show cells, skips with reasons and memory per rank; run nothing");
  add_config_options(*plan_app, plan->config, plan->overrides);
  plan_app->callback([plan, &line] { line.code = plan_command(plan->config, plan->overrides); });
}

}  // namespace paceline
