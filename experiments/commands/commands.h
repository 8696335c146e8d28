#pragma once
// What the commands of `runexp` share. Each writes data to stdout, everything else to stderr, and returns an exit code
// or throws Error; main.cpp parses the command line and maps errors to codes.

#include <filesystem>
#include <string>
#include <vector>

#include "experiments/config/file/load.h"
#include "kernels/error.h"

namespace paceline {

class Command;

/// A command that runs an experiment.
struct RunCommand {
  std::filesystem::path config;
  ConfigOverrides overrides;
  std::filesystem::path results_root = "results";
  std::string progress = "auto";  // auto | live | plain | jsonl | quiet
  std::vector<std::string> argv;
  bool in_process = false;  // no process of its own: for debuggers
};
/// --results and --ui.
void add_output_options(const Command& command, RunCommand& run);
/// --in-process.
void add_process_option(const Command& command, RunCommand& run);

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
