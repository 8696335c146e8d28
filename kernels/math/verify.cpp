#include "kernels/math/verify.h"

namespace paceline::math {

SampledRow<float> sample_token(const LogitRow& row, const NoiseKey& key, DistributionScratch<float>& scratch,
                               PhiloxChance& chance) {
  return sample_row<float, ShippedPolicy>(row, key, scratch, chance);
}

AcceptResult verify_window(VerifyRule rule, const DraftWindow<float>& draft, TargetWindow<float>& target,
                           int32_t first_position, PhiloxChance& chance) {
  return verify<float, ShippedPolicy>(rule, draft, target, first_position, chance);
}

}  // namespace paceline::math
