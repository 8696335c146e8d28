#include "engine/batch_rows.h"

#include "engine/cache/kv_slot.h"
#include "kernels/error.h"

namespace paceline {
namespace {

/// Batch::parent of the rows that have none yet: the one before each.
void complete_parents(Batch& batch) {
  for (const SeqRows& seq : batch.seqs)
    for (int32_t row = seq.first_row; row < seq.first_row + seq.num_rows; ++row)
      if (row >= int32_t(batch.parent.size())) batch.parent.push_back(row == seq.first_row ? -1 : row - 1);
}

}  // namespace

void add_rows(Batch& batch, const NewRows& rows) {
  const int num_drafts = rows.drafts ? rows.drafts->size() : 0;
  const int num_known = rows.end - rows.state.cached;
  PACELINE_CHECK(num_drafts == 0 || rows.end == rows.state.length, "request {}: drafts behind {} of {} tokens",
                 rows.state.request, rows.end, rows.state.length);
  const SeqRows added{.seq = rows.state.seq,
                      .first_row = batch.num_rows(),
                      .num_rows = num_known + num_drafts,
                      .num_drafts = num_drafts,
                      .wants_logits = rows.end == int(rows.tokens.size())};
  const int last_slot = num_drafts > 0 ? rows.state.length + num_drafts - 1 : rows.end - 1;
  PACELINE_CHECK(last_slot < int(rows.pages.size()) * rows.block_size, "request {}: position {} of {} pages",
                 rows.state.request, last_slot, rows.pages.size());
  const auto slot_of = [&](int position) { return kv_slot(rows.pages, rows.block_size, position); };
  if (rows.reset) batch.resets.push_back(rows.state);
  batch.expected.push_back(rows.state);
  for (int position = rows.state.cached; position < rows.end; ++position)
    batch.add_row(rows.tokens[size_t(position)], position, slot_of(position));
  if (num_drafts > 0) {
    const std::vector<int32_t> depth = rows.drafts->depths();
    for (int node = 0; node < num_drafts; ++node)
      batch.add_row(rows.drafts->token[size_t(node)], rows.state.length + depth[size_t(node)],
                    slot_of(rows.state.length + node));
  }
  batch.add_pages(rows.pages);
  if (added.wants_logits)
    for (int row = num_known - 1; row < added.num_rows; ++row) batch.logit_row.push_back(added.first_row + row);
  batch.seqs.push_back(added);
  const bool branches = num_drafts > 0 && !rows.drafts->is_chain();
  if (branches || !batch.parent.empty()) complete_parents(batch);
  if (!branches) return;
  const int32_t root = added.first_row + num_known - 1;  // the row of the last verified token, which kRoot stands for
  for (int node = 0; node < num_drafts; ++node)
    batch.parent[size_t(root + 1 + node)] = root + 1 + rows.drafts->parent[size_t(node)];
}

void add_deferred_row(Batch& batch, int32_t seq, std::span<const int32_t> pages) {
  batch.logit_row.push_back(batch.num_rows());
  batch.seqs.push_back({.seq = seq, .first_row = batch.num_rows(), .num_rows = 1, .deferred = true});
  batch.add_pages(pages);
  batch.add_blank_row();
  if (!batch.parent.empty()) complete_parents(batch);
}

void add_tree_rows(Batch& batch, int32_t seq, int length, std::span<const int32_t> pages, int block_size,
                   std::span<const TreeRow> rows) {
  PACELINE_CHECK(int(batch.path_begin.size()) == batch.num_rows(), "slot {}: nodes of a growing tree behind other rows",
                 seq);
  const int first_row = batch.num_rows();
  batch.seqs.push_back({.seq = seq,
                        .first_row = first_row,
                        .num_rows = int32_t(rows.size()),
                        .num_drafts = int32_t(rows.size()),
                        .tree_begin = length});
  batch.add_pages(pages);
  for (const TreeRow& row : rows) {
    batch.logit_row.push_back(batch.num_rows());
    batch.add_row(row.token, length + row.depth, kv_slot(pages, block_size, length + row.path.back()));
    batch.path_begin.push_back(int32_t(batch.path_place.size()));
    for (const int32_t number : row.path) batch.path_place.push_back(length + number);
  }
}

void add_padding_rows(Batch& batch, int count) {
  if (count <= 0) return;
  batch.add_pages({});
  batch.seqs.push_back({.seq = -1, .first_row = batch.num_rows(), .num_rows = count, .wants_logits = false});
  for (int i = 0; i < count; ++i) batch.add_blank_row(0);
  if (!batch.parent.empty()) complete_parents(batch);
}

}  // namespace paceline
