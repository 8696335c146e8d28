#include "experiments/run/supervise.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <execinfo.h>
#include <fcntl.h>
#include <new>
#include <poll.h>
#include <string>
#include <string_view>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>

#include "engine/util/clock.h"
#include "experiments/results/files/cell_log.h"
#include "experiments/results/files/files.h"
#include "experiments/results/files/store.h"
#include "experiments/ui/progress.h"

namespace paceline {
namespace {

// A signal handler can reach nothing but static objects of this kind.
volatile std::sig_atomic_t g_child = 0;
volatile std::sig_atomic_t g_num_ends_asked = 0;
volatile std::sig_atomic_t g_last_end = SIGINT;
volatile std::sig_atomic_t g_was_ended = 0;  // the child, by end_child()
volatile std::sig_atomic_t g_has_asked_again = 0;
volatile std::sig_atomic_t g_num_continues = 0;
volatile double g_second_end_s = 0;  // of monotonic_seconds(); the handler's alone

std::atomic<int> g_fd{-1};
std::atomic<char> g_head{0};
std::atomic_flag g_reporting = ATOMIC_FLAG_INIT;
std::array<char, 1024> g_exception{};  // text of the exception that ends the process
std::terminate_handler g_terminate_before = nullptr;

constexpr int kMostFrames = 48;
constexpr size_t kStackBytes = 64 * 1024;  // of the handler: that of the thread may be what overflowed

void put(int fd, std::string_view text) { static_cast<void>(!::write(fd, text.data(), text.size())); }

extern "C" void report_and_die(int signal) {
  const int fd = g_fd.load();
  if (!g_reporting.test_and_set()) {
    const char head = g_head.load();
    put(fd, {&head, 1});
    put(fd, "signal ");
    const std::array<char, 2> digits = {char('0' + signal / 10 % 10), char('0' + signal % 10)};
    put(fd, signal < 10 ? std::string_view(&digits[1], 1) : std::string_view(digits.data(), 2));
    const char* const name = ::sigabbrev_np(signal);
    if (name != nullptr) {
      put(fd, " (SIG");
      put(fd, name);
      put(fd, ")");
    }
    if (g_exception[0] != '\0') {
      put(fd, ", an exception that nobody caught: ");
      put(fd, g_exception.data());
    }
    put(fd, "\n");
    std::array<void*, kMostFrames> frames{};
    const int count = ::backtrace(frames.data(), kMostFrames);
    ::backtrace_symbols_fd(frames.data(), count, fd);
    put(fd, {"\0", 1});
  }
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

void keep_exception() {
  try {
    if (std::current_exception()) std::rethrow_exception(std::current_exception());
  } catch (const std::exception& error) {
    std::strncpy(g_exception.data(), error.what(), g_exception.size() - 1);
  } catch (...) {
    std::strncpy(g_exception.data(), "of an unknown type", g_exception.size() - 1);
  }
  if (g_terminate_before != nullptr) g_terminate_before();
  std::abort();
}

/// From here on a fatal signal of this process (SIGSEGV, SIGABRT, SIGFPE, SIGILL, SIGBUS unless another handler took
/// it) and an exception that nobody catches write a report to `fd`: `head`, the signal, the exception's text, the
/// calling functions as addresses for addr2line, and a zero byte. Then the process dies of it as ever. Signals for
/// which a sanitizer has its own handler are left alone. Call it once, before the process has threads; `fd` stays open.
void report_crashes_to(int fd, char head) {
  g_fd = fd;
  g_head = head;
  std::array<void*, 1> frame{};
  ::backtrace(frame.data(), 1);  // loads what it needs now, not in a handler
  static std::array<char, kStackBytes> stack;
  stack_t place{};
  place.ss_sp = stack.data();
  place.ss_size = stack.size();
  ::sigaltstack(&place, nullptr);
  for (const int signal : {SIGSEGV, SIGABRT, SIGFPE, SIGILL, SIGBUS}) {
    struct sigaction before {};
    sigaction(signal, nullptr, &before);
    if (before.sa_handler != SIG_DFL) continue;
    struct sigaction action {};
    action.sa_handler = report_and_die;
    action.sa_flags = SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    sigaction(signal, &action, nullptr);
  }
  g_terminate_before = std::set_terminate(keep_exception);
}

// From the second signal on: until it is sent once more, as the child may have seen two as one; until the child is
// killed, which has servers to wait for and a report to write; until a further signal kills it at once.
constexpr unsigned kSecondsToAskAgain = 3, kSecondsToEnd = 20;
constexpr double kSecondsToInsist = 3;
constexpr double kHangGrace = 5;  // seconds beyond a pass's limit, at which it ends by itself after a step

double monotonic_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return double(now.tv_sec) + double(now.tv_nsec) * 1e-9;
}

void end_child() {
  if (g_child <= 0) return;
  g_was_ended = 1;
  ::kill(pid_t(g_child), SIGKILL);
}

extern "C" void on_alarm(int) {
  if (g_has_asked_again != 0) return end_child();
  g_has_asked_again = 1;
  if (g_child > 0) ::kill(pid_t(g_child), g_last_end);
  ::alarm(kSecondsToEnd - kSecondsToAskAgain);
}

extern "C" void hand_on(int signal) {
  if (signal != SIGCONT) {
    g_num_ends_asked = g_num_ends_asked + 1;
    g_last_end = signal;
    if (g_num_ends_asked == 2) {
      g_second_end_s = monotonic_seconds();
      ::alarm(kSecondsToAskAgain);
    } else if (g_num_ends_asked > 2 && monotonic_seconds() - g_second_end_s > kSecondsToInsist) {
      return end_child();
    }
  } else {
    g_num_continues = g_num_continues + 1;
  }
  if (g_child > 0) ::kill(pid_t(g_child), signal);
}

extern "C" void stop_both(int) {
  if (g_child > 0) ::kill(pid_t(g_child), SIGSTOP);
  ::raise(SIGSTOP);
}

void install(int signal, void (*handler)(int)) {
  struct sigaction now {};
  sigaction(signal, nullptr, &now);
  if (signal == SIGHUP && now.sa_handler == SIG_IGN) return;  // under nohup
  struct sigaction action {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(signal, &action, nullptr);
}

void watch_signals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGCONT}) install(signal, hand_on);
  install(SIGTSTP, stop_both);
  install(SIGALRM, on_alarm);
}

