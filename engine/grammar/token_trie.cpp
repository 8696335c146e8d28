#include "engine/grammar/token_trie.h"

#include <algorithm>
#include <limits>

#include "kernels/error.h"

namespace paceline {

std::shared_ptr<const TokenTrie> TokenTrie::make(const Tokenizer& tokenizer) {
  std::vector<std::string> tokens(size_t(tokenizer.vocab_size()));
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    if (!tokenizer.is_special(id)) tokens[size_t(id)] = tokenizer.token_bytes(id);
  }
  return std::make_shared<TokenTrie>(tokens, tokenizer.strips_blank());
}

TokenTrie::TokenTrie(std::span<const std::string> tokens, bool strips_blank)
    : next_(tokens.size(), -1), begin_(1, 0), strips_blank_(strips_blank) {
  std::vector<int32_t> order;
  for (const std::string& token : tokens) {
    PACELINE_CHECK(token.size() <= std::numeric_limits<uint16_t>::max(), "a token of {} bytes", token.size());
    if (!token.empty()) order.push_back(int32_t(begin_.size()) - 1);
    text_ += token;
    begin_.push_back(uint32_t(text_.size()));
  }
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    const std::string_view left = bytes(a), right = bytes(b);
    return left != right ? left < right : a > b;
  });
  std::vector<int32_t> path;  // nodes on the way to the token before
  for (const int32_t token : order) {
    const std::string_view of = bytes(token);
    size_t same = 0;
    while (same < path.size() && same < of.size() && nodes_[size_t(path[same])].byte == uint8_t(of[same])) ++same;
    for (; path.size() > same; path.pop_back()) nodes_[size_t(path.back())].after = int32_t(nodes_.size());
    for (size_t i = same; i < of.size(); ++i) {
      path.push_back(int32_t(nodes_.size()));
      nodes_.push_back({.depth = uint16_t(i + 1), .byte = uint8_t(of[i])});
    }
    int32_t& first = nodes_[size_t(path.back())].first;
    next_[size_t(token)] = first;
    first = token;
  }
  for (const int32_t node : path) nodes_[size_t(node)].after = int32_t(nodes_.size());
}

}  // namespace paceline
