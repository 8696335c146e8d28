#pragma once
// Finds added tokens ("<|end|>", runs of blanks, …) in text before it is cut into pieces.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace paceline {

inline constexpr size_t kMaxAddedTokenBytes = 1024;  // matching costs text × longest added token

struct AddedToken {
  std::string content;  // UTF-8, not empty
  int32_t id = 0;
  bool special = false;      // control token: found only when the caller asks, left out of decoded text on demand
  bool lstrip = false;       // takes the white space before it
  bool rstrip = false;       // takes the white space after it
  bool single_word = false;  // only when no word character touches it
  bool normalized = false;   // looked for in the normalised text
};

enum class SpecialTokens { as_text, parse };

/// One span of text: an added token, or plain text (id −1).
struct TextSpan {
  std::string_view text;
  int32_t id = -1;
};

/// A byte trie over token contents: at each position the longest allowed token wins. Immutable after construction.
class AddedTokenMatcher {
 public:
  /// `contents[i]` is what is looked for when token i is meant (normalised already where that applies).
  AddedTokenMatcher(std::vector<AddedToken> tokens, const std::vector<std::string>& contents);

  /// Appends the spans that cover `text` (white space taken by lstrip/rstrip belongs to the token's span).
  /// Plain spans are not empty. REQUIRES well-formed UTF-8. Time: O(text × longest token).
  void split(std::string_view text, SpecialTokens special, std::vector<TextSpan>& spans) const;

 private:
  struct Node {
    int32_t token = -1;                                       // index into tokens_ that ends here
    std::vector<std::pair<unsigned char, int32_t>> children;  // sorted by byte
  };
  int32_t child(int32_t node, unsigned char byte) const;

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_;
  std::vector<int32_t> roots_;  // [256] child of the root per first byte, −1: none
};

}  // namespace paceline
