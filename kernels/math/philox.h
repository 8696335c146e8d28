#pragma once
// Counter-based noise: Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3",
// SC 2011, section 3.3) and the maps from its words to uniform and exponential values.
//
// A noise value is a pure function of its key: no state, so that the batch around a request never changes it.
// Numerics: 64-bit floats, +, -, *, / in source order only; the same bits on every instruction set and on a
// device built without contraction (-ffp-contract=off, -fmad=false).

#include <cstdint>

#include "kernels/math/elementary.h"
#include "kernels/math/host_device.h"
#include "kernels/sampling_types.h"

namespace paceline::math {

struct PhiloxWords {
  uint32_t word[4];
};

/// Ten rounds of Philox4x32. Key word 0 is the low half of `key`.
PACELINE_HD constexpr PhiloxWords philox4x32(PhiloxWords counter, uint64_t key) {
  uint32_t k0 = uint32_t(key), k1 = uint32_t(key >> 32);
  uint32_t c0 = counter.word[0], c1 = counter.word[1], c2 = counter.word[2], c3 = counter.word[3];
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53u} * c0;
    const uint64_t product1 = uint64_t{0xCD9E8D57u} * c2;
    c0 = uint32_t(product1 >> 32) ^ c1 ^ k0;
    c1 = uint32_t(product1);
    c2 = uint32_t(product0 >> 32) ^ c3 ^ k1;
    c3 = uint32_t(product0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

/// Names one draw of one request. Two draws whose results meet in one output must differ in some field.
struct NoiseKey {
  uint64_t seed = 0;
  NoisePurpose purpose = NoisePurpose::target;
  int32_t origin = 0;  // target: absolute position of the emitted token; else: of the step's first draft
  int32_t offset = 0;  // target: 0; else: index in the draft window
};

/// The noise words of tokens 4 * block … 4 * block + 3: counter (origin, offset, purpose, block).
PACELINE_HD constexpr PhiloxWords noise_words(const NoiseKey& key, uint32_t block) {
  return philox4x32({{uint32_t(key.origin), uint32_t(key.offset), uint32_t(key.purpose), block}}, key.seed);
}

inline constexpr double kSmallestUniform = 0.5 / 4294967296.0;

/// (word + 1/2) / 2^32: in (0, 1), exact, and so is 1 - uniform32(word).
PACELINE_HD constexpr double uniform32(uint32_t word) { return (double(word) + 0.5) * (1.0 / 4294967296.0); }

/// (v + 1/2) / 2^52 for the 52 bits v of two words: in (0, 1) and never rounded to 0 or 1 (with 53 bits the
/// largest one would round to 1).
PACELINE_HD constexpr double uniform64(uint32_t high, uint32_t low) {
  const uint64_t bits = uint64_t{high} << 20 | low >> 12;
  return (double(bits) + 0.5) * (1.0 / 4503599627370496.0);
}

/// An Exp(1) value of a uniform in (0, 1): -ln(1 - u). Small values, which win races, have the resolution of
/// small u. The Gumbel value of the same draw is -ln of it.
PACELINE_HD inline double exponential(double uniform) { return -log(1.0 - uniform); }

}  // namespace paceline::math
