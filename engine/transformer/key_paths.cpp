#include "engine/transformer/key_paths.h"

namespace paceline {
namespace {

bool branches(const Batch& batch, const SeqRows& seq) {
  const int32_t end = seq.first_row + seq.num_rows;
  for (int32_t row = end - seq.num_drafts; row < end; ++row)
    if (batch.parent[size_t(row)] != row - 1) return true;
  return false;
}

}  // namespace

KeyPaths KeyPathTable::fill(const Batch& batch, std::vector<SeqSpan>& spans) {
  if (!batch.path_place.empty()) {
    for (size_t i = 0; i < batch.seqs.size(); ++i) spans[i].tree_begin = batch.seqs[i].tree_begin;
    return {.begin = batch.path_begin, .place = batch.path_place};
  }
  if (batch.parent.empty()) return {};
  begin_.assign(size_t(batch.num_rows()), 0);
  place_.clear();
  for (size_t i = 0; i < batch.seqs.size(); ++i) {
    const SeqRows& seq = batch.seqs[i];
    if (!branches(batch, seq)) continue;
    const int32_t end = seq.first_row + seq.num_rows, first_draft = end - seq.num_drafts;
    const int32_t tree_begin = spans[i].tree_begin = batch.position[size_t(first_draft)];
    for (int32_t row = first_draft; row < end; ++row) {
      const size_t begin = place_.size();
      begin_[size_t(row)] = int32_t(begin);
      const int32_t parent = batch.parent[size_t(row)];
      const int32_t depth = batch.position[size_t(row)] - tree_begin;
      for (int32_t above = 0; above < depth; ++above) place_.push_back(place_[size_t(begin_[size_t(parent)] + above)]);
      place_.push_back(tree_begin + row - first_draft);
    }
  }
  return place_.empty() ? KeyPaths{} : KeyPaths{.begin = begin_, .place = place_};
}

}  // namespace paceline
