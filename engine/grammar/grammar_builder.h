#pragma once
// Puts a byte grammar together from expressions.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/grammar/byte_grammar.h"
#include "engine/grammar/code_ranges.h"
#include "engine/util/clock.h"

namespace paceline {

/// An expression may be used several times; it costs memory once, and so do equal ones. Throws GrammarError beyond the
/// limits, from any function. Threads: one.
class GrammarBuilder {
 public:
  using Expr = int32_t;
  static constexpr int kUnbounded = -1;

  explicit GrammarBuilder(const GrammarLimits& limits = {});

  Expr bytes(const ByteSet& set);                         // one byte of it; an empty set: nothing matches
  Expr text(std::string_view exactly);                    // empty: the empty text
  Expr characters(std::span<const CodeRange> of_ranges);  // one code point, in UTF-8; surrogates are left out
  Expr sequence(std::span<const Expr> parts);             // of none: the empty text
  Expr any_of(std::span<const Expr> parts) { return any_of(parts, 0); }  // of none: nothing matches
  /// At least `least` and at most `most` times. Size: about `most` rules, so bounds count towards max_bytes.
  Expr repeat(Expr part, int least, int most);
  Expr optional(Expr part) { return repeat(part, 0, 1); }

  /// An expression that is defined later, for recursion; `name` is what messages call it. REQUIRES define() once before
  /// finish().
  Expr declare(std::string_view name = {});
  void define(Expr declared, Expr body);

  /// Throws where the time is over: for loops that do not build.
  void check_time() const;
  const GrammarLimits& limits() const { return limits_; }

  /// Throws GrammarError for recursion on the left and for a root that no text matches; rules that cannot be reached
  /// or cannot be completed are left out, so that a text within the grammar always has an end.
  ByteGrammar finish(Expr root);

 private:
  friend class GrammarLowering;

  enum class Kind : uint8_t { bytes, sequence, any_of, repeat, declared };
  struct Node {
    Kind kind;
    int32_t begin = 0, count = 0;  // sequence, any_of: of parts_. bytes: begin indexes sets_
    Expr part = -1;                // repeat, declared
    int least = 0, most = 0;       // repeat
  };
  Expr intern(const Node& node, std::span<const Expr> parts);
  Expr any_of(std::span<const Expr> parts, int depth);
  std::vector<Expr> parts_of(Expr expr) const;
  int32_t set_index(const ByteSet& set);
  /// The code points begin + [0, 64^level) that are in the sorted `ranges`, as `level` bytes of 6 bits.
  Expr continuation(std::span<const CodeRange> ranges, char32_t begin, int level);
  void check_size();

  const GrammarLimits limits_;
  const double began_ = thread_cpu_seconds();
  std::vector<Node> nodes_;
  std::vector<Expr> parts_;
  std::vector<ByteSet> sets_;
  std::vector<std::string> names_;                // of declared expressions
  std::unordered_multimap<uint64_t, Expr> seen_;  // hash of a node
  std::unordered_multimap<uint64_t, int32_t> seen_sets_;
};

}  // namespace paceline
