// runexp run, runexp plan

#include <cstdio>

#include "experiments/commands/command_line.h"
#include "experiments/commands/commands.h"
#include "experiments/commands/execute_run.h"
#include "experiments/run/check_splits.h"
#include "experiments/run/runner.h"
#include "kernels/cpu/cores.h"

namespace paceline {
namespace {

ExitCode run_command(const RunCommand& command) {
  return in_a_process(command, [&](const SupervisedTask& task) {
    if (task.resume) {  // another process of this very command was killed
      ResumeOptions resume(*task.resume);
      resume.failed = FailedCells::keep;
      return resume_run(command, task, std::move(resume), {});
    }
    return execute_run(command, task, load_config(command.config, command.overrides), {});
  });
}

/// Cells, skips with reasons, loads and memory per rank; nothing is loaded.
ExitCode plan_command(const std::filesystem::path& config, const ConfigOverrides& overrides) {
  const LoadedConfig loaded = load_config(config, overrides);
  const std::vector<Cell> cells = expand(loaded, machine_context(loaded.config.engine));
  check_splits(loaded, cells, SplitRule::some_cell);
  constexpr double kMiB = 1024.0 * 1024.0;
  int num_skipped = 0, num_loads = 0;
  std::optional<Error> problem;  // the first one
  std::string last_load;
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
        for (size_t rank = 0; rank < plan.weight_bytes_per_rank.size(); ++rank)
          fmt::print("     rank {}: weights {:.1f} MiB\n", rank, double(plan.weight_bytes_per_rank[rank]) / kMiB);
        fmt::print("     {}; max_model_len {}, {} sequences\n", plan.memory.describe(), plan.max_model_len,
                   plan.max_num_seqs);
      } catch (const Error& error) {
        if (!problem) problem = error;
        fmt::print("     ✗ {}\n", error.what());
      }
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
  if (problem) throw *problem;
  return ExitCode::ok;
}

}  // namespace

void add_run_commands(CLI::App& app, CommandLine& line) {
  const auto run = std::make_shared<RunCommand>();
  CLI::App* run_app = app.add_subcommand("run", "run an experiment and write results/<time>_<name>_<hash>/");
  add_config_options(*run_app, run->config, run->overrides);
  add_output_options(*run_app, *run);
  add_process_option(*run_app, *run);
  run_app->callback([run, &line] {
    run->argv = line.argv;
    line.code = run_command(*run);
  });

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
