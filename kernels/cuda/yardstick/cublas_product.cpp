#include "kernels/cuda/yardstick/cublas_product.h"

#include "kernels/cuda/blas.h"
#include "kernels/cuda/yardstick/device_timer.h"

namespace paceline {
namespace {

constexpr int kRounds = 5;

}  // namespace

struct CublasProduct::State {
  cuda::Blas blas;
  cuda::DeviceMemory x, y;
  cuda::BlasProduct product;
};

CublasProduct::CublasProduct(int m, int n, int k, CUstream_st* stream) {
  state_.reset(new State{.blas = cuda::Blas(stream),
                         .x = cuda::DeviceMemory(size_t(m) * size_t(k) * 2, stream),
                         .y = cuda::DeviceMemory(size_t(m) * size_t(n) * 2, stream),
                         .product = {}});
  const cuda::DeviceMemory weights(size_t(n) * size_t(k) * 2, stream);
  state_->product = {.rows = m,
                     .n = n,
                     .k = k,
                     .x = state_->x.as<void>(),
                     .w = weights.as<void>(),
                     .y = state_->y.as<void>(),
                     .y_dtype = DType::bf16,
                     .y_stride = n};
  state_->blas.tune(state_->product, [stream](const auto& call) { return device_seconds(stream, kRounds, call); });
}

CublasProduct::~CublasProduct() = default;

void CublasProduct::run(const void* w) {
  state_->product.w = w;
  state_->blas.multiply(state_->product);
}

}  // namespace paceline
