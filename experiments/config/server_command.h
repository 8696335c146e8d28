#pragma once
// A command that starts a server, as an experiment file has it.

#include <string>
#include <string_view>
#include <vector>

namespace paceline {

/// What "{port}", "{proposer}" and "{k}" in a command stand for.
struct ServerCommandValues {
  int port = 0;
  std::string_view proposer = "none";
  int num_speculative_tokens = 0;
};

/// Words of `command` (split_shell_words). "{port}", "{proposer}" and "{k}" become their values wherever no backslash
/// stands before them. Throws Error(usage), one line: no word, a quote that does not end, no {port}.
std::vector<std::string> server_command(std::string_view command, const ServerCommandValues& values);

/// The command starts another server for another proposer or draft length.
bool names_speculation(std::string_view command);

}  // namespace paceline
