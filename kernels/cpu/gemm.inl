// y = x Wᵀ, one family for every number of rows (docs/numerics.md): per output one fma chain in k order inside each
// of k_chunks chunks, the chunk sums added as a binary tree, then bias. Lanes are outputs, so the bits of an output
// depend on nothing else. Included by kernels_<isa>.cpp after its simd header.

namespace paceline {
namespace {

/// Chunks in flight for a tile of `rows`: as many independent chains as registers hold, up to 8.
constexpr int chunks_in_flight(int rows) {
  int chunks = 1;
  while (chunks < 8 && rows * chunks * 2 <= kMaxAccumulators) chunks *= 2;
  return chunks;
}
constexpr int tile_rows_limit() { return kMaxAccumulators < kMaxTileRows ? kMaxAccumulators : kMaxTileRows; }

/// out[R][16] = x[k][R] · panel[k][16]; `ahead` elements behind each load the next panel is fetched.
template <class W, int R, int C>
void gemm_tile(const W* __restrict w, const float* __restrict x, int64_t k, int k_chunks, int64_t ahead,
               float* __restrict out) {
  constexpr int kUnroll = sizeof(W) == 4 ? 1 : 2;  // one prefetch per 64 bytes
  alignas(64) float stack[3][R * 16];
  const int64_t short_len = k / k_chunks;
  const int num_groups = k_chunks / C;
  for (int group = 0; group < num_groups; ++group) {
    const W* wc[C];
    const float* xc[C];
    F32x16 sum[C][R];
#pragma GCC unroll 24
    for (int c = 0; c < C; ++c) {
      const int64_t begin = int64_t(group * C + c) * k / k_chunks;
      wc[c] = w + begin * 16;
      xc[c] = x + begin * R;
#pragma GCC unroll 24
      for (int r = 0; r < R; ++r) sum[c][r] = F32x16(0.0f);
    }
    const auto step = [&](int c, int64_t i) __attribute__((always_inline)) {
      const F32x16 weight = load(wc[c] + i * 16);
#pragma GCC unroll 24
      for (int r = 0; r < R; ++r) sum[c][r] = fma(F32x16(xc[c][i * R + r]), weight, sum[c][r]);
    };
    int64_t i = 0;
    for (; i + kUnroll <= short_len; i += kUnroll) {
#pragma GCC unroll 24
      for (int c = 0; c < C; ++c) {
        prefetch(wc[c] + i * 16 + ahead);
#pragma GCC unroll 2
        for (int u = 0; u < kUnroll; ++u) step(c, i + u);
      }
    }
    for (; i < short_len; ++i)
#pragma GCC unroll 24
      for (int c = 0; c < C; ++c) step(c, i);
#pragma GCC unroll 24
    for (int c = 0; c < C; ++c)
      if (int64_t(group * C + c + 1) * k / k_chunks - int64_t(group * C + c) * k / k_chunks > short_len)
        step(c, short_len);
    // the tree: inside the group in registers, across groups as a binary counter carries
#pragma GCC unroll 3
    for (int width = 1; width < C; width *= 2)
#pragma GCC unroll 24
      for (int c = 0; c + width < C; c += 2 * width)
#pragma GCC unroll 24
        for (int r = 0; r < R; ++r) sum[c][r] = sum[c][r] + sum[c + width][r];
    int level = 0;
    for (int carry = group; carry & 1; carry >>= 1, ++level)
#pragma GCC unroll 24
      for (int r = 0; r < R; ++r) sum[0][r] = load(stack[level] + r * 16) + sum[0][r];
    float* to = group + 1 == num_groups ? out : stack[level];
#pragma GCC unroll 24
    for (int r = 0; r < R; ++r) store(to + r * 16, sum[0][r]);
  }
}

template <class W>
using GemmTile = void (*)(const W*, const float*, int64_t, int, int64_t, float*);

template <class W, int R>
GemmTile<W> tile_for_chunks(int k_chunks) {
  constexpr int kMost = chunks_in_flight(R);
  if constexpr (kMost >= 8)
    if (k_chunks >= 8) return gemm_tile<W, R, 8>;
  if constexpr (kMost >= 4)
    if (k_chunks >= 4) return gemm_tile<W, R, 4>;
  if constexpr (kMost >= 2)
    if (k_chunks >= 2) return gemm_tile<W, R, 2>;
  return gemm_tile<W, R, 1>;
}

template <class W, int R = 1>
GemmTile<W> tile_for(int rows, int k_chunks) {
  if constexpr (R < tile_rows_limit()) {
    if (rows > R) return tile_for<W, R + 1>(rows, k_chunks);
  }
  return tile_for_chunks<W, R>(k_chunks);
}

inline F32x16 with_bias(F32x16 sum, const float* bias, int64_t col, int count) {
  return bias ? sum + load_n(bias + col, count) : sum;
}

template <class W>
void gemm(const GemmWork& work, int tile_begin, int tile_end, int64_t unit_begin, int64_t unit_end) {
  alignas(64) float tile_out[2][kMaxTileRows * 16];
  const int64_t panel_elements = work.k * 16;
  const int64_t half = work.n / 2;
  const W* weights = static_cast<const W*>(work.w);
  const int64_t last_panel = work.num_units() * (work.pair_panels ? 2 : 1) - 1;
  for (int64_t unit = unit_begin; unit < unit_end; ++unit) {
    for (int tile = tile_begin; tile < tile_end; ++tile) {
      const int row = work.tile_begin(tile);
      const int rows = work.tile_begin(tile + 1) - row;
      const float* x = work.x + int64_t(row) * work.k;
      const GemmTile<W> run = tile_for<W>(rows, work.k_chunks);
      const auto run_panel = [&](int64_t panel, float* out) {
        // later tiles find the panel in the cache already, and nothing lies behind the last one
        const int64_t ahead = tile == tile_begin && panel < last_panel ? panel_elements : 0;
        run(weights + panel * panel_elements, x, work.k, work.k_chunks, ahead, out);
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

void pack_rows(const float* x, int64_t stride, int rows, int64_t k, float* out) {
  for (int64_t i = 0; i < k; ++i)
    for (int r = 0; r < rows; ++r) out[i * rows + r] = x[r * stride + i];
}

/// 16 x 16 through a buffer in L1.
template <class S, class W>
void pack_panel(const void* rows, int64_t stride, int num_rows, int64_t k, void* panel) {
  const S* from = static_cast<const S*>(rows);
  W* to = static_cast<W*>(panel);
  alignas(64) float square[16][16] = {};
  alignas(64) float column[16];
  for (int64_t i = 0; i < k; i += 16) {
    const int count = k - i < 16 ? int(k - i) : 16;
    for (int r = 0; r < num_rows; ++r) store(square[r], load_n(from + r * stride + i, count));
    for (int j = 0; j < count; ++j) {
      for (int r = 0; r < 16; ++r) column[r] = square[r][j];
      store(to + (i + j) * 16, load(column));
    }
  }
}

template <class W>
void unpack_row(const void* w, int64_t row, int64_t k, float* out) {
  const W* from = static_cast<const W*>(w) + row / 16 * 16 * k + row % 16;
  for (int64_t i = 0; i < k; ++i) out[i] = to_f32(from[i * 16]);
}

}  // namespace
}  // namespace paceline
