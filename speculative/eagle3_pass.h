#pragma once
// What the passes of an EAGLE-3 head are over: how many rows there may be, and which.

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/cache/kv_slot.h"
#include "engine/draft_tree.h"
#include "kernels/op_args.h"

namespace paceline {

struct Eagle3Options {
  DType kv_dtype = DType::f32;
  int num_blocks = 0;       // the target's
  int num_host_blocks = 0;  // the target's
  int block_size = 16;
  int max_num_seqs = 1;
  int max_num_rows = 512;           // of a batch of the target
  int max_steps_in_flight = 1;      // whose features are kept at a time
  int max_width = 1;                // rows of a sequence in a level of its tree
  int max_waiting = 0;              // rows of a sequence whose features may be kept until it is drafted for
  std::vector<int> tap_index = {};  // of Eagle3Spec::taps, their places among Model::taps()

  /// Rows of a pass: those of a batch and what one of its sequences may have waiting, or a level of trees.
  int max_pass_rows() const { return std::max(max_num_rows + max_waiting, max_num_seqs * max_width); }

  // Where features lie: those of a step's rows, and those that wait for a slot's sequence to be drafted for.
  int32_t feature_of(uint64_t step, int32_t row) const {
    return int32_t(step % uint64_t(max_steps_in_flight)) * max_num_rows + row;
  }
  int32_t waiting_feature(int32_t slot, int32_t i) const {
    return max_steps_in_flight * max_num_rows + slot * max_waiting + i;
  }
  int32_t num_features() const { return waiting_feature(max_num_seqs, 0); }

  /// Blocks of a slot's own, for nodes of its tree that do not fit the block where it begins. They lie behind the
  /// target's: spare_block() is the first of a slot's.
  int num_spare_blocks() const { return max_width > 1 ? kv_blocks(kMaxDraftLen, block_size) : 0; }
  int32_t spare_block(int32_t slot) const { return int32_t(num_blocks + slot * num_spare_blocks()); }
  int num_all_blocks() const { return num_blocks + max_num_seqs * num_spare_blocks(); }
};

/// Rows of one pass: row i reads the feature of position[i] and the token behind it.
struct Eagle3Rows {
  std::vector<int32_t> token;  // token_in_cell(slot of its sequence): what was drafted for it last
  std::vector<int32_t> position;
  std::vector<int32_t> slot;     // of its KV
  std::vector<int32_t> feature;  // where it lies: see Eagle3Options; in take_features the row of the batch
  std::vector<SeqSpan> seqs;
  std::vector<int32_t> block;  // as AttentionArgs::block
  // as KeyPaths, where drafts branch
  std::vector<int32_t> path_begin, place;

  int size() const { return int(token.size()); }
  /// A sequence whose rows are about to be added; `pages` hold all their positions. tree_begin: as SeqSpan's.
  void begin_sequence(std::span<const int32_t> pages, int32_t tree_begin = SeqSpan::kNoTree) {
    seqs.push_back(
        {.first_row = size(), .num_rows = 0, .block_begin = int32_t(block.size()), .tree_begin = tree_begin});
    block.insert(block.end(), pages.begin(), pages.end());
  }
  void add(int32_t token_id, int32_t at_position, int32_t kv_slot, int32_t feature_row) {
    token.push_back(token_id);
    position.push_back(at_position);
    slot.push_back(kv_slot);
    feature.push_back(feature_row);
    ++seqs.back().num_rows;
  }
  /// Of the row added last: the places of its keys from the tree's first position on, its own the last.
  void set_path(std::span<const int32_t> places) {
    path_begin.resize(token.size());
    path_begin.back() = int32_t(place.size());
    place.insert(place.end(), places.begin(), places.end());
  }
};

}  // namespace paceline
