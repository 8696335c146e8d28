#pragma once
// y = x Wᵀ by cuBLASLt: bfloat16 rows and weights as they lie row by row, float32 sums in an order of the library's
// own. The library is loaded when the first Blas is made, so that strict runs need none.

#include <functional>
#include <memory>

#include "kernels/cuda/device.h"
#include "kernels/mat_view.h"

namespace paceline::cuda {

struct BlasProduct {
  int rows = 0;
  int n = 0;
  int k = 0;                    // a multiple of 8
  const void* x = nullptr;      // [rows][k], 256-byte aligned
  const void* w = nullptr;      // [n][k], 256-byte aligned
  const float* bias = nullptr;  // [n] or null; float32 y only
  void* y = nullptr;            // [rows][y_stride]
  DType y_dtype = DType::f32;   // or bf16
  int64_t y_stride = 0;         // values
  bool add = false;             // y += the product; float32 only
};

/// One stream's products. Works on the device that is current when it is made; one thread at a time.
class Blas {
 public:
  /// Throws Error(device), with the fix, where the library is missing or of another major version than the build's.
  explicit Blas(cudaStream_t stream);
  ~Blas();
  Blas(const Blas&) = delete;

  /// In stream order, by the library's first guess for such a product or by what tune() found. Throws Error(device)
  /// naming the product.
  void multiply(const BlasProduct& product);

  /// Tries the library's best guesses and keeps the fastest for such products. seconds: how long the device takes for a
  /// call that it makes some times.
  void tune(const BlasProduct& product, const std::function<double(const std::function<void()>&)>& seconds);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace paceline::cuda
