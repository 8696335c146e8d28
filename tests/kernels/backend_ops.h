#pragma once
// The devices that op tests run on.

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cuda/cuda_backend.h"
#include "tests/kernels/backend_fixture.h"

namespace paceline::test {

struct Device {
  std::string name;
  std::string device;
  int isa = -1;
  Numerics numerics = Numerics::strict;
  bool early_starts = true;
  BackendOptions options() const {
    return {.threads = 2, .isa = isa, .numerics = numerics, .early_starts = early_starts};
  }
};

inline double reference_activation(Activation activation, double x) {
  switch (activation) {
    case Activation::silu: return x / (1 + std::exp(-x));
    case Activation::gelu: return 0.5 * x * std::erfc(-x / std::numbers::sqrt2);
    case Activation::gelu_tanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    case Activation::relu: return std::max(x, 0.0);
  }
  return x;
}

/// One backend, once for each device of kDevices; skipped by name where the machine has no such device.
class BackendOps : public testing::TestWithParam<Device> {
 protected:
  void SetUp() override {
    const Device& device = GetParam();
    if (device.device == "cpu" && !kernels_for(Isa(device.isa))) GTEST_SKIP() << "no " << device.name << " here";
    if (device.device != "cpu" && num_cuda_devices() == 0) GTEST_SKIP() << "no CUDA device here";
    backend_ = make_backend(device.device, device.options());
    // tolerances of row M1 in one place; fast: gates and ups are rounded to bfloat16, 2^-9 at most each
    tolerance_ = device.device == "cpu" ? 1e-10 : 1e-7;
    gated_tolerance_ = device.numerics == Numerics::fast ? 0x1p-16 : tolerance_;
  }
  Backend& backend() { return *backend_; }
  /// Whether a product of so many rows may have other bits than that of one.
  bool is_fast(int rows) const { return GetParam().numerics == Numerics::fast && rows >= kFewestFastRows; }

  std::unique_ptr<Backend> backend_;
  double tolerance_ = 0, gated_tolerance_ = 0;
};

inline const Device kDevices[] = {{"scalar", "cpu", int(Isa::scalar)},
                                  {"avx2", "cpu", int(Isa::avx2)},
                                  {"avx512", "cpu", int(Isa::avx512)},
                                  {"avx512_bf16", "cpu", int(Isa::avx512_bf16)},
                                  {"cuda", "cuda:0", -1},
                                  {"cuda_fast", "cuda:0", -1, Numerics::fast},
                                  {"cuda_no_early_starts", "cuda:0", -1, Numerics::strict, false}};

inline std::string device_name(const testing::TestParamInfo<Device>& info) { return info.param.name; }

}  // namespace paceline::test
