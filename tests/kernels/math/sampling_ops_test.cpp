// The sample and accept ops on the CPU: rules, keys, edge cases, independence of the batch.

#include <cmath>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cpu/accept.h"
#include "kernels/cpu/sample.h"
#include "kernels/math/accept.h"
#include "tests/speculative/statistics/toy_models.h"
#include "tests/support/hypothesis.h"

namespace paceline {
namespace {

class SamplingOpsTest : public testing::Test {
 protected:
  static std::vector<float> random_rows(int32_t rows, int32_t vocab, uint32_t seed, float spread = 2.0f) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0.0f, spread);
    std::vector<float> logit(size_t(rows) * size_t(vocab));
    for (float& l : logit) l = normal(random);
    return logit;
  }

  int32_t sample(std::vector<float>& logit, const SampleRow& row) {
    int32_t token = -7;
    cpu_sample({.logits = f32_view(logit.data(), 1, int32_t(logit.size())),
                .vocab_size = int32_t(logit.size()),
                .rows = {&row, 1},
                .token = {&token, 1}},
               pool_);
    return token;
  }

  /// logit: draft_len + 1 rows.
  AcceptResult accept(std::vector<float>& logit, const AcceptRow& row) {
    const int32_t rows = row.draft_len + 1;
    const int32_t vocab = int32_t(logit.size()) / rows;
    AcceptResult result{.num_accepted = -7, .next = -7};
    cpu_accept(
        {.logits = f32_view(logit.data(), rows, vocab), .vocab_size = vocab, .rows = {&row, 1}, .result = {&result, 1}},
        pool_);
    return result;
  }

  ThreadPool pool_{1};
};

TEST_F(SamplingOpsTest, SampledTokensFollowTheDistribution) {
  const DrawParams cases[] = {{.temperature = 1.0f},
                              {.temperature = 0.7f, .top_k = 9},
                              {.temperature = 1.0f, .top_p = 0.8f},
                              {.temperature = 1.5f, .min_p = 0.1f}};
  std::vector<float> logit = random_rows(1, 21, 4, 1.5f);
  for (const DrawParams& params : cases) {
    std::vector<uint64_t> count(logit.size());
    for (int32_t position = 0; position < 200000; ++position) {
      ++count[size_t(sample(logit, {.params = params, .origin = position}))];
    }
    const CellTest test = g_test(count, reference_distribution(logit, params));
    EXPECT_GT(test.p_value, 1e-6) << "T " << params.temperature << " G " << test.statistic << " df " << test.df;
  }
}

TEST_F(SamplingOpsTest, GreedyTakesTheLowestArgmaxAndOneHotProbs) {
  std::vector<float> logit{0.0f, 5.0f, 1.0f, 5.0f, 9.0f};  // the last column is padding
  const SampleRow row;
  int32_t token = -7;
  std::vector<float> prob(4, 7.0f);
  cpu_sample({.logits = f32_view(logit.data(), 1, 5),
              .vocab_size = 4,
              .rows = {&row, 1},
              .token = {&token, 1},
              .probs = f32_view(prob.data(), 1, 4)},
             pool_);
  EXPECT_EQ(token, 1);
  EXPECT_EQ(prob, (std::vector<float>{0, 1, 0, 0}));
}

TEST_F(SamplingOpsTest, PaddingColumnsAreNeverDrawn) {
  std::vector<float> logit(8, 0.0f);
  logit[6] = logit[7] = 100.0f;
  const SampleRow row{.params = {.temperature = 1.0f}};
  for (int32_t origin = 0; origin < 200; ++origin) {
    SampleRow at = row;
    at.origin = origin;
    int32_t token = -7;
    cpu_sample({.logits = f32_view(logit.data(), 1, 8), .vocab_size = 6, .rows = {&at, 1}, .token = {&token, 1}},
               pool_);
    EXPECT_LT(token, 6);
    EXPECT_GE(token, 0);
  }
}

// Every token is the race's winner over the very probabilities that were written out.
TEST_F(SamplingOpsTest, ProbsAreWhatTheTokenWasDrawnFrom) {
  const int32_t vocab = 300;
  std::vector<float> logit = random_rows(1, vocab, 9);
  for (int32_t origin = 0; origin < 500; ++origin) {
    const SampleRow row{.params = {.temperature = 0.9f, .top_p = origin % 2 ? 0.95f : 1.0f, .seed = 5},
                        .purpose = NoisePurpose::draft,
                        .origin = origin,
                        .offset = origin % 3};
    int32_t token = -7;
    std::vector<float> prob(size_t(vocab), 7.0f);
    cpu_sample({.logits = f32_view(logit.data(), 1, vocab),
                .vocab_size = vocab,
                .rows = {&row, 1},
                .token = {&token, 1},
                .probs = f32_view(prob.data(), 1, vocab)},
               pool_);
    const int32_t replayed = math::race(
        vocab, [](int32_t i) { return i; }, [&](int32_t i) { return prob[size_t(i)]; },
        {5, NoisePurpose::draft, origin, origin % 3});
    ASSERT_EQ(token, replayed);
  }
}

