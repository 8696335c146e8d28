#pragma once
// Tokens from rows of logits: a block a row finds the distribution that a request asks for and draws from it, or
// decides about the drafts that stand there. The formulas and the bits are those of kernels/math (distribution.h,
// accept.h); all rows of a window are decided side by side, and those behind the first that keeps none are not looked
// at. VerifyRule::block looks at the rows before its own: a second kernel decides once all distributions stand.

#include <span>
#include <vector>

#include "kernels/cuda/device.h"
#include "kernels/math/philox.h"
#include "kernels/sampling_types.h"

namespace paceline::cuda {

/// A draft behind a row.
struct StagedDraft {
  int32_t token = -1;
  int32_t node = 0;           // of its window
  int32_t accept_offset = 0;  // of the noise that decides about it
};

/// One row's task.
struct DrawRow {
  int32_t logits_row = 0;
  int32_t probs_row = -1;         // of `probs`, where the distribution is wanted
  int32_t* token_cell = nullptr;  // device memory; where the token goes too
  const int32_t* ids = nullptr;   // as SampleArgs::ids
  DrawParams params;
  math::NoiseKey key;  // of the draw; with drafts: of the draw in their place

  int32_t first_draft = 0;  // of the call's
  int32_t num_drafts = 0;   // drawn one after another, each from what those before have left
  DraftProbKind kind = DraftProbKind::point_mass;
  const float* draft_prob = nullptr;  // device memory; dense: [draft_cols]
  int32_t draft_cols = 0;

  int32_t rank = -1;  // set: no draw, but that many tokens before this one are likelier

  bool is_of_block = false;
  int32_t place = 0;  // of a block's rows, which lie side by side; num_drafts is 1, of the last one 0
};

struct DrawResult {
  int32_t token = -1;  // -1: the row had no distribution, or keeps a draft
  int32_t kept = -1;   // the draft that is kept; of a block, the one before this row, if the block may end with it
  float prob = 0.0f;   // with DrawRow::rank: the token's
  uint32_t call = 0;   // written last: that of the draw() that this belongs to
};

/// The rows of a call, in the order in which verdicts_of and tokens_of take their results.
struct Draws {
  std::vector<DrawRow> row;
  std::vector<StagedDraft> draft;
};
Draws draws_of(const SampleArgs& args);
Draws draws_of(const AcceptArgs& args);
Draws draws_of(const TopKArgs& args);
/// Writes args.result.
void verdicts_of(const AcceptArgs& args, std::span<const DrawResult> drawn);

/// Once for the current device, before its first draw.
void prepare_draw();
/// Whether a draw needs room for the row's weights: greedy rows have none, and rows with `probs` keep them there.
inline bool needs_scratch(const DrawRow& row) { return !row.params.greedy() && row.probs_row < 0; }
/// Rows cut into those that go into one draw() each: at most `most_rows`, unless a block has more.
struct DrawParts {
  std::vector<std::span<const DrawRow>> part;
  size_t widest = 0;  // rows of the longest part
  bool need_scratch = false;
  bool have_blocks = false;
};
DrawParts parts_of(std::span<const DrawRow> row, size_t most_rows);
/// row, draft: staged; a row without `probs` that needs_scratch() takes row i of scratch, [rows][vocab_size]. result:
/// [rows], in memory that the host sees; a row's is there once `call` stands in it, which is another one at every call.
void draw(const MatView& logits, int32_t vocab_size, std::span<const DrawRow> row, const StagedDraft* draft,
          bool have_blocks, const MatView& probs, float* scratch, uint32_t call, DrawResult* result, LaunchTo queue);

}  // namespace paceline::cuda
