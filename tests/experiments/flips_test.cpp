#include "experiments/analysis/outputs/flips.h"

#include <array>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "experiments/analysis/outputs/certificate.h"
#include "kernels/math/race.h"

namespace paceline {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// Logits of zeros but for a gap between tokens 1 and 2, moved by noise at token 0.
class FakeLogits final : public TargetLogits {
 public:
  explicit FakeLogits(double gap = 0.1, double noise = 0.1) : gap_(gap), noise_(noise) {}

  int longest_prefix() const override { return longest; }
  TwoLogits compute(std::span<const int32_t> prefix) override {
    prefixes.emplace_back(prefix.begin(), prefix.end());
    std::vector<float> few(10, 0.0f), many;
    few[1] = float(gap_);
    few[3] = -8.0f;
    many = few;
    many[0] += float(noise_);
    return {.many = std::move(many), .few = std::move(few)};
  }

  int longest = 100;
  std::vector<std::vector<int32_t>> prefixes;

 private:
  double gap_, noise_;
};

EncodedPrompt prompt(int64_t index) {
  return {.id = std::string(1, char('a' + index)), .category = {}, .dataset_index = index, .tokens = {7, int(index)}};
}

RepetitionResult outputs(const std::vector<std::vector<int32_t>>& texts) {
  RepetitionResult repetition;
  for (size_t i = 0; i < texts.size(); ++i) {
    const EncodedPrompt of = prompt(int64_t(i));
    repetition.requests.push_back(
        {.id = of.id, .dataset_index = of.dataset_index, .category = {}, .prompt_tokens = 2, .output = texts[i]});
  }
  return repetition;
}

CellResult fast_cell(const std::string& id, const std::vector<RepetitionResult>& repetitions) {
  CellResult cell{.id = id, .effective = {{"numerics", "fast"}, {"rule", "greedy"}}};
  cell.repetitions = repetitions;
  return cell;
}

const std::vector<EncodedPrompt>& prompts() {
  static const std::vector<EncodedPrompt> all = {prompt(0), prompt(1), prompt(2)};
  return all;
}

/// Request a flips at output token 2, from 2 to 1; the others agree.
CellResult plain_cell() { return fast_cell("plain", {outputs({{5, 6, 2, 9}, {4, 4}, {3}})}); }
CellResult flipped_cell() { return fast_cell("flipped", {outputs({{5, 6, 1, 8}, {4, 4}, {3}})}); }

TEST(Flips, AreExplainedByHalfTheirGapInNoise) {
  const auto explained = [](std::optional<double> gap, double noise) {
    return explains(noise, {.dataset_index = 0, .request = "a", .gap = gap});
  };
  EXPECT_TRUE(explained(0.2, 0.1));
  EXPECT_FALSE(explained(0.2001, 0.1));
  EXPECT_FALSE(explained(0.0, 0.0)) << "without noise nothing flips";
  EXPECT_FALSE(explained(kNan, 0.1));
  EXPECT_FALSE(explained(0.2, kNan));
  EXPECT_FALSE(explained(std::nullopt, 0.1));
}

TEST(Flips, NoiseThatIsNoRoundingExplainsNothing) {
  const auto explaining = [](double noise, double largest) {
    const std::vector<LogitCheck> checks = {{.request = "a", .noise = 0.1, .largest = 2},
                                            {.request = "b", .noise = noise, .largest = largest}};
    return explaining_noise(checks);
  };
  EXPECT_DOUBLE_EQ(explaining(0.5, 8), 0.5) << "each by the logits of its own position";
  EXPECT_EQ(explaining(0.51, 8), 0) << "what is so far off is wrong, not rounded";
  EXPECT_EQ(explaining(0.1, kNan), 0);
  EXPECT_EQ(explaining(kNan, 8), 0);
  EXPECT_EQ(explaining_noise({}), 0);
}

// Logits far below 0 are rounded by more than what tokens that may be chosen differ by.
TEST(Flips, NoiseIsThatOfTokensThatMayBeChosen) {
  TwoLogits logits{.many = std::vector<float>(200), .few = std::vector<float>(200)};
  for (size_t i = 0; i < 200; ++i) logits.few[i] = -10.0f * float(i);
  logits.many = logits.few;
  logits.many[0] += 0.25f;
  logits.many[kContenders - 1] -= 0.5f;
  logits.many[kContenders] += 8;
  EXPECT_DOUBLE_EQ(noise_of(logits), 0.5);
  EXPECT_DOUBLE_EQ(noise_of(logits, std::array{int32_t{3}, int32_t(kContenders)}), 8.0) << "what was drawn counts, too";
  logits.many[199] = float(kNan);
  EXPECT_TRUE(std::isnan(noise_of(logits)));
}

TEST(Flips, NoiseIsTheLargestDifferenceAndNeverLosesANan) {
  const float nan = float(kNan);
  EXPECT_DOUBLE_EQ(noise_of(TwoLogits{{1, -2, 3}, {1, 2, 2.5f}}), 4.0);
  EXPECT_TRUE(std::isnan(noise_of(TwoLogits{{1, nan, 3}, {1, 2, 9}})));
  EXPECT_TRUE(std::isnan(noise_of(TwoLogits{{1, 2, 3}, {nan, 2, 9}})));
  const auto checks = [](std::initializer_list<double> noises) {
    std::vector<LogitCheck> out;
    for (const double noise : noises) out.push_back({.dataset_index = 0, .request = "a", .noise = noise});
    return out;
  };
  EXPECT_DOUBLE_EQ(noise_of(checks({0.1, 0.3, 0.2})), 0.3);

  EXPECT_TRUE(std::isnan(noise_of(checks({0.1, kNan, 0.2}))));
  EXPECT_EQ(noise_of(checks({})), 0);
}

TEST(Flips, TheGapIsTheLargerOfBothWaysAndCountsTheDraw) {
  const TwoLogits logits{{1.0f, 0.5f, 0.0f}, {1.0f, 0.75f, 0.0f}};
  EXPECT_DOUBLE_EQ(gap_between(logits, {0}, {1}), 0.5);
  EXPECT_DOUBLE_EQ(gap_between(logits, {1}, {0}), 0.5);
  EXPECT_DOUBLE_EQ(gap_between(logits, {0}, {1, 0.625}), 0.375) << "the other way is ahead now";
}

// Drawing is an argmax of shifted logits: that of the race, over the same noise.
TEST(Flips, ADrawIsTheArgmaxOfShiftedLogits) {
  const DrawParams params{.temperature = 0.7f, .seed = 42};
  const int kVocab = 50;
  std::vector<float> logit(kVocab);
  for (int i = 0; i < kVocab; ++i) logit[size_t(i)] = float((i * 37) % 50) / 20.0f;
  for (int position = 3; position < 203; ++position) {
    const int32_t drawn = math::race(
        kVocab, [](int32_t i) { return i; }, [&](int32_t i) { return std::exp(logit[size_t(i)] / 0.7); },
        {.seed = 42, .purpose = NoisePurpose::target, .origin = position});
    int32_t best = 0;
    const auto shifted = [&](int32_t i) { return double(logit[size_t(i)]) + *draw_bonus(params, position, i); };
    for (int32_t i = 1; i < kVocab; ++i)
      if (shifted(i) > shifted(best)) best = i;
    ASSERT_EQ(drawn, best) << position;
  }
  EXPECT_EQ(draw_bonus({.temperature = 0}, 3, 1), 0.0);
  EXPECT_EQ(draw_bonus({.temperature = 1, .top_k = 5}, 3, 1), std::nullopt);
  EXPECT_EQ(draw_bonus({.temperature = 1, .top_p = 0.9f}, 3, 1), std::nullopt);
  EXPECT_EQ(draw_bonus({.temperature = 1, .min_p = 0.1f}, 3, 1), std::nullopt);
}

TEST(Flips, LogitsAreComputedForTheCommonPrefixOfEachFlipOnce) {
  const CellResult plain = plain_cell();
  CellResult cell = flipped_cell();
  cell.repetitions.push_back(cell.repetitions.front());
  FakeLogits logits;
  cell.logits = check_flips(cell, plain, {.prompts = prompts(), .sampling = {}, .stop_now = {}}, logits);
  ASSERT_EQ(logits.prefixes.size(), 6u) << "the flip, and what agrees: two tokens before it, two, and one";
  EXPECT_EQ(logits.prefixes[0], (std::vector<int32_t>{7, 0, 5, 6}));
  EXPECT_EQ(cell.logits.reference, "plain");
  const LogitCheck& flip = cell.logits.checks.front();
  EXPECT_EQ(flip.token, 1);
  EXPECT_EQ(flip.reference_token, 2);
  EXPECT_NEAR(*flip.gap, 0.1, 1e-6);
  EXPECT_NEAR(flip.noise, 0.1, 1e-6);
  EXPECT_DOUBLE_EQ(flip.largest, 8.0);
  EXPECT_FALSE(cell.logits.checks[1].gap);
}

TEST(Flips, NoiseIsMeasuredAtAFewPositionsThatAgree) {
  std::vector<EncodedPrompt> many;
  std::vector<std::vector<int32_t>> texts;
  for (int64_t i = 0; i < 40; ++i) {
    many.push_back(prompt(i));
    texts.push_back(std::vector<int32_t>(20, 4));
  }
  const CellResult cell = fast_cell("plain", {outputs(texts)});
  FakeLogits logits;
  const LogitEvidence evidence = check_flips(cell, cell, {.prompts = many, .sampling = {}, .stop_now = {}}, logits);
  EXPECT_EQ(evidence.checks.size(), kAgreeingPositions);
  EXPECT_LT(logits.prefixes.front().size(), logits.prefixes.back().size()) << "early and late ones";
  FakeLogits stopped;
  EXPECT_TRUE(check_flips(cell, cell, {.prompts = many, .sampling = {}, .stop_now = [] { return true; }}, stopped)
                  .checks.empty());
  FakeLogits shorter;
  shorter.longest = 1;
  EXPECT_TRUE(check_flips(cell, cell, {.prompts = many, .sampling = {}, .stop_now = {}}, shorter).checks.empty());
}

CertificateResult certified(CellResult cell, const CellResult& reference, double gap, double noise,
                            const SamplingConfig& sampling = {}) {
  FakeLogits logits(gap, noise);
  cell.logits = check_flips(cell, reference, {.prompts = prompts(), .sampling = sampling, .stop_now = {}}, logits);
  return flip_certificate(cell, reference);
}

TEST(FlipCertificate, NoiseExplainsAFlip) {
  const CertificateResult found = certified(flipped_cell(), plain_cell(), 0.1, 0.1);
  EXPECT_EQ(found.status, CertificateStatus::pass) << found.detail;
  EXPECT_EQ(found.mismatches, 0);
  EXPECT_EQ(found.tokens_checked, 3 + 2 + 1) << "up to the flip";
  ASSERT_TRUE(found.flips);
  EXPECT_EQ(found.flips->found, 1);
  EXPECT_EQ(found.flips->explained, 1);
  EXPECT_EQ(found.flips->positions, 6);
  EXPECT_NEAR(*found.flips->noise, 0.1, 1e-6);
  EXPECT_EQ(found.method.find("token-exact"), std::string::npos);
  EXPECT_NE(found.method.find("fast"), std::string::npos);
}

TEST(FlipCertificate, AFlipBeyondTheNoiseIsAMismatch) {
  for (const auto& [gap, noise] : {std::pair(0.5, 0.1), {0.1, 0.0}, {0.1, kNan}, {kNan, 0.1}, {0.1, 5.0}}) {
    const CertificateResult found = certified(flipped_cell(), plain_cell(), gap, noise);
    EXPECT_EQ(found.status, CertificateStatus::fail) << gap << " " << noise;
    EXPECT_EQ(found.mismatches, 1);
    EXPECT_EQ(found.flips->explained, 0);
    EXPECT_TRUE(found.detail.starts_with("repetition 0, request a: output token 2 is 1, expected 2: ")) << found.detail;
  }
}

TEST(FlipCertificate, NoiseEndsNoOutput) {
  const CellResult longer = fast_cell("longer", {outputs({{5, 6, 2, 9, 9}, {4, 4}, {3}})});
  EXPECT_EQ(certified(longer, plain_cell(), 0.0, 0.1).status, CertificateStatus::fail);
  EXPECT_EQ(certified(plain_cell(), longer, 0.0, 0.1).status, CertificateStatus::fail);
  const CellResult fewer = fast_cell("fewer", {outputs({{5, 6, 2, 9}, {4, 4}})});
  EXPECT_EQ(certified(fewer, plain_cell(), 0.0, 0.1).status, CertificateStatus::fail);
}

TEST(FlipCertificate, WhatWasNotExaminedIsUnverified) {
  const CertificateResult nothing = flip_certificate(flipped_cell(), plain_cell());
  EXPECT_EQ(nothing.status, CertificateStatus::unverified);
  EXPECT_FALSE(nothing.flips->noise);
  CellResult of_another = flipped_cell();
  of_another.logits = {
      .reference = "another",
      .checks = {
          {.request = "a", .position = 2, .token = 1, .reference_token = 2, .gap = 0.1, .noise = 0.1, .largest = 8}}};
  EXPECT_EQ(flip_certificate(of_another, plain_cell()).status, CertificateStatus::unverified);
  SamplingConfig nucleus;
  nucleus.temperature = 1;
  nucleus.top_p = 0.9;
  EXPECT_EQ(certified(flipped_cell(), plain_cell(), 0.1, 0.1, nucleus).status, CertificateStatus::unverified);
  EXPECT_EQ(certified(plain_cell(), plain_cell(), 0.1, 0.1, nucleus).status, CertificateStatus::pass) << "no flips";
}

TEST(FlipCertificate, ABaselinesRepetitionsMayFlipToo) {
  RunResult run;
  run.cells = {plain_cell(), flipped_cell()};
  run.cells[0].repetitions.push_back(flipped_cell().repetitions.front());
  run.cells[1].axes.proposer = "ngram";
  const References references(run);
  for (CellResult& cell : run.cells) {
    FakeLogits logits;
    ASSERT_EQ(compared_with(references, cell), &run.cells[0]);
    cell.logits = check_flips(cell, run.cells[0], {.prompts = prompts(), .sampling = {}, .stop_now = {}}, logits);
  }
  certify(run);
  EXPECT_EQ(run.cells[0].certificate.status, CertificateStatus::baseline);
  EXPECT_EQ(run.cells[0].certificate.flips->found, 1);
  EXPECT_EQ(run.cells[1].certificate.status, CertificateStatus::pass);
  run.cells[0].logits.checks.front().gap = 1.0;
  certify(run);
  EXPECT_EQ(run.cells[0].certificate.status, CertificateStatus::fail);
}

}  // namespace
}  // namespace paceline
