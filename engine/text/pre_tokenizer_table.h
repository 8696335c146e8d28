#pragma once
// How text is cut by the tokenizers whose files do not say it (GGUF, tiktoken's .model, vocab.json + merges.txt): one
// table of names, those of GGUF's tokenizer.ggml.pre.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/pre_tokenizer.h"

namespace paceline {

struct NamedPreTokenizer {
  std::string_view name;
  std::vector<std::string_view> patterns;  // in sequence: each match is a piece, and what lies between two
  bool composes = false;                   // text is brought into NFC first
  bool whole_pieces = false;               // a piece that is a token is that token, whatever the merges say
  bool adds_bos = false;                   // unless the file says otherwise
};

/// In the order of the documents.
const std::vector<NamedPreTokenizer>& pre_tokenizer_table();

/// The row of `name`. Throws Error(model_file) beginning with `where`, with all names, the nearest first.
const NamedPreTokenizer& named_pre_tokenizer(std::string_view name, const std::string& where);

/// "gpt-2, llama-bpe, …"
std::string pre_tokenizer_names();

/// What the models of a family cut with, by "model_type" of config.json; empty: it does not tell.
std::string_view pre_tokenizer_of_family(std::string_view model_type);

std::unique_ptr<const PreTokenizer> make_pre_tokenizer(const NamedPreTokenizer& row);

}  // namespace paceline
