// The rules rejection and block on a real pair: no token equality with plain decoding, but the same seed gives the same
// tokens, and under rejection as many drafts are kept as the two distributions say (Leviathan et al. 2023,
// section 3.1: a draft is kept with probability sum of min(target_prob, draft_prob)).

#include <cmath>
#include <deque>
#include <optional>

#include <gtest/gtest.h>

#include "kernels/math/distribution.h"
#include "speculative/verify_rule.h"
#include "tests/speculative/lossless/workload.h"

namespace paceline::test {
namespace {

/// Sums, over the drafts that were put to the test, the probability that they would be kept. Given everything before
/// it each is a Bernoulli draw, so (kept - expected) / sqrt(variance) is near N(0, 1).
class CountsExpectedAcceptance final : public Verifier {
 public:
  struct Sums {
    double expected = 0.0;
    double variance = 0.0;
    int64_t num_kept = 0;
    int64_t num_tested = 0;
    double z() const { return (double(num_kept) - expected) / std::sqrt(variance); }
  };

  CountsExpectedAcceptance(std::unique_ptr<Verifier> inner, Sums& sums) : inner_(std::move(inner)), sums_(sums) {}
  std::string_view rule_name() const override { return inner_->rule_name(); }
  double seconds() const override { return inner_->seconds(); }

  Ticket launch(std::shared_ptr<const Batch> batch, Model& target, std::vector<VerifyRow> rows) override {
    auto step = std::make_shared<Step>();
    target.post([step, rows, &target](Rank& rank) {
      const Logits logits = target.logits();
      math::DistributionScratch<double> scratch;
      for (const VerifyRow& row : rows) {
        std::vector<double>& kept_prob = step->emplace_back();
        const int num_drafts = int(row.proposal.draft.size());
        if (num_drafts == 0) continue;
        const MatView& draft = row.proposal.probs.value;
        const std::vector<float> logit =
            download_rows(*rank.backend, logits.rows.row_range(row.first_logit, num_drafts), logits.vocab_size);
        const std::vector<float> drafted = download_rows(*rank.backend, draft, draft.cols);
        for (int j = 0; j < num_drafts; ++j) {
          const math::LogitRow logit_row{&logit[size_t(j) * size_t(logits.vocab_size)], logits.vocab_size, row.sampler};
          const auto from = math::distribution<double>(logit_row, scratch);
          double sum = 0.0;
          for (int32_t i = 0; i < from.size; ++i) {
            if (from.id_at(i) < draft.cols)
              sum += std::min(from.prob[i], double(drafted[size_t(j) * size_t(draft.cols) + size_t(from.id_at(i))]));
          }
          kept_prob.push_back(std::min(sum, 1.0));
        }
      }
    });
    in_flight_.push_back(step);
    return inner_->launch(std::move(batch), target, std::move(rows));
  }

  std::vector<Verdict> collect(Ticket ticket) override {
    auto verdicts = inner_->collect(ticket);
    const Step step = std::move(*in_flight_.front());
    in_flight_.pop_front();
    for (size_t i = 0; i < verdicts.size(); ++i) {
      const size_t num_kept = verdicts[i].path.size();
      for (size_t j = 0; j < step[i].size() && j <= num_kept; ++j) {  // the first that is not kept was tested too
        sums_.expected += step[i][j];
        sums_.variance += step[i][j] * (1.0 - step[i][j]);
        ++sums_.num_tested;
      }
      sums_.num_kept += int64_t(num_kept);
    }
    return verdicts;
  }

 private:
  using Step = std::vector<std::vector<double>>;  // [rows][drafts]
  std::unique_ptr<Verifier> inner_;
  Sums& sums_;
  std::deque<std::shared_ptr<Step>> in_flight_;
};

class RejectionTest : public ::testing::TestWithParam<VerifyRule> {
 protected:
  RejectionTest() : workload_(Workload::trained(6, 6, 64)) {
    requests_ = workload_.requests({.rule = GetParam(), .seed = 41, .min_requests = 12});
  }

  /// The tokens of each request, submitted in the given order.
  std::vector<std::vector<int32_t>> tokens(EngineRig& rig, EngineSetup setup, const std::vector<size_t>& order) {
    setup.rule = GetParam();
    auto engine = rig.make_engine(setup);
    std::map<SeqId, size_t> index;
    for (size_t i : order) index[engine->submit(requests_[i].prompt, requests_[i].params)] = i;
    std::vector<std::vector<int32_t>> out(requests_.size());
    while (!engine->idle()) {
      for (const Emitted& emitted : engine->step()) {
        auto& mine = out[index.at(emitted.seq)];
        mine.insert(mine.end(), emitted.token.begin(), emitted.token.end());
      }
    }
    accepted_ = engine->counters().accepted;
    drafted_ = engine->counters().drafted;
    return out;
  }

