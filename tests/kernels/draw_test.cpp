// sample and accept on every device against kernels/math row by row: tokens, probabilities and verdicts bit for bit.

#include "kernels/math/verify.h"
#include "tests/kernels/backend_ops.h"

namespace paceline::test {
namespace {

class Draws : public BackendOps {
 protected:
  /// Logits with ties, zeros of both signs and tokens that are taken out.
  static std::vector<float> logits(int rows, int cols, uint32_t seed) {
    std::vector<float> values = random_values(size_t(rows) * size_t(cols), seed, 3.0f);
    for (size_t i = 0; i < values.size(); ++i) {
      if (i % 7 == 3) values[i] = float(int(values[i]));
      if (i % 11 == 5) values[i] = i % 2 ? -0.0f : 0.0f;
      if (i % 13 == 7) values[i] = -INFINITY;
    }
    return values;
  }
  static std::vector<SamplerParams> params() {
    return {{.temperature = 1.0f, .seed = 1},
            {.temperature = 0.0f, .seed = 2},
            {.temperature = 0.6f, .top_k = 40, .seed = 3},
            {.temperature = 1.3f, .top_p = 0.9f, .seed = 4},
            {.temperature = 0.8f, .min_p = 0.02f, .seed = 5},
            {.temperature = 2.0f, .top_k = 500, .top_p = 0.95f, .min_p = 0.001f, .seed = 6},
            {.temperature = 1.0f, .top_k = 1, .top_p = 0.5f, .seed = 7},
            {.temperature = 0.02f, .top_p = 0.999f, .seed = 8},
            {.temperature = 30.0f, .top_k = 1000000, .top_p = 1e-6f, .seed = 9}};
  }
};

TEST_P(Draws, SampleHasTheBitsOfTheFormulas) {
  for (const int vocab : {1, 2, 5, 37, 1000, 9001, 40003}) {
    const int cols = vocab + 3;
    const std::vector<SamplerParams> all = params();
    const int n = int(all.size());
    std::vector<float> values = logits(n, cols, uint32_t(vocab));
    for (int row = 0; row < n; ++row) values[size_t(row * cols)] = 1.5f;  // one finite at least
    GuardedRows rows(backend(), n, cols, values);
    std::vector<SampleRow> wanted;
    for (int row = 0; row < n; ++row)
      wanted.push_back({.logits_row = n - 1 - row,
                        .params = all[size_t(row)],
                        .purpose = row % 2 ? NoisePurpose::draft : NoisePurpose::target,
                        .origin = 17 * row,
                        .offset = row % 3});
    for (const bool with_probs : {false, true}) {
      GuardedRows probs(backend(), n, vocab);
      std::vector<int32_t> token(size_t(n), -2);
      backend().sample({.logits = rows.view(),
                        .vocab_size = vocab,
                        .rows = wanted,
                        .token = token,
                        .probs = with_probs ? probs.view() : MatView{}});
      const std::vector<float> got = probs.read();
      for (int row = 0; row < n; ++row) {
        const SampleRow& one = wanted[size_t(row)];
        math::DistributionScratch<float> scratch;
        math::PhiloxChance chance;
        const auto want = math::sample_token({&values[size_t(one.logits_row * cols)], vocab, one.params},
                                             {one.params.seed, one.purpose, one.origin, one.offset}, scratch, chance);
        EXPECT_EQ(token[size_t(row)], want.token) << "vocabulary " << vocab << ", row " << row;
        if (!with_probs) continue;
        std::vector<float> dense(size_t(vocab), 0.0f);
        for (int32_t i = 0; i < want.handed_on.size; ++i)
          dense[size_t(want.handed_on.id_at(i))] = want.handed_on.prob[i];
        EXPECT_EQ(std::memcmp(dense.data(), &got[size_t(row * vocab)], dense.size() * sizeof(float)), 0)
            << "vocabulary " << vocab << ", row " << row;
      }
    }
  }
}

TEST_P(Draws, AcceptHasTheVerdictsOfTheFormulas) {
  constexpr int kDrafts = 4, kRounds = 6;
  for (const int vocab : {5, 1000, 9001}) {
    const std::vector<float> values = logits(kDrafts + 1, vocab, uint32_t(vocab));
    // drafts that are often kept: the drafter's logits are the target's, a little off
    std::vector<float> other = values;
    const std::vector<float> off = random_values(other.size(), 5, 0.3f);
    for (size_t i = 0; i < other.size(); ++i) other[i] += off[i];
    GuardedRows rows(backend(), kDrafts + 1, vocab, values);
    int kept = 0, refused = 0;
    for (const SamplerParams& sampler : params())
      for (const VerifyRule rule : {VerifyRule::greedy, VerifyRule::rejection, VerifyRule::coupled, VerifyRule::forced})
        for (const DraftProbKind kind : {DraftProbKind::point_mass, DraftProbKind::dense})
          for (const int num_drafts : {0, 1, kDrafts})
            for (int round = 0; round < kRounds; ++round) {
              const int cols = round % 2 ? vocab : vocab - 1;  // a smaller vocabulary of the drafter
              std::vector<float> prob(size_t(kDrafts * vocab), 0.0f);
              std::vector<int32_t> draft;
              for (int j = 0; j < num_drafts; ++j) {
                math::DistributionScratch<float> scratch;
                math::PhiloxChance chance;
                const bool coupled = rule == VerifyRule::coupled;
                const auto drawn =
                    math::sample_token({&other[size_t(j * vocab)], cols, sampler},
                                       {sampler.seed, coupled ? NoisePurpose::target : NoisePurpose::draft,
                                        coupled ? round + j : round, coupled ? 0 : j},
                                       scratch, chance);
                draft.push_back(j == 3 && round == 5 ? vocab + 7 : drawn.token);
                for (int32_t i = 0; i < drawn.handed_on.size; ++i)
                  prob[size_t(j * vocab + drawn.handed_on.id_at(i))] = drawn.handed_on.prob[i];
              }
              GuardedRows probs(backend(), kDrafts, vocab, prob, 0);
              AcceptRow row{.draft_len = num_drafts,
                            .draft = draft.data(),
                            .kind = kind,
                            .first_position = round,
                            .params = sampler,
                            .rule = rule,
                            .forced_accept = round};
              if (kind == DraftProbKind::dense) {
                row.draft_prob = probs.view();
                row.draft_prob.cols = cols;
              }
              AcceptResult got;
              backend().accept({.logits = rows.view(),
                                .vocab_size = vocab,
                                .rows = std::span(&row, 1),
                                .result = std::span(&got, 1)});
              math::DistributionScratch<float> scratch;
              math::TargetWindow<float> target(values.data(), vocab, vocab, sampler, scratch);
              math::PhiloxChance chance;
              const AcceptResult want = math::verify_window(rule, row.forced_accept,
                                                            {.token = draft.data(),
                                                             .len = num_drafts,
                                                             .kind = kind,
                                                             .prob = prob.data(),
                                                             .stride = vocab,
                                                             .cols = cols},
                                                            target, round, chance);
              EXPECT_EQ(got.num_accepted, want.num_accepted) << vocab << " rule " << int(rule);
              EXPECT_EQ(got.next, want.next)
                  << vocab << " rule " << int(rule) << " temperature " << sampler.temperature;
              EXPECT_EQ(got.numerical_error, want.numerical_error);
              if (rule != VerifyRule::rejection) continue;
              kept += want.num_accepted;
              refused += want.num_accepted < num_drafts;
            }
    EXPECT_GT(kept, 50);  // both ways are taken
    EXPECT_GT(refused, 50);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Draws, testing::ValuesIn(kDevices), device_name);

}  // namespace
}  // namespace paceline::test
