#include "experiments/run/host/server_process.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <netinet/in.h>
#include <sstream>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/util/printable.h"
#include "experiments/client/http_call.h"
#include "kernels/error.h"

namespace paceline {
namespace {

using ServerClock = std::chrono::steady_clock;

constexpr auto kLook = std::chrono::milliseconds(20);  // between two looks at a server that is awaited
constexpr auto kGrace = std::chrono::seconds(10);      // from SIGTERM to SIGKILL
constexpr double kHealthTimeout_s = 2;
constexpr size_t kLastBytes = 4096, kLastLines = 3;
constexpr int kNoProgram = 127;

std::string system_text(int error) { return std::generic_category().message(error); }

/// In a child, before exec: signals as a program expects them.
void reset_signals() {
  for (int signal = 1; signal < NSIG; ++signal) ::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

/// All but `kept`: descriptors of the run, its locks among them, are not the guard's. Async-signal-safe.
void close_all_but(int kept) {
  if (kept > 0) ::close_range(0, unsigned(kept) - 1, 0);
  ::close_range(unsigned(kept) + 1, ~0U, 0);
}

/// utime, stime and those of children that were waited for, in ticks, where the process is of the group.
long ticks_in_group(const std::filesystem::path& stat, pid_t group) {
  std::ifstream file(stat);
  std::string text;
  std::getline(file, text);
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(text.substr(name_end + 1));
  std::string state;
  long parent = 0, process_group = 0;
  fields >> state >> parent >> process_group;
  if (process_group != group) return 0;
  constexpr int kSkipped = 8;  // session … cmajflt
  long skipped = 0, ticks = 0, sum = 0;
  for (int i = 0; i < kSkipped; ++i) fields >> skipped;
  for (int i = 0; i < 4 && fields >> ticks; ++i) sum += ticks;
  return sum;
}

}  // namespace

ServerProcess::ServerProcess(std::vector<std::string> argv, std::filesystem::path log)
    : argv_(std::move(argv)), log_(std::move(log)) {
  const int output = ::open(log_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
  if (output < 0) fail(ExitCode::device, "{}: cannot be written: {}", log_.string(), system_text(errno));
  std::vector<char*> words;
  for (std::string& word : argv_) words.push_back(word.data());
  words.push_back(nullptr);
  const std::string no_program = fmt::format("{}: cannot be started\n", argv_.front());
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) {  // from here on what is async-signal-safe: the run has threads
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(kNoProgram);
    reset_signals();
    const int nothing = ::open("/dev/null", O_RDONLY);
    ::dup2(nothing, STDIN_FILENO);
    ::dup2(output, STDOUT_FILENO);
    ::dup2(output, STDERR_FILENO);
    ::execvp(words.front(), words.data());
    static_cast<void>(!::write(STDERR_FILENO, no_program.data(), no_program.size()));
    ::_exit(kNoProgram);
  }
  const int error = errno;
  ::close(output);
  if (pid_ < 0) fail(ExitCode::device, "{}: no process for it: {}", argv_.front(), system_text(error));
  ::setpgid(pid_, pid_);  // whichever of the two comes first
  start_guard();
}

void ServerProcess::start_guard() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return;  // the kernel still ends the server itself
  guard_ = ::fork();
  if (guard_ == 0) {
    ::setpgid(0, 0);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGTSTP, SIGPIPE}) ::signal(signal, SIG_IGN);
    close_all_but(ends[0]);
    char byte = 0;
    while (::read(ends[0], &byte, 1) < 0 && errno == EINTR) {
    }
    ::kill(-pid_, SIGKILL);
    ::_exit(0);
  }
  ::close(ends[0]);
  guard_pipe_ = ends[1];
}

