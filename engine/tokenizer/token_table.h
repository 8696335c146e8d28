#pragma once
// A tokenizer given as arrays in memory: what SentencePiece's .model, tiktoken's .model and GGUF's tokenizer.ggml.*
// hold.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/text/span_place.h"
#include "engine/tokenizer/tokenizer.h"
#include "engine/tokenizer/vocabulary.h"

namespace paceline {

/// What a token is for. Values are those of SentencePiece's ModelProto.SentencePiece.Type and of GGUF's
/// tokenizer.ggml.token_type.
enum class TokenKind : uint8_t {
  normal = 1,
  unknown = 2,       // stands for what cannot be encoded
  control = 3,       // special: found in text only on demand
  user_defined = 4,  // found in text before anything is merged
  unused = 5,        // never made from text
  byte = 6,          // metaspace: "<0xHH>", one byte of a character without a token
};

struct TokenTable {
  std::string file;  // named in messages
  /// GGUF's tokenizer.ggml.model: "gpt2" is byte_level, "llama" metaspace. tiktoken's bytes are respelled as
  /// byte_level.
  TokenSpelling spelling = TokenSpelling::byte_level;
  std::vector<std::string> tokens;  // [id], not empty
  std::vector<TokenKind> kinds;     // [id], or empty: all normal

  /// One of the two says what joins. `merges`: "left right" as spelled, in the order of their ranks. `scores` ([id]):
  /// two neighbours join where their concatenation is a token, that of the highest score first, leftmost of equals.
  std::vector<std::string> merges;
  std::vector<float> scores;

  /// A name of engine/text/pre_tokenizer_table.h; unused with metaspace, whose words follow from the tokens.
  std::string pre;

  std::optional<int32_t> bos_id, eos_id;
  std::optional<int32_t> unknown_id;  // absent: the token of kind unknown, if any
  /// Put around a text with add_special. Absent: bos with metaspace and where the pre-tokenizer's entry says so; no
  /// eos.
  std::optional<bool> add_bos, add_eos;

  // Of metaspace alone:
  bool byte_fallback = true;     // a character without a token is the tokens of its bytes, if there are any
  bool add_space_prefix = true;  // a blank before the text …
  /// … and before text behind such tokens. after_added: tokens of kind user_defined are cut out of the text as it came
  /// (llama.cpp); else they are found once blanks are respelled (SentencePiece).
  SpanPlace space_prefix_until = SpanPlace::after_added;
  bool collapse_white_space = false;  // blanks at both ends go, and of each run all but one (remove_extra_whitespaces)
};

/// Checks the arrays against each other and builds the tokenizer. Throws Error(model_file) naming `file` and the
/// array's entry ("tokens[5]"), for an unknown `pre` with the list of names.
std::shared_ptr<const Tokenizer> make_tokenizer(TokenTable table);

}  // namespace paceline
