#pragma once
// A run in a process of its own, so that what kills the process takes one cell and not the sweep; and what an exception
// that ends a cell means to the sweep and to the reader.

#include <exception>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "kernels/error.h"

namespace paceline {

/// What a process of a supervised run is to do, and how it speaks to the one that watches it.
struct SupervisedTask {
  bool is_restart = false;  // another process of the same command was killed: failed cells stay failed
  std::optional<std::filesystem::path> resume;                           // go on with this folder
  std::function<void(const std::filesystem::path& folder)> tell_folder;  // results go there: what dies now can resume
  std::function<void()> tell_wants_new_process;                          // the next process goes on
};

inline constexpr int kMostCrashes = 3;  // of a cell, then it is recorded as failed

/// A pass that ends within limit_s, or after the step that goes on then, unless that step hangs, as a proposer may:
/// some seconds later the process that watches this one kills it, and the cell has failed. Nothing where nobody
/// watches. One at a time.
class WatchedPass {
 public:
  explicit WatchedPass(double limit_s);
  ~WatchedPass();
  WatchedPass(const WatchedPass&) = delete;
};

/// How a supervised run ended, as its processes see it.
struct SupervisedEnd {
  ExitCode code = ExitCode::ok;
  std::optional<std::filesystem::path> folder;  // of the results, where it came to one
  bool is_child = false;                        // this process is the one that worked: it has nothing more to do
};

/// Forks. The child calls `work` and returns (or throws) what it returns, as if there were no parent. The parent waits,
/// hands signals on (SIGINT, SIGTERM, SIGHUP, stop and continue), kills a child that has not ended 20 s after the
/// second one that asks it to, or with a further one 3 s after that, and returns the child's exit code and folder. When
/// the child is killed by a signal, or ends by an exception of `work` that is no Error once there is a folder, it
/// records a cell that ended kMostCrashes processes in a row as failed, says so on standard error, and lets another
/// child resume. `folder`: what the first child resumes, if anything. Throws Error(device) when a child is killed
/// before there is a folder, or kMostCrashes children without anything new in the record. The child dies with the
/// parent. Call it before the process has threads; once.
SupervisedEnd run_supervised(const std::function<ExitCode(const SupervisedTask& task)>& work,
                             std::optional<std::filesystem::path> folder = {});

/// Of an Error its own, device where memory was refused, internal for any other exception: nothing throws others on
/// purpose.
ExitCode failure_code(const std::exception& error);

/// One line for the record. An exception that is no Error says so: it was not foreseen.
std::string failure_text(const std::exception& error);

/// Whether the whole run ends by it, and not the cell alone: the results store refused, or the reader of the output has
/// gone (EPIPE).
bool ends_the_run(const std::exception& error);

}  // namespace paceline
