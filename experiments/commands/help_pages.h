#pragma once
// What --help says below the options: examples, exit codes, environment variables.

#include <CLI/CLI.hpp>

namespace paceline {

/// Gives the program and its commands their footers. REQUIRES: every command that has one has been added.
void add_help_pages(CLI::App& app);

}  // namespace paceline
