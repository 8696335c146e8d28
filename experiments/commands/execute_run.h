#pragma once
// What `run` and `resume` share: an experiment in a process of its own, shown while it works, summed up at its end.

#include <functional>
#include <optional>

#include "experiments/commands/commands.h"
#include "experiments/run/runner.h"
#include "experiments/run/supervise.h"

namespace paceline {

/// `work` under run_supervised(), or in this process where the command asks for that; then the end has no folder.
SupervisedEnd in_a_process(const RunCommand& command, const std::function<ExitCode(const SupervisedTask& task)>& work,
                           std::optional<std::filesystem::path> folder = {});

/// Whether the end of a run is told on standard output, as a person who ran it wants it.
enum class EndOfRun : uint8_t { told, silent };

/// `run` as one process of it does it: from the configuration, or going on where another one was killed.
ExitCode run_as_task(const RunCommand& command, const SupervisedTask& task, const LoadedConfig& loaded, EndOfRun end);

/// Runs `loaded` to its end and prints its summary to standard output (EndOfRun::silent: nothing there).
ExitCode execute_run(const RunCommand& command, const SupervisedTask& task, const LoadedConfig& loaded,
                     std::optional<ResumeOptions> resume, EndOfRun end = EndOfRun::told);

/// Goes on with a recorded run as it was configured, with the axes of `axis` (as --axis takes them) in place of its
/// own.
ExitCode resume_run(const RunCommand& command, const SupervisedTask& task, ResumeOptions resume,
                    const std::vector<std::string>& axis, EndOfRun end = EndOfRun::told);

}  // namespace paceline
