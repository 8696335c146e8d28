// T0: the law of the emitted tokens, by enumeration of the shipped draft sampler and verifier in double.

#include <gtest/gtest.h>

#include "tests/speculative/statistics/lossless_tests.h"

namespace paceline {
namespace {

constexpr double kTolerance = 1e-12;

TEST(ExactLawTest, RejectionEmitsTheTargetsLaw) {
  for (const int32_t vocab : {2, 3, 4, 6}) {
    for (const int32_t draft_len : {0, 1, 2, 3}) {
      const ToyModels models(vocab, {.temperature = 1.0f}, uint64_t(100 + vocab));
      EXPECT_LE(exact_distance(models, draft_len), kTolerance) << "vocab " << vocab << " draft_len " << draft_len;
    }
  }
}

TEST(ExactLawTest, CertainDraftsEmitTheTargetsLaw) {
  for (const int32_t draft_len : {1, 2, 3}) {
    const ToyModels models(5, {.temperature = 1.0f}, 3);
    EXPECT_LE(exact_distance(models, draft_len, DraftProbKind::point_mass), kTolerance);
  }
}

TEST(ExactLawTest, SeveralDraftsBehindARowEmitTheTargetsLaw) {
  for (const int32_t vocab : {4, 5})
    for (const TreeShape& shape : {kSmallTree, kWideTree, TreeShape{-1, -1}, TreeShape{-1, 0, 0, 0}, TreeShape{-1, 0}})
      for (const DraftProbKind kind : {DraftProbKind::dense, DraftProbKind::point_mass}) {
        const ToyModels models(vocab, {.temperature = 1.0f}, uint64_t(200 + vocab));
        EXPECT_LE(exact_tree_distance(models, shape, kind), kTolerance)
            << "vocab " << vocab << ", " << shape.size() << " drafts, kind " << int(kind);
      }
  const DrawParams filtered[] = {{.temperature = 0.7f, .top_k = 4}, {.temperature = 1.3f, .min_p = 0.02f}};
  for (const DrawParams& params : filtered)
    EXPECT_LE(exact_tree_distance(ToyModels(6, params, 8), kSmallTree, DraftProbKind::dense), kTolerance);
}

TEST(ExactLawTest, BlocksEmitTheTargetsLaw) {
  for (const int32_t vocab : {2, 3, 4})
    for (const int32_t draft_len : {0, 1, 2, 3})
      for (const DraftProbKind kind : {DraftProbKind::dense, DraftProbKind::point_mass}) {
        const ToyModels models(vocab, {.temperature = 1.0f}, uint64_t(300 + vocab));
        EXPECT_LE(exact_distance(models, draft_len, kind, VerifyRule::block), kTolerance)
            << "vocab " << vocab << " draft_len " << draft_len << " kind " << int(kind);
      }
  const DrawParams filtered[] = {
      {.temperature = 0.7f, .top_k = 4}, {.temperature = 1.0f, .top_p = 0.8f}, {.temperature = 1.3f, .min_p = 0.02f}};
  for (const DrawParams& params : filtered)
    for (const DraftProbKind kind : {DraftProbKind::dense, DraftProbKind::point_mass})
      EXPECT_LE(exact_distance(ToyModels(5, params, 8), 3, kind, VerifyRule::block), kTolerance);
}

/// Mean of drafts kept, over all outcomes.
double mean_kept(const ToyModels& models, int32_t draft_len, DraftProbKind kind, VerifyRule rule) {
  Enumeration paths;
  StepScratch<double> scratch;
  double sum = 0.0;
  do {
    const StepResult step = run_step<double>(models, 0, 0, draft_len, kind, 0, scratch, paths, rule);
    sum += paths.path_probability() * step.num_accepted;
  } while (paths.next_path());
  return sum;
}

// Sun et al. 2024, theorem 2, and what it comes to for one draft.
TEST(ExactLawTest, BlocksKeepAsManyDraftsOrMore) {
  for (const uint64_t seed : {1u, 2u, 3u, 4u}) {
    const ToyModels models(4, {.temperature = 1.0f}, seed);
    for (const DraftProbKind kind : {DraftProbKind::dense, DraftProbKind::point_mass}) {
      EXPECT_NEAR(mean_kept(models, 1, kind, VerifyRule::block), mean_kept(models, 1, kind, VerifyRule::rejection),
                  1e-12);
      for (const int32_t draft_len : {2, 3})
        EXPECT_GE(mean_kept(models, draft_len, kind, VerifyRule::block),
                  mean_kept(models, draft_len, kind, VerifyRule::rejection) - 1e-12);
    }
    EXPECT_GT(mean_kept(models, 3, DraftProbKind::dense, VerifyRule::block),
              mean_kept(models, 3, DraftProbKind::dense, VerifyRule::rejection) + 1e-3);
  }
}

// What the first of two drafts leaves of a confident drafter's distribution is less than what 1 minus a float can tell.
TEST(ExactLawTest, ConfidentDraftersKeepTheLawInFloats) {
  constexpr int kTrials = 40000, kVocab = 3;
  const DrawParams params{.temperature = 1.0f};
  const std::vector<float> row = {0.0f, 0.7f, 0.2f};
  std::vector<float> logits;  // behind the text and behind both drafts
  for (int i = 0; i < 3; ++i) logits.insert(logits.end(), row.begin(), row.end());
  const std::vector<double> want = reference_distribution(row, params);
  for (const float gap : {15.0f, 16.2f, 16.6f, 18.0f, 30.0f}) {
    const float draft_logit[] = {gap, 0.0f, 0.0f};
    math::DistributionScratch<float> of_draft, of_target;
    float prob[kVocab];
    write_dense(math::distribution<float>({draft_logit, kVocab, params}, of_draft), prob, kVocab);
    double law[kVocab] = {};
    for (int trial = 0; trial < kTrials; ++trial) {
      // the first draft is token 0, all but surely; the second one of the others, evenly
      const int32_t token[] = {0, 1 + trial % 2}, parent[] = {-1, -1};
      const math::DraftWindow<float> draft{.token = token,
                                           .parent = parent,
                                           .len = 2,
                                           .kind = DraftProbKind::dense,
                                           .prob = prob,
                                           .stride = kVocab,
                                           .cols = kVocab};
      DrawParams seeded = params;
      seeded.seed = uint64_t(trial);
      math::PhiloxChance chance;
      math::TargetWindow<float> target(logits.data(), kVocab, kVocab, seeded, of_target);
      const AcceptResult got = math::verify_window(VerifyRule::rejection, draft, target, 0, chance);
      law[got.last >= 0 ? token[got.last] : got.next] += 1.0 / kTrials;
    }
    for (int id = 0; id < kVocab; ++id)
      EXPECT_NEAR(law[id], want[size_t(id)], 0.012) << "gap " << gap << ", token " << id;
  }
}

TEST(ExactLawTest, AChainIsATreeWithoutBranches) {
  const ToyModels models(4, {.temperature = 1.0f}, 9);
  StepScratch<float> scratch, of_tree;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    math::PhiloxChance chance;
    const StepResult chain = run_step<float>(models, 0, 0, 2, DraftProbKind::dense, seed, scratch, chance);
    const StepResult tree = run_tree_step<float>(models, 0, 0, {-1, 0}, DraftProbKind::dense, seed, of_tree, chance);
    ASSERT_EQ(chain.num_accepted, tree.num_accepted);
    for (int j = 0; j <= chain.num_accepted; ++j) ASSERT_EQ(chain.token[j], tree.token[j]);
  }
}

TEST(ExactLawTest, FiltersOfTheRequestHold) {
  const DrawParams cases[] = {{.temperature = 0.7f},
                              {.temperature = 1.0f, .top_k = 3},
                              {.temperature = 1.3f, .top_p = 0.8f},
                              {.temperature = 1.0f, .min_p = 0.2f},
                              {.temperature = 0.9f, .top_k = 4, .top_p = 0.9f, .min_p = 0.05f}};
  for (const DrawParams& params : cases) {
    const ToyModels models(6, params, 8);
    EXPECT_LE(exact_distance(models, 2), kTolerance)
        << params.temperature << ' ' << params.top_k << ' ' << params.top_p << ' ' << params.min_p;
    EXPECT_LE(exact_distance(models, 2, DraftProbKind::point_mass), kTolerance);
  }
}

TEST(ExactLawTest, EqualModelsAcceptEverything) {
  const ToyModels models(4, {.temperature = 1.0f}, 2, 1.2, 0.0);
  Enumeration paths;
  StepScratch<double> scratch;
  do {
    const StepResult step = run_step<double>(models, 0, 0, 3, DraftProbKind::dense, 0, scratch, paths);
    EXPECT_EQ(step.num_accepted, 3);
  } while (paths.next_path());
}

TEST(ExactLawTest, PathProbabilitiesSumToOne) {
  const ToyModels models(4, {.temperature = 1.0f}, 2);
  Enumeration paths;
  StepScratch<double> scratch;
  double total = 0.0;
  int64_t num_paths = 0;
  do {
    run_step<double>(models, 0, 0, 2, DraftProbKind::dense, 0, scratch, paths);
    total += paths.path_probability();
    ++num_paths;
  } while (paths.next_path());
  EXPECT_NEAR(total, 1.0, 1e-13);
  EXPECT_GT(num_paths, 64);
}

}  // namespace
}  // namespace paceline
