// Which stage of a cascade drafts, and what the others are told; drafts of proposers that know the text.

#include "speculative/cascade_proposer.h"

#include <gtest/gtest.h>

#include "speculative/oracle_proposer.h"
#include "speculative/proposer_entry.h"

namespace paceline {
namespace {

using Tokens = std::vector<int32_t>;

/// Drafts one token for the sequences that it is told to, and notes what it hears.
class Stage final : public Proposer {
 public:
  struct Heard {
    std::vector<std::vector<SeqId>> asked;
    std::string calls;
  };

  Stage(std::string name, int32_t token, std::optional<float> score, std::vector<SeqId> drafts_for, Heard& heard)
      : name_(std::move(name)), token_(token), score_(score), drafts_for_(std::move(drafts_for)), heard_(heard) {}

  std::string_view name() const override { return name_; }
  void propose(std::span<const DraftRequest> requests, std::span<Proposal> out) override {
    heard_.asked.emplace_back();
    for (size_t i = 0; i < requests.size(); ++i) {
      const SeqId id = requests[i].seq->id;
      heard_.asked.back().push_back(id);
      out[i] = {.committed = requests[i].seq->length(), .draft = {}, .probs = {}};
      if (std::find(drafts_for_.begin(), drafts_for_.end(), id) == drafts_for_.end()) continue;
      out[i].draft = DraftTree::chain({token_});
      if (score_) out[i].draft.score = {*score_};
    }
  }
  void prefill(std::span<const Sequence* const>) override { heard_.calls += 'p'; }
  void launched(const std::shared_ptr<const Batch>&, std::span<const Sequence* const>) override { heard_.calls += 'l'; }
  void observe(const Sequence&, const Verdict&) override { heard_.calls += 'o'; }
  void settled() override { heard_.calls += 's'; }
  void swap_kv(std::span<const BlockSwap>) override { heard_.calls += 'w'; }
  void end(const Sequence&) override { heard_.calls += 'e'; }
  void preempt(SeqId) override { heard_.calls += 'x'; }
  ProposerStats stats() const override { return {.catchup_tokens = 3}; }

 private:
  const std::string name_;
  const int32_t token_;
  const std::optional<float> score_;
  const std::vector<SeqId> drafts_for_;
  Heard& heard_;
};

class CascadeTest : public ::testing::Test {
 protected:
  CascadeTest() {
    std::vector<std::unique_ptr<Proposer>> stages;
    stages.push_back(std::make_unique<Stage>("sure", 10, std::nullopt, std::vector<SeqId>{1}, heard_[0]));
    stages.push_back(std::make_unique<Stage>("unsure", 20, 0.4f, std::vector<SeqId>{2, 3}, heard_[1]));
    stages.push_back(std::make_unique<Stage>("last", 30, 0.1f, std::vector<SeqId>{3}, heard_[2]));
    cascade_ = std::make_unique<CascadeProposer>(std::move(stages), 0.5);
    for (SeqId id = 1; id <= 5; ++id) {
      seqs_.push_back({.id = id, .tokens = {1, 2}});
      requests_.push_back({.max_drafts = id == 5 ? 0 : 4, .max_depth = 4});
    }
    for (size_t i = 0; i < seqs_.size(); ++i) requests_[i].seq = &seqs_[i];
  }

