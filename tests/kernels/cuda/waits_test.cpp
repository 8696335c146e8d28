// The host's waits for a device end by their deadline.

#include <gtest/gtest.h>

#include "kernels/backend.h"
#include "kernels/cuda/cuda_backend.h"

namespace paceline {
namespace {

TEST(Waits, EndByTheDeadlineOnCuda) {
  if (num_cuda_devices() == 0) GTEST_SKIP() << "no CUDA device here";
  constexpr int kSize = 8192, kRows = 8, kProducts = 500;  // some 20 ms, given out in two
  const auto patient = make_backend("cuda:0", {});
  const auto hasty = make_backend("cuda:0", {.peers = {.timeout_s = 1e-4}});
  const std::vector<uint16_t> zeros(size_t(kSize) * kSize);
  const HostWeight part{zeros.data(), DType::bf16, kSize, kSize, kSize};
  const Weight w = patient->pack({&part, 1}, {});
  const auto rows = [&] {
    return f32_view(static_cast<float*>(patient->alloc(size_t(kRows) * kSize * sizeof(float))), kRows, kSize);
  };
  const MatView x = rows(), y = rows();
  patient->sync();
  try {
    // the first product waits for memory, which takes longer than that on a device that has other work
    for (int i = 0; i < kProducts; ++i) hasty->gemm({.x = x, .w = w.get(), .y = y});
    hasty->sync();
    ADD_FAILURE() << "waited";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::device);
    EXPECT_EQ(std::string(error.what()), "device cuda:0: its work did not end within 0.0001 s; it hangs");
  }
}

}  // namespace
}  // namespace paceline
