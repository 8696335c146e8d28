#include "experiments/config/server_command.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "engine/util/json_io.h"
#include "experiments/config/shell_words.h"
#include "kernels/error.h"

namespace paceline {

namespace {

constexpr std::string_view kPort = "{port}", kProposer = "{proposer}", kDraftLen = "{k}";

}  // namespace

bool names_speculation(std::string_view command) {
  return command.find(kProposer) != command.npos || command.find(kDraftLen) != command.npos;
}

std::vector<std::string> server_command(std::string_view command, const ServerCommandValues& values) {
  const std::pair<std::string_view, std::string> places[] = {
      {kPort, std::to_string(values.port)},
      {kProposer, std::string(values.proposer)},
      {kDraftLen, std::to_string(values.num_speculative_tokens)}};
  std::string filled;
  bool has_port = false;
  for (size_t i = 0; i < command.size();) {
    const std::string_view rest = command.substr(i);
    const auto place =
        std::find_if(std::begin(places), std::end(places), [&](const auto& of) { return rest.starts_with(of.first); });
    if (place != std::end(places)) {
      has_port = has_port || place->first == kPort;
      filled += place->second;
      i += place->first.size();
      continue;
    }
    const size_t count = rest.starts_with("\\") ? 2 : 1;  // with what it keeps
    filled += rest.substr(0, count);
    i += count;
  }
  ShellWords split = split_shell_words(filled);
  if (split.open_quote)
    fail(ExitCode::usage, "found {}: a quote {} does not end", json_literal(command), split.open_quote);
  if (split.words.empty())
    fail(ExitCode::usage, "found {}: expected a program and its arguments", json_literal(command));
  if (!has_port)
    fail(ExitCode::usage, "found {}: without {{port}} nobody knows where it listens; add it, as in \"--port {{port}}\"",
         json_literal(command));
  return std::move(split.words);
}

}  // namespace paceline
