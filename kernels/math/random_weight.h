#pragma once
// Random weights: a value is a pure function of seed, tensor and element, so that any part of a tensor can be made
// alone, by any number of threads, with the same bits. Uniform, of mean 0 and a chosen standard deviation; no
// transcendental function. Rounded to bfloat16, so that every storage type of at least its precision holds the same.

#include <cstdint>

#include "kernels/math/host_device.h"
#include "kernels/math/philox.h"

namespace paceline::math {

/// Values that the words of one counter give: 16 bits each.
inline constexpr int kWeightsPerBlock = 8;

/// Names the random numbers of one tensor.
struct WeightKey {
  uint64_t seed = 0;
  uint32_t role = 0;
  uint32_t layer = 0;
};

/// The words of elements 8 * block … 8 * block + 7 (row-major in the whole tensor): counter (block, layer, role).
PACELINE_HD constexpr PhiloxWords weight_words(const WeightKey& key, uint64_t block) {
  return philox4x32({{uint32_t(block), uint32_t(block >> 32), key.layer, key.role}}, key.seed);
}

/// Element i of a block's 8: the low half of a word before its high half.
PACELINE_HD constexpr uint32_t weight_bits(const PhiloxWords& words, int i) {
  return words.word[i / 2] >> (i % 2 * 16) & 0xffffu;
}

/// Odd integers of [-65535, 65535] have this standard deviation: sqrt((2^32 - 1) / 3).
inline constexpr double kWeightBitsDeviation = 37837.22723;

/// What weight_value multiplies with for a standard deviation of `deviation`.
PACELINE_HD constexpr float weight_scale(double deviation) { return float(deviation / kWeightBitsDeviation); }

/// The value of 16 random bits, before it is rounded to bfloat16. Never 0.
PACELINE_HD constexpr float weight_value(uint32_t bits, float scale) {
  return float(int32_t(2 * bits) - 65535) * scale;
}

}  // namespace paceline::math
