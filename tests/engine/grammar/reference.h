#pragma once
// What a byte grammar says of a text, by the definition.

#include <set>
#include <string_view>

#include "engine/grammar/byte_grammar.h"

namespace paceline::test {

/// Tries every alternative of every rule at every place.
class GrammarReference {
 public:
  explicit GrammarReference(const ByteGrammar& grammar) : grammar_(grammar) {}

  bool matches(std::string_view text) { return read(text).count(text.size()) > 0; }
  /// Whether `text` begins a text of the grammar.
  bool begins(std::string_view text) { return matches(text) || went_on_; }

 private:
  std::set<size_t> read(std::string_view text) {
    text_ = text;
    went_on_ = false;
    return ends_of(grammar_.root, 0);
  }
  // Where a reading of the rule that begins at `at` may end.
  std::set<size_t> ends_of(int32_t rule, size_t at) {
    std::set<size_t> ends;
    const ByteGrammar::Range range = grammar_.rules[size_t(rule)];
    for (int32_t i = range.begin; i < range.end; ++i) {
      const ByteGrammar::Range items = grammar_.alternatives[size_t(i)];
      std::set<size_t> places = {at};
      for (int32_t item = items.begin; item < items.end; ++item) {
        std::set<size_t> next;
        for (const size_t place : places) {
          const ByteGrammar::Item& of = grammar_.items[size_t(item)];
          if (of.rule >= 0) {
            next.merge(ends_of(of.rule, place));
          } else if (place == text_.size()) {
            went_on_ = true;
          } else if (grammar_.sets[size_t(of.bytes)].contains(uint8_t(text_[place]))) {
            next.insert(place + 1);
          }
        }
        places = std::move(next);
      }
      ends.merge(places);
    }
    return ends;
  }

  const ByteGrammar& grammar_;
  std::string_view text_;
  bool went_on_ = false;
};

}  // namespace paceline::test
