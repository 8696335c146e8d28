// In runexp_first, the program that makes a new user's first report: what serves, verifies and keeps to grammars would
// take a fifth of its build.

#include "experiments/commands/command_line.h"

namespace paceline {

void add_generate_command(const Command&) {}
void add_serve_command(const Command&) {}
void add_verify_commands(const Command&) {}

}  // namespace paceline
