#include "engine/tokenizer/detokenizer.h"

#include <utility>

#include "engine/text/utf8.h"
#include "engine/util/utf8_chars.h"
#include "kernels/error.h"

namespace paceline {

StreamDecoder::StreamDecoder(std::shared_ptr<const Tokenizer> tokenizer, DecodeOptions options)
    : tokenizer_(std::move(tokenizer)), options_(options) {
  PACELINE_CHECK(tokenizer_ != nullptr, "a stream decoder needs a tokenizer");
}

std::string StreamDecoder::push(int32_t id) {
  if (options_.skip_special && tokenizer_->is_special(id)) return {};
  append(tokenizer_->token_bytes(id));
  // Only the last three bytes can be the start of an unfinished character.
  size_t complete = pending_.size();
  for (size_t back = 1; back <= 3 && back <= pending_.size(); ++back) {
    const size_t pos = pending_.size() - back;
    if (is_utf8_continuation(pending_[pos])) continue;
    const Utf8Char c = utf8_decode(pending_, pos);
    if (c.cut_off && static_cast<size_t>(c.num_bytes) == back) complete = pos;
    break;
  }
  std::string text = utf8_repair(std::string_view(pending_).substr(0, complete));
  pending_.erase(0, complete);
  return text;
}

void StreamDecoder::append(std::string_view bytes) {
  if (bytes.empty()) return;
  if (begins_ && tokenizer_->strips_blank() && bytes.front() == ' ') bytes.remove_prefix(1);
  begins_ = false;
  pending_ += bytes;
}

std::string StreamDecoder::flush() {
  std::string text = utf8_repair(pending_);
  pending_.clear();
  begins_ = true;
  return text;
}

}  // namespace paceline
