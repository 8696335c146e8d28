#pragma once
// Edits of logits for a drafter whose columns stand for some of the target's tokens.

#include <cstdint>
#include <span>

#include "engine/sampling_plan.h"

namespace paceline {

/// `edits` by columns. ids: the token that each column stands for, increasing (Eagle3Spec::ids); edits of tokens
/// without a column are left out.
LogitEdits to_columns(const LogitEdits& edits, std::span<const int32_t> ids);

}  // namespace paceline