void forget_signals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGCONT, SIGTSTP, SIGALRM}) install(signal, SIG_DFL);
}

constexpr char kFolder = 'F', kNewProcess = 'N', kCrash = 'C', kThrew = 'T', kPass = 'P';

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
  std::string crash;                 // its last words (report_crashes_to)
  std::optional<double> hung_s;      // it was killed, as a pass did not end: that pass's limit
  std::optional<std::string> threw;  // failure_text of the exception that ended it

  /// "was killed by signal 9 (Killed; out of memory?)", "ended by an error that was not foreseen: …"
  std::string how() const;
};

ChildEnd wait_for(pid_t child, int messages) {
  ChildEnd end;
  std::string pending;
  std::array<char, 4096> buffer{};
  double limit_s = 0;  // of the pass under way; 0: of none
  Clock::time_point deadline;
  const auto begin_pass = [&] {
    deadline =
        Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(limit_s + kHangGrace));
  };
  for (int continues = g_num_continues;;) {
    if (continues != g_num_continues) continues = g_num_continues, begin_pass();  // both stood still
    if (limit_s > 0) {
      const double left_ms = std::clamp(seconds_between(Clock::now(), deadline) * 1e3 + 1, 0.0, 1e6);
      pollfd readable{.fd = messages, .events = POLLIN, .revents = 0};
      if (::poll(&readable, 1, int(left_ms)) <= 0) {
        if (Clock::now() < deadline || continues != g_num_continues) continue;
        end.hung_s = limit_s;
        limit_s = 0;
        ::kill(child, SIGKILL);
        continue;
      }
    }
    const ssize_t size = ::read(messages, buffer.data(), buffer.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) break;
    pending.append(buffer.data(), size_t(size));
    for (size_t zero = pending.find('\0'); zero != std::string::npos; zero = pending.find('\0')) {
      if (pending[0] == kFolder) end.folder = pending.substr(1, zero - 1);
      if (pending[0] == kNewProcess) end.wants_new_process = true;
      if (pending[0] == kCrash) end.crash = pending.substr(1, zero - 1);
      if (pending[0] == kThrew) end.threw = pending.substr(1, zero - 1);
      if (pending[0] == kPass) {
        limit_s = std::stod(pending.substr(1, zero - 1));
        begin_pass();
      }
      pending.erase(0, zero + 1);
    }
  }
  if (pending.starts_with(kCrash)) end.crash = pending.substr(1);  // it died while it spoke
  while (::waitpid(child, &end.status, 0) < 0) {
    if (errno != EINTR)
      fail(ExitCode::device, "the end of the run's process is not known: waitpid failed: {}",
           std::generic_category().message(errno));
  }
  return end;
}

