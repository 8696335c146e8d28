#include "engine/tokenizer/tokenizer.h"

#include <limits>
#include <mutex>
#include <utility>

#include "engine/text/utf8.h"
#include "engine/tokenizer/piece_cache.h"
#include "engine/tokenizer/tokenizer_parts.h"
#include "kernels/error.h"

namespace paceline {

/// What encode needs besides the tokenizer, and its cache.
struct EncodeScratch {
  BpeScratch bpe;
  std::optional<PieceCache> cache;  // once a text is long enough to repeat itself
};

/// Hands out scratch memory; any thread.
class EncodeScratchPool {
 public:
  std::unique_ptr<EncodeScratch> take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return std::make_unique<EncodeScratch>();
    auto scratch = std::move(free_.back());
    free_.pop_back();
    return scratch;
  }
  void give_back(std::unique_ptr<EncodeScratch> scratch) {
    constexpr size_t kMaxKept = 1 << 16;  // symbols
    if (scratch->bpe.ids.capacity() > kMaxKept) scratch->bpe = {};
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(scratch));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<EncodeScratch>> free_;
};

namespace {

void encode_piece(const Bpe& bpe, std::string_view piece, EncodeScratch& scratch, std::vector<int32_t>& ids) {
  if (!scratch.cache || piece.size() > PieceCache::kMaxBytes) return bpe.encode(piece, scratch.bpe, ids);
  PieceCache::Slot& slot = scratch.cache->slot(piece);
  if (slot.holds(piece)) {
    for (const int32_t id : slot.ids()) ids.push_back(id);
    return;
  }
  const size_t before = ids.size();
  bpe.encode(piece, scratch.bpe, ids);
  slot.keep(piece, std::span(ids).subspan(before));
}

}  // namespace

Tokenizer::Tokenizer(TokenizerParts parts)
    : parts_(std::make_unique<const TokenizerParts>(std::move(parts))),
      scratch_(std::make_unique<EncodeScratchPool>()) {}
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

  auto scratch = scratch_->take();
  constexpr size_t kLongText = 1024;
  if (!scratch->cache && text.size() >= kLongText) scratch->cache.emplace();
  SplitScratch split_scratch(text.size());
  std::vector<TextSpan> raw_spans, spans;
  std::vector<std::string_view> pieces;
  const auto put_added = [&](int32_t id) {
    ids.push_back(id);
    split_scratch.place = is_special(id) ? SpanPlace::after_special : SpanPlace::after_added;
  };
  parts_->raw_tokens.split(text, special, raw_spans);
  for (const TextSpan& raw : raw_spans) {
    if (raw.id >= 0) {
      put_added(raw.id);
      continue;
    }
    std::string_view span_text = raw.text;
    if (!parts_->normalizer.is_identity())
      span_text = split_scratch.arena.emplace_back(parts_->normalizer.apply(span_text, split_scratch.place));
    spans.clear();
    parts_->normalized_tokens.split(span_text, special, spans);
    for (const TextSpan& span : spans) {
      if (span.id >= 0) {
        put_added(span.id);
        continue;
      }
      pieces.clear();
      parts_->pre_tokenizer->split(span.text, split_scratch, pieces);
      for (const std::string_view piece : pieces) encode_piece(parts_->bpe, piece, *scratch, ids);
    }
  }
  if (options.add_special) ids.insert(ids.end(), parts_->suffix_ids.begin(), parts_->suffix_ids.end());
  scratch_->give_back(std::move(scratch));
  return ids;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, DecodeOptions options) const {
  std::string bytes;
  for (const int32_t id : ids) {
    if (!(options.skip_special && is_special(id))) bytes += token_bytes(id);
  }
  if (parts_->strips_blank && bytes.starts_with(' ')) bytes.erase(0, 1);
  return utf8_valid(bytes) ? bytes : utf8_repair(bytes);
}

bool Tokenizer::strips_blank() const { return parts_->strips_blank; }

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
