#include "kernels/math/philox.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/math/race.h"
#include "tests/support/hypothesis.h"

namespace paceline::math {
namespace {

std::vector<uint32_t> words_of(PhiloxWords words) { return {words.word, words.word + 4}; }

// Known answers of the authors' test suite (Random123, kat_vectors, philox4x32 10).
TEST(PhiloxTest, KnownAnswers) {
  EXPECT_EQ(words_of(philox4x32({{0, 0, 0, 0}}, 0)),
            (std::vector<uint32_t>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(words_of(philox4x32({{~0u, ~0u, ~0u, ~0u}}, ~uint64_t{0})),
            (std::vector<uint32_t>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(words_of(philox4x32({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0x299f31d0a4093822)),
            (std::vector<uint32_t>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// The counter layout is a contract: a change would change every sampled token.
TEST(PhiloxTest, NoiseWordsAreTheContractsCounter) {
  const NoiseKey key{.seed = 77, .purpose = NoisePurpose::recover, .origin = 5, .offset = 2};
  EXPECT_EQ(words_of(noise_words(key, 9)), words_of(philox4x32({{5, 2, 3, 9}}, 77)));
  static_assert(uint32_t(NoisePurpose::target) == 0 && uint32_t(NoisePurpose::draft) == 1);
  static_assert(uint32_t(NoisePurpose::accept) == 2 && uint32_t(NoisePurpose::bonus) == 4);
}

TEST(PhiloxTest, UniformsStayInsideTheOpenInterval) {
  static_assert(uniform32(0) == kSmallestUniform);
  static_assert(uniform32(~0u) < 1.0 && 1.0 - uniform32(~0u) == kSmallestUniform);
  static_assert(uniform64(0, 0) > 0.0 && uniform64(~0u, ~0u) < 1.0);
  static_assert(uniform64(0x80000000u, 0) > 0.5 && uniform64(0x7fffffffu, ~0u) < 0.5);
}

TEST(PhiloxTest, ExponentialIsAccurateAndAboveItsUniform) {
  for (uint32_t i = 0; i < 200000; ++i) {
    const PhiloxWords words = philox4x32({{i, 0, 0, 0}}, 1);
    // every magnitude of u down to the smallest
    const double u = uniform32(words.word[0] >> (i % 32));
    const double expected = -std::log1p(-u);
    ASSERT_NEAR(exponential(u), expected, 4e-15 * expected) << u;
    ASSERT_GT(exponential(u), u);
  }
  EXPECT_GT(exponential(kSmallestUniform), kSmallestUniform);
}

TEST(PhiloxTest, ExponentialsAreExponential) {
  std::vector<double> uniform_by_cdf;
  for (uint32_t block = 0; block < 50000; ++block) {
    const PhiloxWords words = noise_words({.seed = 3}, block);
    for (const uint32_t word : words.word) uniform_by_cdf.push_back(1.0 - std::exp(-exponential(uniform32(word))));
  }
  EXPECT_LT(ks_distance(uniform_by_cdf), ks_critical(1e-6, int64_t(uniform_by_cdf.size())));
}

/// argmax(ln weight + Gumbel), Gumbel = -ln(-ln(1 - u)), every token evaluated, with the C library's functions.
int32_t gumbel_argmax(const std::vector<int32_t>& id, const std::vector<double>& weight, const NoiseKey& key) {
  int32_t winner = -1;
  double best = -INFINITY;
  for (size_t i = 0; i < id.size(); ++i) {
    if (!(weight[i] > 0.0)) continue;
    const double u = uniform32(noise_words(key, uint32_t(id[i]) / 4).word[id[i] % 4]);
    const double score = std::log(weight[i]) - std::log(-std::log1p(-u));
    if (score > best) {
      best = score;
      winner = id[i];
    }
  }
  return winner;
}

TEST(RaceTest, IsTheGumbelArgmax) {
  for (uint32_t trial = 0; trial < 3000; ++trial) {
    std::vector<int32_t> id;
    std::vector<double> weight;
    const uint32_t keep = 1 + trial % 5;  // every keep-th id
    for (uint32_t token = trial % 3; token < 300; token += keep) {
      const PhiloxWords words = philox4x32({{trial, token, 0, 0}}, 9);
      id.push_back(int32_t(token));
      weight.push_back(words.word[1] % 7 == 0 ? 0.0 : std::exp(-30.0 * uniform32(words.word[0])));
    }
    const NoiseKey key{.seed = 4, .origin = int32_t(trial)};
    const int32_t won = race(
        int32_t(id.size()), [&](int32_t i) { return id[size_t(i)]; }, [&](int32_t i) { return weight[size_t(i)]; },
        key);
    ASSERT_EQ(won, gumbel_argmax(id, weight, key)) << trial;
  }
}

TEST(RaceTest, NoWeightNoWinner) {
  const auto id_at = [](int32_t i) { return i; };
  EXPECT_EQ(race(5, id_at, [](int32_t) { return 0.0; }, {}), -1);
  EXPECT_EQ(race(5, id_at, [](int32_t) { return std::nan(""); }, {}), -1);
  EXPECT_EQ(race(0, id_at, [](int32_t) { return 1.0; }, {}), -1);
  EXPECT_EQ(race(5, id_at, [](int32_t i) { return i == 3 ? 1e-300 : 0.0; }, {}), 3);
}

// Pairs of draws that differ in one field of the key are independent: chi-square on the 8 x 8 table.
TEST(RaceTest, KeysThatDifferInOneFieldAreIndependent) {
  const auto draw8 = [](const NoiseKey& key) {
    return size_t(race(
        8, [](int32_t i) { return i; }, [](int32_t) { return 1.0; }, key));
  };
  const std::vector<double> uniform_pairs(64, 1.0 / 64);
  const NoiseKey base{.seed = 12, .purpose = NoisePurpose::target};
  for (int field = 0; field < 7; ++field) {
    std::vector<uint64_t> count(64);
    for (int32_t position = 0; position < 40000; ++position) {
      NoiseKey a = base, b = base;
      a.origin = b.origin = 2 * position;
      if (field < 4) b.purpose = NoisePurpose(field + 1);
      if (field == 4) b.offset = 1;
      if (field == 5) b.origin += 1;
      if (field == 6) b.seed += 1;
      ++count[draw8(a) * 8 + draw8(b)];
    }
    EXPECT_GT(g_test(count, uniform_pairs).p_value, 1e-6) << "field " << field;
  }
  std::vector<uint64_t> same(64);
  for (int32_t position = 0; position < 40000; ++position) {
    NoiseKey key = base;
    key.origin = position;
    ++same[draw8(key) * 9];
  }
  EXPECT_EQ(g_test(same, uniform_pairs).p_value, 0.0);  // the test sees dependence
}

}  // namespace
}  // namespace paceline::math
