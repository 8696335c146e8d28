#pragma once
// A run in a process of its own, so that what kills the process takes one cell and not the sweep.

#include <filesystem>
#include <functional>
#include <optional>

#include "kernels/error.h"

namespace paceline {

/// What a process of a supervised run is to do, and how it speaks to the one that watches it.
struct SupervisedTask {
  std::optional<std::filesystem::path> resume;  // go on with this folder; failed cells stay failed
  std::function<void(const std::filesystem::path& folder)> tell_folder;  // results go there: what dies now can resume
  std::function<void()> tell_wants_new_process;                          // the next process goes on
};

inline constexpr int kMostCrashes = 3;  // of a cell, then it is recorded as failed

/// Forks. The child calls `work` and returns (or throws) what it returns, as if there were no parent. The parent waits,
/// hands signals on (SIGINT, SIGTERM, SIGHUP, stop and continue), and returns the child's exit code; when the child is
/// killed by a signal, it records a cell that was under way kMostCrashes times as failed, says so on standard error,
/// and lets another child resume. Throws Error(device) when a child is killed before there is a folder, or kMostCrashes
/// times without any cell under way. The child dies with the parent. Call it before the process has threads; once.
ExitCode run_supervised(const std::function<ExitCode(const SupervisedTask& task)>& work);

}  // namespace paceline
