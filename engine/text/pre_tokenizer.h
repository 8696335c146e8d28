#pragma once
// Cuts text into the pieces that BPE merges within. Supports what byte-level tokenizers use: ByteLevel, Split, Digits,
// Punctuation, and a Sequence of them that ends in its one ByteLevel.

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/text/regex.h"

namespace paceline {

/// Per-call state: pieces are views of the caller's text or of `arena` (a deque: its strings never move).
struct SplitScratch {
  explicit SplitScratch(size_t text_bytes) : matcher(text_bytes) {}
  RegexMatcher matcher;
  std::deque<std::string> arena;
};

/// One stage; immutable after construction, any thread may call split with its own scratch.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  /// Appends the non-empty pieces of `text` to `pieces` in order. REQUIRES well-formed UTF-8.
  virtual void split(std::string_view text, SplitScratch& scratch, std::vector<std::string_view>& pieces) const = 0;
};

/// `json` is the file's "pre_tokenizer"; `where` names file and entry. Throws Error(model_file).
std::unique_ptr<const PreTokenizer> parse_pre_tokenizer(const nlohmann::json& json, const std::string& where);

/// ByteLevel alone, as GPT-2 has it (add_prefix_space false).
std::unique_ptr<const PreTokenizer> gpt2_pre_tokenizer();

}  // namespace paceline
