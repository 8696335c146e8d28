#pragma once
// Regular expressions as trees.

#include <string_view>
#include <vector>

#include "engine/grammar/code_ranges.h"

namespace paceline {

struct RegexNode {
  enum class Kind : uint8_t { characters, sequence, any_of, repeat, text_begins, text_ends };
  Kind kind = Kind::sequence;
  std::vector<CodeRange> ranges = {};    // characters; tidy
  std::vector<RegexNode> children = {};  // sequence, any_of; of repeat, one
  int least = 0, most = 0;               // repeat; GrammarBuilder::kUnbounded
  size_t at = 0;                         // in the pattern, in code points
  bool has_anchor = false;               // text_begins or text_ends, here or below
};

/// Throws GrammarError for what is not taken (RegexOptions), naming the place, and for groups nested deeper than
/// `max_depth`.
RegexNode parse_regex(std::string_view pattern, int max_depth);

}  // namespace paceline