TEST_F(SamplingOpsTest, TokensDoNotDependOnTheBatch) {
  constexpr int32_t kRows = 37, kVocab = 1500;
  std::vector<float> logit = random_rows(kRows, kVocab, 10);
  std::vector<SampleRow> rows;
  for (int32_t r = 0; r < kRows; ++r) {
    rows.push_back(
        {.logits_row = r,
         .params = {.temperature = r % 5 ? 1.0f : 0.0f, .top_p = r % 2 ? 0.9f : 1.0f, .seed = uint64_t(r / 2)},
         .origin = r});
  }
  std::vector<int32_t> alone;
  for (const SampleRow& row : rows) {
    alone.push_back(-7);
    cpu_sample({.logits = f32_view(logit.data(), kRows, kVocab),
                .vocab_size = kVocab,
                .rows = {&row, 1},
                .token = {&alone.back(), 1}},
               pool_);
  }
  ThreadPool two(2, false);
  std::vector<SampleRow> reversed(rows.rbegin(), rows.rend());
  std::vector<int32_t> token(kRows, -7);
  cpu_sample({.logits = f32_view(logit.data(), kRows, kVocab), .vocab_size = kVocab, .rows = reversed, .token = token},
             two);
  EXPECT_EQ(std::vector<int32_t>(token.rbegin(), token.rend()), alone);
}

TEST_F(SamplingOpsTest, SeedsChangeTokens) {
  std::vector<float> logit(64, 0.0f);
  int num_equal = 0;
  for (int32_t origin = 0; origin < 1000; ++origin) {
    num_equal += sample(logit, {.params = {.temperature = 1.0f, .seed = 1}, .origin = origin}) ==
                 sample(logit, {.params = {.temperature = 1.0f, .seed = 2}, .origin = origin});
  }
  EXPECT_LT(num_equal, 60);  // 1000 / 64 = 16 by chance
}

TEST_F(SamplingOpsTest, RowsThatAreNotNumbersAreReported) {
  for (const float bad : {NAN, INFINITY}) {
    for (const DrawParams& params : {DrawParams{}, DrawParams{.temperature = 1.0f, .top_k = 2}}) {
      std::vector<float> logit(20, 0.0f);
      logit[11] = bad;
      EXPECT_EQ(sample(logit, {.params = params}), -1);
      std::vector<float> window(40, 0.0f);
      window[5] = 3.0f;  // row 0 keeps its draft
      window[31] = bad;  // row 1 is bad
      const int32_t draft[] = {5};
      for (const VerifyRule rule : {VerifyRule::greedy, VerifyRule::coupled}) {
        const AcceptResult result =
            accept(window, {.draft_len = 1, .draft = draft, .params = {.temperature = 0.0f}, .rule = rule});
        EXPECT_TRUE(result.numerical_error);
        EXPECT_EQ(result.num_accepted, 1);
      }
      window[5] = 50.0f;
      const AcceptResult result = accept(
          window, {.draft_len = 1, .draft = draft, .params = {.temperature = 1.0f}, .rule = VerifyRule::rejection});
      EXPECT_TRUE(result.numerical_error);
    }
  }
  // A row behind the first rejection is nobody's business.
  std::vector<float> window(40, 0.0f);
  window[6] = 1.0f;
  window[31] = NAN;
  const int32_t draft[] = {5};
  const AcceptResult result = accept(window, {.draft_len = 1, .draft = draft, .rule = VerifyRule::greedy});
  EXPECT_FALSE(result.numerical_error);
  EXPECT_EQ(result.next, 6);
}

TEST_F(SamplingOpsTest, GreedyKeepsTheMatchingPrefix) {
  std::vector<float> logit(4 * 5, 0.0f);
  const int32_t best[] = {3, 1, 4, 2};
  for (size_t j = 0; j < 4; ++j) logit[j * 5 + size_t(best[j])] = 1.0f;
  for (const VerifyRule rule : {VerifyRule::greedy, VerifyRule::rejection, VerifyRule::coupled}) {
    for (int32_t wrong = 0; wrong <= 3; ++wrong) {
      int32_t draft[] = {3, 1, 4};
      if (wrong < 3) draft[wrong] = 0;
      const AcceptResult result = accept(logit, {.draft_len = 3, .draft = draft, .rule = rule});
      EXPECT_EQ(result.num_accepted, wrong);
      EXPECT_EQ(result.next, best[wrong]);
      EXPECT_FALSE(result.numerical_error);
    }
  }
}

