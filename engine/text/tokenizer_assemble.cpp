// Checks the contents of tokenizer files against each other and builds the encoder's tables.

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "engine/text/byte_level.h"
#include "engine/text/tokenizer_parts.h"
#include "engine/text/utf8.h"
#include "engine/util/json_io.h"
#include "kernels/error.h"

namespace paceline {

namespace {

std::vector<Bpe::Merge> resolve_merges(const TokenizerSource& source, const Vocabulary& vocabulary) {
  std::vector<Bpe::Merge> merges;
  merges.reserve(source.merges.size());
  std::string joined;
  for (size_t i = 0; i < source.merges.size(); ++i) {
    const TextMerge& merge = source.merges[i];
    joined.assign(merge.left).append(merge.right);
    const auto id_of = [&](const std::string& piece) {
      const auto id = vocabulary.find(piece);
      if (!id)
        fail(ExitCode::model_file, "{}: {}[{}]: merge of {} and {}: {} is not in the vocabulary", source.file,
             source.merges_entry, i + static_cast<size_t>(source.merges_origin), json_literal(merge.left),
             json_literal(merge.right), json_literal(piece));
      return *id;
    };
    merges.push_back({id_of(merge.left), id_of(merge.right), id_of(joined)});
  }
  return merges;
}

Bpe::Options bpe_options(const TokenizerSource& source, const Vocabulary& vocabulary) {
  Bpe::Options options;
  for (int byte = 0; byte < 256; ++byte) {
    std::string text;
    utf8_append(text, byte_level_char(static_cast<unsigned char>(byte)));
    options.byte_ids[static_cast<size_t>(byte)] = vocabulary.find(text).value_or(-1);
  }
  if (source.unknown_token) {
    options.unknown_id = vocabulary.find(*source.unknown_token);
    if (!options.unknown_id)
      fail(ExitCode::model_file, "{}: model.unk_token: {} is not in the vocabulary", source.file,
           json_literal(*source.unknown_token));
  }
  options.fuse_unknown = source.fuse_unknown;
  const bool has_bytes =
      std::any_of(options.byte_ids.begin(), options.byte_ids.end(), [](int32_t id) { return id >= 0; });
  if (!has_bytes && !options.unknown_id)
    fail(ExitCode::model_file, "{}: the vocabulary has no token of a single byte: no text can be encoded", source.file);
  if (source.ignore_merges) {
    options.whole_pieces.reserve(source.entries.size());
    for (const auto& entry : source.entries) {
      if (entry.added) continue;
      if (auto bytes = byte_level_decode(entry.text))
        options.whole_pieces.emplace(std::move(*bytes), static_cast<int32_t>(entry.id));
    }
  }
  return options;
}

AddedTokenMatcher matcher_for(const TokenizerSource& source, bool normalized) {
  std::vector<AddedToken> tokens;
  std::vector<std::string> contents;
  for (const AddedToken& token : source.added) {
    if (token.normalized != normalized) continue;
    tokens.push_back(token);
    contents.push_back(normalized ? source.normalizer.apply(token.content) : token.content);
  }
  return AddedTokenMatcher(std::move(tokens), contents);
}

}  // namespace

TokenizerParts assemble(TokenizerSource source) {
  std::unordered_set<std::string_view> contents;
  for (size_t i = 0; i < source.added.size(); ++i) {
    if (!contents.insert(source.added[i].content).second)
      fail(ExitCode::model_file, "{}: added token {} appears twice", source.file,
           json_literal(source.added[i].content));
  }
  Vocabulary vocabulary = Vocabulary::build(source.entries, source.file);
  if (vocabulary.size() == 0) fail(ExitCode::model_file, "{}: model.vocab is empty", source.file);
  std::vector<bool> special(static_cast<size_t>(vocabulary.size()), false);
  for (const AddedToken& token : source.added) {
    if (token.special) special[static_cast<size_t>(token.id)] = true;
  }
  for (const auto* ids : {&source.prefix_ids, &source.suffix_ids}) {
    for (const int32_t id : *ids) {
      if (!vocabulary.contains(id))
        fail(ExitCode::model_file, "{}: post_processor: id {} is not in the vocabulary of {} ids", source.file, id,
             vocabulary.size());
    }
  }
  Bpe bpe(resolve_merges(source, vocabulary), bpe_options(source, vocabulary));
  AddedTokenMatcher raw = matcher_for(source, false), normalized = matcher_for(source, true);
  return TokenizerParts{.vocabulary = std::move(vocabulary),
                        .special = std::move(special),
                        .raw_tokens = std::move(raw),
                        .normalized_tokens = std::move(normalized),
                        .normalizer = std::move(source.normalizer),
                        .pre_tokenizer = std::move(source.pre_tokenizer),
                        .bpe = std::move(bpe),
                        .prefix_ids = std::move(source.prefix_ids),
                        .suffix_ids = std::move(source.suffix_ids)};
}

}  // namespace paceline
