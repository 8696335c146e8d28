#pragma once
// Cuts text into the pieces that BPE merges within. Supports what BPE tokenizers use: ByteLevel, Split, Digits,
// Punctuation, Metaspace, and a Sequence of them.

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/text/regex.h"
#include "engine/text/span_place.h"

namespace paceline {

/// Per-call state: pieces are views of the caller's text or of `arena` (a deque: its strings never move).
struct SplitScratch {
  explicit SplitScratch(size_t num_bytes) : text_bytes(num_bytes) {}
  /// Made when the first pattern needs it.
  RegexMatcher& matcher() { return made_matcher ? *made_matcher : made_matcher.emplace(text_bytes); }

  size_t text_bytes;
  SpanPlace place = SpanPlace::text_start;  // of the text to split next
  std::optional<RegexMatcher> made_matcher;
  std::deque<std::string> arena;
};

/// One stage; immutable after construction, any thread may call split with its own scratch.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  /// Appends the non-empty pieces of `text` to `pieces` in order. REQUIRES well-formed UTF-8 (pieces of the byte-level
  /// alphabet's stages may end inside a character).
  virtual void split(std::string_view text, SplitScratch& scratch, std::vector<std::string_view>& pieces) const = 0;
};

/// `json` is the file's "pre_tokenizer" of a tokenizer that spells bytes in GPT-2's alphabet; stages behind ByteLevel
/// see that spelling. `where` names file and entry. Throws Error(model_file), also where no stage is ByteLevel.
std::unique_ptr<const PreTokenizer> parse_pre_tokenizer(const nlohmann::json& json, const std::string& where);

/// The same for one that spells a blank as U+2581: null or any stages. REQUIRES that none is ByteLevel.
std::unique_ptr<const PreTokenizer> parse_metaspace_pre_tokenizer(const nlohmann::json& json, const std::string& where);

/// One digit, or another number.
inline constexpr std::string_view kDigitPattern = R"(\p{N})";

/// Each match of `pattern` is a piece, and what lies between two. `where` is named in messages.
std::unique_ptr<const PreTokenizer> split_at_matches(std::string_view pattern, const std::string& where);

/// The stages, each on the pieces of the one before. None: the text is one piece.
std::unique_ptr<const PreTokenizer> in_sequence(std::vector<std::unique_ptr<const PreTokenizer>> stages);

/// A piece begins at each U+2581 that follows another character.
std::unique_ptr<const PreTokenizer> metaspace_words();

}  // namespace paceline
