// mutant_NN TRIALS: the lossless tests on the policy that this program is linked with. Prints one line:
// T0 sup-norm, p-values of T1, T2 and T4, identity (1: held); of trees and of blocks T0 sup-norm and p-value of T2.

#include <cstdint>
#include <cstdlib>

#include <fmt/core.h>

#include "tests/speculative/statistics/lossless_tests.h"

int main(int argc, char** argv) {
  using namespace paceline;
  const int64_t num_trials = argc == 2 ? atoll(argv[1]) : 0;
  if (num_trials < 1) {
    fmt::print(stderr, "usage: {} TRIALS\n", argv[0]);
    return 2;
  }
  const ToyModels sampled(8, {.temperature = 1.0f}, 11), enumerated(4, {.temperature = 1.0f}, 5);
  const ToyModels branching(4, {.temperature = 1.0f}, 7);
  const double distance = exact_distance(enumerated, 3);
  const SampleCounts counts = sample_counts(sampled, 3, 4, num_trials, 1'000'000'000);
  double tree_distance = exact_tree_distance(branching, kSmallTree, DraftProbKind::point_mass);
  for (const TreeShape& shape : {kSmallTree, kWideTree})
    tree_distance = std::max(tree_distance, exact_tree_distance(branching, shape, DraftProbKind::dense));
  const std::vector<uint64_t> of_trees = tree_counts(branching, kWideTree, 3, num_trials, 2'000'000'000);
  const ToyModels blocks(4, {.temperature = 1.0f}, 6);
  double block_distance = 0.0;
  for (const DraftProbKind kind : {DraftProbKind::dense, DraftProbKind::point_mass})
    block_distance = std::max(block_distance, exact_distance(blocks, 3, kind, VerifyRule::block));
  const std::vector<uint64_t> of_blocks = block_counts(blocks, 3, 4, num_trials, 3'000'000'000);
  fmt::print("{} {} {} {} {} {} {} {} {}\n", distance, g_test(counts.first, sampled.joint_law(1)).p_value,
             g_test(counts.joint, sampled.joint_law(4)).p_value, counts.acceptance.p_value(), int(counts.identity),
             tree_distance, g_test(of_trees, branching.joint_law(3)).p_value, block_distance,
             g_test(of_blocks, blocks.joint_law(4)).p_value);
  return 0;
}
