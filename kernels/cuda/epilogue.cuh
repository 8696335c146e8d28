#pragma once
// What happens to a finished sum: bias, and for pairs of tiles the gated activation.

#include "kernels/cuda/operand.h"
#include "kernels/cuda/peer_words.cuh"
#include "kernels/cuda/push_sum.h"
#include "kernels/math/activation.h"
#include "kernels/op_args.h"

namespace paceline::cuda {

/// Where an output goes.
struct EpilogueColumn {
  int64_t at = -1;  // column of y; -1: none
  float bias = 0.0f;
  float up_bias = 0.0f;  // of the gated activation's second output
};

struct Epilogue {
  const float* bias;
  float* y;
  int64_t stride;
  int64_t n;  // columns of y; pairs: gate columns, then up columns
  bool add;
  bool pairs;
  bool glu;
  Activation activation;
  Operand operand;  // written in place of y where it has values
  PushWords push;   // y's values go to the peers, too

  /// Units of tiles: one, or a gate tile and its up tile.
  __device__ int tiles_per_unit() const { return pairs ? 2 : 1; }
  /// Of output `lane` of a tile; glu: of a gate tile.
  __device__ EpilogueColumn column(int64_t tile, int lane) const { return column(tile, lane, pairs, glu); }
  /// The same where pairs and glu are known.
  __device__ __forceinline__ EpilogueColumn column(int64_t tile, int lane, bool has_pairs, bool is_glu) const {
    const int width = has_pairs ? int(n) / 2 : int(n), half = has_pairs ? int(tile) % 2 : 0;
    const int col = (has_pairs ? int(tile) / 2 : int(tile)) * 16 + lane;
    if (col >= width) return {};
    const int at = half * width + col;
    if (!bias) return {.at = at};
    return {.at = at, .bias = bias[at], .up_bias = is_glu ? bias[width + col] : 0.0f};
  }
  /// What stands where put() adds; a unit is a tile.
  __device__ float standing(int64_t row, int64_t unit, int lane) const {
    const int64_t col = unit * 16 + lane;
    return add && col < n ? y[row * stride + col] : 0.0f;
  }
  /// Where there is no operand: sum of output `lane` of tile `half` of a unit, for `row`; gate: what this thread got
  /// for half 0; standing: as above. message: of push, where anything is sent.
  __device__ void put(int64_t row, int64_t unit, int half, int lane, float sum, float& gate, float standing,
                      uint32_t message) const {
    const int64_t width = pairs ? n / 2 : n, col = unit * 16 + lane;
    if (col >= width) return;
    if (bias) sum += bias[half * width + col];
    if (glu && half == 0) {
      gate = sum;
      return;
    }
    if (glu) sum = math::activate(activation, gate) * sum;
    const int64_t at = glu ? col : half * width + col;
    y[row * stride + at] = add ? standing + sum : sum;
#pragma unroll 1
    for (int peer = 0; peer < push.count; ++peer)
      put_marked(push.to[peer] + ((message % 2) * push.odd + row * stride + at), sum, message);
  }
};

/// What is known of an epilogue when a kernel is made: gated activations go to an operand; sums are added to y, or
/// written there and sent, not in pairs; any: all others, of which none is added or sent. With a kernel for each, what
/// only others do does not lie between its instructions, which are fetched when they are needed first.
enum class EpilogueKind : uint8_t { gated, added, written, any };
inline EpilogueKind kind_of(const Epilogue& epilogue) {
  if (epilogue.operand.values) return epilogue.glu ? EpilogueKind::gated : EpilogueKind::any;
  if (epilogue.glu || epilogue.pairs) return EpilogueKind::any;
  return epilogue.add ? EpilogueKind::added : EpilogueKind::written;
}

inline Epilogue epilogue(const GemmArgs& args, const Operand& operand) {
  return {.bias = args.bias,
          .y = args.y.f32_row(0),
          .stride = args.y.stride,
          .n = args.w->n,
          .add = args.add,
          .pairs = args.w->pair_panels,
          .glu = args.glu,
          .activation = args.activation,
          .operand = operand,
          .push = args.sum ? words_of(*args.sum) : PushWords{}};
}

}  // namespace paceline::cuda
