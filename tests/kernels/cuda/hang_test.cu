// A device that hangs: the driver's calls would wait for it without a limit, and a server with it.

#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "kernels/cuda/device.h"

namespace paceline::cuda {
namespace {

TEST(Waits, EndTheProcessThatCannotFreeMemoryOnCuda) {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) GTEST_SKIP() << "no CUDA device here";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto hang = [] {
    cudaStream_t stream = nullptr;
    check(cudaStreamCreate(&stream), "cudaStreamCreate");
    outlast_work(stream, 0, 0.2);  // nothing to wait for
    const auto sleep = [](void*) { std::this_thread::sleep_for(std::chrono::hours(1)); };
    check(cudaLaunchHostFunc(stream, sleep, nullptr), "cudaLaunchHostFunc");
    outlast_work(stream, 0, 0.2);
  };
  EXPECT_DEATH(hang(), "device cuda:0: its work did not end within 0.2 s; it hangs, and the process with it");
}

}  // namespace
}  // namespace paceline::cuda
