#pragma once
// One choice of an answer: tokens to the text that the client sees, with stop strings.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/tokenizer/detokenizer.h"

namespace paceline {

struct StopStrings {
  std::vector<std::string> texts;  // valid UTF-8, none empty
  bool include = false;            // the one that was found is part of the answer
};

/// One stream; used by one thread at a time. Text that may be the beginning of a stop string is held back, over any
/// number of tokens; no text ends inside a character.
class ChoiceText {
 public:
  ChoiceText(std::shared_ptr<const Tokenizer> tokenizer, DecodeOptions options, StopStrings stop);

  enum class After : uint8_t { goes_on, stopped };

  /// The next token: appends to `out` what is now certain to be part of the answer. stopped: a stop string is complete,
  /// and the answer ends before it, or behind it with `include`. Of several the one that is complete first counts, of
  /// these the longest, whatever the borders of tokens. REQUIRES: not stopped.
  After push(int32_t token, std::string& out);

  /// No more tokens: appends what was held back.
  After flush(std::string& out);

 private:
  After take(const std::string& text, std::string& out);

  StreamDecoder decoder_;
  StopStrings stop_;
  std::string held_;  // a proper prefix of a stop string, or empty
};

}  // namespace paceline
