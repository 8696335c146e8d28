#pragma once
// What happens to a finished sum: bias, and for pairs of tiles the gated activation.

#include "kernels/math/activation.h"
#include "kernels/op_args.h"

namespace paceline::cuda {

struct Epilogue {
  const float* bias;
  float* y;
  int64_t stride;
  int64_t n;  // columns of y; pairs: gate columns, then up columns
  bool add;
  bool pairs;
  bool glu;
  Activation activation;

  /// Units of tiles: one, or a gate tile and its up tile.
  __device__ int tiles_per_unit() const { return pairs ? 2 : 1; }
  /// sum of output `lane` of tile `half` of a unit, for `row`; gate: what this thread got for half 0.
  __device__ void put(int64_t row, int64_t unit, int half, int lane, float sum, float& gate) const {
    const int64_t width = pairs ? n / 2 : n, col = unit * 16 + lane;
    if (col >= width) return;
    if (bias) sum += bias[half * width + col];
    if (!glu) {
      float& to = y[row * stride + half * width + col];
      to = add ? to + sum : sum;
    } else if (half == 0) {
      gate = sum;
    } else {
      y[row * stride + col] = math::activate(activation, gate) * sum;
    }
  }
};

inline Epilogue epilogue(const GemmArgs& args) {
  return {args.bias, args.y.f32_row(0),   args.y.stride, args.w->n,
          args.add,  args.w->pair_panels, args.glu,      args.activation};
}

}  // namespace paceline::cuda
