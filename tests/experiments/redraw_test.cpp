// sampling.redraw: repetitions that draw anew, and what is compared with what then.

#include <gtest/gtest.h>

#include "experiments/analysis/outputs/certificate.h"
#include "experiments/analysis/outputs/flips.h"
#include "experiments/results/files/baseline.h"
#include "experiments/workload/request_sampling.h"
#include "kernels/math/race.h"
#include "tests/experiments/config_files.h"

namespace paceline {
namespace {

constexpr size_t kRequests = 2;

/// One repetition for each list of texts.
CellResult cell_of(const std::string& id, const std::vector<std::vector<std::vector<int32_t>>>& repetitions,
                   bool redraw = true) {
  CellResult cell{.id = id, .effective = {{"numerics", "strict"}, {"rule", "coupled"}}};
  cell.requested["sampling"] = {{"temperature", 1.0}, {"redraw", redraw}};
  for (const auto& texts : repetitions) {
    RepetitionResult& repetition = cell.repetitions.emplace_back();
    for (size_t i = 0; i < texts.size(); ++i)
      repetition.requests.push_back({.id = "q" + std::to_string(i),
                                     .dataset_index = int64_t(i),
                                     .category = {},
                                     .prompt_tokens = 2,
                                     .output = texts[i]});
  }
  return cell;
}

TEST(Redraw, EveryRequestOfEveryRepetitionHasNoiseOfItsOwn) {
  SamplingConfig config;
  config.temperature = 1;
  config.seed = 5;
  const auto seed = [&](int repetition, size_t index) {
    return sampling_of_request(sampling_of_repetition(config, repetition, kRequests), index).sampler.seed;
  };
  EXPECT_EQ(seed(0, 0), 5u);
  EXPECT_EQ(seed(0, 1), 6u);
  EXPECT_EQ(seed(1, 0), 7u);
  EXPECT_EQ(seed(2, 1), 10u);
  config.redraw = false;
  EXPECT_EQ(seed(2, 1), 6u);
}

TEST(Redraw, RepetitionsAreComparedWithThoseOfTheSameNumber) {
  const CellResult plain = cell_of("plain", {{{1, 2}, {3}}, {{4}, {5, 6}}});
  const auto certified = [&](const CellResult& cell) { return token_exact_certificate(cell, plain); };
  EXPECT_EQ(certified(plain).status, CertificateStatus::pass);
  EXPECT_EQ(certified(plain).tokens_checked, 6);
  const CertificateResult wrong = certified(cell_of("other", {{{1, 2}, {3}}, {{4}, {5, 7}}}));
  EXPECT_EQ(wrong.status, CertificateStatus::fail);
  EXPECT_EQ(wrong.detail, "repetition 1, request q1: output token 1 is 7, expected 6");
  EXPECT_EQ(certified(cell_of("first again", {{{1, 2}, {3}}, {{1, 2}, {3}}})).status, CertificateStatus::fail);
  EXPECT_EQ(token_exact_certificate(cell_of("same", {{{1, 2}, {3}}, {{1, 2}, {3}}}, false), plain).status,
            CertificateStatus::pass)
      << "without redraw all repeat the first";
}

TEST(Redraw, RepetitionsThatTheReferenceLacksAreNotCounted) {
  const CellResult plain = cell_of("plain", {{{1, 2}, {3}}}), more = cell_of("more", {{{1, 2}, {3}}, {{4}, {5}}});
  const CertificateResult found = token_exact_certificate(more, plain);
  EXPECT_EQ(found.status, CertificateStatus::pass) << found.detail;
  EXPECT_EQ(found.tokens_checked, 3);
}

TEST(Redraw, GreedyRepetitionsAndOldRecordsHaveOneText) {
  CellResult cell = cell_of("plain", {{{1}}});
  EXPECT_TRUE(draws_anew(cell));
  cell.requested["sampling"]["temperature"] = 0;
  EXPECT_FALSE(draws_anew(cell));
  cell.requested["sampling"] = {{"temperature", 1.0}};
  EXPECT_FALSE(draws_anew(cell));
}

TEST(Redraw, TextsOfServersAreComparedLikewise) {
  const auto told = [](const CellResult& from) {
    CellResult cell = from;
    for (RepetitionResult& repetition : cell.repetitions)
      for (RequestRecord& q : repetition.requests) q.text = std::to_string(q.output.front());
    return cell;
  };
  const CellResult plain = told(cell_of("plain", {{{1}, {3}}, {{4}, {5}}}));
  EXPECT_EQ(text_certificate(plain, plain, std::nullopt).status, CertificateStatus::pass);
  const CellResult again = told(cell_of("again", {{{1}, {3}}, {{1}, {3}}}));
  EXPECT_EQ(text_certificate(again, plain, 1.0).mismatches, 2);
}

TEST(Redraw, ABaselineSaysNothingOfRepetitionsThatMustDiffer) {
  RunResult run;
  run.cells = {cell_of("anew", {{{1}}, {{2}}}), cell_of("alike", {{{1}}, {{1}}}, false)};
  const nlohmann::json cells = make_baseline(run).at("cells");
  EXPECT_FALSE(cells.at("anew").contains("repetitions_agree"));
  EXPECT_EQ(cells.at("alike").at("repetitions_agree"), true);
}

/// Logits of zeros, moved by noise at token 0.
class FlatLogits final : public TargetLogits {
 public:
  int longest_prefix() const override { return 100; }
  TwoLogits compute(std::span<const int32_t> prefix) override {
    prefixes.emplace_back(prefix.begin(), prefix.end());
    std::vector<float> few(10, 0.0f), many(few);
    few[3] = many[3] = -8.0f;
    many[0] += 0.1f;
    return {.many = std::move(many), .few = std::move(few)};
  }
  std::vector<std::vector<int32_t>> prefixes;
};

// The same tokens part at the same place of both repetitions, behind other texts and with other noise.
TEST(Redraw, EachFlipIsJudgedByTheTextAndNoiseOfItsRepetition) {
  std::vector<EncodedPrompt> prompts;
  for (int64_t i = 0; i < int64_t(kRequests); ++i)
    prompts.push_back({.id = "q" + std::to_string(i), .category = {}, .dataset_index = i, .tokens = {7, 8}});
  SamplingConfig sampling;
  sampling.temperature = 1;
  const CellResult plain = cell_of("plain", {{{4, 1}, {3}}, {{5, 1}, {3}}});
  CellResult flipped = cell_of("flipped", {{{4, 2}, {3}}, {{5, 2}, {3}}});
  FlatLogits logits;
  flipped.logits = check_flips(flipped, plain, {.prompts = prompts, .sampling = sampling, .stop_now = {}}, logits);
  ASSERT_GE(logits.prefixes.size(), 2u);
  EXPECT_EQ(logits.prefixes[0], (std::vector<int32_t>{7, 8, 4}));
  EXPECT_EQ(logits.prefixes[1], (std::vector<int32_t>{7, 8, 5}));
  const Comparison comparison = compare_outputs(flipped, plain);
  ASSERT_EQ(comparison.partings.size(), 2u);
  for (const Parting& parting : comparison.partings) {
    const LogitCheck* const check = find_check(flipped.logits, parting);
    ASSERT_NE(check, nullptr);
    EXPECT_EQ(check->repetition, int64_t(parting.repetition));
    const math::NoiseKey key{.seed = 1 + kRequests * parting.repetition, .purpose = NoisePurpose::target, .origin = 3};
    EXPECT_NEAR(*check->gap, std::abs(math::gumbel(key, 2) - math::gumbel(key, 1)), 1e-5);
  }
}

// Drafts that were recorded, or known from warming up, are of one draw.
TEST(Redraw, ProposersThatKnowOneDrawRefuseIt) {
  const ConfigFiles files;
  const auto complaints = [&](const std::string& proposer, const std::vector<std::string>& set) {
    return files.complaints(
        "{\"sampling\": {\"temperature\": 1}, \"measure\": {\"repetitions\": 2}, \"speculation\": "
        "{\"verifier\": {\"rule\": \"coupled\"}, " +
            proposer + "}}",
        {.set = set});
  };
  for (const char* const proposer :
       {R"("proposer": "oracle")", R"("proposer": "replay", "replay": {"file": "d.jsonl"})"}) {
    const std::string refused = complaints(proposer, {});
    EXPECT_NE(
        refused.find("knows one draw of each request, but every repetition draws anew: set sampling.redraw to false"),
        std::string::npos)
        << refused;
    EXPECT_EQ(complaints(proposer, {"sampling.redraw=false"}), "");
    EXPECT_EQ(complaints(proposer, {"measure.repetitions=1"}), "");
    EXPECT_EQ(complaints(proposer, {"sampling.temperature=0"}), "");
  }
  EXPECT_EQ(complaints(R"("proposer": "ngram")", {}), "");
}

}  // namespace
}  // namespace paceline
