// When an EAGLE-3 head reads what: at once, or, where others may draft in its place, when it is asked.

#include "speculative/eagle3_proposer.h"

#include <gtest/gtest.h>

#include "engine/cache/kv_slot.h"

namespace paceline {
namespace {

constexpr int kBlockSize = 4;
constexpr int32_t kSlot = 1;

/// Notes what it is given; drafts token 9 each time.
class NotingHead final : public Eagle3Model {
 public:
  struct Pass {
    std::vector<int32_t> position, token, feature;
    bool operator==(const Pass&) const = default;
  };

  const Eagle3Options& options() const override { return options_; }
  int max_position() const override { return 1000; }
  void take_features(uint64_t, std::shared_ptr<const Eagle3Rows>) override {}
  void keep(std::span<const int32_t> from, std::span<const int32_t> to) override {
    for (size_t i = 0; i < from.size(); ++i) kept.emplace_back(from[i], to[i]);
  }
  void extend(const Eagle3Rows& rows, std::span<const int32_t> last_row, std::span<const int32_t> seq_slot) override {
    passes.push_back({rows.position, rows.token, rows.feature});
    ASSERT_EQ(last_row.size(), 1u);
    EXPECT_EQ(last_row[0], rows.size() - 1);
    EXPECT_EQ(seq_slot[0], kSlot);
    for (int i = 0; i < rows.size(); ++i)
      EXPECT_EQ(rows.slot[size_t(i)], kv_slot(rows.block, kBlockSize, rows.position[size_t(i)]));
  }
  void draft(std::span<const int32_t>, std::span<const int>, std::span<const Eagle3Rows>,
             std::span<const SamplingPlan* const>, std::span<int32_t> token) override {
    std::fill(token.begin(), token.end(), 9);
  }
  void await_drafts() override {}
  void draft_level(std::span<const int32_t>, const Eagle3Rows&, const LogitEdits&, int, std::span<int32_t>,
                   std::span<float>) override {}
  void swap_kv(std::span<const BlockSwap>) override {}
  std::vector<float> newest_logits() override { return {}; }

  std::vector<std::pair<int32_t, int32_t>> kept;
  std::vector<Pass> passes;

 private:
  const Eagle3Options options_{
      .num_blocks = 20, .block_size = kBlockSize, .max_num_seqs = 2, .max_num_rows = 8, .max_waiting = 5};
};

class Eagle3ProposerTest : public testing::Test {
 protected:
  /// A step over all that is known, with `drafts` behind it, of which those in `path` are kept, and `next` after them.
  void step(Proposer& proposer, int num_drafts, const std::vector<int32_t>& path, int32_t next) {
    auto batch = std::make_shared<Batch>();
    batch->step = ++step_;
    const int known = seq_.length() - cached_;
    batch->seqs.push_back({.seq = kSlot, .num_rows = known + num_drafts, .num_drafts = num_drafts});
    for (int i = 0; i < known + num_drafts; ++i)
      batch->add_row(0, cached_ + i, kv_slot(pages_, kBlockSize, cached_ + i));
    batch->add_pages(pages_);
    const Sequence* const sequences[] = {&seq_};
    proposer.launched(batch, sequences);
    cached_ = seq_.length() + int(path.size());
    for (size_t i = 0; i < path.size(); ++i) seq_.tokens.push_back(100 + int32_t(i));
    seq_.tokens.push_back(next);
    Verdict verdict;
    verdict.path = path;
    proposer.observe(seq_, verdict);
    proposer.settled();
  }

  std::vector<int32_t> propose(Proposer& proposer) {
    const DraftRequest request{.seq = &seq_, .max_drafts = 2, .max_depth = 2, .pages = pages_};
    Proposal out;
    proposer.propose(std::span(&request, 1), std::span(&out, 1));
    return out.draft.token;
  }

  int32_t waiting(int32_t i) const { return head_.options().waiting_feature(kSlot, i); }

