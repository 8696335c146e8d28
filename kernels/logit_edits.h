#pragma once
// Arguments of the op that edits rows of logits before tokens are drawn from them: what a request asks for besides its
// filters (DrawParams). The formula is kernels/math/edit.h.
//
// Order, that of vLLM (v1/sample/sampler.py, ops/penalties.py): allowed mask; tokens that are forbidden one by one (bad
// words, min_tokens) and biases; repetition, then frequency and presence penalties; and behind this op temperature and
// filters, those in the order of kernels/math/distribution.h. Log probabilities called raw are of the row before it.

#include <cstdint>
#include <span>

#include "kernels/mat_view.h"

namespace paceline {

/// What is done to the logit of one token; as it is here, nothing.
struct TokenEdit {
  int32_t token = 0;
  float add = 0.0f;         // a bias, or -Inf: the token is forbidden
  float repetition = 1.0f;  // > 0; divides a logit above 0, multiplies others
  float subtract = 0.0f;    // presence and frequency penalties, together
};

/// The edits of one row are two ranges of EditArgs::edits: `shared`, which rows of a window have in common, and its
/// `own`, which replace the shared ones of the same tokens. Tokens of a range differ; those of `own` ascend.
struct EditRow {
  int32_t logits_row = 0;
  int32_t first_shared = 0, num_shared = 0;
  int32_t first_own = 0, num_own = 0;
  int32_t mask = -1;  // of EditArgs::masks; -1: every token is allowed
};

/// Words of a mask of allowed tokens: bit t % 32 of word t / 32 is token t's.
constexpr int32_t mask_words(int32_t vocab_size) { return (vocab_size + 31) / 32; }

/// Spans are the caller's again when the call returns.
struct EditArgs {
  MatView logits;                    // [rows, >= vocab_size] f32, changed in place
  int32_t vocab_size = 0;            // columns at and beyond it are padding; edits of such tokens are passed over
  std::span<const EditRow> rows;     // of different logits_row; none: nothing is done
  std::span<const TokenEdit> edits;  // tokens >= 0
  std::span<const uint32_t> masks;   // [masks, words_of_mask]
  int32_t words_of_mask = 0;         // >= mask_words(vocab_size), where there are masks
};

}  // namespace paceline
