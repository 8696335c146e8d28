#pragma once
// The one place where rows come into a batch: of sequences whose tokens the host knows, of those whose newest token
// lies in SeqState, and of no sequence.

#include <cstdint>
#include <span>

#include "engine/batch.h"
#include "engine/draft_tree.h"

namespace paceline {

/// Rows of a sequence's verified tokens [state.cached, end), and of drafts behind them.
struct NewRows {
  SeqCommit state;                  // before this step
  std::span<const int32_t> tokens;  // all verified tokens
  std::span<const int32_t> pages;   // covering [0, end), and with drafts state.length + their number
  int block_size = 16;
  int end = 0;
  bool reset = false;                 // the sequence is new to its slot
  const DraftTree* drafts = nullptr;  // null: none; REQUIRES end == state.length
};

/// Appends them. Node i of the drafts has position state.length + its depth, and its KV lies in the slot of position
/// state.length + i. Logits are wanted where the rows reach the last verified token: its own and those of the drafts.
void add_rows(Batch& batch, const NewRows& rows);

/// Appends a row of the newest token in slot `seq` of SeqState, which the rank fills in, and wants its logits.
void add_deferred_row(Batch& batch, int32_t seq, std::span<const int32_t> pages);

/// A node of a tree that grows behind the verified text, batch by batch.
struct TreeRow {
  int32_t token = 0;
  int32_t depth = 0;                   // 0: follows the text
  std::span<const int32_t> path = {};  // numbers of the nodes on the way to it, its own the last
};

/// Appends rows of nodes with consecutive numbers, whose parents went through batches before, and wants the logits of
/// each. Node number n of a text of `length` tokens lies in the slot of position length + n. REQUIRES: no other rows in
/// the batch. SeqState of slot `seq` stays as it is.
void add_tree_rows(Batch& batch, int32_t seq, int length, std::span<const int32_t> pages, int block_size,
                   std::span<const TreeRow> rows);

/// Appends rows of no sequence, which cost what rows cost; attention sees them as a sequence without pages.
void add_padding_rows(Batch& batch, int count);

}  // namespace paceline
