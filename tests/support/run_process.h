#pragma once
// Runs a program as a user would: its exit code, its two streams, how long it took.

#include <chrono>
#include <filesystem>
#include <string>
#include <sys/types.h>
#include <vector>

namespace paceline::test {

enum class Streams {
  pipes,
  terminal,  // stdout and stderr are one pseudo-terminal of 100 columns; all comes as `out`, with \r\n
};

struct ProcessOptions {
  std::filesystem::path folder;          // working folder; empty: the test's own
  std::vector<std::string> environment;  // "NAME=VALUE" sets, "NAME" removes
  double timeout_s = 20;                 // then SIGKILL and timed_out
  Streams streams = Streams::pipes;
};

struct ProcessResult {
  int exit_code = -1;  // -1 when a signal ended it
  int signal = 0;      // the signal that ended it
  bool timed_out = false;
  std::string out, err;
  double wall_s = 0;
  double cpu_s = 0;  // of all its threads, and of the programs that it waited for: the same on a busy machine
};

/// A program under way. Its stdin is /dev/null; both streams are pipes that are read whenever one of the calls below
/// waits. Single-threaded. The destructor kills what still runs.
class Process {
 public:
  /// argv[0] is a path. Throws std::runtime_error when it cannot be started.
  explicit Process(const std::vector<std::string>& argv, ProcessOptions options = {});
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  /// -1 once it has ended.
  pid_t pid() const { return pid_; }
  void send(int signal);
  /// Closes our end of its stdout: it writes into a pipe that nobody reads.
  void close_stdout();
  /// False when `text` has not shown on stderr after `seconds` or the program has ended without it.
  bool wait_for_stderr(const std::string& text, double seconds);
  /// What it has written to stderr so far, as far as a wait has read it.
  const std::string& err() const { return result_.err; }
  /// Reads along for `seconds`, less when the program ends.
  void wait(double seconds);
  bool running() const { return pid_ > 0; }
  /// Waits for the end.
  ProcessResult finish();

 private:
  double seconds_since_start() const;
  void poll_once(int milliseconds);  // reads what is there; reaps the program when it has ended
  void drain(int& fd, std::string& into);

  ProcessOptions options_;
  std::chrono::steady_clock::time_point start_;
  pid_t pid_ = -1;
  int out_fd_ = -1, err_fd_ = -1;
  ProcessResult result_;
};

ProcessResult run_process(const std::vector<std::string>& argv, const ProcessOptions& options = {});

/// Factor for time limits: 1, more in sanitizer builds.
double time_factor();

/// The lines of a text, without their ends.
std::vector<std::string> lines_of(const std::string& text);

}  // namespace paceline::test
