#include "engine/cache/memory_plan.h"

#include <limits>

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"

namespace paceline {
namespace {

using test::expect_error;

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

// vLLM's well-known lines for a 13B model: 40 layers, 40 heads of 128, fp16, TP 2, 4 GiB of swap.
TEST(MemoryPlan, BlocksOfThirteenBillionUnderTp2) {
  constexpr size_t block = kv_block_bytes(40, 40 / 2, 128, 16, 2);
  static_assert(block == size_t{6'553'600});
  EXPECT_EQ(blocks_in(size_t{4} << 30, block), 655);
  EXPECT_EQ(blocks_in(size_t{4} << 30, 0), 0);
}

/// 128 KiB a token, blocks of 16, 10.807 GiB for KV.
MemoryPlanInput long_context() {
  MemoryPlanInput input;
  input.devices.resize(1);
  input.devices[0].weight_bytes = size_t{15} << 30;
  input.devices[0].workspace_bytes = size_t{1} << 30;
  input.memory_fraction = 1.0;
  input.devices[0].limit_bytes =
      input.devices[0].weight_bytes + input.devices[0].workspace_bytes + size_t(10.807 * kGiB);
  input.devices[0].target_block_bytes = 16 * (size_t{128} << 10);
  input.max_num_seqs = 256;
  input.max_model_len = 80'000;
  return input;
}

TEST(MemoryPlan, TokensThatFit) {
  const MemoryPlan plan = plan_memory(long_context());
  EXPECT_EQ(plan.num_blocks, 5'533);
  EXPECT_EQ(plan.kv_tokens, 88'528);
  EXPECT_EQ(plan.blocks_that_fit, 5'533);
  EXPECT_EQ(plan.target_kv_bytes, 5'533 * (size_t{2} << 20));
  EXPECT_EQ(plan.draft_kv_bytes, 0u);
  EXPECT_NE(plan.describe().find("5533 blocks, 88528 tokens"), std::string::npos) << plan.describe();
  EXPECT_NE(plan.describe().find("weights 15.000 GiB"), std::string::npos) << plan.describe();
}

TEST(MemoryPlan, SwapSpaceIsOfEachRank) {
  MemoryPlanInput input = long_context();
  input.swap_bytes = size_t{4} << 30;
  input.swap_block_bytes = kv_block_bytes(40, 40 / 2, 128, 16, 2);
  input.devices[0].target_block_bytes = 2 * input.swap_block_bytes;
  input.max_model_len = 1000;
  input.host_bytes = size_t{64} << 30;
  const MemoryPlan plan = plan_memory(input);
  EXPECT_EQ(plan.num_host_blocks, 655);
  EXPECT_EQ(plan.swap_bytes, size_t{2} * 655 * 6'553'600);
  EXPECT_NE(plan.describe().find("7.996 GiB: 655 blocks in host memory"), std::string::npos) << plan.describe();
  input.host_bytes = 0;  // the ranks run on the host
  EXPECT_LT(plan_memory(input).blocks_that_fit, plan.blocks_that_fit);
  input.host_bytes = size_t{7} << 30;
  expect_error(ExitCode::usage, {"swap_space_gib", "4.000 GiB a rank", "7.000 GiB"}, [&] { plan_memory(input); });
}

TEST(MemoryPlan, NoMoreThanTheSequencesCanUse) {
  MemoryPlanInput input = long_context();
  input.max_num_seqs = 3;
  input.max_model_len = 1000;  // 63 blocks
  EXPECT_EQ(plan_memory(input).num_blocks, 3 * 63);
  input.prefix_cache_tokens = 161;  // 11 blocks
  EXPECT_EQ(plan_memory(input).num_blocks, 3 * 63 + 11);
}

TEST(MemoryPlan, TargetAndDraftShareTheRoom) {
  MemoryPlanInput input = long_context();
  input.max_model_len = 16'000;
  input.devices[0].draft_block_bytes = input.devices[0].target_block_bytes / 4;
  const MemoryPlan plan = plan_memory(input);
  EXPECT_EQ(plan.num_blocks, int64_t(size_t(10.807 * kGiB) / (input.devices[0].target_block_bytes * 5 / 4)));
  EXPECT_EQ(plan.draft_kv_bytes * 4, plan.target_kv_bytes);
  input.memory_fraction = 0.5;
  EXPECT_EQ(plan_memory(input).num_blocks, plan.num_blocks / 2);
}

TEST(MemoryPlan, ALongerModelThanTheCacheNamesBothNumbers) {
  MemoryPlanInput input = long_context();
  input.max_model_len = 131'072;
  expect_error(ExitCode::device,
               {"max seq len (131072)", "KV cache (88528)", "16.000 GiB", "10.807 GiB", "memory_fraction",
                "decreasing max_model_len to at most 88528"},
               [&] { plan_memory(input); });
  input.max_model_len = 88'528;  // exactly fits
  EXPECT_EQ(plan_memory(input).num_blocks, 5'533);
  input.max_model_len = 88'529;
  expect_error(ExitCode::device, {"max seq len (88529)", "(88528)"}, [&] { plan_memory(input); });
}

TEST(MemoryPlan, NoBlockAtAll) {
  MemoryPlanInput input = long_context();
  input.devices[0].limit_bytes =
      input.devices[0].weight_bytes + input.devices[0].workspace_bytes + (size_t{2} << 20) - 1;
  input.max_model_len = 16;
  expect_error(ExitCode::device,
               {"No available memory for the KV cache", "0.002 GiB", "block of 16 tokens", "memory_fraction"},
               [&] { plan_memory(input); });
  ++input.devices[0].limit_bytes;
  EXPECT_EQ(plan_memory(input).num_blocks, 1);
}

TEST(MemoryPlan, WeightsThatDoNotFit) {
  MemoryPlanInput input = long_context();
  input.devices[0].limit_bytes = size_t{16} << 30;
  expect_error(ExitCode::device, {"weights 15.000 GiB", "workspace 1.000 GiB", "limit of 16.000 GiB", "smaller model"},
               [&] { plan_memory(input); });
}

/// Two GPUs whose ranks hold unequal parts: the second has the head and a draft model beside its layers.
MemoryPlanInput uneven_ranks() {
  MemoryPlanInput input;
  constexpr size_t kMiB = size_t{1} << 20, kDevice = size_t{24} << 30;
  input.devices = {{.name = "rank 0 (cuda:0)",
                    .limit_bytes = kDevice,
                    .weight_bytes = size_t{8} << 30,
                    .workspace_bytes = size_t{1} << 30,
                    .target_block_bytes = kMiB},
                   {.name = "rank 1 (cuda:1)",
                    .limit_bytes = kDevice,
                    .weight_bytes = size_t{11} << 30,
                    .workspace_bytes = size_t{1} << 30,
                    .target_block_bytes = kMiB,
                    .draft_block_bytes = kMiB}};
  input.memory_fraction = 0.9;
  input.max_num_seqs = 256;
  input.host_bytes = size_t{64} << 30;
  return input;
}

// 0.9 · (24 − 9) GiB hold 13,824 blocks of 1 MiB, 0.9 · (24 − 12) GiB hold 5,529 of 2 MiB; of the sums it would be
// 8,294.
TEST(MemoryPlan, TheRankThatHoldsTheFewestBlocksDecides) {
  MemoryPlanInput input = uneven_ranks();
  const MemoryPlan plan = plan_memory(input);
  EXPECT_EQ(plan.num_blocks, 5'529);
  EXPECT_EQ(plan.blocks_that_fit, 5'529);
  EXPECT_EQ(plan.fullest_device, 1u);
  EXPECT_EQ(plan.weight_bytes, size_t{19} << 30);
  EXPECT_EQ(plan.workspace_bytes, size_t{2} << 30);
  EXPECT_EQ(plan.target_kv_bytes, size_t{2} * 5'529 << 20);
  EXPECT_EQ(plan.draft_kv_bytes, size_t{5'529} << 20);
  for (const PlannedDevice& device : input.devices)
    EXPECT_LE(device.weight_bytes + device.workspace_bytes + size_t(plan.num_blocks) * device.block_bytes(),
              device.limit_bytes);
  std::swap(input.devices[0], input.devices[1]);
  EXPECT_EQ(plan_memory(input).num_blocks, 5'529);
  EXPECT_EQ(plan_memory(input).fullest_device, 0u);

  PlannedDevice shared = uneven_ranks().devices[0];  // ranks on CPUs share one memory
  const PlannedDevice other = uneven_ranks().devices[1];
  shared.limit_bytes += other.limit_bytes;
  shared.weight_bytes += other.weight_bytes;
  shared.workspace_bytes += other.workspace_bytes;
  shared.target_block_bytes += other.target_block_bytes;
  shared.draft_block_bytes += other.draft_block_bytes;
  input.devices = {shared};
  EXPECT_EQ(plan_memory(input).num_blocks, 8'294);
}

TEST(MemoryPlan, TheRankThatIsFullIsNamed) {
  MemoryPlanInput input = uneven_ranks();
  input.devices[1].weight_bytes = size_t{23} << 30;
  expect_error(ExitCode::device, {"weights 23.000 GiB", "limit of 24.000 GiB on rank 1 (cuda:1)"},
               [&] { plan_memory(input); });
  input.devices[1].weight_bytes = (size_t{23} << 30) - 1;
  expect_error(ExitCode::device, {"left for it on rank 1 (cuda:1)"}, [&] { plan_memory(input); });
  input = uneven_ranks();
  input.max_model_len = 100'000;
  expect_error(ExitCode::device, {"(88464)", "available on rank 1 (cuda:1) (draft share 50 %)"},
               [&] { plan_memory(input); });
}

TEST(MemoryPlan, FractionOutsideItsRange) {
  for (const double fraction :
       {0.0, 1.5, -0.25, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    MemoryPlanInput input = long_context();
    input.memory_fraction = fraction;
    expect_error(ExitCode::usage, {"engine.kv_cache.memory_fraction", fmt::format("found {}", fraction), "(0, 1]"},
                 [&] { plan_memory(input); });
  }
}

}  // namespace
}  // namespace paceline
