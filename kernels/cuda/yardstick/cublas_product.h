#pragma once
// y = x Wᵀ by cuBLASLt, as a yardstick for our own products: bfloat16 in and out, float32 sums.

#include <memory>

struct CUstream_st;

namespace paceline {

class CublasProduct {
 public:
  /// y [m, n] = x [m, k] · Wᵀ, W [n, k], all row-major; k: a multiple of 8. Tries the library's best guesses and keeps
  /// the fastest. Allocates x and y; the current device. Throws Error(device).
  CublasProduct(int m, int n, int k, CUstream_st* stream);
  ~CublasProduct();
  CublasProduct(const CublasProduct&) = delete;
  /// w: [n, k] in device memory. In stream order.
  void run(const void* w);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace paceline
