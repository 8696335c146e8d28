#include "experiments/results/device_work.h"

#include <gtest/gtest.h>

#include "experiments/analysis/metrics/summary.h"
#include "tests/experiments/synthetic_run.h"

namespace paceline {
namespace {

TEST(Roofline, ReadingIsTheFloor) {
  // 2 s, 20 GB and 4 TFLOP in 4 passes; 20 GB/s and 8 TFLOP/s at most
  const Roofline r =
      roofline({.seconds = 2.0, .bytes = 20e9, .flops = 4e12, .passes = 4, .bytes_s = 20e9, .flops_s = 8e12});
  EXPECT_DOUBLE_EQ(*r.ms, 500);
  EXPECT_DOUBLE_EQ(r.bytes, 5e9);
  EXPECT_DOUBLE_EQ(r.flops, 1e12);
  EXPECT_DOUBLE_EQ(*r.read_share, 0.5);
  EXPECT_DOUBLE_EQ(*r.matrix_share, 0.25);
  EXPECT_DOUBLE_EQ(*r.floor_ms, 250);
  EXPECT_DOUBLE_EQ(*r.floor_share, 0.5);
}

TEST(Roofline, ComputingIsTheFloor) {
  const Roofline r =
      roofline({.seconds = 2.0, .bytes = 20e9, .flops = 12e12, .passes = 4, .bytes_s = 20e9, .flops_s = 8e12});
  EXPECT_DOUBLE_EQ(*r.matrix_share, 0.75);
  EXPECT_DOUBLE_EQ(*r.floor_ms, 375);
  EXPECT_DOUBLE_EQ(*r.floor_share, 0.75);
}

TEST(Roofline, WhatIsNotMeasuredHasNoValue) {
  const Roofline no_ceilings = roofline({.seconds = 2.0, .bytes = 20e9, .flops = 4e12, .passes = 4});
  EXPECT_TRUE(no_ceilings.ms);
  EXPECT_FALSE(no_ceilings.read_share || no_ceilings.matrix_share || no_ceilings.floor_ms || no_ceilings.floor_share);
  const Roofline no_time = roofline({.bytes = 20e9, .flops = 4e12, .passes = 4, .bytes_s = 20e9, .flops_s = 8e12});
  EXPECT_FALSE(no_time.ms || no_time.read_share || no_time.matrix_share || no_time.floor_share);
  EXPECT_DOUBLE_EQ(*no_time.floor_ms, 250);
  const Roofline idle = roofline({.seconds = 0.0, .passes = 4, .bytes_s = 20e9, .flops_s = 8e12});
  EXPECT_FALSE(idle.ms || idle.read_share || idle.floor_share) << "a phase that did not run";
  const Roofline no_pass = roofline({.seconds = 1.0, .bytes = 1.0, .passes = 0, .bytes_s = 1.0, .flops_s = 1.0});
  EXPECT_FALSE(no_pass.ms || no_pass.floor_ms);
}

/// tp 1, pp 2: stage 0 sends, stage 1 decides.
std::vector<RankWork> two_stages() {
  RankWork first, last;
  first.verify = {.traffic = {.weight_bytes = uint64_t(90e9), .kv_bytes = uint64_t(1e9), .flops = uint64_t(9e12)},
                  .seconds = 6.0};
  first.comm_bytes = 4000;
  last.verify = {.traffic = {.weight_bytes = uint64_t(60e9),
                             .kv_bytes = uint64_t(4e9),
                             .flops = uint64_t(6e12),
                             .attention_flops = uint64_t(1e12)},
                 .seconds = 4.0};
  last.draft = {.traffic = {.weight_bytes = uint64_t(10e9), .flops = uint64_t(1e12)}, .seconds = 1.0};
  last.sample = {.traffic = {.logit_bytes = uint64_t(4e9)}, .seconds = 0.5};
  last.comm_bytes = 100;
  last.comm_wait_s = 3.0;
  return {first, last};
}

constexpr int64_t kPasses = 100;

TEST(DeviceSummary, BusySharesOfAllRanksAndPhasesOfTheDecidingOne) {
  DeviceCeilings ceilings;
  ceilings.read_bytes_s = 32e9;
  ceilings.draft_read_bytes_s = 40e9;
  ceilings.matrix_flops_s = 5e12;
  const DeviceSummary d = summarize_devices(two_stages(), 1, 10.0, kPasses, ceilings);
  EXPECT_EQ(d.busy, (std::vector<double>{0.6, 0.55}));
  EXPECT_DOUBLE_EQ(*d.verify.ms, 40);
  EXPECT_DOUBLE_EQ(d.verify.bytes, 64e7) << "weights and KV";
  EXPECT_DOUBLE_EQ(*d.verify.read_share, 0.5);
  EXPECT_DOUBLE_EQ(*d.verify.matrix_share, 0.3);
  EXPECT_DOUBLE_EQ(*d.verify.floor_ms, 20);
  EXPECT_DOUBLE_EQ(*d.draft.ms, 10);
  EXPECT_DOUBLE_EQ(*d.draft.read_share, 0.25) << "of the draft model's own read rate";
  EXPECT_DOUBLE_EQ(*d.draft.matrix_share, 0.2);
  EXPECT_DOUBLE_EQ(*d.sample.ms, 5);
  EXPECT_DOUBLE_EQ(*d.sample.read_share, 0.25) << "8e9 bytes a second of logits";
  EXPECT_DOUBLE_EQ(d.attention.bytes, 4e7);
  EXPECT_DOUBLE_EQ(d.attention.flops, 1e10);
  EXPECT_FALSE(d.attention.ms);
  EXPECT_DOUBLE_EQ(*d.attention.floor_ms, 2.0) << "1e10 operations at 5e12, longer than 4e7 bytes at 32e9";
  EXPECT_DOUBLE_EQ(*d.communicate.ms, 30);
  EXPECT_DOUBLE_EQ(d.communicate.bytes, 40) << "of the rank that put in most";
  EXPECT_FALSE(d.communicate.floor_ms) << "ranks that share memory have no link";
}

TEST(DeviceSummary, OverALinkTheHostsWaitsAreNoTimeOfTheExchange) {
  DeviceCeilings ceilings;
  ceilings.link_bytes_s = 400.0;
  const DeviceSummary d = summarize_devices(two_stages(), 1, 10.0, kPasses, ceilings);
  EXPECT_FALSE(d.communicate.ms || d.communicate.read_share || d.communicate.floor_share);
  EXPECT_DOUBLE_EQ(*d.communicate.floor_ms, 100) << "40 bytes at 400 a second";
}

TEST(DeviceSummary, OneRankTalksToNobodyAndNothingMeasuredIsNothing) {
  const DeviceSummary alone = summarize_devices({two_stages()[1]}, 0, 10.0, kPasses, {});
  EXPECT_EQ(alone.busy.size(), 1u);
  EXPECT_FALSE(alone.communicate.ms);
  EXPECT_EQ(alone.communicate.bytes, 0.0);
  EXPECT_TRUE(summarize_devices({}, 0, 10.0, kPasses, {}).busy.empty());
  EXPECT_TRUE(summarize_devices(two_stages(), 1, 0.0, kPasses, {}).busy.empty());
}

TEST(DeviceSummary, ACellPoolsItsRepetitions) {
  const RunResult run = test::synthetic_run();
  const CellResult* cell = nullptr;
  for (const CellResult& each : run.cells)
    if (each.axes.pp == 2 && each.status == CellStatus::done) cell = &each;
  ASSERT_TRUE(cell);
  CellResult one = *cell;
  one.repetitions.resize(2);
  for (RepetitionResult& r : one.repetitions) r.ranks = std::vector<RankWork>(size_t(one.axes.tp * one.axes.pp));
  one.repetitions[0].wall_s = 1.0;
  one.repetitions[1].wall_s = 3.0;
  one.repetitions[0].ranks.back().verify.seconds = 1.0;
  one.repetitions[1].ranks.back().verify.seconds = 2.0;
  const CellSummary summary = summarize_cell(one);
  EXPECT_DOUBLE_EQ(summary.devices.busy.back(), 0.75) << "of the time of both";
  one.repetitions[1].ranks.clear();
  EXPECT_TRUE(summarize_cell(one).devices.busy.empty()) << "half measured is not measured";
}

TEST(DeviceSummary, ImpossibleBooksAreAProblemOfTheRecords) {
  CellResult cell = test::synthetic_run().cells.front();
  ASSERT_TRUE(record_problems(cell).empty()) << record_problems(cell).front();
  cell.repetitions[0].ranks.resize(3);
  ASSERT_EQ(record_problems(cell).size(), 1u);
  EXPECT_EQ(record_problems(cell).front(), "repetition 0: work of 3 ranks, the cell has 1");
  cell.repetitions[0].ranks.resize(1);
  cell.repetitions[0].ranks[0].verify.seconds = -1.0;
  ASSERT_EQ(record_problems(cell).size(), 1u);
  EXPECT_EQ(record_problems(cell).front(), "repetition 0: rank 0 was at work for -1 s");
}

TEST(DeviceSummary, JsonKeepsSharesAndNulls) {
  DeviceCeilings ceilings;
  ceilings.read_bytes_s = 32e9;
  ceilings.matrix = "float32 FMAs";
  const nlohmann::json roofs = fields_to_json(summarize_devices(two_stages(), 1, 10.0, kPasses, ceilings));
  EXPECT_EQ(roofs["verify"]["read_share"], 0.5);
  EXPECT_TRUE(roofs["verify"]["matrix_share"].is_null());
  EXPECT_TRUE(roofs["attention"]["ms"].is_null());
  EXPECT_EQ(roofs["sample"]["bytes"], 4e7);
  const nlohmann::json ranks = field_to_json(two_stages());
  EXPECT_EQ(ranks[1]["busy_s"], 5.5);
  EXPECT_EQ(ranks[1]["verify"]["kv_bytes"], int64_t(4e9));
  EXPECT_EQ(ranks[1]["sample"]["logit_bytes"], int64_t(4e9));
  EXPECT_EQ(fields_to_json(ceilings)["matrix"], "float32 FMAs");
  EXPECT_TRUE(fields_to_json(ceilings)["link_bytes_s"].is_null());
}

}  // namespace
}  // namespace paceline
