#pragma once
// A tokenizer given as arrays in memory: what SentencePiece's .model, tiktoken's .model and GGUF's tokenizer.ggml.*
// hold.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/text/tokenizer.h"

namespace paceline {

/// How a token's text spells the bytes that it stands for.
enum class TokenSpelling {
  byte_level,  // GPT-2's alphabet of bytes ("Ġthe", engine/text/byte_level.h); GGUF: tokenizer.ggml.model "gpt2"
  metaspace,   // UTF-8 with U+2581 for a blank ("▁the"), bytes as "<0x0A>"; SentencePiece; GGUF: "llama"
  raw,         // the bytes themselves; tiktoken
};

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
  bool add_space_prefix = true;       // a blank before the text, and before text after a control token
  bool collapse_white_space = false;  // blanks at both ends go, and of each run all but one (remove_extra_whitespaces)
};

/// Checks the arrays against each other and builds the tokenizer. Throws Error(model_file) naming `file` and the
/// array's entry ("tokens[5]"), for an unknown `pre` with the list of names.
std::shared_ptr<const Tokenizer> make_tokenizer(TokenTable table);

}  // namespace paceline
