#pragma once
// Turns a stream of token ids into text piece by piece.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "engine/tokenizer/tokenizer.h"

namespace paceline {

/// One stream; used by one thread at a time. What push and flush return, joined, equals Tokenizer::decode of all ids
/// pushed since construction or the last flush, and no returned string ends inside a character.
class StreamDecoder {
 public:
  explicit StreamDecoder(std::shared_ptr<const Tokenizer> tokenizer, DecodeOptions options = {});

  /// Text that is certain after `id`; empty while a character is incomplete.
  std::string push(int32_t id);
  /// Ends the stream: an unfinished character becomes one U+FFFD. The decoder is then as new.
  std::string flush();

 private:
  void append(std::string_view bytes);

  std::shared_ptr<const Tokenizer> tokenizer_;
  DecodeOptions options_;
  std::string pending_;  // start of a character, at most 3 bytes
  bool begins_ = true;   // no byte came yet
};

}  // namespace paceline
