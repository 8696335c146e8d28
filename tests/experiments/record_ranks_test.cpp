// The recorder on real engines: what it finds, and that nobody's tokens notice.

#include <set>

#include <gtest/gtest.h>

#include "experiments/analysis/metrics/lane_pieces.h"
#include "experiments/run/measure/recorders.h"
#include "speculative/selftest/engine_rig.h"
#include "tests/support/paths.h"

namespace paceline::test {
namespace {

struct Setting {
  int tp = 1, pp = 1;
  RigProposer proposer = RigProposer::none;
  int num_blocks = 0;  // few: sequences are preempted
  int num_sequences = 4;
  int max_tokens = 24;
  bool cancels = false;  // the second and third request, after a few steps
  bool records = false;
};

struct Outcome {
  std::map<SeqId, std::vector<int32_t>> tokens;
  EngineCounters counters;
  RankLanes lanes;
};

Outcome run(const Setting& setting) {
  EngineRig rig(
      {.target = builtin_model("target-7m"), .draft = builtin_model("draft-600k"), .tp = setting.tp, .pp = setting.pp});
  auto engine = rig.make_engine({.proposer = setting.proposer,
                                 .num_speculative_tokens = setting.proposer == RigProposer::none ? 0 : 3,
                                 .max_num_seqs = setting.num_sequences,
                                 .num_blocks = setting.num_blocks});
  std::optional<RankRecorder> recorder;
  if (setting.records) recorder.emplace(rig.team());
  std::vector<SeqId> ids;
  for (int i = 0; i < setting.num_sequences; ++i) {
    std::vector<int32_t> prompt;
    for (int token = 0; token < 24; ++token) prompt.push_back(100 + (i * 37 + token * 11) % 900);
    SamplingParams params;
    params.max_tokens = setting.max_tokens;
    params.ignore_eos = true;
    ids.push_back(engine->submit(std::move(prompt), params));
  }
  Outcome out;
  for (int step = 0; !engine->idle(); ++step) {
    if (setting.cancels && step == 5) engine->cancel(ids[1]);
    if (setting.cancels && step == 7) engine->cancel(ids[2]);
    for (const Emitted& emitted : engine->step())
      out.tokens[emitted.seq].insert(out.tokens[emitted.seq].end(), emitted.token.begin(), emitted.token.end());
  }
  out.counters = engine->counters();
  if (recorder) out.lanes = recorder->take();
  return out;
}

int64_t share_of(const RankLanes& lanes, size_t rank, PieceKind kind) {
  return int64_t(1e6 * lane_shares(lane_pieces(lanes)[rank], lanes.window_ns)[size_t(kind)]);
}

TEST(RankRecorder, TokensAreTheSameWithItOn) {
  for (Setting setting : {Setting{.tp = 1, .pp = 2, .cancels = true},
                          Setting{.tp = 1, .pp = 2, .proposer = RigProposer::draft, .cancels = true},
                          Setting{.tp = 2, .pp = 1, .proposer = RigProposer::ngram, .num_blocks = 8},
                          Setting{.tp = 2, .pp = 2, .proposer = RigProposer::draft, .num_blocks = 8}}) {
    SCOPED_TRACE(fmt::format("tp {} pp {} {}", setting.tp, setting.pp, rig_proposer_name(setting.proposer)));
    const Outcome plain = run(setting);
    setting.records = true;
    const Outcome recorded = run(setting);
    EXPECT_EQ(plain.tokens, recorded.tokens);
    EXPECT_EQ(plain.counters.preemptions, recorded.counters.preemptions);
    if (setting.num_blocks > 0) {
      EXPECT_GT(recorded.counters.preemptions, 0);
    }
    EXPECT_TRUE(plain.lanes.empty());
    EXPECT_EQ(recorded.lanes.ranks.size(), size_t(setting.tp * setting.pp));
  }
}

TEST(RankRecorder, FindsTheLastPassesOfEveryRank) {
  const Outcome out = run({.tp = 2, .pp = 2, .max_tokens = 80, .records = true});
  ASSERT_EQ(out.lanes.ranks.size(), 4u);
  EXPECT_EQ(out.lanes.deciding_rank, 2);
  size_t total = 0;
  for (size_t rank = 0; rank < 4; ++rank) {
    SCOPED_TRACE(rank);
    const RankLane& lane = out.lanes.ranks[rank];
    EXPECT_EQ(lane.stage, int(rank) / 2);
    EXPECT_EQ(lane.shard, int(rank) % 2);
    EXPECT_EQ(lane.device, "cpu");
    std::set<int64_t> passes;
    std::set<ActivityKind> kinds;
    int64_t before = 0;
    for (const LaneActivity& activity : lane.activities) {
      kinds.insert(activity.kind);
      if (activity.kind == ActivityKind::pass) passes.insert(activity.pass);
      EXPECT_GE(activity.start_ns, before);
      EXPECT_LE(activity.start_ns + activity.duration_ns, out.lanes.window_ns);
      before = activity.start_ns;
    }
    ASSERT_FALSE(passes.empty());
    EXPECT_LE(passes.size(), kMostRecordedPasses + 2) << "stage 0 runs ahead by the passes in flight";
    EXPECT_GE(*passes.rbegin(), out.counters.steps - 2) << "the last ones";
    EXPECT_EQ(int64_t(passes.size()), *passes.rbegin() - *passes.begin() + 1) << "none is missing";
    EXPECT_EQ(kinds.contains(ActivityKind::sample), rank == 2) << "the sampling rank alone";
    EXPECT_TRUE(kinds.contains(ActivityKind::wait_peers));
    EXPECT_EQ(kinds.contains(ActivityKind::wait_stage), rank >= 2);
    EXPECT_EQ(share_of(out.lanes, rank, PieceKind::draft), 0);
    EXPECT_GT(share_of(out.lanes, rank, PieceKind::pass), 0);
    total += lane.activities.size();
  }
  EXPECT_LE(total, kMostRecordedActivities);
}

TEST(RankRecorder, OneRankWaitsForNobodyButTheScheduler) {
  const Outcome out = run({.proposer = RigProposer::draft, .records = true});
  ASSERT_EQ(out.lanes.ranks.size(), 1u);
  for (const PieceKind kind : {PieceKind::wait_stage, PieceKind::wait_peers, PieceKind::wait_outcome})
    EXPECT_EQ(share_of(out.lanes, 0, kind), 0);
  for (const PieceKind kind : {PieceKind::pass, PieceKind::draft, PieceKind::sample})
    EXPECT_GT(share_of(out.lanes, 0, kind), 0);
}

TEST(RankRecorder, WithoutAPassThereIsNothing) {
  RankTeam team({.placement = {.tp = 2, .pp = 1}, .threads_per_rank = 1});
  RankRecorder recorder(team);
  team.run_on_all([](Rank& rank) { rank.world->barrier(); });
  recorder.stop();
  recorder.stop();
  EXPECT_TRUE(recorder.take().empty());
}

TEST(RankLanes, ComeBackFromTheirJson) {
  const RankLanes lanes = run({.tp = 2, .pp = 1, .records = true}).lanes;
  const nlohmann::json written = rank_lanes_to_json(lanes);
  const auto read = rank_lanes_from_json(nlohmann::json::parse(written.dump()));
  ASSERT_TRUE(read);
  EXPECT_EQ(rank_lanes_to_json(*read), written);
  EXPECT_EQ(read->ranks.size(), 2u);
  for (const char* const key : {"schema", "window_ns", "deciding_rank", "ranks"}) {
    nlohmann::json damaged = written;
    damaged.erase(key);
    EXPECT_FALSE(rank_lanes_from_json(damaged)) << key;
    damaged[key] = "text";
    EXPECT_FALSE(rank_lanes_from_json(damaged)) << key;
  }
  nlohmann::json damaged = written;
  damaged["schema_version"] = 2;
  EXPECT_FALSE(rank_lanes_from_json(damaged));
  damaged = written;
  damaged["deciding_rank"] = 2;
  EXPECT_FALSE(rank_lanes_from_json(damaged));
  damaged = written;
  damaged["ranks"][1]["pass"].erase(0);
  EXPECT_FALSE(rank_lanes_from_json(damaged)) << "columns of different lengths";
  EXPECT_FALSE(rank_lanes_from_json(nlohmann::json::array()));
  EXPECT_FALSE(rank_lanes_from_json(nullptr));
}

}  // namespace
}  // namespace paceline::test
