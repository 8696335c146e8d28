#include "engine/tokenizer/added_tokens.h"

#include <algorithm>
#include <utf8proc.h>
#include <utility>

#include "engine/text/utf8.h"
#include "engine/util/utf8_chars.h"

namespace paceline {

namespace {

bool is_word_char(char32_t code) {
  if (code == '_') return true;
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(code));
  return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_NL) || category == UTF8PROC_CATEGORY_PC;
}

bool word_touches(std::string_view text, size_t begin, size_t end) {
  if (begin > 0 && is_word_char(utf8_decode(text, utf8_begin(text, begin - 1)).code)) return true;
  return end < text.size() && is_word_char(utf8_decode(text, end).code);
}

}  // namespace

AddedTokenMatcher::AddedTokenMatcher(std::vector<AddedToken> tokens, const std::vector<std::string>& contents)
    : tokens_(std::move(tokens)), nodes_(1), roots_(256, -1) {
  for (size_t i = 0; i < tokens_.size(); ++i) {
    if (contents[i].empty()) continue;  // normalised away
    int32_t node = 0;
    for (const char c : contents[i]) {
      const auto byte = static_cast<unsigned char>(c);
      int32_t next = child(node, byte);
      if (next < 0) {
        next = static_cast<int32_t>(nodes_.size());
        nodes_.emplace_back();
        auto& children = nodes_[static_cast<size_t>(node)].children;
        children.insert(std::lower_bound(children.begin(), children.end(), std::pair{byte, int32_t{-1}}), {byte, next});
        if (node == 0) roots_[byte] = next;
      }
      node = next;
    }
    nodes_[static_cast<size_t>(node)].token = static_cast<int32_t>(i);
  }
}

int32_t AddedTokenMatcher::child(int32_t node, unsigned char byte) const {
  if (node == 0) return roots_[byte];
  const auto& children = nodes_[static_cast<size_t>(node)].children;
  const auto it = std::lower_bound(children.begin(), children.end(), std::pair{byte, int32_t{-1}});
  return it != children.end() && it->first == byte ? it->second : -1;
}

void AddedTokenMatcher::split(std::string_view text, SpecialTokens special, std::vector<TextSpan>& spans) const {
  size_t plain = 0;  // start of the text not yet given out
  for (size_t pos = 0; pos < text.size();) {
    const AddedToken* best = nullptr;
    size_t best_end = 0;
    int32_t node = roots_[static_cast<unsigned char>(text[pos])];
    for (size_t end = pos + 1; node >= 0; ++end) {
      if (const int32_t token = nodes_[static_cast<size_t>(node)].token; token >= 0) {
        const AddedToken& found = tokens_[static_cast<size_t>(token)];
        const bool allowed =
            (special == SpecialTokens::parse || !found.special) && !(found.single_word && word_touches(text, pos, end));
        if (allowed) {
          best = &found;
          best_end = end;
        }
      }
      if (end == text.size()) break;
      node = child(node, static_cast<unsigned char>(text[end]));
    }
    if (best == nullptr) {
      ++pos;
      continue;
    }
    size_t begin = pos, end = best_end;
    while (best->lstrip && begin > plain && is_white_space(utf8_decode(text, utf8_begin(text, begin - 1)).code))
      begin = utf8_begin(text, begin - 1);
    while (best->rstrip && end < text.size() && is_white_space(utf8_decode(text, end).code))
      end += static_cast<size_t>(utf8_decode(text, end).num_bytes);
    if (begin > plain) spans.push_back({text.substr(plain, begin - plain), -1});
    spans.push_back({text.substr(begin, end - begin), best->id});
    plain = pos = end;
  }
  if (plain < text.size()) spans.push_back({text.substr(plain), -1});
}

}  // namespace paceline