TEST_F(SamplingOpsTest, NoDraftsIsPlainSamplingUnderEveryRule) {
  std::vector<float> logit = random_rows(1, 50, 12);
  for (const VerifyRule rule : {VerifyRule::greedy, VerifyRule::rejection, VerifyRule::coupled}) {
    for (const float temperature : {0.0f, 0.8f}) {
      for (int32_t position = 0; position < 50; ++position) {
        const DrawParams params{.temperature = temperature, .top_p = 0.95f, .seed = 31};
        const AcceptResult result =
            accept(logit, {.draft_len = 0, .first_position = position, .params = params, .rule = rule});
        EXPECT_EQ(result.next, sample(logit, {.params = params, .origin = position}));
        EXPECT_EQ(result.num_accepted, 0);
      }
    }
  }
}

TEST_F(SamplingOpsTest, DraftsWithoutProbabilityAreRejected) {
  std::vector<float> logit(2 * 6, 0.0f);
  const std::vector<float> zero_at_2{0.5f, 0.5f, 0.0f, 0.0f, 0.0f, 0.0f};
  for (int32_t position = 0; position < 300; ++position) {
    AcceptRow row{.draft_len = 1,
                  .kind = DraftProbKind::dense,
                  .draft_prob = f32_view(const_cast<float*>(zero_at_2.data()), 1, 6),
                  .first_position = position,
                  .params = {.temperature = 1.0f},
                  .rule = VerifyRule::rejection};
    for (const int32_t token : {2, 6, 1000000, -1}) {  // draft_prob 0; outside the vocabulary
      row.draft = &token;
      const AcceptResult result = accept(logit, row);
      EXPECT_EQ(result.num_accepted, 0);
      EXPECT_GE(result.next, 2);  // the residual excludes tokens that the draft overrates
      EXPECT_LT(result.next, 6);
      row.kind = DraftProbKind::point_mass;
      const AcceptResult as_certain = accept(logit, row);
      EXPECT_TRUE(token == 2 || as_certain.num_accepted == 0);
      row.kind = DraftProbKind::dense;
    }
  }
}

TEST_F(SamplingOpsTest, ASmallerDraftVocabularyHasNoMassBeyondItsEnd) {
  std::vector<float> logit(2 * 6, 0.0f);
  float prob[] = {0.5f, 0.5f};  // read past its end, this would be found by the address sanitizer
  const int32_t draft[] = {0};
  int num_kept = 0;
  for (int32_t position = 0; position < 3000; ++position) {
    const AcceptResult result = accept(logit, {.draft_len = 1,
                                               .draft = draft,
                                               .kind = DraftProbKind::dense,
                                               .draft_prob = f32_view(prob, 1, 2),
                                               .first_position = position,
                                               .params = {.temperature = 1.0f},
                                               .rule = VerifyRule::rejection});
    num_kept += result.num_accepted;
    EXPECT_TRUE(result.num_accepted == 1 || result.next >= 2);
  }
  EXPECT_NEAR(num_kept, 1000, 130);  // (1/6) / (1/2) of 3000, 5 sigma
}

// draft_prob a hair above target_prob everywhere, as rounding can make it: nothing is left in the residual.
TEST_F(SamplingOpsTest, AnEmptyResidualFallsBackToTheTarget) {
  std::vector<float> logit(2 * 4, 0.0f);
  float prob[] = {0.2500001f, 0.2500001f, 0.2500001f, 0.2500001f};
  prob[0] = 100.0f;  // makes rejection likely
  const int32_t draft[] = {0};
  std::vector<uint64_t> count(4);
  for (int32_t position = 0; position < 20000; ++position) {
    const AcceptResult result = accept(logit, {.draft_len = 1,
                                               .draft = draft,
                                               .kind = DraftProbKind::dense,
                                               .draft_prob = f32_view(prob, 1, 4),
                                               .first_position = position,
                                               .params = {.temperature = 1.0f},
                                               .rule = VerifyRule::rejection});
    if (result.num_accepted == 0) ++count[size_t(result.next)];
  }
  EXPECT_GT(g_test(count, std::vector<double>(4, 0.25)).p_value, 1e-6);
}

