#include "tests/support/run_process.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <sstream>
#include <stdexcept>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

namespace paceline::test {
namespace {

constexpr int kPollMs = 20;

void make_pipe(int (&ends)[2]) {
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe2 failed");
}

/// Reading end and writing end.
void make_terminal(int (&ends)[2]) {
  const winsize size{.ws_row = 30, .ws_col = 100, .ws_xpixel = 0, .ws_ypixel = 0};
  if (openpty(&ends[0], &ends[1], nullptr, nullptr, &size) != 0) throw std::runtime_error("openpty failed");
  for (int fd : ends) fcntl(fd, F_SETFD, FD_CLOEXEC);
}

void close_fd(int& fd) {
  if (fd >= 0) close(fd);
  fd = -1;
}

}  // namespace

Process::Process(const std::vector<std::string>& argv, ProcessOptions options) : options_(std::move(options)) {
  int out[2], err[2];
  const bool terminal = options_.streams == Streams::terminal;
  terminal ? make_terminal(out) : make_pipe(out);
  make_pipe(err);
  std::vector<char*> args;
  for (const std::string& arg : argv) args.push_back(const_cast<char*>(arg.c_str()));
  args.push_back(nullptr);
  start_ = std::chrono::steady_clock::now();
  pid_ = fork();
  if (pid_ < 0) throw std::runtime_error("fork failed");
  if (pid_ == 0) {
    setpgid(0, 0);
    for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) std::signal(signal, SIG_DFL);
    const int null = open("/dev/null", O_RDONLY);
    if (null < 0 || dup2(null, 0) < 0 || dup2(out[1], 1) < 0 || dup2(terminal ? out[1] : err[1], 2) < 0) _exit(126);
    if (!options_.folder.empty() && chdir(options_.folder.c_str()) != 0) _exit(126);
    for (const std::string& entry : options_.environment) {
      const size_t at = entry.find('=');
      if (at == std::string::npos)
        unsetenv(entry.c_str());
      else
        setenv(entry.substr(0, at).c_str(), entry.c_str() + at + 1, 1);
    }
    execv(args[0], args.data());
    _exit(127);
  }
  close(out[1]);
  close(err[1]);
  out_fd_ = out[0];
  err_fd_ = err[0];
  fcntl(out_fd_, F_SETFL, O_NONBLOCK);
  fcntl(err_fd_, F_SETFL, O_NONBLOCK);
}

Process::~Process() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  close_fd(out_fd_);
  close_fd(err_fd_);
}

void Process::send(int signal) {
  if (pid_ > 0) kill(pid_, signal);
}

void Process::close_stdout() { close_fd(out_fd_); }

double Process::seconds_since_start() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

void Process::drain(int& fd, std::string& into) {
  char buffer[4096];
  while (fd >= 0) {
    const ssize_t n = read(fd, buffer, sizeof buffer);
    if (n > 0)
      into.append(buffer, size_t(n));
    else if (n < 0 && errno == EINTR)
      continue;
    else if (n < 0 && errno == EAGAIN)
      return;
    else
      close_fd(fd);
  }
}

void Process::poll_once(int milliseconds) {
  pollfd fds[2] = {{out_fd_, POLLIN, 0}, {err_fd_, POLLIN, 0}};
  poll(fds, 2, milliseconds);
  drain(out_fd_, result_.out);
  drain(err_fd_, result_.err);
  if (pid_ <= 0) return;
  int status = 0;
  rusage used = {};
  const pid_t ended = wait4(pid_, &status, WNOHANG, &used);
  if (ended != pid_) {
    if (out_fd_ < 0 && err_fd_ < 0) usleep(useconds_t(milliseconds) * 1000);  // poll() has nothing left to wait for
    return;
  }
  pid_ = -1;
  result_.wall_s = seconds_since_start();
  for (const timeval& time : {used.ru_utime, used.ru_stime})
    result_.cpu_s += double(time.tv_sec) + 1e-6 * double(time.tv_usec);
  if (WIFEXITED(status)) result_.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result_.signal = WTERMSIG(status);
  drain(out_fd_, result_.out);
  drain(err_fd_, result_.err);
}

bool Process::wait_for_stderr(const std::string& text, double seconds) {
  const double end = seconds_since_start() + seconds;
  while (result_.err.find(text) == std::string::npos) {
    if (!running() || seconds_since_start() > end) return false;
    poll_once(kPollMs);
  }
  return true;
}

void Process::wait(double seconds) {
  const double end = seconds_since_start() + seconds;
  while (running() && seconds_since_start() < end) poll_once(kPollMs);
}

ProcessResult Process::finish() {
  while (running()) {
    if (!result_.timed_out && seconds_since_start() > options_.timeout_s) {
      result_.timed_out = true;
      kill(pid_, SIGKILL);
    }
    poll_once(kPollMs);
  }
  return result_;
}

ProcessResult run_process(const std::vector<std::string>& argv, const ProcessOptions& options) {
  Process process(argv, options);
  return process.finish();
}

double time_factor() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return 10;
#else
  return 1;
#endif
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

}  // namespace paceline::test
