// What signals do. SIGINT, SIGTERM and SIGHUP ask for an orderly stop; a second one asks for it now. A mapped model
// file that somebody cuts raises SIGBUS. It cannot be prevented without copying (mapped_file.h), so it ends the program
// like every other bad file: one line that names it, exit code 3.

#include <atomic>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <string_view>
#include <unistd.h>

#include "experiments/commands/commands.h"

namespace paceline {
namespace {

// A signal handler can reach nothing but static objects of this kind.
volatile std::sig_atomic_t g_num_interrupts = 0;

volatile std::sig_atomic_t g_last_signal = SIGINT;

volatile std::sig_atomic_t g_num_pauses = 0;

extern "C" void on_continue(int) { g_num_pauses = g_num_pauses + 1; }

extern "C" void on_interrupt(int signal) {
  g_last_signal = signal;
  g_num_interrupts = g_num_interrupts + 1;
}

// Signal handlers may only call what is async-signal-safe: open, read, write, _exit, and what touches memory alone.

/// A line of /proc/self/maps is "begin-end perms offset device inode path". The path, if the line holds `address`.
const char* path_if_it_holds(const char* line, uintptr_t address) {
  const char* const stop = line + std::strlen(line);
  uintptr_t begin = 0, end = 0;
  const char* const dash = std::from_chars(line, stop, begin, 16).ptr;
  if (*dash != '-') return nullptr;
  std::from_chars(dash + 1, stop, end, 16);
  return begin <= address && address < end ? std::strchr(line, '/') : nullptr;
}

/// The path of the file mapped at `address`, into path; "a mapped file" where the system does not say.
void find_mapped_file(uintptr_t address, char* path, size_t room) {
  std::strncpy(path, "a mapped file", room);
  const int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (maps < 0) return;
  char line[4608];
  size_t length = 0;
  char piece[512];
  for (ssize_t count; (count = read(maps, piece, sizeof piece)) > 0;) {
    for (ssize_t i = 0; i < count; ++i) {
      if (piece[i] != '\n') {
        if (length + 1 < sizeof line) line[length++] = piece[i];
        continue;
      }
      line[length] = '\0';
      length = 0;
      if (const char* found = path_if_it_holds(line, address)) {
        std::strncpy(path, found, room - 1);
        path[room - 1] = '\0';
      }
    }
  }
  close(maps);
}

void write_error(std::string_view text) { static_cast<void>(!write(STDERR_FILENO, text.data(), text.size())); }

std::atomic_flag g_reporting = ATOMIC_FLAG_INIT;  // lock-free: fit for a handler

extern "C" void on_bus_error(int signal, siginfo_t* info, void*) {
  if (info->si_code != BUS_ADRERR) {  // somebody's kill, or a fault of another kind: die of it
    std::signal(signal, SIG_DFL);
    raise(signal);
    return;
  }
  while (g_reporting.test_and_set()) pause();  // another thread has met the same end and is saying so
  char path[4352];
  find_mapped_file(reinterpret_cast<uintptr_t>(info->si_addr), path, sizeof path);
  write_error("runexp: error: ");
  write_error(path);
  write_error(
      ": the file became shorter while it was read; expected a file that nobody changes. Copy it anew, and start "
      "again\n");
  _exit(int(ExitCode::model_file));
}

}  // namespace

int num_interrupts() { return int(g_num_interrupts); }

int num_pauses() { return int(g_num_pauses); }

ExitCode interrupt_exit_code() { return g_last_signal == SIGINT ? ExitCode::interrupted : ExitCode::terminated; }

void install_interrupt_handler() {
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  struct sigaction go_on {};
  go_on.sa_handler = on_continue;
  go_on.sa_flags = SA_RESTART;
  sigemptyset(&go_on.sa_mask);
  sigaction(SIGCONT, &go_on, nullptr);
  struct sigaction hangup {};
  sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);  // ignored under nohup
  std::signal(SIGPIPE, SIG_IGN);                                          // a closed pipe shows as a failed write
}

void install_fault_handler() {
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, nullptr);
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error of the write (EFBIG), as a full disk is
}

}  // namespace paceline