ServerProcess::~ServerProcess() {
  const auto has_ended = [&] {
    siginfo_t info{};
    return ::waitid(P_PID, id_t(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == pid_;
  };
  if (!status_) {
    ::kill(-pid_, SIGCONT);
    ::kill(-pid_, SIGTERM);
    for (const auto end = ServerClock::now() + kGrace; !has_ended() && ServerClock::now() < end;)
      std::this_thread::sleep_for(kLook);
    ::kill(-pid_, SIGKILL);  // it, or what it left in its group
  }
  if (guard_pipe_ >= 0) ::close(guard_pipe_);
  if (guard_ > 0) ::waitpid(guard_, nullptr, 0);
  if (!status_) ::waitpid(pid_, nullptr, 0);
}

std::optional<std::string> ServerProcess::how_it_ended() {
  if (!status_) {
    int status = 0;
    if (::waitpid(pid_, &status, WNOHANG) != pid_) return std::nullopt;
    status_ = status;
    ::kill(-pid_, SIGKILL);  // what it left in its group
  }
  const std::string end = WIFEXITED(*status_) ? fmt::format("exit code {}", WEXITSTATUS(*status_))
                                              : fmt::format("signal {}", WTERMSIG(*status_));
  const std::string lines = last_lines();
  return lines.empty() ? end + ", without a word" : fmt::format("{}; its last lines: {}", end, lines);
}

std::string ServerProcess::last_lines() const {
  std::ifstream file(log_, std::ios::binary | std::ios::ate);
  const auto size = std::streamoff(file.tellg());
  file.seekg(std::max<std::streamoff>(0, size - std::streamoff(kLastBytes)));
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);)
    if (!line.empty()) lines.push_back(user_text(line));
  if (lines.size() > kLastLines) lines.erase(lines.begin(), lines.end() - std::ptrdiff_t(kLastLines));
  return fmt::format("{}", fmt::join(lines, " | "));
}

void ServerProcess::await(double timeout_s, const char* what, const StopNow& stop_now,
                          const std::function<bool()>& is_there) {
  const auto begin = ServerClock::now();
  while (!is_there()) {
    if (const auto end = how_it_ended())
      fail(ExitCode::device, "the server ended before it was ready: {}: {}; all it said: {}", argv_.front(), *end,
           log_.string());
    if (stop_now && stop_now()) fail(ExitCode::interrupted, "stopped by the user");
    if (std::chrono::duration<double>(ServerClock::now() - begin).count() > timeout_s)
      fail(ExitCode::device, "the server did not {} within {} s (server.start_timeout_s): {}; all it said: {}", what,
           timeout_s, argv_.front(), log_.string());
    std::this_thread::sleep_for(kLook);
  }
}

ServerUrl ServerProcess::await_address(double timeout_s, const StopNow& stop_now) {
  ServerUrl url;
  await(timeout_s, "say its address", stop_now, [&] {
    std::ifstream file(log_);
    for (std::string line; std::getline(file, line) && !file.eof();) {
      if (!line.starts_with("http://")) continue;
      url = parse_server_url(line);
      return true;
    }
    return false;
  });
  return url;
}

void ServerProcess::await_health(const ServerUrl& url, double timeout_s, const StopNow& stop_now) {
  await(timeout_s, "answer GET /health", stop_now,
        [&] { return http_call(url, "GET", "/health", kHealthTimeout_s).is_ok(); });
}

void ServerProcess::pause() { ::kill(-pid_, SIGSTOP); }
void ServerProcess::go_on() { ::kill(-pid_, SIGCONT); }

double ServerProcess::cpu_seconds() const {
  long ticks = 0;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") == std::string::npos) ticks += ticks_in_group(entry.path() / "stat", pid_);
  }
  return double(ticks) / double(::sysconf(_SC_CLK_TCK));
}

int free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  const bool is_bound = fd >= 0 && ::bind(fd, reinterpret_cast<const sockaddr*>(&address), length) == 0 &&
                        ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) == 0;
  const int error = errno;
  if (fd >= 0) ::close(fd);
  if (!is_bound) fail(ExitCode::device, "no free port: {}", system_text(error));
  return ntohs(address.sin_port);
}

}  // namespace paceline
