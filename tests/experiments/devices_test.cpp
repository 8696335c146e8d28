#include "experiments/devices.h"

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
  EXPECT_NE(conflict(engine("auto", 2, 2), kTwo).find("takes a CUDA device for each rank, found 2"), std::string::npos);
  EXPECT_NE(conflict(engine("cuda", 2, 1, {1}), kFour).find("devices has 1"), std::string::npos);
  EXPECT_NE(conflict(engine("cuda", 2, 1, {1}), kNone).find("devices has 1"), std::string::npos);
  EXPECT_NE(conflict(engine("cuda", 2, 1, {0, 4}), kFour).find("no number 4"), std::string::npos);
  EXPECT_NE(conflict(engine("cuda", 2, 1, {1, 1}), kFour).find("device 1 is named twice"), std::string::npos);
  EXPECT_NE(conflict(engine("cpu", 1, 1, {0}), kFour).find("backend cuda only"), std::string::npos);
  EXPECT_NE(conflict(engine("cuda", 2, 1), Gpus{2, false}).find("libnccl-dev"), std::string::npos);
}

}  // namespace
}  // namespace paceline
