#include "kernels/cuda/driver.h"

#include <utility>

#include <gtest/gtest.h>

#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/probe.h"
#include "tests/support/expect_error.h"

namespace paceline {
namespace {

TEST(Driver, OlderThanTheToolkitNamesBothAndTheOneThatHelps) {
  const Trouble old = driver_trouble(
      {.state = DriverState::too_old, .toolkit = 13000, .supports = 12000, .release = "525.105.17", .words = "unused"});
  EXPECT_EQ(old.what, "driver 525.105.17 (CUDA 12.0) is older than the toolkit's 13.0");
  EXPECT_EQ(old.fix, "install driver 580 or newer, or use backend cpu");
  const Trouble unnamed = driver_trouble({.state = DriverState::too_old, .toolkit = 12040, .supports = 11080});
  EXPECT_EQ(unnamed.what, "driver of CUDA 11.8 is older than the toolkit's 12.4");
  EXPECT_EQ(unnamed.fix, "install driver 525 or newer, or use backend cpu");
}

TEST(Driver, EveryStateHasOneProblemAndOneFix) {
  for (const DriverState state :
       {DriverState::not_built, DriverState::absent, DriverState::too_old, DriverState::no_device,
        DriverState::not_started, DriverState::mismatched, DriverState::broken}) {
    const Trouble found = driver_trouble({.state = state, .toolkit = 13000, .supports = 12000});
    EXPECT_FALSE(found.what.empty()) << int(state);
    EXPECT_FALSE(found.fix.empty()) << int(state);
    EXPECT_EQ((found.what + found.fix).find('\n'), std::string::npos) << found.what;
  }
}

TEST(Driver, HiddenDevicesNameTheVariable) {
  const Trouble hidden =
      driver_trouble({.state = DriverState::no_device, .toolkit = 13000, .supports = 13000, .visible = "7"});
  EXPECT_EQ(hidden.what, "found no CUDA device (CUDA_VISIBLE_DEVICES is \"7\")");
  EXPECT_NE(hidden.fix.find("unset it"), std::string::npos);
  const Trouble absent = driver_trouble({.state = DriverState::no_device, .toolkit = 13000, .supports = 13000});
  EXPECT_EQ(absent.what, "found no CUDA device");
}

TEST(Driver, ReleaseOfTheKernelsModule) {
  EXPECT_EQ(driver_release("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\n"
                           "GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n"),
            "535.104.05");
  EXPECT_EQ(driver_release("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build\n"),
            "580.65.06");
  EXPECT_EQ(driver_release(""), "");
  EXPECT_EQ(driver_release("NVRM version: unknown"), "");
}

TEST(Driver, ABackendFailsInTheSameWords) {
  const DriverStatus driver = driver_status();
  if (driver.state == DriverState::works) {
    test::expect_error(ExitCode::device, {"device cuda:999", "use a smaller index"},
                       [] { make_cuda_backend(999, {}); });
    return;
  }
  const Trouble found = driver_trouble(driver);
  test::expect_error(ExitCode::device, {"device cuda:0: " + found.what + "; " + found.fix},
                     [] { make_cuda_backend(0, {}); });
  test::expect_error(ExitCode::device, {found.what}, [] { measure_cuda_memory(0); });
}

TEST(Probe, SaysAsManyDevicesAsTheBackendTakes) {
  const CudaFacts facts = probe_cuda(ProbeDepth::opened);
  EXPECT_EQ(int(facts.devices.size()), num_cuda_devices());
  ASSERT_EQ(facts.reaches.size(), facts.devices.size() * facts.devices.size());
  for (size_t i = 0; i < facts.devices.size(); ++i) {
    const CudaDeviceFacts& device = facts.devices[i];
    EXPECT_EQ(device.index, int(i));
    EXPECT_EQ(device.error, "");
    EXPECT_GE(device.major, 3);
    EXPECT_LE(device.free_bytes, device.total_bytes);
    EXPECT_GT(device.free_bytes, 0u);
    EXPECT_EQ(facts.reaches[i * facts.devices.size() + i], 1);
    const CudaMemoryRates rates = measure_cuda_memory(int(i));
    EXPECT_GT(rates.read_bytes_s, 1e10) << device.name;
    EXPECT_LT(rates.read_bytes_s, 1e14) << device.name;
    EXPECT_GT(rates.copy_bytes_s, 0.5 * rates.read_bytes_s) << device.name;
    EXPECT_LT(rates.copy_bytes_s, 2.0 * rates.read_bytes_s) << device.name;
  }
}

TEST(CudaLinks, AreMeasuredBothWays) {
  const int count = num_cuda_devices();
  if (count < 2) GTEST_SKIP() << "needs two CUDA devices";
  for (const auto& [from, to] : {std::pair(0, 1), {1, 0}}) {
    const CudaLinkRate link = measure_cuda_link(from, to);
    EXPECT_GT(link.bytes_s, 1e9);
    EXPECT_LT(link.bytes_s, 2e12);
    EXPECT_GT(link.latency_s, 1e-7);
    EXPECT_LT(link.latency_s, 1e-3);
  }
}

}  // namespace
}  // namespace paceline
