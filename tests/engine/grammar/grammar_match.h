#pragma once
// Whether a text is of a grammar, by trying everything: slow, and with nothing of the automaton's.

#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "engine/grammar/byte_grammar.h"

namespace paceline::test {

class GrammarMatch {
 public:
  GrammarMatch(const ByteGrammar& grammar, std::string_view text) : grammar_(grammar), text_(text) {}

  bool whole() { return ends_of(grammar_.root, 0).contains(text_.size()); }

 private:
  /// Where texts of the rule that begin at `begin` end.
  const std::set<size_t>& ends_of(int32_t rule, size_t begin) {
    const auto [found, is_new] = ends_.try_emplace({rule, begin});
    if (!is_new) return found->second;
    std::set<size_t> ends;
    const ByteGrammar::Range alternatives = grammar_.rules[size_t(rule)];
    for (int32_t i = alternatives.begin; i < alternatives.end; ++i) {
      std::set<size_t> reached = {begin};
      const ByteGrammar::Range items = grammar_.alternatives[size_t(i)];
      for (int32_t at = items.begin; at < items.end && !reached.empty(); ++at)
        reached = behind(grammar_.items[size_t(at)], reached);
      ends.insert(reached.begin(), reached.end());
    }
    return ends_[{rule, begin}] = std::move(ends);
  }

  std::set<size_t> behind(const ByteGrammar::Item& item, const std::set<size_t>& from) {
    std::set<size_t> reached;
    for (const size_t begin : from) {
      if (item.rule != ByteGrammar::Item::kBytes) {
        const std::set<size_t>& ends = ends_of(item.rule, begin);
        reached.insert(ends.begin(), ends.end());
      } else if (begin < text_.size() && grammar_.sets[size_t(item.bytes)].contains(uint8_t(text_[begin]))) {
        reached.insert(begin + 1);
      }
    }
    return reached;
  }

  const ByteGrammar& grammar_;
  const std::string_view text_;
  std::map<std::pair<int32_t, size_t>, std::set<size_t>> ends_;
};

inline bool matches(const ByteGrammar& grammar, std::string_view text) { return GrammarMatch(grammar, text).whole(); }

}  // namespace paceline::test
