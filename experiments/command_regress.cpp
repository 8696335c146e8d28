// runexp regress: the exact gate. Token hashes and counters against a committed baseline.

#include <fstream>

#include "experiments/commands.h"
#include "experiments/results_baseline.h"
#include "experiments/results_files.h"
#include "experiments/results_store.h"
#include "experiments/runner.h"

namespace paceline {

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
  const std::vector<std::string> differences = baseline_differences(expected, current);
  for (const std::string& line : differences) fmt::print("{}\n", line);
  if (const std::string then = made_on(expected), now = made_on(current); !differences.empty() && then != now)
    fmt::print("{}: made on {}; this run: {}\n", baseline.string(), then.empty() ? "a machine it does not name" : then,
               now);
  fmt::print("{}: {} cells, {}\n", baseline.string(), current.at("cells").size(),
             differences.empty() ? "no difference" : fmt::format("{} differences", differences.size()));
  return differences.empty() ? ExitCode::ok : ExitCode::correctness;
}

}  // namespace paceline
