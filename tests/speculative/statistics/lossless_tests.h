#pragma once
// The tests that a lossless verifier passes, run on the shipped policy and on each mutant.

#include <array>
#include <cstdint>
#include <vector>

#include "tests/speculative/statistics/step.h"
#include "tests/support/hypothesis.h"

namespace paceline {

inline constexpr double kAlpha = 1e-6;  // false alarms per test

/// T0. Sup-norm distance between the exact law of draft_len + 1 tokens (a step, then plain sampling until that many
/// are there) and the target's law.
inline double exact_distance(const ToyModels& models, int32_t draft_len, DraftProbKind kind = DraftProbKind::dense) {
  const size_t vocab = size_t(models.vocab_size());
  const int length = draft_len + 1;
  // emitted[n]: probabilities of emitting exactly n tokens, by tokens
  std::vector<std::vector<double>> emitted;
  for (int n = 0; n <= length; ++n) emitted.emplace_back(n ? models.joint_law(n).size() : 1, 0.0);
  Enumeration paths;
  StepScratch<double> scratch;
  do {
    const StepResult step = run_step<double>(models, 0, ToyModels::kFirstPrevious, draft_len, kind, 0, scratch, paths);
    size_t index = 0;
    for (int32_t j = 0; j <= step.num_accepted; ++j) index = index * vocab + size_t(step.token[j]);
    emitted[size_t(step.num_accepted) + 1][index] += paths.path_probability();
  } while (paths.next_path());

  // A path that emitted n tokens goes on by plain sampling.
  for (int n = 1; n < length; ++n) {
    std::vector<double>& longer = emitted[size_t(n) + 1];
    for (size_t index = 0; index < longer.size(); ++index) {
      const size_t prefix = index / vocab;
      longer[index] += emitted[size_t(n)][prefix] * models.target_prob(n, int32_t(prefix % vocab))[index % vocab];
    }
  }
  double distance = 0.0;
  const std::vector<double> target = models.joint_law(length);
  for (size_t index = 0; index < target.size(); ++index) {
    distance = std::max(distance, std::fabs(emitted[size_t(length)][index] - target[index]));
  }
  return distance;
}

/// Counts of steps repeated until `length` tokens are there, over num_trials sequences with their own seeds.
struct SampleCounts {
  std::vector<uint64_t> first;                    // T1, T2b: [vocab] first tokens
  std::vector<uint64_t> joint;                    // T2: [vocab ^ length]
  ZTest acceptance;                               // T4: all drafts that were looked at
  std::array<ZTest, kMaxDraftLen> acceptance_at;  // T4 per place in the window
  bool identity = true;
};

inline SampleCounts sample_counts(const ToyModels& models, int32_t draft_len, int length, int64_t num_trials,
                                  uint64_t seed) {
  const size_t vocab = size_t(models.vocab_size());
  SampleCounts counts;
  counts.first.resize(vocab);
  counts.joint.resize(models.joint_law(length).size());
  std::vector<double> acceptance;  // [position][previous]
  for (int32_t row = 0; row < ToyModels::kNumPositions * models.vocab_size(); ++row) {
    acceptance.push_back(models.acceptance(row / models.vocab_size(), row % models.vocab_size()));
  }
  StepScratch<float> scratch;
  math::PhiloxChance chance;
  for (int64_t trial = 0; trial < num_trials; ++trial) {
    size_t index = 0;
    int32_t previous = ToyModels::kFirstPrevious;
    for (int32_t position = 0; position < length;) {
      const StepResult step = run_step<float>(models, position, previous, draft_len, DraftProbKind::dense,
                                              seed + uint64_t(trial), scratch, chance);
      counts.identity &= step.identity;
      for (int32_t j = 0; j <= step.num_accepted; ++j, ++position) {
        if (j < draft_len) {
          const double expected = acceptance[size_t(position % ToyModels::kNumPositions) * vocab + size_t(previous)];
          counts.acceptance.add_bernoulli(j < step.num_accepted, expected);
          counts.acceptance_at[size_t(j)].add_bernoulli(j < step.num_accepted, expected);
        }
        previous = step.token[j];
        if (position == 0) ++counts.first[size_t(previous)];
        if (position < length) index = index * vocab + size_t(previous);
      }
    }
    ++counts.joint[index];
  }
  return counts;
}

}  // namespace paceline
