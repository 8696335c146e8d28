#pragma once
// The map between token ids, their text as the tokenizer file spells it, and the bytes they stand for.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace paceline {

/// How a token's text spells the bytes that it stands for.
enum class TokenSpelling {
  byte_level,  // GPT-2's alphabet of bytes ("Ġthe", engine/text/byte_level.h)
  metaspace,   // UTF-8 with U+2581 for a blank ("▁the"), bytes as "<0x0A>": SentencePiece
};

/// The byte of "<0x0A>", two upper-case hexadecimal digits.
std::optional<unsigned char> byte_of_token(std::string_view text);

/// Ids are 0 … size() − 1 without gaps; texts are unique. Immutable after build().
class Vocabulary {
 public:
  struct Entry {
    std::string text;    // as in the file
    int64_t id = 0;      // as in the file, not yet checked
    std::string where;   // entry named in messages; empty: made from the text
    bool added = false;  // an added token: byte_level does not spell it, it stands for its text
  };

  Vocabulary() = default;

  struct Source {
    std::string file;
    std::string entry = "model.vocab";  // what messages call the table of tokens
    TokenSpelling spelling = TokenSpelling::byte_level;
  };

  /// An added token may repeat an entry of the model's vocabulary (same id, same text).
  /// Throws Error(model_file) for an id that is negative, used twice, or missing below the largest.
  static Vocabulary build(std::vector<Entry> entries, const Source& source);

  int32_t size() const { return static_cast<int32_t>(tokens_.size()); }
  bool contains(int64_t id) const { return id >= 0 && id < size(); }
  std::optional<int32_t> find(std::string_view text) const;
  /// REQUIRES contains(id).
  std::string_view text(int32_t id) const { return tokens_[static_cast<size_t>(id)].text; }
  std::string_view bytes(int32_t id) const { return tokens_[static_cast<size_t>(id)].bytes; }

  Vocabulary(Vocabulary&&) = default;
  Vocabulary& operator=(Vocabulary&&) = default;
  Vocabulary(const Vocabulary&) = delete;  // ids_ views tokens_
  Vocabulary& operator=(const Vocabulary&) = delete;

 private:
  struct Token {
    std::string text, bytes;
  };
  std::vector<Token> tokens_;
  std::unordered_map<std::string_view, int32_t> ids_;
};

}  // namespace paceline