  NotingHead head_;
  Sequence seq_{.id = 7, .slot = kSlot, .tokens = {10, 11, 12, 13, 14}};
  std::vector<int32_t> pages_{3, 5, 4, 8};
  int cached_ = 0;
  uint64_t step_ = 0;
};

TEST_F(Eagle3ProposerTest, RowsGoThroughTheHeadAtOnce) {
  Eagle3Proposer proposer(head_, 4);
  step(proposer, 0, {}, 15);
  EXPECT_EQ(head_.passes.back(), (NotingHead::Pass{{4}, {15}, {4}}));
  step(proposer, 3, {0, 2}, 16);
  EXPECT_EQ(head_.passes.back(), (NotingHead::Pass{{5, 6, 7}, {100, 101, 16}, {0, 1, 3}}));
  EXPECT_TRUE(head_.kept.empty());
}

TEST_F(Eagle3ProposerTest, RowsWaitUntilTheBlockIsFull) {
  Eagle3Proposer proposer(head_, 4, {}, Eagle3Reading::by_block);
  step(proposer, 0, {}, 15);
  step(proposer, 0, {}, 16);
  step(proposer, 0, {}, 17);
  EXPECT_TRUE(head_.passes.empty());
  EXPECT_EQ(head_.kept, (std::vector<std::pair<int32_t, int32_t>>{{4, waiting(0)}, {0, waiting(1)}, {0, waiting(2)}}));
  step(proposer, 0, {}, 18);  // position 7 fills the block
  ASSERT_EQ(head_.passes.size(), 1u);
  EXPECT_EQ(head_.passes[0],
            (NotingHead::Pass{{4, 5, 6, 7}, {15, 16, 17, 18}, {waiting(0), waiting(1), waiting(2), 0}}));
  step(proposer, 0, {}, 19);
  EXPECT_EQ(head_.passes.size(), 1u);
  EXPECT_EQ(head_.kept.back(), (std::pair<int32_t, int32_t>{0, waiting(0)}));
}

TEST_F(Eagle3ProposerTest, RowsWaitWhileThereIsRoom) {
  Eagle3Proposer proposer(head_, 4, {}, Eagle3Reading::when_asked);
  for (const int32_t next : {15, 16, 17, 18, 19}) step(proposer, 0, {}, next);
  EXPECT_TRUE(head_.passes.empty());
  step(proposer, 1, {0}, 20);
  ASSERT_EQ(head_.passes.size(), 1u);
  EXPECT_EQ(head_.passes[0].position, (std::vector<int32_t>{4, 5, 6, 7, 8, 9, 10}));
  EXPECT_EQ(head_.passes[0].feature,
            (std::vector<int32_t>{waiting(0), waiting(1), waiting(2), waiting(3), waiting(4), 0, 1}));
}

TEST_F(Eagle3ProposerTest, WaitingRowsAreReadWhenDraftsAreAskedFor) {
  Eagle3Proposer proposer(head_, 4, {}, Eagle3Reading::by_block);
  step(proposer, 0, {}, 15);
  step(proposer, 2, {1}, 16);  // another's drafts
  EXPECT_EQ(propose(proposer), (std::vector<int32_t>{9, 9}));
  ASSERT_EQ(head_.passes.size(), 1u);
  EXPECT_EQ(head_.passes[0], (NotingHead::Pass{{4, 5, 6}, {15, 100, 16}, {waiting(0), waiting(1), waiting(2)}}));
  propose(proposer);
  EXPECT_EQ(head_.passes.size(), 1u);
}

TEST_F(Eagle3ProposerTest, WaitingRowsAreReadBeforeThePagesAreLost) {
  Eagle3Proposer proposer(head_, 4, {}, Eagle3Reading::by_block);
  step(proposer, 0, {}, 15);
  proposer.preempt(seq_.id);
  ASSERT_EQ(head_.passes.size(), 1u);
  EXPECT_EQ(head_.passes[0], (NotingHead::Pass{{4}, {15}, {waiting(0)}}));
  EXPECT_TRUE(propose(proposer).empty());
}

TEST_F(Eagle3ProposerTest, WhatEndsIsReadNoMore) {
  Eagle3Proposer proposer(head_, 4, {}, Eagle3Reading::by_block);
  step(proposer, 0, {}, 15);
  proposer.end(seq_);
  EXPECT_TRUE(propose(proposer).empty());
  EXPECT_TRUE(head_.passes.empty());
}

}  // namespace
}  // namespace paceline
