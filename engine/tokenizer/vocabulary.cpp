#include "engine/tokenizer/vocabulary.h"

#include <limits>

#include "engine/text/byte_level.h"
#include "engine/text/span_place.h"
#include "engine/util/json_io.h"
#include "kernels/error.h"

namespace paceline {

namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

std::string blanks_of_metaspaces(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  for (size_t pos = 0; pos < text.size();) {
    if (text.substr(pos).starts_with(kMetaspace)) {
      bytes += ' ';
      pos += kMetaspace.size();
    } else {
      bytes += text[pos++];
    }
  }
  return bytes;
}

std::string bytes_of(const Vocabulary::Entry& entry, TokenSpelling spelling) {
  if (spelling == TokenSpelling::byte_level)
    return entry.added ? entry.text : byte_level_decode(entry.text).value_or(entry.text);
  if (const auto byte = byte_of_token(entry.text)) return std::string(1, static_cast<char>(*byte));
  return blanks_of_metaspaces(entry.text);
}

}  // namespace

std::optional<unsigned char> byte_of_token(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text.back() != '>') return std::nullopt;
  const int high = hex_digit(text[3]), low = hex_digit(text[4]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<unsigned char>(high << 4 | low);
}

Vocabulary Vocabulary::build(std::vector<Entry> entries, const Source& source) {
  const std::string& file = source.file;
  const auto place = [&](const Entry& entry) {
    return entry.where.empty() ? source.entry + "[" + json_literal(entry.text) + "]" : entry.where;
  };
  // Without gaps the largest id is below the number of entries, so a wild id never sizes an allocation.
  std::vector<const Entry*> by_id(entries.size(), nullptr);
  size_t num_ids = 0;
  const Entry* outside = nullptr;
  for (const Entry& entry : entries) {
    if (entry.id < 0 || entry.id > std::numeric_limits<int32_t>::max())
      fail(ExitCode::model_file, "{}: {}: id {} is not in [0, 2^31)", file, place(entry), entry.id);
    if (static_cast<size_t>(entry.id) >= by_id.size()) {
      outside = &entry;
      continue;
    }
    const Entry*& slot = by_id[static_cast<size_t>(entry.id)];
    if (slot == nullptr) {
      slot = &entry;
      ++num_ids;
    } else if (slot->text != entry.text || !entry.added) {
      fail(ExitCode::model_file, "{}: {}: id {} is used already by {}", file, place(entry), entry.id, place(*slot));
    } else {
      slot = &entry;
    }
  }
  for (size_t id = 0; id < by_id.size(); ++id) {
    if (by_id[id] != nullptr) continue;
    for (size_t above = id + 1; above < by_id.size() && outside == nullptr; ++above) outside = by_id[above];
    if (outside == nullptr) break;  // only repeated added tokens
    fail(ExitCode::model_file, "{}: {}: id {}, but id {} is missing; ids must have no gaps", file, place(*outside),
         outside->id, id);
  }
  Vocabulary result;
  result.tokens_.reserve(num_ids);
  result.ids_.reserve(num_ids);
  for (size_t id = 0; id < num_ids; ++id) {
    const Entry& entry = *by_id[id];
    result.tokens_.push_back({entry.text, bytes_of(entry, source.spelling)});
    const auto [it, inserted] = result.ids_.emplace(result.tokens_.back().text, static_cast<int32_t>(id));
    if (!inserted)
      fail(ExitCode::model_file, "{}: {}: id {}, but the same text has id {}", file, place(entry), id, it->second);
  }
  return result;
}

std::optional<int32_t> Vocabulary::find(std::string_view text) const {
  const auto it = ids_.find(text);
  return it == ids_.end() ? std::nullopt : std::optional(it->second);
}

}  // namespace paceline
