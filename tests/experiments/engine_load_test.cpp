// What is known of a load before a weight is read.

#include "experiments/run/engine_load.h"

#include <atomic>
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "engine/comm/work_scope.h"
#include "experiments/run/plan/planned_cell.h"
#include "kernels/cuda/cuda_backend.h"
#include "tests/support/expect_error.h"
#include "tests/support/paths.h"

namespace paceline {
namespace {

ExperimentConfig config_as(const std::string& shape) {
  ExperimentConfig config;
  config.builtin_root = source_dir() / "configs";
  config.engine.backend = "cpu";
  config.engine.target.inflate = shape;
  derive_paths(config);
  return config;
}

TEST(LoadPlan, AnInflatedTargetIsPlannedAtItsOwnSize) {
  const LoadPlan plan = plan_load(config_as("llama-3-8b"), {.memory_bytes = {size_t{64} << 30}});
  EXPECT_EQ(plan.target.num_layers, 32);
  EXPECT_EQ(plan.max_model_len, 1024);  // the parent's positions
  EXPECT_NEAR(double(plan.ranks.at(0).weights), 2.0 * double(plan.target.num_parameters()), 1e7);
}

TEST(LoadPlan, TooLittleMemoryIsSaidWithNumbers) {
  ExperimentConfig config = config_as("llama-3.1-70b");
  test::expect_error(ExitCode::device, {"weights 131.4", "do not fit the limit of 24.000 GiB", "more ranks"},
                     [&] { plan_load(config, {.memory_bytes = {size_t{24} << 30}}); });
  config.engine.target.load_format = "dummy";
  test::expect_error(ExitCode::device, {"weights 131.4", "do not fit the limit of 24.000 GiB"},
                     [&] { plan_load(config, {.memory_bytes = {size_t{24} << 30}}); });
}

TEST(LoadPlan, ANameOfAHubIsNoFolder) {
  ExperimentConfig config = config_as("llama-3-8b");
  config.engine.target.path = "/models/meta-llama/Llama-3-8B/";
  derive_paths(config);
  test::expect_error(ExitCode::model_file,
                     {"engine.target.path: there is no folder /models/meta-llama/Llama-3-8B/", "nothing is downloaded",
                      "\"${env:PACELINE_MODELS}/Llama-3-8B\"", "`runexp models`"},
                     [&] { plan_load(config, {.memory_bytes = {size_t{64} << 30}}); });
  config.engine.target.load_format = "dummy";  // random weights in a shape need no checkpoint
  EXPECT_EQ(plan_load(config, {.memory_bytes = {size_t{64} << 30}}).target.num_layers, 32);
}

TEST(LoadPlan, ADraftModelIsInflatedByItsOwnKey) {
  ExperimentConfig config = config_as("llama-3-8b");
  config.speculation.proposer = "draft";
  config.speculation.of("draft").model->inflate = "llama-3.2-1b";
  derive_paths(config);
  const LoadPlan plan = plan_load(config, {.memory_bytes = {size_t{64} << 30}});
  ASSERT_TRUE(plan.draft);
  EXPECT_EQ(plan.draft->num_layers, 16);
  EXPECT_EQ(plan.draft->hidden_size, 2048);
}

/// What a run records of the draft's ranks, for the target's tp and what the file says.
TEST(EngineLoad, SaysOnHowManyRanksTheDraftRan) {
  struct Case {
    std::string proposer;
    std::optional<int> draft_tp;
    bool self;
    nlohmann::json expected;  // null: not said
  };
  for (const Case& c : {Case{"draft", 1, false, 1}, Case{"draft", 2, false, 2}, Case{"draft", std::nullopt, false, 2},
                        Case{"draft", 1, true, 2}, Case{"none", 1, false, nullptr}}) {
    Cell cell;
    cell.config.builtin_root = source_dir() / "configs";
    cell.config.engine.backend = "cpu";
    cell.config.engine.parallel.tp = 2;
    cell.config.engine.scheduler.max_model_len = 64;
    cell.config.engine.kv_cache.memory_fraction = 0.01;
    cell.config.speculation.proposer = c.proposer;
    cell.config.speculation.num_speculative_tokens = c.proposer == "none" ? 0 : 3;
    cell.config.speculation.of("draft").model->tp = c.draft_tp;
    cell.config.speculation.of("draft").model->self = c.self;
    derive_paths(cell.config);
    EngineLoad load(cell.config, {.max_draft_len = 3});
    nlohmann::json effective = load.effective(cell.config, *load.make_engine(cell.config));
    EXPECT_EQ(effective.value("draft_tp", nlohmann::json()), c.expected) << effective;
    EXPECT_TRUE(effective_differences(cell, effective).empty());
    if (c.expected.is_null()) continue;
    effective["draft_tp"] = 7;
    EXPECT_EQ(effective_differences(cell, effective).size(), 1u);
  }
}

TEST(LoadPlan, RanksAddUpToThePlan) {
  ExperimentConfig config = config_as("llama-3-8b");
  config.engine.parallel = {.tp = 2, .pp = 2, .threads_per_rank = {}, .pp_microbatches = {}};
  config.speculation.proposer = "draft";
  config.sampling.temperature = 1;
  config.speculation.rule = "rejection";
  for (const bool self : {false, true}) {
    config.speculation.of("draft").model->self = self;
    derive_paths(config);
    const LoadPlan plan = plan_load(config, {.max_draft_len = 5, .memory_bytes = {size_t{64} << 30}});
    ASSERT_EQ(plan.ranks.size(), 4u);
    RankMemory sum;
    for (const RankMemory& rank : plan.ranks) {
      sum.weights += rank.weights;
      sum.workspace += rank.workspace;
      sum.block_bytes += rank.block_bytes;
      sum.draft_block_bytes += rank.draft_block_bytes;
      EXPECT_EQ(rank.draft_block_bytes > 0, self || &rank == &plan.ranks[2]) << "the draft lies on the sampling rank";
    }
    const MemoryPlan& memory = plan.memory;
    EXPECT_EQ(sum.weights, memory.weight_bytes);
    EXPECT_EQ(sum.workspace, memory.workspace_bytes);
    EXPECT_EQ(sum.kv(memory.num_blocks), memory.target_kv_bytes);
    EXPECT_EQ(sum.draft_kv(memory.num_blocks), memory.draft_kv_bytes);
    EXPECT_EQ(sum.total(memory.num_blocks),
              memory.weight_bytes + memory.workspace_bytes + memory.target_kv_bytes + memory.draft_kv_bytes);
    ASSERT_EQ(plan.devices.size(), 1u);
    EXPECT_EQ(plan.devices[0].limit_bytes, size_t{64} << 30);
    EXPECT_EQ(plan.devices[0].weight_bytes, sum.weights);
  }
}

/// What plans of one load have in common but for the number of blocks: what every cell of it needs at most.
void expect_ranks(const LoadPlan& plan, const RankMemory& expected) {
  ASSERT_EQ(plan.ranks.size(), 1u);
  EXPECT_EQ(plan.ranks[0].weights, expected.weights);
  EXPECT_EQ(plan.ranks[0].workspace, expected.workspace);
  EXPECT_EQ(plan.ranks[0].block_bytes, expected.block_bytes);
  EXPECT_EQ(plan.ranks[0].draft_block_bytes, expected.draft_block_bytes);
}

// Second models stay loaded, proposers come one at a time.
TEST(LoadPlan, EveryCellsProposerCounts) {
  const auto config_of = [](const std::string& proposer, const std::string& dtype, const std::string& rule) {
    ExperimentConfig config;
    config.builtin_root = source_dir() / "configs";
    config.engine.backend = "cpu";
    config.engine.scheduler.max_model_len = 256;
    config.speculation.proposer = proposer;
    config.speculation.rule = rule;
    config.speculation.of("draft").model->dtype = dtype;
    config.sampling.temperature = 1;
    derive_paths(config);
    return config;
  };
  LoadLimits limits{.max_draft_len = 5, .memory_bytes = {size_t{4} << 30}};
  const ExperimentConfig plain = config_of("none", "auto", "auto");
  const ExperimentConfig wide = config_of("draft", "float32", "coupled"),
                         narrow = config_of("draft", "bfloat16", "coupled");
  const ExperimentConfig with_probs = config_of("draft", "float32", "rejection");
  ExperimentConfig absent = narrow;
  absent.speculation.of("draft").model->directory = "/nowhere";
  const auto alone = [&](const ExperimentConfig& config) { return plan_load(config, limits).ranks.at(0); };
  const RankMemory of_plain = alone(plain), of_wide = alone(wide), of_narrow = alone(narrow);
  const size_t probs = alone(with_probs).workspace - of_wide.workspace;
  EXPECT_GT(probs, 0u);
  EXPECT_GT(of_wide.weights, of_narrow.weights);
  RankMemory expected = of_wide;
  expected.weights += of_narrow.weights - of_plain.weights;
  expected.workspace += of_narrow.workspace - of_plain.workspace + probs;
  expected.draft_block_bytes += of_narrow.draft_block_bytes;
  limits.cells = {&plain, &wide, &narrow, &with_probs, &wide, &absent};
  for (const ExperimentConfig* const config : {&plain, &wide, &narrow, &with_probs})
    expect_ranks(plan_load(*config, limits), expected);
  test::expect_error(ExitCode::model_file, {"/nowhere"}, [&] { plan_load(absent, limits); });
  limits.cells = {&plain};
  expect_ranks(plan_load(plain, limits), of_plain);
}

TEST(LoadPlan, RequestsThatSampleAsTheyLikeNeedRoomForProbabilities) {
  ExperimentConfig config = config_as("llama-3-8b");
  config.speculation.proposer = "draft";
  derive_paths(config);
  LoadLimits limits{.max_draft_len = 5, .memory_bytes = {size_t{64} << 30}};
  EXPECT_EQ(verify_rule(config, false), VerifyRule::greedy);
  EXPECT_EQ(verify_rule(config, true), VerifyRule::rejection);
  const size_t greedy = plan_load(config, limits).ranks.at(0).workspace;
  limits.takes_any_sampling = true;
  EXPECT_GT(plan_load(config, limits).ranks.at(0).workspace, greedy);
  config.speculation.rule = "coupled";
  EXPECT_EQ(verify_rule(config, true), VerifyRule::coupled);
  EXPECT_EQ(plan_load(config, limits).ranks.at(0).workspace, greedy);
}

// The states that a head reads are kept for each step under way.
TEST(LoadPlan, AHeadHasRoomForStepsThatRunAhead) {
  ExperimentConfig config;
  config.builtin_root = source_dir() / "configs";
  config.engine.backend = "cpu";
  config.speculation.proposer = "eagle3";
  derive_paths(config);
  ExperimentConfig ahead = config;
  ahead.engine.scheduler.run_ahead = true;
  LoadLimits limits{.max_draft_len = 3, .memory_bytes = {size_t{4} << 30}};
  const size_t one = plan_load(config, limits).ranks.at(0).workspace;
  const size_t two = plan_load(ahead, limits).ranks.at(0).workspace;
  EXPECT_GT(two, one);
  limits.cells = {&config, &ahead};
  EXPECT_EQ(plan_load(config, limits).ranks.at(0).workspace, two) << "cells of a load share the head";
}

// On GPUs the sampling rank has the head, the draft model and its KV alone: what it holds is what all hold.
TEST(LoadPlan, OnGpusTheFullestRankDecidesTheBlocks) {
  ExperimentConfig config = config_as("llama-3-8b");
  config.engine.backend = "cuda";
  config.engine.parallel = {.tp = 1, .pp = 2, .threads_per_rank = {}, .pp_microbatches = {}};
  config.engine.kv_cache.memory_fraction = 0.9;
  config.engine.scheduler.max_num_seqs = 256;
  config.speculation.proposer = "draft";
  config.speculation.of("draft").model->inflate = "llama-1b-draft";
  config.speculation.of("draft").model->tp = 1;
  derive_paths(config);
  const std::vector<size_t> limits(2, size_t{24} << 30);
  const LoadPlan plan = plan_load(config, {.max_draft_len = 5, .memory_bytes = limits});
  ASSERT_EQ(plan.devices.size(), 2u);
  int64_t fewest = INT64_MAX;
  for (size_t rank = 0; rank < 2; ++rank) {
    const RankMemory& memory = plan.ranks[rank];
    const double room = 0.9 * double(limits[rank] - memory.weights - memory.workspace);
    fewest = std::min(fewest, int64_t(room / double(memory.block_bytes + memory.draft_block_bytes)));
    EXPECT_LE(memory.total(plan.memory.num_blocks), limits[rank]) << rank;
  }
  EXPECT_EQ(plan.memory.blocks_that_fit, fewest);
  EXPECT_EQ(plan.memory.fullest_device, 1u);
  EXPECT_EQ(plan.devices[1].name, "rank 1 (cuda:1)");
  config.engine.backend = "cpu";  // they share one memory
  EXPECT_GT(plan_load(config, {.max_draft_len = 5, .memory_bytes = {2 * limits[0]}}).memory.blocks_that_fit, fewest);
}

// The first pass has the prompt's rows and wants the logits of one, the others have one row each.
// What products, sums over ranks and rope take on a GPU beside the model's workspace.
TEST(LoadPlan, OnGpusBuffersGrowWithRowsRanksAndPositions) {
  static constexpr int kIntermediate = 14'336, kHidden = 4096, kRows = 65'536, kPositions = 1024;
  const auto more_than_on_cpus = [](int rows, int tp) {
    ExperimentConfig config = config_as("llama-3-8b");
    config.engine.parallel = {.tp = tp, .pp = 1, .threads_per_rank = {}, .pp_microbatches = {}};
    config.engine.scheduler.max_num_batched_tokens = rows;
    const std::vector<size_t> memory(size_t(tp), size_t{160} << 30);
    const size_t on_cpus = plan_load(config, {.memory_bytes = {memory[0]}}).ranks[0].workspace;
    config.engine.backend = "cuda";
    return plan_load(config, {.memory_bytes = memory}).ranks[0].workspace - on_cpus;
  };
  EXPECT_EQ(more_than_on_cpus(kRows, 1),
            kCudaWorkspaceBytes + cuda_operand_bytes(kRows, kIntermediate) + cuda_rope_bytes(kPositions, 128));
  EXPECT_GT(cuda_operand_bytes(kRows, kIntermediate), 2 * size_t{kRows} * kIntermediate * 2);
  EXPECT_EQ(more_than_on_cpus(kRows, 2), kCudaWorkspaceBytes + cuda_operand_bytes(kRows, kIntermediate / 2) +
                                             cuda_rope_bytes(kPositions, 128) +
                                             size_t{kRows} * kHidden * 2 * sizeof(float));
}

TEST(LoadPlan, CommunicationIsWhatRanksCount) {
  constexpr int kPrompt = 9, kOutput = 4;
  for (const auto& [tp, pp] : {std::pair(1, 1), std::pair(2, 1), std::pair(1, 2), std::pair(2, 2)}) {
    ExperimentConfig config;
    config.builtin_root = source_dir() / "configs";
    config.engine.backend = "cpu";
    config.engine.parallel.tp = tp;
    config.engine.parallel.pp = pp;
    derive_paths(config);
    EngineLoad load(config, {});
    const auto engine = load.make_engine(config);
    std::vector<uint64_t> before;
    for (int rank = 0; rank < tp * pp; ++rank) before.push_back(comm_stats(load.team().rank(rank)).bytes);
    engine->submit(std::vector<int32_t>(kPrompt, 7), {.sampler = {}, .max_tokens = kOutput, .ignore_eos = true});
    while (!engine->idle()) engine->step();
    load.team().wait_all();
    const ModelSpec& spec = load.plan().target;
    for (int rank = 0; rank < tp * pp; ++rank) {
      const ModelRank place{.stage = rank / tp, .num_stages = pp, .shard = rank % tp, .tp = tp};
      const size_t row = comm_bytes(spec, place, 1, 1);
      EXPECT_EQ(comm_stats(load.team().rank(rank)).bytes - before[size_t(rank)],
                comm_bytes(spec, place, kPrompt, 1) + (kOutput - 1) * row)
          << "tp " << tp << " pp " << pp << " rank " << rank;
      EXPECT_EQ(load.plan().ranks[size_t(rank)].comm_bytes, row);
    }
  }
}

// As in `generate` and `verify-model`: the load is a local of who sees the error.
TEST(EngineLoad, ALostRankHoldsUpNobody) {
  constexpr double kTimeout_s = 0.4;
  ExperimentConfig config;
  config.builtin_root = source_dir() / "configs";
  config.engine.backend = "cpu";
  config.engine.parallel.pp = 2;
  config.engine.parallel.timeout_s = kTimeout_s;
  config.engine.kv_cache.memory_fraction = 0.01;
  derive_paths(config);
  const auto ends = std::make_shared<std::atomic<bool>>(false);
  std::chrono::steady_clock::time_point start;
  test::expect_error(ExitCode::comm, {"rank 0 has made no mark for 0.4 s"}, [&] {
    EngineLoad load(config, {});
    const auto engine = load.make_engine(config);
    start = std::chrono::steady_clock::now();
    load.team().post(0, [ends](Rank&) {
      while (!*ends) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    });
    engine->submit({7, 8, 9}, {.sampler = {}, .max_tokens = 4, .ignore_eos = true});
    while (!engine->idle()) engine->step();
  });
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::duration<double>(kTimeout_s + 5));
  EXPECT_EQ(ends.use_count(), 2);
  *ends = true;
  for (int i = 0; i < 1000 && ends.use_count() > 1; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(ends.use_count(), 1);
}

}  // namespace
}  // namespace paceline
