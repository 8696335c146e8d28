#pragma once
// Drawing a token: the exponential race, the one way in which noise chooses a token.
//
// Token i with weight w_i and E_i ~ Exp(1) has score w_i / E_i; the highest score wins, and token i wins with
// probability w_i / sum w. As ln is increasing and Gumbel_i = -ln(E_i), this is argmax(ln prob_i + Gumbel_i)
// without one logarithm per token: E = -ln(1 - u) > u, so w / u bounds the score, and only a token whose bound
// beats the best score so far needs its logarithm (O(log n) of them). The winner is that of the full race, bit
// for bit.

#include <cstdint>

#include "kernels/math/philox.h"

namespace paceline::math {

struct RaceWinner {
  double score = 0.0;
  int32_t id = -1;
};

/// id_at(i): ascending token ids for i in [0, size); weight_at(i) >= 0, of any scale; NaN counts as 0.
/// The winner among these, the lowest id on equal scores; -1 when no weight is positive.
template <class IdAt, class WeightAt>
PACELINE_HD RaceWinner race_winner(int32_t size, IdAt&& id_at, WeightAt&& weight_at, const NoiseKey& key) {
  PhiloxWords words{};
  int64_t block_of_words = -1;
  double best = 0.0;
  int32_t winner = -1;
  for (int32_t i = 0; i < size; ++i) {
    const double weight = double(weight_at(i));
    if (!(weight > best * kSmallestUniform)) continue;
    const int32_t id = id_at(i);
    if (const int32_t block = id / 4; block != block_of_words) {
      words = noise_words(key, uint32_t(block));
      block_of_words = block;
    }
    const double uniform = uniform32(words.word[id % 4]);
    if (!(weight > best * uniform)) continue;
    const double score = weight / exponential(uniform);
    if (score > best) {
      best = score;
      winner = id;
    }
  }
  return {best, winner};
}

/// What the noise of token `id` adds to ln prob in that argmax.
inline double gumbel(const NoiseKey& key, int32_t id) {
  return -log(exponential(uniform32(noise_words(key, uint32_t(id / 4)).word[id % 4])));
}

/// The winner's id.
template <class IdAt, class WeightAt>
PACELINE_HD int32_t race(int32_t size, IdAt&& id_at, WeightAt&& weight_at, const NoiseKey& key) {
  return race_winner(size, id_at, weight_at, key).id;
}

}  // namespace paceline::math
