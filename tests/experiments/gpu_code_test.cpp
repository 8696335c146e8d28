// Which GPUs a build has code for.

#include <gtest/gtest.h>

#include "experiments/config/devices.h"
#include "tests/support/holds.h"

namespace paceline {
namespace {

using test::holds;

bool runs(const std::string& architectures, int major, int minor) {
  return !refused_gpu(architectures, {.name = "GPU", .major = major, .minor = minor});
}

TEST(GpuCode, MachineCodeRunsWithinItsMajorVersionAndPtxOnAllThatIsNewer) {
  EXPECT_TRUE(runs("80-real", 8, 0));
  EXPECT_TRUE(runs("80-real", 8, 9));
  EXPECT_FALSE(runs("86-real", 8, 0));
  EXPECT_FALSE(runs("80-real", 9, 0));
  EXPECT_TRUE(runs("90a-real", 9, 0));
  EXPECT_FALSE(runs("90a-real", 10, 0));
  EXPECT_FALSE(runs("90a-virtual", 12, 0));
  EXPECT_TRUE(runs("90-virtual", 12, 0));
  EXPECT_FALSE(runs("90-virtual", 8, 9));
  EXPECT_TRUE(runs("80", 12, 0)) << "a number alone is machine code and PTX";
  EXPECT_TRUE(runs("100-real", 10, 3));
  EXPECT_FALSE(runs("80", 7, 5));
  EXPECT_TRUE(runs("", 9, 0)) << "a build that does not say";
  EXPECT_TRUE(runs("native", 9, 0));
  for (const auto& [major, minor] : {std::pair(8, 0), {8, 6}, {8, 9}, {9, 0}, {10, 0}, {12, 0}})
    EXPECT_TRUE(runs("80-real 90a-real 90-virtual", major, minor)) << major << "." << minor;
}

TEST(GpuCode, ARefusalSaysWhatTheBuildHas) {
  const std::string why = *refused_gpu("90a-real", {.name = "NVIDIA L4", .major = 8, .minor = 9});
  EXPECT_EQ(why,
            "NVIDIA L4 has compute capability 8.9, for which this build has no code: it has 9.0 exactly "
            "(CMAKE_CUDA_ARCHITECTURES \"90a-real\")");
  EXPECT_TRUE(holds(*refused_gpu("90a-real", {.name = "T4", .major = 7, .minor = 5}), "7.5: 8.0 or newer is needed"));
}

TEST(GpuCode, OnlyTheDevicesOfTheRanksAreJudged) {
  CudaFacts cuda{.architectures = "90a-real"};
  cuda.devices = {{.index = 0, .name = "NVIDIA H200", .major = 9},
                  {.index = 1, .name = "NVIDIA L4", .major = 8, .minor = 9}};
  EXPECT_FALSE(refused_device(cuda, {"cpu"}));
  EXPECT_FALSE(refused_device(cuda, {"cuda:0"}));
  EXPECT_TRUE(refused_device(cuda, {"cuda:0", "cuda:1"})->starts_with("cuda:1: NVIDIA L4 has compute capability 8.9"));
}

}  // namespace
}  // namespace paceline
