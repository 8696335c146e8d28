#pragma once
// From sums that lie as wgmma leaves them to rows: bias, gated activation, and where they go.

#include "kernels/cuda/epilogue.cuh"
#include "kernels/cuda/floats.cuh"

namespace paceline::cuda {

/// Of eight tiles of 16 outputs, the first of the two of which a warp has some.
__device__ __forceinline__ int first_tile_of_warp(int warp) { return warp % 4 * 2; }

/// What becomes of a thread's sums of eight tiles of 16 outputs, or fewer, in the places of mma.cuh: the first
/// warpgroup has the first eight outputs of each, the second one the others; a warp those of two tiles, which of parts
/// in pairs are a gate tile and what it gates.
template <EpilogueKind kKind>
class RowFinish {
 public:
  static constexpr bool kAdds = kKind == EpilogueKind::added, kPushes = kKind == EpilogueKind::written;

  /// first_row: of the sums, a multiple of 8; y: that row of what is written in place of the epilogue's y. rows: of y.
  /// first: of the tiles.
  __device__ __forceinline__ RowFinish(const Epilogue& epilogue, const Operand::Row& y, int rows, int first,
                                       int first_row)
      : epilogue_(epilogue), stride_(int(epilogue.stride)), odd_(threadIdx.x / 4 % 2) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = threadIdx.x % 4 * 2;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int tile = first + first_tile_of_warp(warp) + (is_gated() ? 0 : half);
      column_[half] = epilogue.column(tile, warp / 4 * 8 + lane / 4, has_pairs(), is_gated());
      rows_[half] = column_[half].at < 0 ? 0 : rows - first_row - row;
      y_[half] = as_it_is(epilogue.y + (first_row + row) * epilogue.stride + column_[half].at);
      if (has_operand())
        operand_[half] = as_it_is(y.place(column_[half].at - odd_) + (row + odd_) * epilogue.operand.next_row());
    }
    if (kPushes && epilogue.push.count > 0) message_ = message_of(epilogue.push);
  }
  /// What stands where put() adds, on its way while the sums are made; else anything.
  template <int kCount>
  __device__ __forceinline__ void load_standing(int t, int end, float4 (&standing)[kCount]) const {
    if (!kAdds) return;
    each<kCount>([&](int i) {
      const auto at = [&](int half, int of) {
        const int row = (t + i) * 8 + of;
        return row < rows_before(end, half) ? y_[half][unsigned(row * stride_)] : 0.0f;
      };
      standing[i] = {at(0, 0), at(0, 1), at(1, 0), at(1, 1)};
    });
  }
  /// Those of tiles of 8 rows from `t` on, side by side, as far as they lie before `end`. standing: as above.
  template <int kCount>
  __device__ __forceinline__ void put(int t, int end, float4 (&sum)[kCount], const float4 (&standing)[kCount]) const {
    if (epilogue_.bias) {
      const float low = column_[0].bias, high = is_gated() ? column_[0].up_bias : column_[1].bias;
      each<kCount>([&](int i) { sum[i].x += low, sum[i].y += low, sum[i].z += high, sum[i].w += high; });
    }
    float first[kCount], second[kCount];
    if (is_gated()) {
      Floats<2 * kCount> gate, up;
      each<kCount>([&](int i) { gate.of[2 * i] = sum[i].x, gate.of[2 * i + 1] = sum[i].y; });
      each<kCount>([&](int i) { up.of[2 * i] = sum[i].z, up.of[2 * i + 1] = sum[i].w; });
      const auto y = gated<kKind == EpilogueKind::gated>(epilogue_.activation, gate, up);
      each<kCount>([&](int i) { first[i] = y.of[2 * i], second[i] = y.of[2 * i + 1]; });
      return put_half(t, end, 0, first, second);
    }
    if (kAdds) each<kCount>([&](int i) { sum[i] = standing[i] + sum[i]; });
    each<kCount>([&](int i) { first[i] = sum[i].x, second[i] = sum[i].y; });
    put_half(t, end, 0, first, second);
    each<kCount>([&](int i) { first[i] = sum[i].z, second[i] = sum[i].w; });
    put_half(t, end, 1, first, second);
  }

 private:
  __device__ __forceinline__ bool is_gated() const {
    return kKind == EpilogueKind::gated || (kKind == EpilogueKind::any && epilogue_.glu);
  }
  __device__ __forceinline__ bool has_operand() const {
    return kKind == EpilogueKind::gated || (kKind == EpilogueKind::any && epilogue_.operand.values);
  }
  __device__ __forceinline__ bool has_pairs() const {
    return kKind == EpilogueKind::gated || (kKind == EpilogueKind::any && epilogue_.pairs);
  }
  /// Of the thread's rows, counted from its first one, those before tile `end` of 8 rows.
  __device__ __forceinline__ int rows_before(int end, int half) const { return min(rows_[half], end * 8); }
  template <int kCount, class Body>
  __device__ __forceinline__ static void each(Body&& body) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) body(i);
  }
  /// Of one column: the thread's two rows of each tile.
  template <int kCount>
  __device__ __forceinline__ void put_half(int t, int end, int half, const float (&first)[kCount],
                                           const float (&second)[kCount]) const {
    const int rows = rows_before(end, half);
    if (has_operand()) {  // neighbours exchange, so that each has two columns of a row
      float other[kCount];
      each<kCount>([&](int i) { other[i] = __shfl_xor_sync(0xffffffffu, odd_ ? first[i] : second[i], 4); });
      const int next = epilogue_.operand.next_tile();
      each<kCount>([&](int i) {
        if ((t + i) * 8 + odd_ < rows)
          *reinterpret_cast<uint32_t*>(operand_[half] + (t + i) * next) =
              odd_ ? bfloat_pair(other[i], second[i]) : bfloat_pair(first[i], other[i]);
      });
      return;
    }
    each<kCount>([&](int i) {
      const int row = (t + i) * 8;
      if (row < rows) y_[half][unsigned(row * stride_)] = first[i];
      if (row + 1 < rows) y_[half][unsigned((row + 1) * stride_)] = second[i];
    });
    if constexpr (kPushes) {
#pragma unroll 1
      for (int peer = 0; peer < epilogue_.push.count; ++peer) {
        uint2* const to = epilogue_.push.to[peer] + (message_ % 2) * epilogue_.push.odd + (y_[half] - epilogue_.y);
        each<kCount>([&](int i) {
          const int row = (t + i) * 8;
          if (row < rows) put_marked(to + row * stride_, first[i], message_);
          if (row + 1 < rows) put_marked(to + (row + 1) * stride_, second[i], message_);
        });
      }
    }
  }

  const Epilogue& epilogue_;
  const int stride_, odd_;
  int rows_[2];  // of y from the thread's first one on; none of a column that is not there
  float* y_[2];
  EpilogueColumn column_[2];
  __nv_bfloat16* operand_[2];
  uint32_t message_ = 0;
};

}  // namespace paceline::cuda
