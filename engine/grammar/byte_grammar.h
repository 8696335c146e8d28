#pragma once
// A context-free grammar over bytes: what JSON Schema, regular expressions, choices and EBNF become. Bytes and not
// characters, since a token may end within one.

#include <array>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace paceline {

/// A set of bytes. A value.
class ByteSet {
 public:
  static ByteSet range(uint8_t first, uint8_t last) {  // both are members
    ByteSet set;
    for (int byte = first; byte <= last; ++byte) set.add(uint8_t(byte));
    return set;
  }
  void add(uint8_t byte) { words_[byte / 64] |= uint64_t(1) << (byte % 64); }
  bool contains(uint8_t byte) const { return (words_[byte / 64] >> (byte % 64)) & 1; }
  bool empty() const { return (words_[0] | words_[1] | words_[2] | words_[3]) == 0; }
  bool operator==(const ByteSet&) const = default;

 private:
  std::array<uint64_t, 4> words_{};
};

/// A grammar that is not taken: `where` is a place in the source as its language writes it (a JSON pointer; "line 2,
/// column 7"; "character 12"), empty for all of it. what(): the place and the reason, one line without the client's
/// paths.
class GrammarError : public std::runtime_error {
 public:
  GrammarError(std::string where, const std::string& reason)
      : std::runtime_error(where.empty() ? reason : where + ": " + reason), where_(std::move(where)) {}
  const std::string& where() const { return where_; }

 private:
  std::string where_;
};

/// What a compiled grammar may cost. A grammar beyond it is a GrammarError, as soon as it is seen.
struct GrammarLimits {
  size_t max_bytes = size_t(16) << 20;  // of the grammar in memory
  int max_ms = 100;                     // of all of compiling, of the thread's CPU time: a busy machine refuses nothing
  int max_depth = 64;                   // of nesting in the source
};

/// Rules in Backus-Naur form; immutable. A rule is one or more alternatives, an alternative a sequence of items, none
/// for the empty text. A rule may stand for the empty text, be recursive on the right and in the middle, never on the
/// left (GrammarBuilder::finish refuses it).
struct ByteGrammar {
  struct Item {
    static constexpr int32_t kBytes = -1;
    int32_t rule = kBytes;  // a rule; kBytes: one byte of `bytes`
    int32_t bytes = 0;      // index into ByteGrammar::sets
  };
  struct Range {
    int32_t begin = 0, end = 0;
  };
  std::vector<ByteSet> sets;        // each once
  std::vector<Item> items;          // of all alternatives, one after another
  std::vector<Range> alternatives;  // of items
  std::vector<Range> rules;         // of alternatives
  int32_t root = 0;                 // a rule
};

}  // namespace paceline
