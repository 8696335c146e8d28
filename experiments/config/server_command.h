#pragma once
// A command that starts a server, as an experiment file has it.

#include <string>
#include <string_view>
#include <vector>

namespace paceline {

/// Words of `command`, split at blanks; '…' and "…" hold blanks, a backslash keeps the next character (not within
/// '…'). "{port}" becomes the number wherever it stands. No shell: |, >, $X and ~ are plain text. Throws Error(usage),
/// one line: no word, a quote that does not end, no {port}.
std::vector<std::string> server_command(std::string_view command, int port);

}  // namespace paceline
