#pragma once
// One forward pass: new rows of some sequences, in CSR form. Prefill, chunked prefill, decode and verification
// are the same thing: "num_rows new rows of a sequence that has `cached` tokens".

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/fnv1a.h"
#include "kernels/op_args.h"

namespace paceline {

/// Rows [first_row, first_row + num_rows) of one sequence, at consecutive positions but for drafts that branch.
struct SeqRows {
  int32_t seq = 0;  // SeqState slot
  int32_t first_row = 0;
  int32_t num_rows = 0;
  int32_t num_drafts = 0;    // last rows that are drafts; num_drafts + 1 logit rows
  bool deferred = false;     // one row, whose token, position, slot and kv_len the rank fills in from SeqState
  bool wants_logits = true;  // false for a prefill chunk that does not reach the last known token
  /// Of nodes of a growing tree: position of its first level, and place of its first node.
  int32_t tree_begin = SeqSpan::kNoTree;
};

/// A sequence's verified state as a rank must hold it.
struct SeqCommit {
  int32_t seq = 0;         // SeqState slot
  int32_t cached = 0;      // verified KV length
  int32_t length = 0;      // verified tokens
  int32_t last_token = 0;  // token at position length - 1
  int64_t request = 0;     // for messages only
  uint64_t paths = 0;      // of the kept drafts that did not lie in place: mix_path of each in turn
};

/// What the deciding rank settled in `step`; the other ranks derive their state from it.
struct SeqDecision {
  int32_t seq = 0;
  uint64_t step = 0;
  int32_t kept_rows = 0;           // rows of that step whose KV is verified
  int32_t num_emitted = 0;         // accepted drafts and the token after them
  int32_t next = 0;                // the last emitted token
  std::vector<int32_t> path = {};  // the accepted nodes where they do not lie in place, else empty
};

struct Batch {
  uint64_t step = 0;
  uint64_t after = 0;  // deferred rows read SeqState as step `after` left it
  std::vector<SeqRows> seqs;
  // per row, [num_rows]; kv_len 0, slot -1, position -1: padding row
  std::vector<int32_t> token;
  std::vector<int32_t> position;
  std::vector<int32_t> slot;
  std::vector<int32_t> kv_len;
  std::vector<int32_t> block_begin;  // [seqs]: first page of each sequence in `block`
  std::vector<int32_t> block;
  std::vector<int32_t> logit_row;  // rows whose logits are wanted, in order; per sequence num_drafts + 1 of them
  std::vector<int32_t> parent;     // [num_rows] where drafts branch: the row that each follows, -1: none of this batch;
                                   // empty: each follows the one before it
  // [num_rows] as KeyPaths, in place of `parent` where rows follow nodes of batches before: see add_tree_rows
  std::vector<int32_t> path_begin, path_place;
  // control plane
  std::vector<SeqCommit> resets;       // sequences new to their slot
  std::vector<SeqDecision> decisions;  // since the last message, in step order
  std::vector<SeqCommit> expected;     // state before this step of every sequence with immediate rows
  uint64_t digest = 0;                 // digest_of(expected): ranks compare it with that of their derived state

  int num_rows() const { return int(token.size()); }

  /// A row with everything known.
  void add_row(int32_t token_id, int32_t at_position, int32_t kv_slot) {
    token.push_back(token_id);
    position.push_back(at_position);
    slot.push_back(kv_slot);
    kv_len.push_back(at_position + 1);
  }

  /// A row of no sequence, or one that the rank fills in.
  void add_blank_row(int32_t token_id = -1) {
    token.push_back(token_id);
    position.push_back(-1);
    slot.push_back(-1);
    kv_len.push_back(0);
  }

  /// Appends the pages of the sequence whose rows are being added.
  void add_pages(std::span<const int32_t> pages) {
    block_begin.push_back(int32_t(block.size()));
    block.insert(block.end(), pages.begin(), pages.end());
  }
};

/// SeqCommit::paths behind a step that kept `path`; empty (in place): as it was.
inline uint64_t mix_path(uint64_t paths, std::span<const int32_t> path) {
  Fnv1a hash(paths);
  for (const int32_t node : path) hash.add(&node, sizeof node);
  return hash.value();
}

/// FNV-1a over the fields, in order: what the ranks compare.
inline uint64_t digest_of(std::span<const SeqCommit> states) {
  Fnv1a hash;
  const auto add = [&](uint64_t value) { hash.add(&value, sizeof value); };
  for (const SeqCommit& state : states) {
    add(uint64_t(state.seq));
    add(uint64_t(state.cached));
    add(uint64_t(state.length));
    add(uint64_t(state.last_token));
    add(state.paths);
  }
  return hash.value();
}

}  // namespace paceline
