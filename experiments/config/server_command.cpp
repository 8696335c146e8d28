#include "experiments/config/server_command.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "engine/util/json_io.h"
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
  std::vector<std::string> words;
  std::optional<std::string> word;
  char quote = 0;
  bool has_port = false;
  const auto place_at = [&](size_t i) {
    return std::find_if(std::begin(places), std::end(places),
                        [&](const auto& place) { return command.substr(i).starts_with(place.first); });
  };
  for (size_t i = 0; i < command.size(); ++i) {
    const char c = command[i];
    if (const auto place = place_at(i); place != std::end(places)) {
      has_port = has_port || place->first == kPort;
      if (!word) word.emplace();
      *word += place->second;
      i += place->first.size() - 1;
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
