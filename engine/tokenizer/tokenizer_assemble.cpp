// Checks the contents of tokenizer files against each other and builds the encoder's tables.

#include <algorithm>
#include <cmath>
#include <functional>
#include <unordered_set>
#include <utility>

#include "engine/text/byte_level.h"
#include "engine/text/utf8.h"
#include "engine/tokenizer/tokenizer_parts.h"
#include "engine/util/json_io.h"
#include "engine/util/utf8_chars.h"
#include "kernels/error.h"

namespace paceline {

namespace {

std::vector<Bpe::Merge> merges_by_name(const TokenizerSource& source, const Vocabulary& vocabulary) {
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
    merges.push_back({id_of(merge.left), id_of(merge.right), id_of(joined), static_cast<int32_t>(i)});
  }
  return merges;
}

/// Every way to cut a token into two; its rank is the place of its score among all, from the highest on.
std::vector<Bpe::Merge> merges_by_score(const TokenizerSource& source, const Vocabulary& vocabulary) {
  std::vector<float> order;
  for (const float score : source.scores) {
    if (!std::isnan(score)) order.push_back(score);
  }
  std::sort(order.begin(), order.end(), std::greater<>());
  order.erase(std::unique(order.begin(), order.end()), order.end());
  const auto joins = [&](int32_t id) { return !std::isnan(source.scores[static_cast<size_t>(id)]); };

  std::vector<Bpe::Merge> merges;
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    if (!joins(id)) continue;
    const std::string_view text = vocabulary.text(id);
    const auto place =
        std::lower_bound(order.begin(), order.end(), source.scores[static_cast<size_t>(id)], std::greater<>());
    const auto rank = static_cast<int32_t>(place - order.begin());
    for (size_t cut = 1; cut < text.size(); ++cut) {
      if (is_utf8_continuation(text[cut])) continue;
      const auto left = vocabulary.find(text.substr(0, cut));
      if (!left || !joins(*left)) continue;
      const auto right = vocabulary.find(text.substr(cut));
      if (right && joins(*right)) merges.push_back({*left, *right, id, rank});
    }
  }
  return merges;
}

/// Tokens of one character, and of bytes where those stand for characters without one.
void set_characters(const TokenizerSource& source, Bpe::Options& options) {
  options.byte_ids.fill(-1);
  for (const Vocabulary::Entry& entry : source.entries) {
    const auto id = static_cast<int32_t>(entry.id);
    if (const auto byte = byte_of_token(entry.text); byte && source.byte_fallback) {
      options.byte_ids[*byte] = id;
    } else if (!entry.added && !entry.text.empty()) {
      const Utf8Char c = utf8_decode(entry.text, 0);
      if (c.valid && entry.text.size() == static_cast<size_t>(c.num_bytes)) options.char_ids.emplace(c.code, id);
    }
  }
}

void set_bytes(const Vocabulary& vocabulary, Bpe::Options& options) {
  for (int byte = 0; byte < 256; ++byte) {
    std::string text;
    utf8_append(text, byte_level_char(static_cast<unsigned char>(byte)));
    options.byte_ids[static_cast<size_t>(byte)] = vocabulary.find(text).value_or(-1);
  }
}

Bpe::Options bpe_options(const TokenizerSource& source, const Vocabulary& vocabulary) {
  Bpe::Options options;
  const bool is_metaspace = source.spelling == TokenSpelling::metaspace;
  if (is_metaspace)
    set_characters(source, options);
  else
    set_bytes(vocabulary, options);
  if (source.unknown_token) {
    options.unknown_id = vocabulary.find(*source.unknown_token);
    if (!options.unknown_id)
      fail(ExitCode::model_file, "{}: model.unk_token: {} is not in the vocabulary", source.file,
           json_literal(*source.unknown_token));
  }
  options.fuse_unknown = source.fuse_unknown;
  const bool has_bytes =
      std::any_of(options.byte_ids.begin(), options.byte_ids.end(), [](int32_t id) { return id >= 0; });
  if (is_metaspace && options.char_ids.empty())
    fail(ExitCode::model_file, "{}: the vocabulary has no token of a single character: no text can be encoded",
         source.file);
  if (!is_metaspace && !has_bytes && !options.unknown_id)
    fail(ExitCode::model_file, "{}: the vocabulary has no token of a single byte: no text can be encoded", source.file);
  if (source.ignore_merges) {
    options.whole_pieces.reserve(source.entries.size());
    for (const auto& entry : source.entries) {
      if (entry.added) continue;
      if (is_metaspace)
        options.whole_pieces.emplace(entry.text, static_cast<int32_t>(entry.id));
      else if (auto bytes = byte_level_decode(entry.text))
        options.whole_pieces.emplace(std::move(*bytes), static_cast<int32_t>(entry.id));
    }
  }
  return options;
}

/// Where no token has U+2581 behind another character, nothing joins across such a place: the text may be cut there.
bool has_words(const std::vector<Bpe::Merge>& merges, const Vocabulary& vocabulary) {
  return std::none_of(merges.begin(), merges.end(), [&](const Bpe::Merge& merge) {
    return vocabulary.text(merge.right).starts_with(kMetaspace) && !vocabulary.text(merge.left).ends_with(kMetaspace);
  });
}

AddedTokenMatcher matcher_for(const TokenizerSource& source, bool normalized) {
  std::vector<AddedToken> tokens;
  std::vector<std::string> contents;
  for (const AddedToken& token : source.added) {
    if (token.normalized != normalized) continue;
    tokens.push_back(token);
    contents.push_back(normalized ? source.normalizer.apply(token.content, SpanPlace::after_added) : token.content);
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
  Vocabulary vocabulary = Vocabulary::build(
      source.entries, {.file = source.file, .entry = source.vocabulary_entry, .spelling = source.spelling});
  if (vocabulary.size() == 0) fail(ExitCode::model_file, "{}: {} is empty", source.file, source.vocabulary_entry);
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
  const std::vector<Bpe::Merge> merges =
      source.scores.empty() ? merges_by_name(source, vocabulary) : merges_by_score(source, vocabulary);
  Bpe bpe(merges, bpe_options(source, vocabulary));
  if (source.spelling == TokenSpelling::metaspace && !source.ignore_merges && has_words(merges, vocabulary)) {
    std::vector<std::unique_ptr<const PreTokenizer>> stages;
    stages.push_back(std::move(source.pre_tokenizer));
    stages.push_back(metaspace_words());
    source.pre_tokenizer = in_sequence(std::move(stages));
  }
  AddedTokenMatcher raw = matcher_for(source, false), normalized = matcher_for(source, true);
  return TokenizerParts{.vocabulary = std::move(vocabulary),
                        .special = std::move(special),
                        .raw_tokens = std::move(raw),
                        .normalized_tokens = std::move(normalized),
                        .normalizer = std::move(source.normalizer),
                        .pre_tokenizer = std::move(source.pre_tokenizer),
                        .bpe = std::move(bpe),
                        .prefix_ids = std::move(source.prefix_ids),
                        .suffix_ids = std::move(source.suffix_ids),
                        .strips_blank = source.strips_blank};
}

}  // namespace paceline
