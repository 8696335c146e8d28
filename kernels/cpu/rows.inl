// Ops that treat each row alone: norm, activation, rope, rounding, storing K and V. Included by kernels_<isa>.cpp.

#include "kernels/math/rope.h"

namespace paceline {
namespace {

/// Sums over a row: lane l holds elements l, l + 16, ... in order; lanes are added as a tree.
void norm(const NormWork& work, int64_t row_begin, int64_t row_end) {
  const int cols = work.cols;
  const auto each = [&](auto&& body) {
    for (int c = 0; c < cols; c += 16) body(c, cols - c < 16 ? cols - c : 16);
  };
  for (int64_t row = row_begin; row < row_end; ++row) {
    float* residual = work.residual + row * work.residual_stride;
    if (work.delta) {
      const float* delta = work.delta + row * work.delta_stride;
      each([&](int c, int count) {
        F32x16 add = load_n(delta + c, count);
        if (work.delta_bias) add = add + load_n(work.delta_bias + c, count);
        store_n(residual + c, load_n(residual + c, count) + add, count);
      });
    }
    if (!work.out) continue;
    float* out = work.out + row * work.out_stride;
    float mean = 0.0f;
    if (work.layer) {
      F32x16 sum(0.0f);
      each([&](int c, int count) { sum = sum + load_n(residual + c, count); });
      mean = sum_lanes(sum) / float(cols);
    }
    F32x16 squares(0.0f);
    each([&](int c, int count) {
      F32x16 x = load_n(residual + c, count);
      if (work.layer) x = keep_lanes(x - F32x16(mean), 0, count, 0.0f);
      squares = fma(x, x, squares);
    });
    const F32x16 scale(1.0f / __builtin_sqrtf(sum_lanes(squares) / float(cols) + work.eps));
    each([&](int c, int count) {
      F32x16 x = load_n(residual + c, count);
      if (work.layer) x = x - F32x16(mean);
      x = (x * scale) * load_n(work.weight + c, count);
      if (work.bias) x = x + load_n(work.bias + c, count);
      store_n(out + c, x, count);
    });
  }
}

void activation(float* x, int64_t count, Activation kind) {
  for (int64_t i = 0; i < count; i += 16) {
    const int left = count - i < 16 ? int(count - i) : 16;
    store_n(x + i, math::activate(kind, load_n(x + i, left)), left);
  }
}

void rope(const RopeWork& work) {
  const int half = work.rotary_dim / 2;
  for (int head = 0; head < work.num_heads; ++head) {
    float* x = work.x + int64_t(head) * work.head_dim;
    if (work.interleaved) {
      for (int i = 0; i < half; ++i) math::rotate_pair(x[2 * i], x[2 * i + 1], work.cos[i], work.sin[i]);
      continue;
    }
    for (int i = 0; i < half; i += 16) {
      const int count = half - i < 16 ? half - i : 16;
      F32x16 a = load_n(x + i, count), b = load_n(x + half + i, count);
      math::rotate_pair(a, b, load_n(work.cos + i, count), load_n(work.sin + i, count));
      store_n(x + i, a, count);
      store_n(x + half + i, b, count);
    }
  }
}

/// No early exit: the loop stays vectorisable.
template <class Word>
bool any_at_least(const Word* words, int64_t count, Word mask, Word limit) {
  Word found = 0;
  for (int64_t i = 0; i < count; ++i) found |= Word(Word(words[i] & mask) >= limit);
  return found != 0;
}

template <class T>
void store_kv(const StoreKvWork& work, int kv_head, int64_t row_begin, int64_t row_end) {
  for (int64_t row = row_begin; row < row_end; ++row) {
    const int32_t slot = work.slot[row];
    if (slot < 0) continue;
    const int64_t page = int64_t(slot / work.block_size) * work.num_kv_heads + kv_head;
    const int64_t offset = slot % work.block_size;
    const float* k = work.k + row * work.k_stride + int64_t(kv_head) * work.k_dim;
    T* k_to = static_cast<T*>(work.k_page) + page * work.k_dim * work.block_size + offset;
    for (int d = 0; d < work.k_dim; ++d) from_f32(k[d], k_to + int64_t(d) * work.block_size);
    if (!work.v_page) continue;
    const float* v = work.v + row * work.v_stride + int64_t(kv_head) * work.v_dim;
    T* v_to = static_cast<T*>(work.v_page) + (page * work.block_size + offset) * work.v_dim;
    for (int d = 0; d < work.v_dim; d += 16) {
      const int count = work.v_dim - d < 16 ? work.v_dim - d : 16;
      store_n(v_to + d, load_n(v + d, count), count);
    }
  }
}

}  // namespace
}  // namespace paceline
