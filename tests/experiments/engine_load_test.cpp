// What is known of a load before a weight is read.

#include "experiments/run/engine_load.h"

#include <gtest/gtest.h>

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
  const LoadPlan plan = plan_load(config_as("llama-3-8b"), {.memory_bytes = size_t{64} << 30});
  EXPECT_EQ(plan.target.num_layers, 32);
  EXPECT_EQ(plan.max_model_len, 1024);  // the parent's positions
  EXPECT_NEAR(double(plan.weight_bytes_per_rank.at(0)), 2.0 * double(plan.target.num_parameters()), 1e7);
}

TEST(LoadPlan, TooLittleMemoryIsSaidWithNumbers) {
  ExperimentConfig config = config_as("llama-3.1-70b");
  test::expect_error(ExitCode::device, {"weights 131.4", "do not fit the limit of 24.000 GiB", "more ranks"},
                     [&] { plan_load(config, {.memory_bytes = size_t{24} << 30}); });
  config.engine.target.load_format = "dummy";
  test::expect_error(ExitCode::device, {"weights 131.4", "do not fit the limit of 24.000 GiB"},
                     [&] { plan_load(config, {.memory_bytes = size_t{24} << 30}); });
}

TEST(LoadPlan, ADraftModelIsInflatedByItsOwnKey) {
  ExperimentConfig config = config_as("llama-3-8b");
  config.speculation.proposer = "draft";
  config.speculation.draft.inflate = "llama-3.2-1b";
  derive_paths(config);
  const LoadPlan plan = plan_load(config, {.memory_bytes = size_t{64} << 30});
  ASSERT_TRUE(plan.draft);
  EXPECT_EQ(plan.draft->num_layers, 16);
  EXPECT_EQ(plan.draft->hidden_size, 2048);
}

}  // namespace
}  // namespace paceline
