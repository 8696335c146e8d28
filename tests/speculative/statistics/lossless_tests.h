#pragma once
// The tests that a lossless verifier passes, run on the shipped policy and on each mutant.

#include <array>
#include <cstdint>
#include <vector>

#include "tests/speculative/statistics/step.h"
#include "tests/support/hypothesis.h"

namespace paceline {

inline constexpr double kAlpha = 1e-6;  // false alarms per test

/// T0. Sup-norm distance between the exact law of `length` tokens (a step of at most as many, then plain sampling until
/// that many are there) and the target's law. step(scratch, paths).
template <class Step>
double exact_distance_of(const ToyModels& models, int length, Step&& run) {
  const size_t vocab = size_t(models.vocab_size());
  // emitted[n]: probabilities of emitting exactly n tokens, by tokens
  std::vector<std::vector<double>> emitted;
  for (int n = 0; n <= length; ++n) emitted.emplace_back(n ? models.joint_law(n).size() : 1, 0.0);
  Enumeration paths;
  StepScratch<double> scratch;
  do {
    const StepResult step = run(scratch, paths);
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

/// Of a chain of draft_len drafts.
inline double exact_distance(const ToyModels& models, int32_t draft_len, DraftProbKind kind = DraftProbKind::dense,
                             VerifyRule rule = VerifyRule::rejection) {
  return exact_distance_of(models, draft_len + 1, [&](StepScratch<double>& scratch, Enumeration& paths) {
    return run_step<double>(models, 0, ToyModels::kFirstPrevious, draft_len, kind, 0, scratch, paths, rule);
  });
}

inline double exact_tree_distance(const ToyModels& models, const TreeShape& shape, DraftProbKind kind) {
  return exact_distance_of(models, kTreeDepth + 1, [&](StepScratch<double>& scratch, Enumeration& paths) {
    return run_tree_step<double>(models, 0, ToyModels::kFirstPrevious, shape, kind, 0, scratch, paths);
  });
}

/// T2. Counts of the first `length` tokens, [vocab ^ length], of num_trials sequences with their own seeds, from `seed`
/// on. step(position, previous, seed) is repeated until they are there; look(step, j, position, previous): its token j.
template <class Step, class Look>
std::vector<uint64_t> joint_counts(const ToyModels& models, int length, int64_t num_trials, uint64_t seed, Step&& step,
                                   Look&& look) {
  std::vector<uint64_t> joint(models.joint_law(length).size());
  for (int64_t trial = 0; trial < num_trials; ++trial) {
    size_t index = 0;
    int32_t previous = ToyModels::kFirstPrevious;
    for (int32_t position = 0; position < length;) {
      const StepResult made = step(position, previous, seed + uint64_t(trial));
      for (int32_t j = 0; j <= made.num_accepted; ++j, ++position) {
        look(made, j, position, previous);
        previous = made.token[j];
        if (position < length) index = index * size_t(models.vocab_size()) + size_t(previous);
      }
    }
    ++joint[index];
  }
  return joint;
}

/// Of blocks of draft_len.
inline std::vector<uint64_t> block_counts(const ToyModels& models, int32_t draft_len, int length, int64_t num_trials,
                                          uint64_t seed) {
  StepScratch<float> scratch;
  math::PhiloxChance chance;
  return joint_counts(
      models, length, num_trials, seed,
      [&](int32_t position, int32_t previous, uint64_t seed_of) {
        return run_step<float>(models, position, previous, draft_len, DraftProbKind::dense, seed_of, scratch, chance,
                               VerifyRule::block);
      },
      [](const StepResult&, int32_t, int32_t, int32_t) {});
}

inline std::vector<uint64_t> tree_counts(const ToyModels& models, const TreeShape& shape, int length,
                                         int64_t num_trials, uint64_t seed) {
  StepScratch<float> scratch;
  math::PhiloxChance chance;
  return joint_counts(
      models, length, num_trials, seed,
      [&](int32_t position, int32_t previous, uint64_t seed_of) {
        return run_tree_step<float>(models, position, previous, shape, DraftProbKind::dense, seed_of, scratch, chance);
      },
      [](const StepResult&, int32_t, int32_t, int32_t) {});
}

/// Counts of steps repeated until `length` tokens are there, over num_trials sequences with their own seeds.
struct SampleCounts {
  std::vector<uint64_t> first;                      // T1, T2b: [vocab] first tokens
  std::vector<uint64_t> joint;                      // T2: [vocab ^ length]
  ZTest acceptance;                                 // T4: all drafts that were looked at
  std::array<ZTest, kMostToyDrafts> acceptance_at;  // T4 per place in the window
  bool identity = true;
};

inline SampleCounts sample_counts(const ToyModels& models, int32_t draft_len, int length, int64_t num_trials,
                                  uint64_t seed) {
  const size_t vocab = size_t(models.vocab_size());
  SampleCounts counts;
  counts.first.resize(vocab);
  std::vector<double> acceptance;  // [position][previous]
  for (int32_t row = 0; row < ToyModels::kNumPositions * models.vocab_size(); ++row) {
    acceptance.push_back(models.acceptance(row / models.vocab_size(), row % models.vocab_size()));
  }
  StepScratch<float> scratch;
  math::PhiloxChance chance;
  counts.joint = joint_counts(
      models, length, num_trials, seed,
      [&](int32_t position, int32_t previous, uint64_t seed_of) {
        const StepResult step =
            run_step<float>(models, position, previous, draft_len, DraftProbKind::dense, seed_of, scratch, chance);
        counts.identity &= step.identity;
        return step;
      },
      [&](const StepResult& step, int32_t j, int32_t position, int32_t previous) {
        if (j < draft_len) {
          const double expected = acceptance[size_t(position % ToyModels::kNumPositions) * vocab + size_t(previous)];
          counts.acceptance.add_bernoulli(j < step.num_accepted, expected);
          counts.acceptance_at[size_t(j)].add_bernoulli(j < step.num_accepted, expected);
        }
        if (position == 0) ++counts.first[size_t(step.token[j])];
      });
  return counts;
}

}  // namespace paceline