  Stage::Heard heard_[3];
  std::unique_ptr<CascadeProposer> cascade_;
  std::vector<Sequence> seqs_;
  std::vector<DraftRequest> requests_;
};

TEST_F(CascadeTest, TheFirstConfidentStageDraftsElseTheLastWithDrafts) {
  std::vector<Proposal> out(5);
  cascade_->propose(requests_, out);
  EXPECT_EQ(out[0].draft.token, Tokens{10});
  EXPECT_EQ(out[1].draft.token, Tokens{20});  // nobody is confident
  EXPECT_EQ(out[2].draft.token, Tokens{30});
  EXPECT_TRUE(out[3].draft.empty());
  EXPECT_TRUE(out[4].draft.empty());
  EXPECT_EQ(out[4].committed, 2);
  EXPECT_EQ(heard_[0].asked, (std::vector<std::vector<SeqId>>{{1, 2, 3, 4}}));
  EXPECT_EQ(heard_[1].asked, (std::vector<std::vector<SeqId>>{{2, 3, 4}}));
  EXPECT_EQ(heard_[2].asked, (std::vector<std::vector<SeqId>>{{2, 3, 4}}));
}

TEST_F(CascadeTest, CountsVerifiedDraftsByTheirStage) {
  std::vector<Proposal> out(5);
  cascade_->propose(requests_, out);
  cascade_->observe(seqs_[0], {.path = {0}, .token = {10, 7}, .num_drafts = 1, .depth = 1});
  cascade_->observe(seqs_[2], {.path = {}, .token = {7}, .num_drafts = 1, .depth = 1});
  cascade_->observe(seqs_[1], {.path = {}, .token = {7}});  // its drafts did not fit the step
  cascade_->observe(seqs_[3], {.path = {}, .token = {7}});
  const ProposerStats stats = cascade_->stats();
  EXPECT_EQ(stats.catchup_tokens, 9);
  ASSERT_EQ(stats.stages.size(), 3u);
  EXPECT_EQ(stats.stages[0].name, "sure");
  EXPECT_EQ(stats.stages[0].proposals, 1);
  EXPECT_EQ(stats.stages[0].accepted, 1);
  EXPECT_EQ(stats.stages[1].drafted, 0);
  EXPECT_EQ(stats.stages[2].drafted, 1);
  EXPECT_EQ(stats.stages[2].accepted, 0);
  // the step that ends a request counts, too
  cascade_->observe_last(seqs_[2], {.path = {0}, .token = {30, 7}, .num_drafts = 1, .depth = 1});
  EXPECT_EQ(cascade_->stats().stages[2].drafted, 2);
  EXPECT_EQ(cascade_->stats().stages[2].accepted, 1);
}

TEST_F(CascadeTest, EveryStageHearsAll) {
  cascade_->prefill({});
  cascade_->launched(nullptr, {});
  cascade_->observe(seqs_[0], {});
  cascade_->settled();
  cascade_->swap_kv({});
  cascade_->preempt(1);
  cascade_->end(seqs_[0]);
  for (const Stage::Heard& heard : heard_) EXPECT_EQ(heard.calls, "ploswxe");
}

TEST(CascadeEntry, StagesAreNames) {
  EXPECT_EQ(split_at_commas("a,  b ,c"), (std::vector<std::string_view>{"a", "b", "c"}));
  EXPECT_EQ(split_at_commas(""), (std::vector<std::string_view>{""}));
  EXPECT_EQ(split_at_commas("a,"), (std::vector<std::string_view>{"a", ""}));
  const ProposerEntry& entry = proposer_entry("cascade");
  const auto fault = [&](const char* stages) {
    const auto conflict = entry.find_conflict(std::any(CascadeOptions{.stages = stages}));
    return conflict ? conflict->message : "";
  };
  EXPECT_EQ(fault("ngram, suffix, eagle3"), "");
  EXPECT_NE(fault("ngram, egale3").find("no stage is called \"egale3\" (did you mean \"eagle3\"?)"), std::string::npos);
  EXPECT_NE(fault("ngram, cascade").find("no stage is called \"cascade\""), std::string::npos);
  EXPECT_NE(fault("ngram, oracle").find("no stage is called \"oracle\""), std::string::npos);
  EXPECT_NE(fault("ngram, ngram").find("twice"), std::string::npos);
  EXPECT_NE(fault("draft, eagle3").find("drop all but one"), std::string::npos);
}

TEST(Oracle, KnowsOneTextOfEachRequest) {
  const auto texts = std::make_shared<KnownTexts>();
  OracleProposer right(OracleDrafts::right, 10, texts), wrong(OracleDrafts::wrong, 10, texts);
  const auto drafts = [](Proposer& proposer, const Sequence& seq, int most) {
    const DraftRequest request{.seq = &seq, .max_drafts = most, .max_depth = most};
    Proposal out;
    proposer.propose(std::span(&request, 1), std::span(&out, 1));
    return out.draft.token;
  };
  const Sequence whole{.id = 1, .key = 7, .tokens = {1, 2, 3, 9, 5}};
  const Sequence begun{.id = 2, .key = 7, .tokens = {1, 2}};
  EXPECT_TRUE(drafts(right, begun, 4).empty());
  right.end(whole);
  right.end({.id = 3, .key = 7, .tokens = {1, 2, 3}});  // cut short: the longer one stays
  EXPECT_EQ(drafts(right, begun, 2), (Tokens{3, 9}));
  EXPECT_EQ(drafts(right, begun, 9), (Tokens{3, 9, 5}));
  EXPECT_EQ(drafts(wrong, begun, 9), (Tokens{4, 0, 6}));
  EXPECT_TRUE(drafts(right, begun, 0).empty());
  EXPECT_TRUE(drafts(right, {.id = 4, .key = 8, .tokens = {1, 2}}, 4).empty());
  EXPECT_TRUE(drafts(right, {.id = 5, .key = 7, .tokens = {1, 3}}, 4).empty());  // another way
  EXPECT_TRUE(drafts(right, whole, 4).empty());
  right.end({.id = 6, .key = 0, .tokens = {4, 4, 4}});
  EXPECT_TRUE(drafts(right, {.id = 7, .key = 0, .tokens = {4}}, 4).empty());  // nobody's
}

}  // namespace
}  // namespace paceline
