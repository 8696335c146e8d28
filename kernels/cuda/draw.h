#pragma once
// Tokens from rows of logits: a block a row finds the distribution that a request asks for and draws from it, or
// decides about the draft that stands there. The formulas and the bits are those of kernels/math (distribution.h,
// accept.h); all rows of a window are decided side by side, and those behind the first refused draft are not looked at.

#include <span>
#include <vector>

#include "kernels/cuda/device.h"
#include "kernels/math/philox.h"
#include "kernels/sampling_types.h"

namespace paceline::cuda {

/// One row's task.
struct DrawRow {
  int32_t logits_row = 0;
  int32_t probs_row = -1;   // of `probs`, where the distribution is wanted
  int32_t* cell = nullptr;  // device memory; where the token goes too
  SamplerParams params;
  math::NoiseKey key;  // of the draw; for a draft: of the draw in its place

  bool has_draft = false;
  int32_t draft = -1;
  DraftProbKind kind = DraftProbKind::point_mass;
  const float* draft_prob = nullptr;  // device memory; dense: [draft_cols]
  int32_t draft_cols = 0;
  math::NoiseKey accept_key;
};

struct DrawResult {
  int32_t token = -1;       // -1: the row had no distribution, or its draft is kept
  int32_t is_kept = false;  // the draft
  uint32_t call = 0;        // written last: that of the draw() that this belongs to
};

/// The rows of a call, in the order in which verdicts_of and tokens_of take their results.
std::vector<DrawRow> draws_of(const SampleArgs& args);
std::vector<DrawRow> draws_of(const AcceptArgs& args);
/// Writes args.result.
void verdicts_of(const AcceptArgs& args, std::span<const DrawResult> drawn);

/// Once for the current device, before its first draw.
void prepare_draw();
/// Whether a draw needs room for the row's weights: greedy rows have none, and rows with `probs` keep them there.
inline bool needs_scratch(const DrawRow& row) { return !row.params.greedy() && row.probs_row < 0; }
/// row: staged; a row without `probs` that needs_scratch() takes row i of scratch, [rows][vocab_size]. result: [rows],
/// in memory that the host sees; a row's is there once `call` stands in it, which is another one at every call.
void draw(const MatView& logits, int32_t vocab_size, std::span<const DrawRow> row, const MatView& probs, float* scratch,
          uint32_t call, DrawResult* result, LaunchTo queue);

}  // namespace paceline::cuda
