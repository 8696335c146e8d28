#pragma once
// The map between token ids, their text as the tokenizer file spells it, and the bytes they stand for.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace paceline {

/// Ids are 0 … size() − 1 without gaps; texts are unique. Immutable after build().
class Vocabulary {
 public:
  struct Entry {
    std::string text;    // as in the file
    int64_t id = 0;      // as in the file, not yet checked
    std::string where;   // entry named in messages; empty: made from the text
    bool added = false;  // an added token: stands for its text; otherwise the text is in the byte-level alphabet
  };

  Vocabulary() = default;

  /// An added token may repeat an entry of the model's vocabulary (same id, same text). `file` names the file.
  /// Throws Error(model_file) for an id that is negative, used twice, or missing below the largest.
  static Vocabulary build(std::vector<Entry> entries, const std::string& file);

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
