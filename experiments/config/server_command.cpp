#include "experiments/config/server_command.h"

#include <optional>

#include "engine/util/json_io.h"
#include "kernels/error.h"

namespace paceline {

std::vector<std::string> server_command(std::string_view command, int port) {
  constexpr std::string_view kPort = "{port}";
  std::vector<std::string> words;
  std::optional<std::string> word;
  char quote = 0;
  bool has_port = false;
  for (size_t i = 0; i < command.size(); ++i) {
    const char c = command[i];
    if (command.substr(i).starts_with(kPort)) {
      has_port = true;
      if (!word) word.emplace();
      *word += std::to_string(port);
      i += kPort.size() - 1;
    } else if (quote == 0 && (c == ' ' || c == '\t' || c == '\n')) {
      if (word) words.push_back(*std::exchange(word, std::nullopt));
    } else if (c == quote) {
      quote = 0;
    } else if (quote == 0 && (c == '\'' || c == '"')) {
      quote = c;
      if (!word) word.emplace();
    } else {
      const bool is_kept = c == '\\' && quote != '\'' && i + 1 < command.size();
      if (is_kept) ++i;
      if (!word) word.emplace();
      *word += command[i];
    }
  }
  if (quote != 0) fail(ExitCode::usage, "found {}: a quote {} does not end", json_literal(command), quote);
  if (word) words.push_back(*word);
  if (words.empty()) fail(ExitCode::usage, "found {}: expected a program and its arguments", json_literal(command));
  if (!has_port)
    fail(ExitCode::usage, "found {}: without {{port}} nobody knows where it listens; add it, as in \"--port {{port}}\"",
         json_literal(command));
  return words;
}

}  // namespace paceline
