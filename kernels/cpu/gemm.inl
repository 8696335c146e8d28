// y = x Wᵀ, one family for every number of rows (docs/numerics.md): per output one fma chain in k order inside each
// of k_chunks chunks, the chunk sums added as a binary tree, then bias. Lanes are outputs, so the bits of an output
// depend on nothing else. Panels hold chunks interleaved (PanelOrder), so that several chains run side by side over
// one stream of memory. Included by kernels_<isa>.cpp after its simd header and its PairStep.

#include <type_traits>

#include "kernels/cpu/extent.h"
#include "kernels/math/lanes.h"

namespace paceline {
namespace {

/// The step of weights that hold one value of k; PairStep is that of bfloat16.
template <class W>
struct SingleStep {
  static constexpr int kWords = 1;                    // floats of x, and registers of weights
  struct Arithmetic {};                               // lives while a chain runs
  static constexpr int64_t kFetchAheadOfFewRows = 0;  // bytes; 0: not at all
  /// 16 words of x from the values at `from`.
  PACELINE_MATH static Floats16 words(const float* from) { return load_floats16(from); }
  PACELINE_MATH static F32x16 weights(const W* from, int) { return load(from); }
  PACELINE_MATH static F32x16 multiply_add(const float* x, F32x16 weight, F32x16 sum) {
    return fma(F32x16(*x), weight, sum);
  }
};
template <class W>
using Step = std::conditional_t<std::is_same_v<W, BFloat>, PairStep, SingleStep<W>>;

template <class W>
inline constexpr StorageIndex kStorageOf = std::is_same_v<W, float>  ? kStoreF32
                                           : std::is_same_v<W, Half> ? kStoreF16
                                                                     : kStoreBf16;

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

/// Bytes by which panels are fetched ahead, into L2: many rows keep the core too busy to run ahead itself. For few the
/// plain stream is fastest, unless the step says otherwise.
template <class W>
constexpr int64_t fetch_ahead_bytes(int rows) {
  return rows >= 4 ? 8192 : Step<W>::kFetchAheadOfFewRows;
}

/// Whether registers hold the sums of R rows and C chunks, the weights of a whole step, a word of x and a mask.
template <class W, int R, int C>
constexpr bool kStepFits = (R + Step<W>::kWords) * C + 1 < kVectorRegisters;

/// sum[C][R] += what one step of C chunks holds. x_word: floats from one word of x to the next.
template <class W, int R, int C>
PACELINE_MATH void add_step(const W* w, const float* x, int64_t x_word, F32x16* sum) {
  using S = Step<W>;
  constexpr int kValues = values_per_step(kStorageOf<W>);
  constexpr int kLine = 64 / int(sizeof(W));
  constexpr int64_t kAhead = fetch_ahead_bytes<W>(R) / int(sizeof(W));
  constexpr bool kFits = kStepFits<W, R, C>;
  if constexpr (kAhead > 0) {
#pragma GCC unroll 4
    for (int at = 0; at < C * 16 * kValues; at += kLine) prefetch_l2(w + kAhead + at);
  }
  F32x16 weight[kFits ? S::kWords * C : 1];
  if constexpr (kFits)
#pragma GCC unroll 16
    for (int j = 0; j < S::kWords * C; ++j) weight[j] = S::weights(w + j / S::kWords * 16 * kValues, j % S::kWords);
#pragma GCC unroll 2
  for (int word = 0; word < S::kWords; ++word, x += x_word)
#pragma GCC unroll 24
    for (int j = 0; j < C * R; ++j) {
      if (!kFits && j % R == 0) weight[0] = S::weights(w + j / R * 16 * kValues, word);
      sum[j] = S::multiply_add(x + j, weight[kFits ? j / R * S::kWords + word : 0], sum[j]);
    }
}

/// out[R][16] = x · panel, C chunks at a time.
template <class W, int R, int C>
PACELINE_CHECKED_BY_CALLER void gemm_tile(const W* __restrict w, const float* __restrict x, const PanelOrder& order,
                                          float* __restrict out) {
  using S = Step<W>;
  constexpr int kValues = values_per_step(kStorageOf<W>);
  alignas(64) float stack[3][R * 16];
  const int num_groups = order.k_chunks / C;
  const int64_t w_step = int64_t{order.interleave} * 16 * kValues, x_word = int64_t{order.interleave} * R;
  int beside = 0;  // chunks of the interleaved ones that are done
  for (int group = 0; group < num_groups; ++group) {
    const W* wi = w + beside * 16 * kValues;
    const float* xi = x + beside * R;
    // one flat array per loop nest: GCC keeps it in registers, [C][R] it does not
    F32x16 sum[C * R];
    {
      [[maybe_unused]] const typename S::Arithmetic arithmetic;
#pragma GCC unroll 24
      for (int j = 0; j < C * R; ++j) pin(sum[j] = F32x16(0.0f));
      const auto next = [&]() __attribute__((always_inline)) {
        add_step<W, R, C>(wi, xi, x_word, sum);
        wi += w_step;
        xi += S::kWords * x_word;
      };
      int64_t i = 0;
      if constexpr (kTwoStepsATurn && kStepFits<W, R, C>) {
        for (; i + 2 <= order.length; i += 2) {
          next();
          next();
        }
      }
      for (; i < order.length; ++i) next();
#pragma GCC unroll 24
      for (int j = 0; j < C * R; ++j) pin(sum[j]);
    }
    add_chunks<C, R, 1>(sum);
    add_chunks<C, R, 2>(sum);
    add_to_tree<R>(sum, group, num_groups, stack, out);
    beside += C;
    if (beside < order.interleave) continue;
    beside = 0;
    w += w_step * order.length;
    x += x_word * S::kWords * order.length;
  }
}

template <class W>
using GemmTile = void (*)(const W*, const float*, const PanelOrder&, float*);

template <class W, int R>
GemmTile<W> tile_for_chunks(int interleave) {
  constexpr int kMost = chunks_in_flight(R);
  if constexpr (kMost >= 2)
    if (interleave >= 2) return gemm_tile<W, R, 2>;
  return gemm_tile<W, R, 1>;
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
  const PanelOrder& order = work.order;
  const int64_t panel_elements = order.values() * 16;
  const int64_t half = work.n / 2;
  const W* weights = static_cast<const W*>(work.w);
  for (int64_t unit = unit_begin; unit < unit_end; ++unit) {
    for (int tile = tile_begin; tile < tile_end; ++tile) {
      const int row = work.tile_begin(tile);
      const int rows = work.tile_begin(tile + 1) - row;
      const float* x = work.x + int64_t(row) * order.values();
      check_extent(x, size_t(order.values() / values_per_step(kStorageOf<W>) * Step<W>::kWords * rows) * sizeof(float));
      const GemmTile<W> run = tile_for<W>(rows, order.interleave);
      const auto run_panel = [&](int64_t panel, float* out) {
        const W* w = weights + panel * panel_elements;
        check_extent(w, size_t(panel_elements) * sizeof(W));
        check_extent(out, size_t(rows) * 16 * sizeof(float));
        run(w, x, order, out);
      };
      float* y = work.y + int64_t(row) * work.y_stride;
      const int64_t col = unit * 16;
      if (!work.pair_panels) {
        const int count = work.n - col < 16 ? int(work.n - col) : 16;
        run_panel(unit, tile_out[0]);
        for (int r = 0; r < rows; ++r) {
          float* to = y + r * work.y_stride + col;
          const F32x16 sum = with_bias(load(tile_out[0] + r * 16), work.bias, col, count);
          store_n(to, work.add ? load_n(to, count) + sum : sum, count);
        }
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

/// 16 words of each of four rows, their values `stride` apart, to 16 columns of four rows, `to_stride` apart.
template <class S>
PACELINE_MATH void transpose_4x16(const float* x, int64_t stride, float* out, int64_t to_stride) {
  const Floats16 a = S::words(x), b = S::words(x + stride), c = S::words(x + 2 * stride), d = S::words(x + 3 * stride);
  const Floats16 ab = __builtin_shufflevector(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
  const Floats16 cd = __builtin_shufflevector(c, d, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
  const Floats16 ab2 = __builtin_shufflevector(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
  const Floats16 cd2 = __builtin_shufflevector(c, d, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
  // column 4 i + j lies in the i-th quarter of the j-th of these
  const Floats16 quarters[4] = {
      __builtin_shufflevector(ab, cd, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29),
      __builtin_shufflevector(ab, cd, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31),
      __builtin_shufflevector(ab2, cd2, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29),
      __builtin_shufflevector(ab2, cd2, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31)};
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    const Floats16 q = quarters[j];
    math::Lanes(__builtin_shufflevector(q, q, 0, 1, 2, 3)).store(out + j * to_stride);
    math::Lanes(__builtin_shufflevector(q, q, 4, 5, 6, 7)).store(out + (4 + j) * to_stride);
    math::Lanes(__builtin_shufflevector(q, q, 8, 9, 10, 11)).store(out + (8 + j) * to_stride);
    math::Lanes(__builtin_shufflevector(q, q, 12, 13, 14, 15)).store(out + (12 + j) * to_stride);
  }
}

template <class W>
void pack_rows(const float* x, int64_t stride, int rows, const PanelOrder& order, float* out, const char* ahead) {
  using S = Step<W>;
  constexpr int kWordValues = values_per_step(kStorageOf<W>) / S::kWords;
  const int64_t word_stride = int64_t{order.interleave} * rows, num_words = order.length * S::kWords;
  alignas(64) float square[16 * kWordValues], words[16];
  for (int chunk = 0; chunk < order.k_chunks; ++chunk) {
    const int beside = chunk % order.interleave;
    float* to = out + (order.first_step(chunk - beside) * S::kWords + beside) * rows;
    const float* from = x + order.chunk_begin(chunk);
    const int64_t num_values = order.chunk_values(chunk);
    int64_t word = 0;
    for (; rows >= 4 && (word + 16) * kWordValues <= num_values; word += 16)
      for (int r = 0; r < rows; r += 4) {  // the last four rows may overlap those before
        const int first = r + 4 <= rows ? r : rows - 4;
#pragma GCC unroll 8
        for (int line = 0; line < 4 * kWordValues; ++line, ahead += 64) prefetch_l2(ahead);
        transpose_4x16<S>(from + first * stride + word * kWordValues, stride, to + word * word_stride + first,
                          word_stride);
      }
    for (; word < num_words; word += 16)
      for (int r = 0; r < rows; ++r) {
        const float* values = from + r * stride + word * kWordValues;
#pragma GCC unroll 2
        for (int line = 0; line < kWordValues; ++line, ahead += 64) prefetch_l2(ahead);
        const int64_t left = num_values - word * kWordValues;
        if (left < 16 * kWordValues) {
          for (int i = 0; i < 16 * kWordValues; ++i) square[i] = i < left ? values[i] : 0.0f;
          values = square;
        }
        const Floats16 packed = S::words(values);
        memcpy(words, &packed, sizeof words);
        for (int64_t i = 0; i < 16 && word + i < num_words; ++i) to[(word + i) * word_stride + r] = words[i];
      }
  }
}

/// The 16 lanes of one step: `values` of column i are at columns[i].
PACELINE_MATH void store_step(float* to, const float (*columns)[16]) { store(to, load(columns[0])); }
PACELINE_MATH void store_step(Half* to, const float (*columns)[16]) { store(to, load(columns[0])); }
PACELINE_MATH void store_step(BFloat* to, const float (*columns)[16]) {
  uint32_t words[16];
  for (int r = 0; r < 16; ++r)
    words[r] =
        rounded_to_bfloat(math::float_bits(columns[0][r])) | rounded_to_bfloat(math::float_bits(columns[1][r])) >> 16;
  memcpy(to, words, sizeof words);
}

/// Rows and columns change places: four times, each row beside the one eight below it, word by word.
PACELINE_MATH void transpose_square(Words16 (&square)[16]) {
  for (int round = 0; round < 4; ++round) {
    Words16 next[16];
    for (int i = 0; i < 8; ++i) {
      const Words16 a = square[i], b = square[i + 8];
      next[2 * i] = __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
      next[2 * i + 1] = __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    }
    memcpy(square, next, sizeof next);
  }
}

/// Pairs [first, 16) of the 16 that start at `from` in each of 16 rows of bfloat16, from the step at `to` on. They only
/// change places, and so do the two of a pair.
PACELINE_MATH void pack_pairs(const BFloat* from, int64_t stride, int first, int64_t step_stride, BFloat* to) {
  Words16 square[16];
  for (int r = 0; r < 16; ++r) memcpy(&square[r], from + r * stride, sizeof square[r]);
  transpose_square(square);
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {  // unrolled, the square stays in registers
    if (i < first) continue;
    const Words16 words = square[i] << 16 | square[i] >> 16;
    memcpy(to, &words, sizeof words);
    to += step_stride;
  }
}

/// 16 x 16 through a buffer in L1.
template <class S, class W>
void pack_panel(const void* rows, int64_t stride, int num_rows, const PanelOrder& order, void* panel) {
  constexpr int kValues = values_per_step(kStorageOf<W>);
  alignas(64) float square[16][16] = {};
  alignas(64) float columns[16][16];
  const int64_t step_stride = int64_t{order.interleave} * 16 * kValues;
  for (int chunk = 0; chunk < order.k_chunks; ++chunk) {
    const S* from = static_cast<const S*>(rows) + order.chunk_begin(chunk);
    const int64_t num_values = order.chunk_values(chunk);
    W* to = static_cast<W*>(panel) + order.first_step(chunk) * 16 * kValues;
    int64_t begin = 0;
    if constexpr (std::is_same_v<S, BFloat> && std::is_same_v<W, BFloat>) {
      const bool are_pairs = num_rows == 16 && num_values >= 32 && num_values % 2 == 0;
      while (are_pairs && begin < num_values) {  // the last 32 may overlap those before
        const int64_t at = begin + 32 <= num_values ? begin : num_values - 32;
        const int first = int(begin - at) / 2;
        pack_pairs(from + at, stride, first, step_stride, to);
        to += (16 - first) * step_stride;
        begin = at + 32;
      }
    }
    for (; begin < order.length * kValues; begin += 16) {
      const int count = num_values - begin < 16 ? int(num_values - begin) : 16;  // may be none
      for (int r = 0; r < num_rows; ++r) store(square[r], load_n(from + r * stride + begin, count));
      for (int i = 0; i < 16; ++i)
        for (int r = 0; r < 16; ++r) columns[i][r] = square[r][i];
      for (int i = 0; i < 16 && begin + i < order.length * kValues; i += kValues, to += step_stride)
        store_step(to, columns + i);
    }
  }
}

template <class W>
void unpack_row(const void* w, int64_t row, const PanelOrder& order, float* out) {
  constexpr int kValues = values_per_step(kStorageOf<W>);
  const W* lane = static_cast<const W*>(w) + row / 16 * 16 * order.values() + row % 16 * kValues;
  for (int chunk = 0; chunk < order.k_chunks; ++chunk) {
    const W* from = lane + order.first_step(chunk) * 16 * kValues;
    float* to = out + order.chunk_begin(chunk);
    for (int64_t i = 0; i < order.chunk_values(chunk); ++i)
      to[i] = to_f32(from[i / kValues * order.interleave * 16 * kValues + (kValues - 1 - i % kValues)]);
  }
}

}  // namespace
}  // namespace paceline
