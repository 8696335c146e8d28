// The draft sampler and the verifier over all outcomes, with the policy PACELINE_MUTANT; without one with the shipped
// one.

#include "tests/speculative/mutants/policies.h"
#include "tests/speculative/statistics/step.h"

#ifndef PACELINE_MUTANT
#define PACELINE_MUTANT ShippedPolicy
#endif

namespace paceline::math {

using Policy = mutants::PACELINE_MUTANT;

SampledRow<double> sample_token(const LogitRow& row, const NoiseKey& key, DistributionScratch<double>& scratch,
                                Enumeration& paths) {
  return sample_row<double, Policy>(row, key, scratch, paths);
}

AcceptResult verify_window(VerifyRule rule, const DraftWindow<double>& draft, TargetWindow<double>& target,
                           int32_t first_position, Enumeration& paths) {
  return verify<double, Policy>(rule, draft, target, first_position, paths);
}

}  // namespace paceline::math
