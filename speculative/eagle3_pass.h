#pragma once
// What the passes of an EAGLE-3 head are over: how many rows there may be, and which.

#include <cstdint>
#include <span>
#include <vector>

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
  std::vector<int> tap_index = {};  // of Eagle3Spec::taps, their places among Model::taps()
};

/// Rows of one pass: row i reads the feature of position[i] and the token behind it.
struct Eagle3Rows {
  std::vector<int32_t> token;  // token_in_cell(slot of its sequence): what was drafted for it last
  std::vector<int32_t> position;
  std::vector<int32_t> slot;     // of its KV
  std::vector<int32_t> feature;  // the row of the source of features that holds it
  std::vector<SeqSpan> seqs;
  std::vector<int32_t> block;  // as AttentionArgs::block

  int size() const { return int(token.size()); }
  /// A sequence whose rows are about to be added; `pages` hold all their positions.
  void begin_sequence(std::span<const int32_t> pages) {
    seqs.push_back({.first_row = size(), .num_rows = 0, .block_begin = int32_t(block.size())});
    block.insert(block.end(), pages.begin(), pages.end());
  }
  void add(int32_t token_id, int32_t at_position, int32_t kv_slot, int32_t feature_row) {
    token.push_back(token_id);
    position.push_back(at_position);
    slot.push_back(kv_slot);
    feature.push_back(feature_row);
    ++seqs.back().num_rows;
  }
};

}  // namespace paceline
