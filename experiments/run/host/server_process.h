#pragma once
// A server that a run started: a process with its own process group, which never outlives the run.
//
//   start ─▶ await_address() or a port of ours ─▶ await_health() ─▶ pause() ⇄ go_on() ─▶ end: SIGTERM, SIGKILL
//
// Where the run ends without ending it (SIGKILL, a crash), the server gets SIGKILL from the kernel, and its whole group
// from a guard: a second process that does nothing but wait for the run's end of a pipe.

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "experiments/config/server_url.h"

namespace paceline {

/// What waits for a server ask, some 20 times a second; true ends them with Error(interrupted).
using StopNow = std::function<bool()>;

class ServerProcess {
 public:
  /// argv[0] is looked up in PATH. Both its streams go to the file `log`, which is made anew. Throws Error(device).
  ServerProcess(std::vector<std::string> argv, std::filesystem::path log);
  ~ServerProcess();
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  /// The first line of its output that is "http://host:port". Throws Error(device) when the server ends first, or after
  /// timeout_s: with its exit code and its last lines.
  ServerUrl await_address(double timeout_s, const StopNow& stop_now);
  /// Returns when GET /health is answered with 2xx. Throws as await_address.
  void await_health(const ServerUrl& url, double timeout_s, const StopNow& stop_now);

  /// SIGSTOP and SIGCONT of the whole group.
  void pause();
  void go_on();

  /// "exit code 1; its last lines: …"; nothing while it runs.
  std::optional<std::string> how_it_ended();

  /// CPU time of the processes in its group, so far.
  double cpu_seconds() const;

 private:
  void await(double timeout_s, const char* what, const StopNow& stop_now, const std::function<bool()>& is_there);
  void start_guard();
  std::string last_lines() const;

  std::vector<std::string> argv_;
  std::filesystem::path log_;
  pid_t pid_ = -1, guard_ = -1;
  int guard_pipe_ = -1;        // closed: the guard ends the group
  std::optional<int> status_;  // of waitpid
};

/// A port that nobody listens on now. Throws Error(device).
int free_port();

}  // namespace paceline
