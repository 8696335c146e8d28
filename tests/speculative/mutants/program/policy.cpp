// The draft sampler and the verifier with the policy PACELINE_MUTANT: linked before the library, they take the place of
// kernels/math/verify.cpp.

#include "kernels/math/verify.h"
#include "tests/speculative/mutants/policies.h"

namespace paceline::math {

using Policy = mutants::PACELINE_MUTANT;

SampledRow<float> sample_token(const LogitRow& row, const NoiseKey& key, DistributionScratch<float>& scratch,
                               PhiloxChance& chance) {
  return sample_row<float, Policy>(row, key, scratch, chance);
}

AcceptResult verify_window(VerifyRule rule, const DraftWindow<float>& draft, TargetWindow<float>& target,
                           int32_t first_position, PhiloxChance& chance) {
  return verify<float, Policy>(rule, draft, target, first_position, chance);
}

}  // namespace paceline::math
