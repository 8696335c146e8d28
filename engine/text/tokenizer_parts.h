#pragma once
// What a tokenizer consists of, and the two file formats that it is read from.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "engine/text/added_tokens.h"
#include "engine/text/bpe.h"
#include "engine/text/normalizer.h"
#include "engine/text/pre_tokenizer.h"
#include "engine/text/vocabulary.h"
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
};

/// A merge as the file spells it.
struct TextMerge {
  std::string left, right;
};

/// Everything in the files, before it is checked against each other.
struct TokenizerSource {
  std::string file;                        // named in messages
  std::vector<Vocabulary::Entry> entries;  // model vocabulary and added tokens
  std::vector<AddedToken> added;
  std::vector<TextMerge> merges;
  std::string merges_entry;  // "model.merges"
  int merges_origin = 0;     // index (or line) of the first merge in messages
  std::optional<std::string> unknown_token;
  bool fuse_unknown = false;
  bool ignore_merges = false;
  Normalizer normalizer;
  std::unique_ptr<const PreTokenizer> pre_tokenizer;
  std::vector<int32_t> prefix_ids, suffix_ids;
};

/// Checks ids, merges and added tokens and builds the tables. Throws Error(model_file).
TokenizerParts assemble(TokenizerSource source);

/// A tokenizer.json of type BPE with a ByteLevel pre-tokenizer. Throws Error(model_file).
TokenizerSource read_tokenizer_json(const std::filesystem::path& file);

/// vocab.json + merges.txt in `folder`. Throws Error(model_file).
TokenizerSource read_vocab_merges(const std::filesystem::path& folder);

}  // namespace paceline
