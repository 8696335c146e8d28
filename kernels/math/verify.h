#pragma once
// The draft sampler and the verifier of the engine: accept.h with the shipped policy and Philox noise. Both are defined
// in one object file that defines nothing else, so that a program may be linked with the same functions over another
// policy: the tests' mutants are such programs.

#include <cstdint>

#include "kernels/math/accept.h"

namespace paceline::math {

/// sample_row of one row of logits. Any thread; the result is valid until the scratch serves another row.
SampledRow<float> sample_token(const LogitRow& row, const NoiseKey& key, DistributionScratch<float>& scratch,
                               PhiloxChance& chance);

/// verify of one window. Any thread.
AcceptResult verify_window(VerifyRule rule, const DraftWindow<float>& draft, TargetWindow<float>& target,
                           int32_t first_position, PhiloxChance& chance);

}  // namespace paceline::math
