// The shipped policy over all outcomes. With Philox it comes from the library, as in the engine.

#include "tests/speculative/statistics/step.h"

namespace paceline::math {

SampledRow<double> sample_token(const LogitRow& row, const NoiseKey& key, DistributionScratch<double>& scratch,
                                Enumeration& paths) {
  return sample_row<double, ShippedPolicy>(row, key, scratch, paths);
}

AcceptResult verify_window(VerifyRule rule, int32_t forced_accept, const DraftWindow<double>& draft,
                           TargetWindow<double>& target, int32_t first_position, Enumeration& paths) {
  return verify<double, ShippedPolicy>(rule, forced_accept, draft, target, first_position, paths);
}

}  // namespace paceline::math
