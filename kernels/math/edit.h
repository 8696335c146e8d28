#pragma once
// Edits of single logits, for host and device alike (order and sources: kernels/logit_edits.h).

#include <cstdint>

#include "kernels/logit_edits.h"
#include "kernels/math/elementary.h"

namespace paceline::math {

/// The repetition penalty of Keskar et al. 2019 (CTRL, section 4.1), in the form of Hugging Face and vLLM: what makes a
/// token less likely depends on the sign of its logit.
PACELINE_MATH float edited(float logit, const TokenEdit& edit) {
  const float biased = logit + edit.add;
  const float repeated = biased > 0.0f ? biased / edit.repetition : biased * edit.repetition;
  return repeated - edit.subtract;
}

PACELINE_MATH bool is_allowed(const uint32_t* mask, int32_t token) { return mask[token / 32] >> (token % 32) & 1u; }
PACELINE_MATH void set_allowed(uint32_t* mask, int32_t token, bool allowed) {
  const uint32_t bit = uint32_t{1} << (token % 32);
  mask[token / 32] = allowed ? mask[token / 32] | bit : mask[token / 32] & ~bit;
}

/// Whether one of `own`, [count], tokens ascending, is for this token.
PACELINE_MATH bool has_edit_of(const TokenEdit* own, int32_t count, int32_t token) {
  int32_t begin = 0;
  while (begin < count) {
    const int32_t middle = begin + (count - begin) / 2;
    if (own[middle].token == token) return true;
    if (own[middle].token < token)
      begin = middle + 1;
    else
      count = middle;
  }
  return false;
}

}  // namespace paceline::math
