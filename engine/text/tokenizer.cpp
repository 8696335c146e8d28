#include "engine/text/tokenizer.h"

#include <limits>
#include <utility>

#include "engine/text/tokenizer_parts.h"
#include "engine/text/utf8.h"
#include "kernels/error.h"

namespace paceline {

std::shared_ptr<const Tokenizer> Tokenizer::load(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error))
    return std::make_shared<const Tokenizer>(assemble(read_tokenizer_json(path)));
  const auto json = path / "tokenizer.json";
  if (std::filesystem::exists(json, error))
    return std::make_shared<const Tokenizer>(assemble(read_tokenizer_json(json)));
  if (std::filesystem::exists(path / "vocab.json", error) && std::filesystem::exists(path / "merges.txt", error))
    return std::make_shared<const Tokenizer>(assemble(read_vocab_merges(path)));
  const bool is_sentencepiece = std::filesystem::exists(path / "tokenizer.model", error);
  fail(ExitCode::model_file, "{}: no tokenizer: expected tokenizer.json, or vocab.json and merges.txt{}", path.string(),
       is_sentencepiece ? "; tokenizer.model (SentencePiece) is not read: save the model's fast tokenizer beside it"
                        : "");
}

Tokenizer::Tokenizer(TokenizerParts parts) : parts_(std::make_unique<const TokenizerParts>(std::move(parts))) {}
Tokenizer::~Tokenizer() = default;

std::vector<int32_t> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  PACELINE_CHECK(text.size() < static_cast<size_t>(std::numeric_limits<int32_t>::max()) / 3, "{} bytes of text",
                 text.size());
  std::string repaired;
  if (!utf8_valid(text)) {
    repaired = utf8_repair(text);
    text = repaired;
  }
  const SpecialTokens special = options.parse_special ? SpecialTokens::parse : SpecialTokens::as_text;
  std::vector<int32_t> ids;
  if (options.add_special) ids = parts_->prefix_ids;

  SplitScratch split_scratch(text.size());
  BpeScratch bpe_scratch;
  std::vector<TextSpan> raw_spans, spans;
  std::vector<std::string_view> pieces;
  parts_->raw_tokens.split(text, special, raw_spans);
  for (const TextSpan& raw : raw_spans) {
    if (raw.id >= 0) {
      ids.push_back(raw.id);
      continue;
    }
    std::string_view span_text = raw.text;
    if (!parts_->normalizer.is_identity())
      span_text = split_scratch.arena.emplace_back(parts_->normalizer.apply(span_text));
    spans.clear();
    parts_->normalized_tokens.split(span_text, special, spans);
    for (const TextSpan& span : spans) {
      if (span.id >= 0) {
        ids.push_back(span.id);
        continue;
      }
      pieces.clear();
      parts_->pre_tokenizer->split(span.text, split_scratch, pieces);
      for (const std::string_view piece : pieces) parts_->bpe.encode(piece, bpe_scratch, ids);
    }
  }
  if (options.add_special) ids.insert(ids.end(), parts_->suffix_ids.begin(), parts_->suffix_ids.end());
  return ids;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, DecodeOptions options) const {
  std::string bytes;
  for (const int32_t id : ids) {
    if (!(options.skip_special && is_special(id))) bytes += token_bytes(id);
  }
  return utf8_valid(bytes) ? bytes : utf8_repair(bytes);
}

int32_t Tokenizer::vocab_size() const { return parts_->vocabulary.size(); }

std::optional<int32_t> Tokenizer::token_to_id(std::string_view text) const { return parts_->vocabulary.find(text); }

std::string_view Tokenizer::id_to_token(int32_t id) const {
  PACELINE_CHECK(parts_->vocabulary.contains(id), "id {} of {}", id, vocab_size());
  return parts_->vocabulary.text(id);
}

std::string_view Tokenizer::token_bytes(int32_t id) const {
  return parts_->vocabulary.contains(id) ? parts_->vocabulary.bytes(id) : std::string_view();
}

bool Tokenizer::is_special(int32_t id) const {
  return parts_->vocabulary.contains(id) && parts_->special[static_cast<size_t>(id)];
}

std::vector<int32_t> Tokenizer::special_ids() const {
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < vocab_size(); ++id) {
    if (is_special(id)) ids.push_back(id);
  }
  return ids;
}

}  // namespace paceline
