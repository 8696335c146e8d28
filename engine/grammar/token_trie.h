#pragma once
// A vocabulary's tokens by their bytes, for walking all of them at once.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/tokenizer.h"

namespace paceline {

/// Flat, in depth-first order: a node's subtree is what lies behind it up to `after`. Immutable; any thread.
class TokenTrie {
 public:
  struct Node {
    int32_t after = 0;   // the first node behind the subtree
    int32_t first = -1;  // a token that ends here; none: -1. The others: next_of()
    uint16_t depth = 0;  // bytes on the way here, its own too: 1 and more
    uint8_t byte = 0;
  };

  /// Special tokens stand for no bytes. Of a model's tokenizer, once.
  static std::shared_ptr<const TokenTrie> make(const Tokenizer& tokenizer);
  /// tokens: the bytes of each id; empty: stands for none. strips_blank: a blank that a text begins with is not part of
  /// it (Tokenizer::strips_blank).
  TokenTrie(std::span<const std::string> tokens, bool strips_blank);

  std::span<const Node> nodes() const { return nodes_; }
  /// Another token with the same bytes (SentencePiece's "a" and "<0x61>"); none: -1.
  int32_t next_of(int32_t token) const { return next_[size_t(token)]; }
  int32_t vocab_size() const { return int32_t(next_.size()); }
  /// Empty for what stands for no bytes and for ids outside the vocabulary.
  std::string_view bytes(int32_t token) const {
    if (token < 0 || token >= vocab_size()) return {};
    return std::string_view(text_).substr(begin_[size_t(token)], begin_[size_t(token) + 1] - begin_[size_t(token)]);
  }
  bool strips_blank() const { return strips_blank_; }

 private:
  std::vector<Node> nodes_;
  std::vector<int32_t> next_;    // [vocab_size]
  std::vector<uint32_t> begin_;  // [vocab_size + 1] in text_
  std::string text_;
  const bool strips_blank_;
};

}  // namespace paceline
