#pragma once
// From the words of a command line to the command that they name.

#include <string>
#include <vector>

#include "kernels/error.h"

namespace paceline {

class Command;

/// Parses `argv` (the program's name first) and runs the command in it; a file alone means `run`, `help plan` is
/// `plan --help`, and `_` in an option's name is `-`. Returns the command's exit code. Throws Error(usage) with one
/// line for words that are no command line, and what the command throws.
ExitCode dispatch(const std::vector<std::string>& argv);

/// Gives the program and its commands what --help says below the options: examples, exit codes, environment variables.
/// REQUIRES: every command that has one has been added.
void add_help_pages(const Command& program);

}  // namespace paceline
