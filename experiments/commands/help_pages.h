#pragma once
// What --help says below the options: examples, exit codes, environment variables.

#include "experiments/commands/command_line.h"

namespace paceline {

/// Gives the program and its commands their footers. REQUIRES: every command that has one has been added.
void add_help_pages(const Command& program);

}  // namespace paceline
