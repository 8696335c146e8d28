#pragma once
// What a tokenizer consists of, and the file formats that it is read from.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "engine/text/normalizer.h"
#include "engine/text/pre_tokenizer.h"
#include "engine/tokenizer/added_tokens.h"
#include "engine/tokenizer/bpe.h"
#include "engine/tokenizer/token_table.h"
#include "engine/tokenizer/vocabulary.h"
#include "engine/util/json_io.h"

namespace paceline {

/// Of each JSON file that a tokenizer is read from.
inline constexpr JsonLimits kTokenizerJsonLimits{.max_bytes = size_t{512} << 20, .max_depth = 64};

struct TokenizerParts {
  Vocabulary vocabulary;
  std::vector<bool> special;            // [vocabulary.size()]
  AddedTokenMatcher raw_tokens;         // looked for in the text as it came
  AddedTokenMatcher normalized_tokens;  // looked for after normalisation
  Normalizer normalizer;
  std::unique_ptr<const PreTokenizer> pre_tokenizer;
  Bpe bpe;
  std::vector<int32_t> prefix_ids, suffix_ids;  // added around a text with add_special
  bool strips_blank = false;                    // decoded text loses a blank that it begins with
};

/// A merge as the file spells it.
struct TextMerge {
  std::string left, right;
};

/// Everything in the files, before it is checked against each other.
struct TokenizerSource {
  std::string file;  // named in messages
  TokenSpelling spelling = TokenSpelling::byte_level;
  std::string vocabulary_entry = "model.vocab";
  std::vector<Vocabulary::Entry> entries;  // model vocabulary and added tokens
  std::vector<AddedToken> added;
  std::vector<TextMerge> merges;
  std::vector<float> scores;   // [id], in place of merges: see TokenTable; NaN: never made by joining
  bool byte_fallback = false;  // metaspace: characters without a token are their bytes
  bool strips_blank = false;
  std::string merges_entry;  // "model.merges"
  int merges_origin = 0;     // index (or line) of the first merge in messages
  std::optional<std::string> unknown_token;
  bool fuse_unknown = false;
  bool ignore_merges = false;
  Normalizer normalizer;
  std::unique_ptr<const PreTokenizer> pre_tokenizer;  // not null
  std::vector<int32_t> prefix_ids, suffix_ids;
};

/// Checks ids, merges and added tokens and builds the tables. Throws Error(model_file).
TokenizerParts assemble(TokenizerSource source);

/// A tokenizer.json of type BPE, byte-level or with blanks spelled as U+2581. Throws Error(model_file).
TokenizerSource read_tokenizer_json(const std::filesystem::path& file);

/// vocab.json + merges.txt in `folder`, cut as `pre` (a name of pre_tokenizer_table.h; empty: as config.json's
/// model_type says, as GPT-2 where there is no config.json). Throws Error(model_file).
TokenizerSource read_vocab_merges(const std::filesystem::path& folder, const std::string& pre);

/// Checks the table itself and takes it over. Throws Error(model_file).
TokenizerSource read_token_table(TokenTable table);

/// SentencePiece's .model (ModelProto of sentencepiece_model.proto), of type BPE. `file` is named in messages.
/// Throws Error(model_file).
TokenTable read_sentencepiece_model(std::string_view bytes, const std::string& file);

/// Whether the first line is one of tiktoken's.
bool is_tiktoken_model(std::string_view bytes);

/// tiktoken's .model: lines of a token in base64, a blank and its rank, 0, 1, … Throws Error(model_file).
TokenTable read_tiktoken_model(std::string_view bytes, const std::string& file);

}  // namespace paceline
