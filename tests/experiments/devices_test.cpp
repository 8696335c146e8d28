#include "experiments/config/devices.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

EngineConfig engine(const std::string& backend, int tp, int pp, std::vector<int64_t> devices = {}) {
  EngineConfig config;
  config.backend = backend;
  config.parallel.tp = tp;
  config.parallel.pp = pp;
  config.devices = std::move(devices);
  return config;
}

std::string conflict(const EngineConfig& config, const Gpus& gpus) {
  const auto found = device_conflict(config, gpus);
  return found ? found->message : "";
}

using Names = std::vector<std::string>;
constexpr Gpus kNone{0, false}, kTwo{2, true}, kFour{4, true};

TEST(Devices, AutoTakesGpusWhereThereAreAny) {
  EXPECT_EQ(rank_devices(engine("auto", 2, 1), kNone), (Names{"cpu", "cpu"}));
  EXPECT_EQ(rank_devices(engine("cpu", 1, 2), kTwo), (Names{"cpu", "cpu"}));
  EXPECT_EQ(rank_devices(engine("auto", 1, 2), kTwo), (Names{"cuda:0", "cuda:1"}));
  EXPECT_EQ(rank_devices(engine("cuda", 2, 1, {3, 1}), kFour), (Names{"cuda:3", "cuda:1"}));
}

TEST(Devices, SaysWhatDoesNotFit) {
  EXPECT_EQ(conflict(engine("auto", 2, 2), kNone), "");
  EXPECT_EQ(conflict(engine("auto", 2, 1), kTwo), "");
  EXPECT_EQ(conflict(engine("cuda", 2, 1, {1, 3}), kFour), "");
  EXPECT_EQ(conflict(engine("cpu", 8, 1), kTwo), "");
  EXPECT_EQ(conflict(engine("auto", 2, 2), kTwo),
            "tp 2 x pp 2 takes 4 CUDA devices, found 2: use fewer ranks, or backend cpu");
  for (const Gpus& gpus : {kFour, kNone})
    EXPECT_EQ(conflict(engine("cuda", 2, 2, {3, 1}), gpus),
              "tp 2 x pp 2 takes 4 CUDA devices, engine.devices [3, 1] names 2: name 2 more, or use fewer ranks");
  EXPECT_EQ(
      conflict(engine("cuda", 2, 1, {0, 4}), kFour),
      "engine.devices [0, 4]: found 4 CUDA devices, no number 4: count from 0, as CUDA_VISIBLE_DEVICES leaves them");
  EXPECT_EQ(conflict(engine("cuda", 1, 1, {0, 4}), kFour), "") << "nobody uses the second one here";
  EXPECT_NE(conflict(engine("cpu", 1, 1, {0}), kFour).find("backend cuda only"), std::string::npos);
  EXPECT_NE(conflict(engine("cuda", 2, 1), Gpus{2, false}).find("libnccl-dev"), std::string::npos);
}

TEST(Devices, FastNumericsAreForGpus) {
  ExperimentConfig config;
  config.engine.backend = "cpu";
  config.engine.numerics = Numerics::fast;
  const auto found = find_conflict(config);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->key, "engine.numerics");
  EXPECT_EQ(found->message, "the CPU backend has strict numerics only, at no cost: use strict");
  config.engine.backend = "cuda";
  EXPECT_FALSE(find_conflict(config));
}

TEST(Devices, ADeviceNamedTwiceIsAConflictOnAnyMachine) {
  ExperimentConfig config;
  config.engine.devices = {1, 3, 1};
  const auto found = find_conflict(config);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->key, "engine.devices");
  EXPECT_EQ(found->message, "device 1 is named twice in [1, 3, 1]: a rank takes one alone, so name others");
  config.engine.devices = {1, 3, 2};
  EXPECT_FALSE(find_conflict(config));
}

}  // namespace
}  // namespace paceline