// T5: coupled output is plain sampling's, whatever is drafted, at every draft length.
TEST_F(SamplingOpsTest, CoupledEqualsPlainTokenForToken) {
  for (const DrawParams& params : {DrawParams{.temperature = 0.8f, .top_p = 0.95f, .seed = 1},
                                   DrawParams{.temperature = 1.0f, .seed = 2}, DrawParams{.temperature = 0.0f}}) {
    const ToyModels models(16, params, 17);
    const int32_t num_tokens = 100'000;
    std::vector<int32_t> plain{0};
    while (int32_t(plain.size()) <= num_tokens) {
      const int32_t position = int32_t(plain.size());
      std::vector<float> logit = models.target_logit(position, plain.back());
      plain.push_back(sample(logit, {.params = params, .origin = position}));
    }
    std::vector<int32_t> tokens{0};
    std::mt19937 random(5);
    int64_t num_accepted = 0, num_drafted = 0;
    while (int32_t(tokens.size()) <= num_tokens) {
      const int32_t position = int32_t(tokens.size());
      const int32_t draft_len = int32_t(random() % 5);
      std::vector<float> window;
      std::vector<int32_t> draft;
      int32_t context = tokens.back();
      for (int32_t j = 0; j <= draft_len; ++j) {
        const std::vector<float>& target = models.target_logit(position + j, context);
        window.insert(window.end(), target.begin(), target.end());
        if (j == draft_len) break;
        std::vector<float> draft_logit = models.draft_logit(position + j, context);
        // random tokens, or the draft model under the target's own noise
        context = random() % 3 == 0 ? int32_t(random() % 16)
                                    : sample(draft_logit, {.params = params, .origin = position + j});
        draft.push_back(context);
      }
      const AcceptResult result = accept(window, {.draft_len = draft_len,
                                                  .draft = draft.data(),
                                                  .kind = DraftProbKind::shared_noise,
                                                  .first_position = position,
                                                  .params = params,
                                                  .rule = VerifyRule::coupled});
      tokens.insert(tokens.end(), draft.begin(), draft.begin() + result.num_accepted);
      tokens.push_back(result.next);
      num_accepted += result.num_accepted;
      num_drafted += draft_len;
    }
    tokens.resize(plain.size());
    EXPECT_EQ(tokens, plain);
    EXPECT_GT(num_accepted, num_drafted / 20);
    EXPECT_LT(num_accepted, num_drafted * 19 / 20);
  }
}

TEST_F(SamplingOpsTest, VerdictsDoNotDependOnTheBatch) {
  constexpr int32_t kWindows = 24, kVocab = 2000, kDraftLen = 3;
  std::vector<float> logit = random_rows(kWindows * (kDraftLen + 1), kVocab, 14);
  const MatView logits = f32_view(logit.data(), kWindows * (kDraftLen + 1), kVocab);
  std::vector<float> prob(size_t(kWindows) * kDraftLen * kVocab);
  std::vector<int32_t> draft(size_t(kWindows) * kDraftLen);
  std::vector<SampleRow> draft_rows;
  std::vector<AcceptRow> rows;
  for (int32_t w = 0; w < kWindows; ++w) {
    const DrawParams params{.temperature = 1.0f, .top_k = w % 3 ? 0 : 40, .seed = uint64_t(w)};
    for (int32_t j = 0; j < kDraftLen; ++j) {  // drafts from the target itself, a little hotter
      SampleRow row{w * (kDraftLen + 1) + j, params, NoisePurpose::draft, w, j};
      row.params.temperature = 1.2f;
      draft_rows.push_back(row);
    }
    rows.push_back(
        {.logits_row = w * (kDraftLen + 1),
         .draft_len = kDraftLen,
         .draft = draft.data() + w * kDraftLen,
         .kind = DraftProbKind::dense,
         .draft_prob = f32_view(prob.data(), kWindows * kDraftLen, kVocab).row_range(w * kDraftLen, kDraftLen),
         .first_position = w,
         .params = params,
         .rule = w % 2 ? VerifyRule::rejection : VerifyRule::coupled});
  }
  ThreadPool two(2, false);
  cpu_sample({.logits = logits,
              .vocab_size = kVocab,
              .rows = draft_rows,
              .token = draft,
              .probs = f32_view(prob.data(), kWindows * kDraftLen, kVocab)},
             two);
  std::vector<AcceptResult> together(kWindows);
  cpu_accept({.logits = logits, .vocab_size = kVocab, .rows = rows, .result = together}, two);
  int64_t num_accepted = 0;
  for (int32_t w = 0; w < kWindows; ++w) {
    AcceptResult alone;
    cpu_accept({.logits = logits, .vocab_size = kVocab, .rows = {&rows[size_t(w)], 1}, .result = {&alone, 1}}, pool_);
    EXPECT_EQ(alone.num_accepted, together[size_t(w)].num_accepted);
    EXPECT_EQ(alone.next, together[size_t(w)].next);
    num_accepted += alone.num_accepted;
  }
  EXPECT_GT(num_accepted, 0);
  EXPECT_LT(num_accepted, kWindows * kDraftLen);
}

}  // namespace
}  // namespace paceline