std::string signal_text(int signal) {
  return fmt::format("signal {} ({}{})", signal, ::strsignal(signal), signal == SIGKILL ? "; out of memory?" : "");
}

std::string ChildEnd::how() const {
  if (threw) return fmt::format("ended by {}", *threw);
  if (hung_s)
    return fmt::format(
        "was killed: the pass took longer than {} s (sweep.cell_timeout_s), and its last step did not end", *hung_s);
  if (g_was_ended) return "was killed, as it did not end when it was asked to";
  return fmt::format("was killed by {}", signal_text(WTERMSIG(status)));
}

/// Not fmt::print, which throws where nobody reads.
void say(const std::string& text) { std::fputs(("runexp: " + text + "\n").c_str(), stderr); }

/// Takes a live view that the dead process left on the terminal away.
void restore_terminal() {
  if (::isatty(STDERR_FILENO)) std::fputs(kClearBelow, stderr);
}

/// Records what the dead process worked on: cells that ended too many processes become failed ones. Returns how much of
/// the run is recorded, which grows with each repetition and failure. The cells' logs get the process's last words.
size_t record_crash(const std::filesystem::path& folder, const ChildEnd& end, pid_t child) {
  const RunLock lock(folder);
  RecordedRun recorded = read_record(folder);
  std::vector<const CellResult*> given_up;
  std::vector<std::string> news;
  size_t progress = 0;
  for (size_t i = 0; i < recorded.cells.size(); ++i) {
    CellResult& cell = recorded.run.cells[i];
    const int crashes = recorded.cells[i].crashes;
    progress += cell.repetitions.size() + (cell.status == CellStatus::failed ? 1 : 0);
    if (!recorded.cells[i].was_under_way || cell.status == CellStatus::failed) continue;
    const std::filesystem::path log = cell_log_file(folder, cell);
    append_to_log(
        log, utc_now(), "crash",
        fmt::format("process {} {}{}{}", child, end.how(), end.crash.empty() ? "" : "; its last words: ", end.crash));
    if ((crashes < kMostCrashes || g_was_ended != 0) && !end.hung_s) {
      const std::string next =
          g_num_ends_asked > 0 ? "" : fmt::format("trying again ({} of {}); ", crashes + 1, kMostCrashes);
      news.push_back(fmt::format("{}: the process {}; {}log: {}", cell.id, end.how(), next, log.string()));
      continue;
    }
    cell.reason = end.hung_s  ? fmt::format("its process {}", end.how())
                  : end.threw ? fmt::format("{}, {} times", *end.threw, crashes)
                              : fmt::format("killed by {}, {} times", signal_text(WTERMSIG(end.status)), crashes);
    append_to_log(log, utc_now(), "failed", cell.reason);
    news.push_back(fmt::format("{}: failed: {}; log: {}", cell.id, cell.reason, log.string()));
    given_up.push_back(&cell);
  }
  record_failures(recorded, given_up);
  if (news.empty())
    news.push_back(fmt::format("the run's process {}{}", end.how(), g_num_ends_asked > 0 ? "" : "; going on"));
  for (const std::string& text : news) say(text);
  return progress + given_up.size();
}

}  // namespace

