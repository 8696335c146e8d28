#pragma once
// The commands of `runexp`. Each writes data to stdout, everything else to stderr, and returns an exit code or throws
// Error; main.cpp maps errors to codes.

#include <string>
#include <vector>

#include "kernels/error.h"

namespace paceline {

/// Parses `argv` (the program's name first) and runs the command in it; a file alone means `run`, `help plan` is
/// `plan --help`, and `_` in an option's name is `-`. Returns the command's exit code. Throws Error(usage) with one
/// line for words that are no command line, and what the command throws.
ExitCode dispatch(const std::vector<std::string>& argv);

/// How often the user has asked to stop (SIGINT, SIGTERM, SIGHUP) since install_interrupt_handler().
int num_interrupts();
/// How often the process went on after it had been stopped (SIGCONT).
int num_pauses();
/// By the last signal: 130 after SIGINT, else 143.
ExitCode interrupt_exit_code();
void install_interrupt_handler();
/// A mapped file that is cut while it is read then ends the program with one line that names it, and exit code 3.
void install_fault_handler();

}  // namespace paceline