  Workload workload_;
  std::vector<CheckedRequest> requests_;
  int64_t accepted_ = 0, drafted_ = 0;
};

TEST_P(RejectionTest, SameSeedSameTokensWhateverElseIsInTheBatch) {
  EngineRig rig(workload_.rig_options(1, 1));
  std::optional<EngineRig> two_ranks, two_stages;
  if (most_rig_ranks() >= 2) {
    two_ranks.emplace(workload_.rig_options(2, 1));
    two_stages.emplace(workload_.rig_options(1, 2));
  }
  std::vector<size_t> order;
  for (size_t i = 0; i < requests_.size(); ++i) order.push_back(i);
  const std::vector<size_t> backwards(order.rbegin(), order.rend());
  const std::pair<RigProposer, std::any> cases[] = {
      {RigProposer::draft, {}},
      {RigProposer::draft, DraftModelOptions{.sampling = DraftDraws::argmax}},
      {RigProposer::ngram, {}}};
  for (const auto& [proposer, options] : cases) {
    SCOPED_TRACE(rig_proposer_name(proposer) + (options.has_value() ? ", argmax" : ""));
    const EngineSetup alone{.proposer = proposer, .proposer_options = options, .num_speculative_tokens = 4};
    EngineSetup together = alone;
    together.max_num_seqs = 7;
    const auto expected = tokens(rig, alone, order);
    EXPECT_GT(accepted_, drafted_ / 20);
    EXPECT_LT(accepted_, drafted_ * 19 / 20);
    EXPECT_EQ(tokens(rig, alone, order), expected);
    EXPECT_EQ(tokens(rig, together, order), expected);
    EXPECT_EQ(tokens(rig, together, backwards), expected);
    EngineSetup split = together;
    split.draft_placement = DraftPlacement::last_stage;
    if (two_ranks) {
      EXPECT_EQ(tokens(*two_ranks, split, order), expected);
    }
    if (two_stages) {  // two micro-batches: drafts of one are made while the other's wait for their verdicts
      EXPECT_EQ(tokens(*two_stages, together, order), expected);
    }
    int64_t num_tokens = 0, num_plain = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_LE(int(expected[i].size()), requests_[i].params.max_tokens);
      num_tokens += int64_t(expected[i].size());
      for (size_t j = 0; j < std::min(expected[i].size(), requests_[i].expected.size()); ++j)
        num_plain += expected[i][j] == requests_[i].expected[j];
    }
    EXPECT_LT(num_plain, num_tokens) << "the rule draws as plain sampling does: is it in use?";
  }
}

TEST_P(RejectionTest, DraftsAreKeptAsOftenAsTheDistributionsSay) {
  EngineRig rig(workload_.rig_options(1, 1));
  requests_ = workload_.requests({.rule = GetParam(), .seed = 42, .min_requests = 60});
  for (size_t i = 0; i < requests_.size(); ++i) requests_[i].params.sampler.seed = 90'000 + i;
  CountsExpectedAcceptance::Sums sums;
  EngineSetup setup{.proposer = RigProposer::draft, .num_speculative_tokens = 4, .max_num_seqs = 8};
  setup.wrap_verifier = [&](std::unique_ptr<Verifier> inner) {
    return std::make_unique<CountsExpectedAcceptance>(std::move(inner), sums);
  };
  std::vector<size_t> order;
  for (size_t i = 0; i < requests_.size(); ++i) order.push_back(i);
  tokens(rig, setup, order);
  EXPECT_GT(sums.num_tested, 1500);
  EXPECT_GT(sums.variance, 50.0);
  if (GetParam() == VerifyRule::block) {
    EXPECT_GT(sums.z(), 0.0) << "a block keeps more";
    return;
  }
  EXPECT_LT(std::abs(sums.z()), 4.9) << sums.num_kept << " kept of " << sums.num_tested << ", expected "
                                     << sums.expected;
  RecordProperty("z", std::to_string(sums.z()));
}

INSTANTIATE_TEST_SUITE_P(Rules, RejectionTest, ::testing::Values(VerifyRule::rejection, VerifyRule::block),
                         [](const auto& param) { return std::string(rule_word(param.param)); });

}  // namespace
}  // namespace paceline::test
