#include "experiments/run/crash_report.h"

#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <exception>
#include <execinfo.h>
#include <string_view>
#include <unistd.h>

namespace paceline {
namespace {

// A signal handler can reach nothing but static objects.
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

}  // namespace

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

}  // namespace paceline
