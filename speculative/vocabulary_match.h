#pragma once
// May a draft model speak for a target? Decided by token -> id maps, never by sizes alone.

#include <string_view>

#include "engine/tokenizer/tokenizer.h"
#include "speculative/token_corpus.h"

namespace paceline {

/// One map may be a prefix of the other: its surplus ids are never drafted. Throws Error(usage) when an id below both
/// sizes means different tokens: names the first such ids with both texts, and the share of the target's tokens that
/// the draft also has under the same id. `key`: where users named the draft, e.g. "speculation.draft".
void check_vocabularies(const Tokenizer& target, const Tokenizer& draft, std::string_view key);

/// What its ids mean.
VocabularyId vocabulary_id(const Tokenizer& tokenizer);

}  // namespace paceline
