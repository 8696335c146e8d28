#pragma once
// Two small language models as tables: target and draft differ from each other, by position and by context, so that
// a verifier that mixes up positions, rows or distributions changes the law of its output.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/math/philox.h"
#include "kernels/sampling_types.h"

namespace paceline {

/// The filters of DrawParams, written plainly in double: the reference that the shipped code is held to. Full
/// sort, running sums. -Inf logits have probability 0.
std::vector<double> reference_distribution(const std::vector<float>& logit, const DrawParams& params);

class ToyModels {
 public:
  static constexpr int32_t kNumPositions = 8;

  /// spread: standard deviation of the target's logits; distance: of draft minus target.
  ToyModels(int32_t vocab_size, const DrawParams& params, uint64_t seed, double spread = 1.2, double distance = 0.9)
      : vocab_size_(vocab_size), params_(params) {
    const math::NoiseKey key{.seed = seed, .origin = -1};
    uint32_t block = 0;
    const auto normal = [&] {  // Box-Muller
      const math::PhiloxWords words = math::noise_words(key, block++);
      return std::sqrt(-2.0 * std::log(math::uniform32(words.word[0]))) *
             std::cos(6.283185307179586 * math::uniform32(words.word[1]));
    };
    for (int32_t row = 0; row < kNumPositions * vocab_size; ++row) {
      std::vector<float> target_row, draft_row;
      for (int32_t token = 0; token < vocab_size; ++token) {
        const double logit = spread * normal();
        target_row.push_back(float(logit));
        draft_row.push_back(float(logit + distance * normal()));
      }
      target_prob_.push_back(reference_distribution(target_row, params));
      draft_prob_.push_back(reference_distribution(draft_row, params));
      target_logit_.push_back(std::move(target_row));
      draft_logit_.push_back(std::move(draft_row));
    }
  }

  int32_t vocab_size() const { return vocab_size_; }
  const DrawParams& params() const { return params_; }

  // Rows of the token at `position` (taken modulo kNumPositions) after token `previous`; [vocab_size].
  const std::vector<float>& target_logit(int32_t position, int32_t previous) const {
    return target_logit_[row(position, previous)];
  }
  const std::vector<float>& draft_logit(int32_t position, int32_t previous) const {
    return draft_logit_[row(position, previous)];
  }
  const std::vector<double>& target_prob(int32_t position, int32_t previous) const {
    return target_prob_[row(position, previous)];
  }

  /// Probability that a draft drawn from the draft model is kept: sum over tokens of min(target, draft).
  double acceptance(int32_t position, int32_t previous) const {
    double sum = 0.0;
    for (int32_t token = 0; token < vocab_size_; ++token) {
      sum += std::fmin(target_prob_[row(position, previous)][size_t(token)],
                       draft_prob_[row(position, previous)][size_t(token)]);
    }
    return sum;
  }

  /// Law of the first `length` tokens after kFirstPrevious at position 0; index = digits in base vocab_size, first
  /// token most significant.
  std::vector<double> joint_law(int length) const {
    std::vector<double> law{1.0};
    std::vector<int32_t> last{kFirstPrevious};
    for (int32_t position = 0; position < length; ++position) {
      std::vector<double> longer;
      std::vector<int32_t> longer_last;
      for (size_t prefix = 0; prefix < law.size(); ++prefix) {
        const std::vector<double>& next = target_prob(position, last[prefix]);
        for (int32_t token = 0; token < vocab_size_; ++token) {
          longer.push_back(law[prefix] * next[size_t(token)]);
          longer_last.push_back(token);
        }
      }
      law = std::move(longer);
      last = std::move(longer_last);
    }
    return law;
  }

  static constexpr int32_t kFirstPrevious = 0;

 private:
  size_t row(int32_t position, int32_t previous) const {
    return size_t(position % kNumPositions) * size_t(vocab_size_) + size_t(previous);
  }

  int32_t vocab_size_;
  DrawParams params_;
  std::vector<std::vector<float>> target_logit_, draft_logit_;
  std::vector<std::vector<double>> target_prob_, draft_prob_;
};

inline std::vector<double> reference_distribution(const std::vector<float>& logit, const DrawParams& params) {
  const int32_t size = int32_t(logit.size());
  std::vector<int32_t> order;
  for (int32_t i = 0; i < size; ++i) order.push_back(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return logit[size_t(a)] > logit[size_t(b)]; });
  if (params.greedy()) {
    order.resize(1);
  } else if (params.top_k > 0 && params.top_k < size) {
    order.resize(size_t(params.top_k));
  }
  const double top = logit[size_t(order[0])];
  const double temperature = params.greedy() ? 1.0 : double(params.temperature);
  std::vector<double> weight;
  double total = 0.0;
  for (const int32_t i : order) {
    weight.push_back(std::exp((double(logit[size_t(i)]) - top) / temperature));
    total += weight.back();
  }
  size_t num_kept = order.size();
  if (params.top_p < 1.0f) {
    double sum = 0.0;
    for (num_kept = 0; num_kept < order.size() && sum < double(params.top_p) * total;) sum += weight[num_kept++];
  }
  while (num_kept > 1 && weight[num_kept - 1] < double(params.min_p)) --num_kept;
  total = 0.0;
  for (size_t i = 0; i < num_kept; ++i) total += weight[i];
  std::vector<double> prob(logit.size(), 0.0);
  for (size_t i = 0; i < num_kept; ++i) prob[size_t(order[i])] = weight[i] / total;
  return prob;
}

}  // namespace paceline
