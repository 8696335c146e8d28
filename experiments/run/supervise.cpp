#include "experiments/run/supervise.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <string_view>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>

#include "experiments/results/run_lock.h"
#include "experiments/results/store.h"

namespace paceline {
namespace {

// A signal handler can reach nothing but static objects of this kind.
volatile std::sig_atomic_t g_child = 0;
volatile std::sig_atomic_t g_num_ends_asked = 0;

extern "C" void hand_on(int signal) {
  if (signal != SIGCONT) g_num_ends_asked = g_num_ends_asked + 1;
  if (g_child > 0) ::kill(pid_t(g_child), signal);
}

extern "C" void stop_both(int) {
  if (g_child > 0) ::kill(pid_t(g_child), SIGSTOP);
  ::raise(SIGSTOP);
}

void install(int signal, void (*handler)(int)) {
  struct sigaction now {};
  sigaction(signal, nullptr, &now);
  if (now.sa_handler == SIG_IGN) return;  // ignored under nohup
  struct sigaction action {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(signal, &action, nullptr);
}

void watch_signals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGCONT}) install(signal, hand_on);
  install(SIGTSTP, stop_both);
}

void forget_signals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGCONT, SIGTSTP}) install(signal, SIG_DFL);
}

constexpr char kFolder = 'F', kNewProcess = 'N';

/// A message is a letter, its text and a zero byte.
void tell(int fd, char kind, const std::string& text) {
  std::string message(1, kind);
  message += text;
  message += '\0';
  // A parent that has gone takes this process along; nothing is to be done about it here.
  if (::write(fd, message.data(), message.size()) < 0) return;
}

struct ChildEnd {
  int status = 0;  // of waitpid
  std::optional<std::filesystem::path> folder;
  bool wants_new_process = false;
};

ChildEnd wait_for(pid_t child, int messages) {
  ChildEnd end;
  std::string pending;
  std::array<char, 4096> buffer{};
  for (;;) {
    const ssize_t size = ::read(messages, buffer.data(), buffer.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) break;
    pending.append(buffer.data(), size_t(size));
    for (size_t zero = pending.find('\0'); zero != std::string::npos; zero = pending.find('\0')) {
      if (pending[0] == kFolder) end.folder = pending.substr(1, zero - 1);
      if (pending[0] == kNewProcess) end.wants_new_process = true;
      pending.erase(0, zero + 1);
    }
  }
  while (::waitpid(child, &end.status, 0) < 0 && errno == EINTR) {
  }
  return end;
}

std::string signal_text(int signal) {
  return fmt::format("signal {} ({}{})", signal, ::strsignal(signal), signal == SIGKILL ? "; out of memory?" : "");
}

void say(const std::string& text) { fmt::print(stderr, "runexp: {}\n", text); }

/// Takes a live view that the dead process left on the terminal away.
void restore_terminal() {
  if (::isatty(STDERR_FILENO)) fmt::print(stderr, "\r\x1b[J\x1b[?25h");
}

/// What the dead process worked on: cells that it ended too often become failed ones. False: it worked on none.
bool record_crash(const std::filesystem::path& folder, int signal) {
  const RunLock lock(folder);
  RecordedRun recorded = read_record(folder);
  std::vector<const CellResult*> given_up;
  bool any = false;
  for (size_t i = 0; i < recorded.cells.size(); ++i) {
    CellResult& cell = recorded.run.cells[i];
    const int crashes = recorded.cells[i].crashes;
    if (crashes == 0 || cell.status == CellStatus::failed) continue;
    any = true;
    if (crashes < kMostCrashes) {
      say(fmt::format("{}: the process was killed by {}; trying again ({} of {})", cell.id, signal_text(signal),
                      crashes + 1, kMostCrashes));
      continue;
    }
    cell.reason = fmt::format("killed by {}, {} times", signal_text(signal), crashes);
    say(fmt::format("{}: failed: {}", cell.id, cell.reason));
    given_up.push_back(&cell);
  }
  record_failures(recorded, given_up);
  return any;
}

}  // namespace

ExitCode run_supervised(const std::function<ExitCode(const SupervisedTask& task)>& work) {
  SupervisedTask task;
  const pid_t parent = ::getpid();
  for (int crashes_outside = 0;;) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0)
      fail(ExitCode::device, "no pipe to a process for the run: {}", std::generic_category().message(errno));
    std::fflush(nullptr);  // or the child would write it again
    g_child = 0;
    watch_signals();
    // A signal between the fork and the child's number being known would reach nobody.
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    const pid_t child = ::fork();
    g_child = child > 0 ? child : 0;
    if (child == 0) forget_signals();
    sigprocmask(SIG_SETMASK, &before, nullptr);
    if (child < 0)
      fail(ExitCode::device, "no process for the run: fork failed: {}", std::generic_category().message(errno));
    if (child == 0) {
      ::close(ends[0]);
      ::setpgid(0, 0);  // the terminal's signals come through the parent, once
      std::signal(SIGTTOU, SIG_IGN);
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::raise(SIGKILL);
      task.tell_folder = [fd = ends[1]](const std::filesystem::path& folder) { tell(fd, kFolder, folder.string()); };
      task.tell_wants_new_process = [fd = ends[1]] { tell(fd, kNewProcess, {}); };
      return work(task);
    }
    ::close(ends[1]);
    const ChildEnd end = wait_for(child, ends[0]);
    ::close(ends[0]);
    g_child = 0;
    if (end.folder) task.resume = end.folder;
    if (WIFEXITED(end.status)) {
      if (end.wants_new_process && task.resume && g_num_ends_asked == 0) continue;
      return ExitCode(WEXITSTATUS(end.status));
    }
    const int signal = WTERMSIG(end.status);
    restore_terminal();
    if (g_num_ends_asked > 0) return signal == SIGTERM ? ExitCode::terminated : ExitCode::interrupted;
    if (!task.resume)
      fail(ExitCode::device, "the run's process was killed by {} before it had a results folder", signal_text(signal));
    if (!record_crash(*task.resume, signal) && ++crashes_outside >= kMostCrashes)
      fail(ExitCode::device,
           "{}: the run's process was killed by {} {} times outside of any cell; what was finished is "
           "kept",
           task.resume->string(), signal_text(signal), crashes_outside);
  }
}

}  // namespace paceline