WatchedPass::WatchedPass(double limit_s) {
  if (g_fd >= 0) tell(g_fd, kPass, fmt::format("{}", limit_s));
}
WatchedPass::~WatchedPass() {
  if (g_fd >= 0) tell(g_fd, kPass, "0");
}

ExitCode failure_code(const std::exception& error) {
  if (const auto* const known = dynamic_cast<const Error*>(&error)) return known->code();
  return dynamic_cast<const std::bad_alloc*>(&error) ? ExitCode::device : ExitCode::internal;
}

std::string failure_text(const std::exception& error) {
  if (dynamic_cast<const Error*>(&error)) return error.what();
  if (dynamic_cast<const std::bad_alloc*>(&error))
    return "out of memory; lower engine.kv_cache.memory_fraction or use a smaller model";
  return fmt::format("an error that was not foreseen: {}", error.what());
}

bool ends_the_run(const std::exception& error) {
  if (const auto* const known = dynamic_cast<const Error*>(&error)) return known->code() == ExitCode::store;
  const auto* const system = dynamic_cast<const std::system_error*>(&error);
  return system && system->code() == std::errc::broken_pipe;
}

SupervisedEnd run_supervised(const std::function<ExitCode(const SupervisedTask& task)>& work,
                             std::optional<std::filesystem::path> folder) {
  SupervisedTask task;
  task.resume = std::move(folder);
  const pid_t parent = ::getpid();
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe shows as a failed write
  std::signal(SIGCHLD, SIG_DFL);  // who ignores it, as some parents let their children do, learns no exit code
  size_t progress = 0;
  for (int crashes_in_vain = 0;; task.is_restart = true) {
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
      report_crashes_to(ends[1], kCrash);
      bool has_folder = task.resume.has_value();
      task.tell_folder = [&has_folder, fd = ends[1]](const std::filesystem::path& made) {
        has_folder = true;
        tell(fd, kFolder, made.string());
      };
      bool is_unusable = false;
      task.tell_wants_new_process = [&is_unusable, fd = ends[1]] {
        is_unusable = true;
        tell(fd, kNewProcess, {});
      };
      try {
        const ExitCode code = work(task);
        if (is_unusable) {  // a rank that is lost, or a driver, would meet the end of static objects
          std::fflush(nullptr);
          std::_Exit(int(code));
        }
        return {.code = code, .is_child = true};
      } catch (const std::exception& error) {
        if (dynamic_cast<const Error*>(&error) || ends_the_run(error) || !has_folder) throw;
        tell(ends[1], kThrew, failure_text(error));
        return {.code = failure_code(error), .is_child = true};
      }
    }
    ::close(ends[1]);
    const ChildEnd end = wait_for(child, ends[0]);
    ::close(ends[0]);
    g_child = 0;
    if (end.folder) task.resume = end.folder;
    if (WIFEXITED(end.status) && !end.threw) {
      if (!end.wants_new_process || !task.resume)
        return {.code = ExitCode(WEXITSTATUS(end.status)), .folder = task.resume};
    } else {
      restore_terminal();
      if (g_num_ends_asked == 0 && !task.resume)
        fail(ExitCode::device, "the run's process {} before it had a results folder", end.how());
      const size_t recorded = task.resume ? record_crash(*task.resume, end, child) : 0;
      crashes_in_vain = recorded > progress ? 0 : crashes_in_vain + 1;
      progress = std::max(progress, recorded);
      if (g_num_ends_asked == 0 && crashes_in_vain >= kMostCrashes)
        fail(ExitCode::device,
             "{}: the run's process {} again and again, and nothing more gets recorded; what was finished is kept "
             "(runexp resume)",
             task.resume->string(), end.how());
    }
    if (g_num_ends_asked > 0)
      return {.code = g_last_end == SIGINT ? ExitCode::interrupted : ExitCode::terminated, .folder = task.resume};
  }
}

}  // namespace paceline
