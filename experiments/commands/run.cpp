// runexp run

#include <cstdio>

#include "experiments/commands/command_line.h"
#include "experiments/commands/commands.h"
#include "experiments/commands/execute_run.h"

namespace paceline {
namespace {

ExitCode run_command(const RunCommand& command) {
  const SupervisedEnd end = in_a_process(command, [&](const SupervisedTask& task) {
    const LoadedConfig loaded = task.resume ? LoadedConfig() : load_config(command.config, command.overrides);
    return run_as_task(command, task, loaded, EndOfRun::told);
  });
  return end.code;
}

}  // namespace

void add_run_command(const Command& program) {
  const auto run = std::make_shared<RunCommand>();
  const Command command = program.below("run", "run an experiment and write results/<time>_<name>_<hash>/");
  add_config_options(command, run->config, run->overrides);
  add_output_options(command, *run);
  add_process_option(command, *run);
  command.calls([run, command] {
    run->argv = command.argv();
    return run_command(*run);
  });
}

}  // namespace paceline
