// Which passes the engine books as prefill, as decode and as mixed.

#include "fake_rig.h"

namespace paceline {
namespace {

using test::FakeProposer;
using test::FakeRig;
using test::FakeRigOptions;
using test::greedy_params;
using test::some_prompt;

PassTotals totals(const FakeRig& rig, PassKind kind) { return rig.engine->passes()[size_t(kind)]; }

double seconds_of(const PassTotals& of_kind) {
  const PhaseSeconds& s = of_kind.seconds;
  return s.draft + s.verify + s.sample + s.schedule + s.communicate + s.bubble;
}

TEST(PassKinds, APassIsBookedByItsRows) {
  FakeRigOptions options;
  options.budget = 8;
  options.draft_len = 2;
  options.proposer = FakeProposer::Options{.wrong_per_mille = 0, .silent_per_mille = 0};
  FakeRig rig(options);
  rig.submit(some_prompt(17, 1), greedy_params(20));
  for (int i = 0; i < 3; ++i) rig.step();  // chunks of 8, 8 and 1 rows: the last gives the first token
  EXPECT_EQ(totals(rig, PassKind::prefill).passes, 3);
  EXPECT_EQ(totals(rig, PassKind::prefill).verdicts, 1);
  EXPECT_EQ(totals(rig, PassKind::decode).passes, 0);
  EXPECT_EQ(seconds_of(totals(rig, PassKind::decode)), 0);
  const double prefill_s = seconds_of(totals(rig, PassKind::prefill));
  EXPECT_GT(prefill_s, 0);
  rig.step();  // one row and two drafts
  EXPECT_EQ(totals(rig, PassKind::decode).passes, 1);
  EXPECT_EQ(totals(rig, PassKind::decode).verdicts, 1);
  EXPECT_GT(seconds_of(totals(rig, PassKind::decode)), 0);
  EXPECT_EQ(seconds_of(totals(rig, PassKind::prefill)), prefill_s);
  rig.submit(some_prompt(4, 2), greedy_params(3));
  rig.step();  // both
  EXPECT_EQ(totals(rig, PassKind::mixed).passes, 1);
  EXPECT_EQ(totals(rig, PassKind::mixed).verdicts, 2);
  EXPECT_GT(seconds_of(totals(rig, PassKind::mixed)), 0);
  rig.run();
  rig.expect_all_texts();
  EXPECT_EQ(totals(rig, PassKind::prefill).passes, 3);
  EXPECT_EQ(totals(rig, PassKind::mixed).passes, 1);
  double all_s = 0;
  for (const PassTotals& of_kind : rig.engine->passes()) all_s += seconds_of(of_kind);
  EXPECT_DOUBLE_EQ(seconds_of({.seconds = rig.engine->phases()}), all_s);
}

// What a preempted sequence computes again is no decode pass, although its prompt is long done.
TEST(PassKinds, RowsComputedAgainArePrefill) {
  FakeRigOptions options;
  options.model.num_blocks = 13;
  FakeRig rig(options);
  for (int i = 0; i < 4; ++i) rig.submit(some_prompt(4, i), greedy_params(24));
  rig.run();
  rig.expect_all_texts();
  ASSERT_GT(rig.engine->counters().preemptions, 0);
  int64_t of_several_rows = 0;
  for (const auto& batch : rig.model.batches())
    of_several_rows +=
        std::any_of(batch->seqs.begin(), batch->seqs.end(), [](const SeqRows& rows) { return rows.num_rows > 1; });
  ASSERT_GT(of_several_rows, 1) << "more than the prompts";
  EXPECT_EQ(totals(rig, PassKind::prefill).passes + totals(rig, PassKind::mixed).passes, of_several_rows);
}

}  // namespace
}  // namespace paceline
