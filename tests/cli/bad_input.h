#pragma once
// One input that is wrong and what a user must read about it: exit code, one error on stderr that names the mistake and
// the fix, nothing on stdout, no crash, at once.

#include <string>
#include <vector>

#include "tests/cli/runexp.h"

namespace paceline::test {

struct BadInput {
  std::string name;
  // {tiny}: the workspace's experiment, {bad} and {yaml}: bad.json and bad.yaml with `text`, {dir}: the workspace
  std::vector<std::string> args;
  int exit_code;
  std::vector<std::string> pieces;  // all of them on stderr; placeholders as in args
  std::string text = {};
};

inline void PrintTo(const BadInput& input, std::ostream* out) { *out << input.name; }

inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

inline std::string name_of(const testing::TestParamInfo<BadInput>& info) { return info.param.name; }

inline void expect_refused(const BadInput& input) {
  const Workspace workspace;
  const std::string bad = (workspace.folder() / "bad.json").string();
  const std::string yaml = (workspace.folder() / "bad.yaml").string();
  write_file(bad, input.text);
  write_file(yaml, input.text);
  const auto filled = [&](std::vector<std::string> words) {
    for (std::string& word : words) {
      word = replaced(word, "{tiny}", workspace.config().string());
      word = replaced(word, "{bad}", bad);
      word = replaced(word, "{yaml}", yaml);
      word = replaced(word, "{dir}", workspace.folder().string());
    }
    return words;
  };
  expect_failure(runexp(filled(input.args)), input.exit_code, filled(input.pieces));
  EXPECT_FALSE(std::filesystem::exists(workspace.results() / "latest")) << "a run that cannot start leaves no results";
}

}  // namespace paceline::test
