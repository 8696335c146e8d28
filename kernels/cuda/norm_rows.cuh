#pragma once
// Rows that a product norms itself, each block for its own use, with the bits of norm_kernel: the same threads hold the
// same columns and are added in the same order (norm.cu).

#include "kernels/cuda/device_code.cuh"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/row_ops.h"

namespace paceline::cuda {

/// Lies in shared memory: [row][step of 16 values][4 lanes][their 4 values], as mma.m16n8k16 takes them.
struct NormedRows {
  const float* x;  // on the device
  int64_t stride;
  const float* weight;
  const float* bias;  // or null
  float eps;
  bool is_layer;
  int cols;
  int rows;

  static constexpr int kStepBytes = kStep * sizeof(__nv_bfloat16);
  /// From a row to the next: rows that are read together lie in different banks.
  PACELINE_MATH static constexpr int row_bytes(int cols) { return cols / kStep * kStepBytes + kStepBytes; }
  PACELINE_MATH int row_bytes() const { return row_bytes(cols); }
};

/// By a block of kThreads threads, or the first of them.
template <int kThreads>
class RowNorm {
 public:
  static constexpr int kFours = 2;  // columns of a thread, in fours
  struct Sums {
    float of[kMostNormedRows][kThreads / 32];
  };
  struct Shared {
    Sums means, squares;
  };

  /// Constants of the model only.
  __device__ explicit RowNorm(const NormedRows& rows) : rows_(rows), threads_(norm_threads(rows.cols)) {
    each([&](int i, int c) {
      weight_[i] = __ldg(reinterpret_cast<const float4*>(rows_.weight + c));
      if (rows_.bias) bias_[i] = __ldg(reinterpret_cast<const float4*>(rows_.bias + c));
    });
  }

  /// All rows to `to`; meanwhile() is called now and then. The caller's barrier comes before they are read.
  template <class Meanwhile>
  __device__ __forceinline__ void run(char* to, Shared& shared, Meanwhile&& meanwhile) const {
    static_assert(kMostNormedRows == 2);
    rows_.rows == 1 ? run_rows<1>(to, shared, meanwhile) : run_rows<2>(to, shared, meanwhile);
  }

 private:
  template <int kRows, class Meanwhile>
  __device__ __forceinline__ void run_rows(char* to, Shared& shared, Meanwhile&& meanwhile) const {
    float4 x[kRows][kFours] = {};
#pragma unroll
    for (int r = 0; r < kRows; ++r)
      each([&](int i, int c) { x[r][i] = __ldcg(reinterpret_cast<const float4*>(rows_.x + r * rows_.stride + c)); });
    meanwhile();
    float mean[kRows] = {}, squares[kRows] = {};
    if (rows_.is_layer) {
#pragma unroll
      for (int r = 0; r < kRows; ++r)
#pragma unroll
        for (int i = 0; i < kFours; ++i) mean[r] += (x[r][i].x + x[r][i].y) + (x[r][i].z + x[r][i].w);
      over_rows(mean, shared.means);
#pragma unroll
      for (int r = 0; r < kRows; ++r) mean[r] = mean[r] / float(rows_.cols);
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r)
      each([&](int i, int) {
        const auto square = [&](float value) { return (value - mean[r]) * (value - mean[r]); };
        squares[r] += (square(x[r][i].x) + square(x[r][i].y)) + (square(x[r][i].z) + square(x[r][i].w));
      });
    over_rows(squares, shared.squares);
    meanwhile();
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const float scale = 1.0f / sqrtf(squares[r] / float(rows_.cols) + rows_.eps);
      each([&](int i, int c) {
        const auto normed = [&](float value, float weight, float bias) {
          const float y = (value - mean[r]) * scale * weight;
          return rows_.bias ? y + bias : y;
        };
        char* const place = to + r * rows_.row_bytes() + c / kStep * NormedRows::kStepBytes +
                            c % 8 / 2 * sizeof(uint2) + c % kStep / 8 * sizeof(uint32_t);
        *reinterpret_cast<uint32_t*>(place) =
            bfloat_pair(normed(x[r][i].x, weight_[i].x, bias_[i].x), normed(x[r][i].y, weight_[i].y, bias_[i].y));
        *reinterpret_cast<uint32_t*>(place + sizeof(uint2)) =
            bfloat_pair(normed(x[r][i].z, weight_[i].z, bias_[i].z), normed(x[r][i].w, weight_[i].w, bias_[i].w));
      });
    }
  }
  /// body(index, first column), for this thread's columns.
  template <class Body>
  __device__ __forceinline__ void each(Body&& body) const {
    if (int(threadIdx.x) >= threads_) return;
#pragma unroll
    for (int i = 0; i < kFours; ++i) {
      const int c = (i * threads_ + int(threadIdx.x)) * 4;
      if (c < rows_.cols) body(i, c);
    }
  }
  /// Sums over norm_kernel's threads, for every thread, as over_block adds them.
  template <int kRows>
  __device__ __forceinline__ void over_rows(float (&x)[kRows], Sums& sums) const {
#pragma unroll
    for (int r = 0; r < kRows; ++r) x[r] = over_warp(x[r], Plus{});
    if (threadIdx.x % 32 == 0)
#pragma unroll
      for (int r = 0; r < kRows; ++r) sums.of[r][threadIdx.x / 32] = x[r];
    __syncthreads();
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      x[r] = sums.of[r][0];
#pragma unroll
      for (int w = 1; w < kThreads / 32; ++w)
        if (w < threads_ / 32) x[r] += sums.of[r][w];
    }
  }

  const NormedRows& rows_;
  const int threads_;
  float4 weight_[kFours] = {}, bias_[kFours] = {};
};

}  // namespace paceline::cuda
