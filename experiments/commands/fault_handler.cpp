// A mapped model file that somebody cuts raises SIGBUS. It cannot be prevented without copying (mapped_file.h), so it
// ends the program like every other bad file: one line that names it, exit code 3.

#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <string_view>
#include <unistd.h>

#include "experiments/commands/commands.h"

namespace paceline {
namespace {

// Signal handlers may only call what is async-signal-safe: open, read, write, _exit, and code of their own.

uintptr_t parse_hex(const char*& text) {
  uintptr_t value = 0;
  for (;; ++text) {
    if (*text >= '0' && *text <= '9')
      value = value * 16 + uintptr_t(*text - '0');
    else if (*text >= 'a' && *text <= 'f')
      value = value * 16 + uintptr_t(*text - 'a' + 10);
    else
      return value;
  }
}

/// A line of /proc/self/maps is "begin-end perms offset device inode path". The path, if the line holds `address`.
const char* path_if_it_holds(const char* line, uintptr_t address) {
  const uintptr_t begin = parse_hex(line);
  if (*line++ != '-') return nullptr;
  const uintptr_t end = parse_hex(line);
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

void install_fault_handler() {
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, nullptr);
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error of the write (EFBIG), as a full disk is
}

}  // namespace paceline
