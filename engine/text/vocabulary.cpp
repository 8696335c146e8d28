#include "engine/text/vocabulary.h"

#include <limits>
#include <utility>

#include "engine/text/byte_level.h"
#include "engine/util/json_io.h"
#include "kernels/error.h"

namespace paceline {

namespace {

std::string place(const Vocabulary::Entry& entry) {
  return entry.where.empty() ? "model.vocab[" + json_literal(entry.text) + "]" : entry.where;
}

}  // namespace

Vocabulary Vocabulary::build(std::vector<Entry> entries, const std::string& file) {
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
    std::string bytes = entry.added ? entry.text : byte_level_decode(entry.text).value_or(entry.text);
    result.tokens_.push_back({entry.text, std::move(bytes)});
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
