// y = x Wᵀ, one family for every number of rows (docs/numerics.md): per output one fma chain in k order inside each
// of k_chunks chunks, the chunk sums added as a binary tree, then bias. Lanes are outputs, so the bits of an output
// depend on nothing else. Panels hold chunks interleaved (PanelOrder), so that several chains run side by side over
// one stream of memory. Included by kernels_<isa>.cpp after its simd header.

#include "kernels/cpu/extent.h"
#include "kernels/math/lanes.h"

namespace paceline {
namespace {

/// Chunks in flight for a tile of `rows`: as many independent chains as registers hold, up to kInterleave.
constexpr int chunks_in_flight(int rows) {
  int chunks = 1;
  while (chunks < kInterleave && rows * chunks * 2 <= kMaxAccumulators) chunks *= 2;
  return chunks;
}
constexpr int tile_rows_limit() { return kMaxAccumulators < kMaxTileRows ? kMaxAccumulators : kMaxTileRows; }

/// Adds a chunk group's sums to the tree: a binary counter whose digits are partial trees, then leaves them in
/// `out` when the group is the last. stack: [3][R * 16].
template <int R>
PACELINE_MATH void add_to_tree(F32x16* sum, int group, int num_groups, float (&stack)[3][R * 16], float* out) {
  int level = 0;
  for (int carry = group; carry & 1; carry >>= 1, ++level)
#pragma GCC unroll 24
    for (int r = 0; r < R; ++r) sum[r] = load(stack[level] + r * 16) + sum[r];
  float* to = group + 1 == num_groups ? out : stack[level];
#pragma GCC unroll 24
  for (int r = 0; r < R; ++r) store(to + r * 16, sum[r]);
}

/// One level of the tree inside a group of C chunks.
template <int C, int R, int Width>
PACELINE_MATH void add_chunks(F32x16* sum) {
  if constexpr (Width < C) {
#pragma GCC unroll 24
    for (int j = 0; j < (C - Width) * R; ++j)
      if (j / R % (2 * Width) == 0) sum[j] = sum[j] + sum[j + Width * R];
  }
}

/// Bytes by which panels are fetched ahead, into L2, where rows keep the core too busy for the hardware to run ahead;
/// below, the plain stream is fastest.
inline constexpr int64_t kFetchAheadBytes = 16384;
inline constexpr int kFetchAheadRows = 4;

/// out[R][16] = x · panel for chunks of `length` steps in groups of `interleave`, C chunks at a time.
template <class W, int R, int C>
PACELINE_CHECKED_BY_CALLER void gemm_tile(const W* __restrict w, const float* __restrict x, int64_t length,
                                          int k_chunks, int interleave, float* __restrict out) {
  constexpr int kLine = 64 / int(sizeof(W));
  constexpr int64_t kAhead = kFetchAheadBytes / int(sizeof(W));
  alignas(64) float stack[3][R * 16];
  const int num_groups = k_chunks / C;
  const int64_t w_step = int64_t{interleave} * 16, x_step = int64_t{interleave} * R;
  for (int group = 0; group < num_groups; ++group) {
    const int64_t first = group * C / interleave * interleave * length + group * C % interleave;
    const W* wi = w + first * 16;
    const float* xi = x + first * R;
    // one flat array per loop nest: GCC keeps it in registers, [C][R] it does not
    F32x16 sum[C * R];
#pragma GCC unroll 24
    for (int j = 0; j < C * R; ++j) sum[j] = F32x16(0.0f);
    for (int64_t i = 0; i < length; ++i) {
      if constexpr (R >= kFetchAheadRows) {
#pragma GCC unroll 4
        for (int at = 0; at < C * 16; at += kLine) prefetch_l2(wi + kAhead + at);
      }
      F32x16 weight[C];
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) weight[c] = load(wi + c * 16);
#pragma GCC unroll 24
      for (int j = 0; j < C * R; ++j) sum[j] = fma(F32x16(xi[j]), weight[j / R], sum[j]);
      wi += w_step;
      xi += x_step;
    }
    add_chunks<C, R, 1>(sum);
    add_chunks<C, R, 2>(sum);
    add_to_tree<R>(sum, group, num_groups, stack, out);
  }
}

/// The same for k that k_chunks does not divide: plain order, chunk c is [c k / k_chunks, (c + 1) k / k_chunks).
template <class W, int R>
PACELINE_CHECKED_BY_CALLER void gemm_tile_uneven(const W* __restrict w, const float* __restrict x, int64_t k,
                                                 int k_chunks, float* __restrict out) {
  alignas(64) float stack[3][R * 16];
  for (int chunk = 0; chunk < k_chunks; ++chunk) {
    const int64_t end = (chunk + 1) * k / k_chunks;
    F32x16 sum[R];
#pragma GCC unroll 24
    for (int r = 0; r < R; ++r) sum[r] = F32x16(0.0f);
    for (int64_t i = chunk * k / k_chunks; i < end; ++i) {
      const F32x16 weight = load(w + i * 16);
#pragma GCC unroll 24
      for (int r = 0; r < R; ++r) sum[r] = fma(F32x16(x[i * R + r]), weight, sum[r]);
    }
    add_to_tree<R>(sum, chunk, k_chunks, stack, out);
  }
}

template <class W>
struct GemmTile {
  void (*even)(const W*, const float*, int64_t, int, int, float*);
  void (*uneven)(const W*, const float*, int64_t, int, float*);
};

template <class W, int R>
GemmTile<W> tile_for_chunks(int interleave) {
  constexpr int kMost = chunks_in_flight(R);
  if constexpr (kMost >= 2)
    if (interleave >= 2) return {gemm_tile<W, R, 2>, gemm_tile_uneven<W, R>};
  return {gemm_tile<W, R, 1>, gemm_tile_uneven<W, R>};
}

template <class W, int R = 1>
GemmTile<W> tile_for(int rows, int interleave) {
  if constexpr (R < tile_rows_limit()) {
    if (rows > R) return tile_for<W, R + 1>(rows, interleave);
  }
  return tile_for_chunks<W, R>(interleave);
}

inline F32x16 with_bias(F32x16 sum, const float* bias, int64_t col, int count) {
  return bias ? sum + load_n(bias + col, count) : sum;
}

template <class W>
void gemm(const GemmWork& work, int tile_begin, int tile_end, int64_t unit_begin, int64_t unit_end) {
  alignas(64) float tile_out[2][kMaxTileRows * 16];
  const int64_t panel_elements = work.k * 16;
  const int64_t half = work.n / 2;
  const PanelOrder order(work.k, work.k_chunks);
  const W* weights = static_cast<const W*>(work.w);
  for (int64_t unit = unit_begin; unit < unit_end; ++unit) {
    for (int tile = tile_begin; tile < tile_end; ++tile) {
      const int row = work.tile_begin(tile);
      const int rows = work.tile_begin(tile + 1) - row;
      const float* x = work.x + int64_t(row) * work.k;
      check_extent(x, size_t(work.k * rows) * sizeof(float));
      const GemmTile<W> run = tile_for<W>(rows, order.interleave);
      const auto run_panel = [&](int64_t panel, float* out) {
        const W* w = weights + panel * panel_elements;
        check_extent(w, size_t(panel_elements) * sizeof(W));
        check_extent(out, size_t(rows) * 16 * sizeof(float));
        if (order.even)
          run.even(w, x, order.length, work.k_chunks, order.interleave, out);
        else
          run.uneven(w, x, work.k, work.k_chunks, out);
      };
      float* y = work.y + int64_t(row) * work.y_stride;
      const int64_t col = unit * 16;
      if (!work.pair_panels) {
        const int count = work.n - col < 16 ? int(work.n - col) : 16;
        run_panel(unit, tile_out[0]);
        for (int r = 0; r < rows; ++r)
          store_n(y + r * work.y_stride + col, with_bias(load(tile_out[0] + r * 16), work.bias, col, count), count);
        continue;
      }
      const int count = half - col < 16 ? int(half - col) : 16;
      run_panel(2 * unit, tile_out[0]);
      run_panel(2 * unit + 1, tile_out[1]);
      for (int r = 0; r < rows; ++r) {
        const F32x16 gate = with_bias(load(tile_out[0] + r * 16), work.bias, col, count);
        const F32x16 up = with_bias(load(tile_out[1] + r * 16), work.bias, half + col, count);
        float* to = y + r * work.y_stride + col;
        if (work.glu) {
          store_n(to, math::activate(work.activation, gate) * up, count);
        } else {
          store_n(to, gate, count);
          store_n(to + half, up, count);
        }
      }
    }
  }
}

/// Four rows of four columns, `stride` apart, to four columns of four rows, `to_stride` apart.
PACELINE_MATH void transpose_4x4(const float* x, int64_t stride, float* out, int64_t to_stride) {
  using Floats = math::Lanes::Floats;
  const auto row = [&](int r) { return math::Lanes::load(x + r * stride).value; };
  const Floats low01 = __builtin_shufflevector(row(0), row(1), 0, 4, 1, 5);
  const Floats high01 = __builtin_shufflevector(row(0), row(1), 2, 6, 3, 7);
  const Floats low23 = __builtin_shufflevector(row(2), row(3), 0, 4, 1, 5);
  const Floats high23 = __builtin_shufflevector(row(2), row(3), 2, 6, 3, 7);
  math::Lanes(__builtin_shufflevector(low01, low23, 0, 1, 4, 5)).store(out);
  math::Lanes(__builtin_shufflevector(low01, low23, 2, 3, 6, 7)).store(out + to_stride);
  math::Lanes(__builtin_shufflevector(high01, high23, 0, 1, 4, 5)).store(out + 2 * to_stride);
  math::Lanes(__builtin_shufflevector(high01, high23, 2, 3, 6, 7)).store(out + 3 * to_stride);
}

void pack_rows(const float* x, int64_t stride, int rows, int64_t k, int k_chunks, float* out) {
  const PanelOrder order(k, k_chunks);
  const int64_t step = int64_t{order.interleave} * rows;
  for (int64_t group = 0; group < order.groups; ++group, out += order.length * step) {
    for (int64_t c = 0; c < order.interleave; ++c, x += order.length) {
      float* to = out + c * rows;
      int64_t i = 0;
      for (; rows >= 4 && i + 4 <= order.length; i += 4)
        for (int r = 0; r < rows; r += 4) {  // the last four rows may overlap those before
          const int first = r + 4 <= rows ? r : rows - 4;
          transpose_4x4(x + first * stride + i, stride, to + i * step + first, step);
        }
      for (; i < order.length; ++i)
        for (int r = 0; r < rows; ++r) to[i * step + r] = x[r * stride + i];
    }
  }
}

/// 16 x 16 through a buffer in L1.
template <class S, class W>
void pack_panel(const void* rows, int64_t stride, int num_rows, int64_t k, int k_chunks, void* panel) {
  const PanelOrder order(k, k_chunks);
  const S* from = static_cast<const S*>(rows);
  alignas(64) float square[16][16] = {};
  alignas(64) float column[16];
  for (int64_t chunk = 0; chunk < order.groups * order.interleave; ++chunk, from += order.length) {
    W* to = static_cast<W*>(panel) +
            (chunk / order.interleave * order.interleave * order.length + chunk % order.interleave) * 16;
    for (int64_t i = 0; i < order.length; i += 16) {
      const int count = order.length - i < 16 ? int(order.length - i) : 16;
      for (int r = 0; r < num_rows; ++r) store(square[r], load_n(from + r * stride + i, count));
      for (int j = 0; j < count; ++j) {
        for (int r = 0; r < 16; ++r) column[r] = square[r][j];
        store(to + (i + j) * order.interleave * 16, load(column));
      }
    }
  }
}

template <class W>
void unpack_row(const void* w, int64_t row, int64_t k, int k_chunks, float* out) {
  const PanelOrder order(k, k_chunks);
  const W* from = static_cast<const W*>(w) + row / 16 * 16 * k + row % 16;
  for (int64_t group = 0; group < order.groups; ++group, out += order.interleave * order.length)
    for (int64_t i = 0; i < order.length; ++i)
      for (int64_t c = 0; c < order.interleave; ++c, from += 16) out[c * order.length + i] = to_f32(*from);
}

}  // namespace
}  // namespace paceline
