#pragma once
// What `run` and `resume` share: an experiment in a process of its own, shown while it works, summed up at its end.

#include <functional>
#include <optional>

#include "experiments/commands/commands.h"
#include "experiments/run/runner.h"
#include "experiments/run/supervise.h"

namespace paceline {

/// `work` under run_supervised(), or in this process where the command asks for that.
ExitCode in_a_process(const RunCommand& command, const std::function<ExitCode(const SupervisedTask& task)>& work,
                      std::optional<std::filesystem::path> folder = {});

/// Runs `loaded` to its end and prints its summary to standard output.
ExitCode execute_run(const RunCommand& command, const SupervisedTask& task, const LoadedConfig& loaded,
                     std::optional<ResumeOptions> resume);

/// Goes on with a recorded run as it was configured, with the axes of `axis` (as --axis takes them) in place of its
/// own.
ExitCode resume_run(const RunCommand& command, const SupervisedTask& task, ResumeOptions resume,
                    const std::vector<std::string>& axis);

}  // namespace paceline
