#include "speculative/verify_rule.h"

#include <algorithm>
#include <array>
#include <utility>

#include "kernels/error.h"

namespace paceline {
namespace {

constexpr std::string_view kAuto = "auto";
constexpr std::array<std::pair<VerifyRule, std::string_view>, 4> kChosen = {{{VerifyRule::greedy, "greedy"},
                                                                             {VerifyRule::rejection, "rejection"},
                                                                             {VerifyRule::block, "block"},
                                                                             {VerifyRule::coupled, "coupled"}}};

}  // namespace

std::string_view rule_word(VerifyRule rule) {
  const auto row = std::find_if(kChosen.begin(), kChosen.end(), [&](const auto& pair) { return pair.first == rule; });
  PACELINE_CHECK(row != kChosen.end(), "a rule without a word: {}", int(rule));
  return row->second;
}

std::vector<std::string_view> rule_words() {
  std::vector<std::string_view> words = {kAuto};
  for (const auto& [rule, word] : kChosen) words.push_back(word);
  return words;
}

VerifyRule parse_rule(std::string_view word, bool greedy_sampling) {
  if (word == kAuto) return greedy_sampling ? VerifyRule::greedy : VerifyRule::rejection;
  const auto row = std::find_if(kChosen.begin(), kChosen.end(), [&](const auto& pair) { return pair.second == word; });
  if (row != kChosen.end()) return row->first;
  fail(ExitCode::usage, "speculation.verifier.rule: found \"{}\", expected {}", word, fmt::join(rule_words(), ", "));
}

}  // namespace paceline
