// runexp regress: the exact gate. Token hashes and counters against a committed baseline.

#include <fstream>

#include "experiments/commands/command_line.h"
#include "experiments/commands/commands.h"
#include "experiments/results/baseline.h"
#include "experiments/results/files.h"
#include "experiments/results/store.h"
#include "experiments/run/runner.h"

namespace paceline {
namespace {

enum class BaselineUse : uint8_t { compare, update };

/// Runs the experiment and compares token hashes and counters with `baseline` (or writes it). Exit code 7 when they
/// differ; the differences go to stdout, one a line.
ExitCode regress_command(const RunCommand& command, const std::filesystem::path& baseline, BaselineUse use) {
  const LoadedConfig loaded = load_config(command.config, command.overrides);
  const std::unique_ptr<Progress> progress =
      make_progress(parse_progress_mode(command.progress), standard_error_terminal());
  install_interrupt_handler();
  const nlohmann::json expected = use == BaselineUse::compare ? read_baseline(baseline) : nlohmann::json();
  const RunOutcome outcome = run_experiment(
      loaded, *progress, {.results_root = command.results_root, .argv = command.argv, .interrupts = num_interrupts});
  if (outcome.exit_code != ExitCode::ok) return outcome.exit_code;
  const nlohmann::json current = make_baseline(outcome.result);
  if (use == BaselineUse::update) {
    write_file_atomic(baseline, dump_json(current));
    fmt::print("wrote {}: {} cells\n", baseline.string(), current.at("cells").size());
    return ExitCode::ok;
  }
  const std::vector<BaselineDifference> differences = baseline_differences(expected, current);
  for (const BaselineDifference& difference : differences) fmt::print("{}\n", described(difference));
  if (const std::string then = made_on(expected), now = made_on(current); !differences.empty() && then != now)
    fmt::print("{}: made on {}; this run: {}\n", baseline.string(), then.empty() ? "a machine it does not name" : then,
               now);
  fmt::print("{}: {} cells, {}\n", baseline.string(), current.at("cells").size(),
             differences.empty() ? "no difference" : fmt::format("{} differences", differences.size()));
  return differences.empty() ? ExitCode::ok : ExitCode::correctness;
}

}  // namespace

void add_regress_command(CLI::App& app, CommandLine& line) {
  struct Regress {
    RunCommand run;
    std::filesystem::path baseline = "results/baselines/cpu.json";
    bool update = false;
  };
  const auto regress = std::make_shared<Regress>();
  CLI::App* command =
      app.add_subcommand("regress", "run an experiment and compare token hashes and counters with a baseline");
  add_config_options(*command, regress->run.config, regress->run.overrides);
  command->add_option("--baseline", regress->baseline, "baseline file")->capture_default_str();
  command->add_flag("--update-baseline", regress->update, "write the baseline instead of comparing");
  add_output_options(*command, regress->run);
  command->callback([regress, &line] {
    regress->run.argv = line.argv;
    line.code =
        regress_command(regress->run, regress->baseline, regress->update ? BaselineUse::update : BaselineUse::compare);
  });
}

}  // namespace paceline
