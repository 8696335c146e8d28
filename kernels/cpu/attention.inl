// Attention over pages, one chunk of 256 absolute positions at a time (docs/numerics.md). For a line (row, head):
// score = fma chain over d of (q * scale) and k; max over visible keys; sum of exponentials per lane = position
// % 16 in position order, lanes as a tree; o = fma chain over visible keys in position order. Chunks are merged
// left to right. Nothing depends on the other lines of the tile. Included by kernels_<isa>.cpp.

namespace paceline {
namespace {

inline constexpr float kInfinity = __builtin_inff();

constexpr int vectors_for(int lines) {
  const int most = kMaxAccumulators / lines;
  return most >= 4 ? 4 : most >= 2 ? 2 : 1;
}

/// Memory that is read soon: line i is at from + i * stride.
template <class T>
struct Ahead {
  const T* from;
  int64_t stride;
  PACELINE_MATH void fetch(int64_t line) const { prefetch_l2(from + line * stride); }
};

/// score[L][256] at the keys of V vectors: chains over d. q: [k_dim][L]. Fetches `ahead` meanwhile. Line by line, here
/// and in add_values, so that one register holds the line's value: all lines' would push sums out of the registers.
template <class T, int L, int V>
void score_vectors(const T* const* key, const Ahead<T>* ahead, int64_t d_stride, const float* q, int k_dim,
                   float* score) {
  F32x16 sum[V * L];  // flat: see gemm_tile
  const T* from[V];
  Ahead<T> next[V];
  for (int v = 0; v < V; ++v) from[v] = key[v], next[v] = ahead[v];
#pragma GCC unroll 24
  for (int j = 0; j < V * L; ++j) sum[j] = F32x16(0.0f);
  for (int d = 0; d < k_dim; ++d, q += L) {
    F32x16 k[V];
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) next[v].fetch(d);
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) k[v] = load(from[v] + d * d_stride);
#pragma GCC unroll 24
    for (int j = 0; j < V * L; ++j) sum[j] = fma(F32x16(q[j / V]), k[j % V], sum[j]);
  }
#pragma GCC unroll 24
  for (int j = 0; j < V * L; ++j) store(score + j / V * kChunkKeys + j % V * 16, sum[j]);
}

/// o[L][V * 16] += weight[L][key] * value[key], key by key. Row of key i: value + i * v_stride; fetches `ahead`
/// meanwhile, from `line` on.
template <class T, class U, int L, int V>
void add_values(const T* value, Ahead<U> ahead, int64_t line, int64_t v_stride, int num_keys, const float* weight,
                float* o, int64_t o_stride, int last_count) {
  F32x16 sum[V * L];
#pragma GCC unroll 24
  for (int j = 0; j < V * L; ++j) sum[j] = load(o + j / V * o_stride + j % V * 16);
  for (int key = 0; key < num_keys; ++key, value += v_stride, line += V, ++weight) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) ahead.fetch(line + v);
    F32x16 x[V];
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) x[v] = V == 1 ? load_n(value + v * 16, last_count) : load(value + v * 16);
#pragma GCC unroll 24
    for (int j = 0; j < V * L; ++j) sum[j] = fma(F32x16(weight[j / V * kChunkKeys]), x[j % V], sum[j]);
  }
#pragma GCC unroll 24
  for (int j = 0; j < V * L; ++j) store(o + j / V * o_stride + j % V * 16, sum[j]);
}

/// Pages of one sequence and KV head.
template <class T>
struct Pages {
  const AttentionWork& work;
  const int32_t* block;
  int kv_head;

  int64_t page(int64_t position) const {
    return int64_t(block[position / work.block_size]) * work.num_kv_heads + kv_head;
  }
  const T* key(int64_t position) const {
    return static_cast<const T*>(work.k) + page(position) * work.k_dim * work.block_size + position % work.block_size;
  }
  const T* value(int64_t position) const {
    return static_cast<const T*>(work.v) + (page(position) * work.block_size + position % work.block_size) * work.v_dim;
  }
};

/// What a task reads, in units of 16 positions: the keys of its part [begin, end) of a chunk, the values, the keys of
/// the chunk after. Pages are too short for the hardware to run ahead, so units are fetched kUnitsAhead early.
template <class T>
struct UnitStream {
  static constexpr int kUnitsAhead = 4;
  const Pages<T>& pages;
  int64_t base;     // first position of the chunk
  int first, last;  // units of the chunk
  int64_t len;      // positions of the sequence

  Ahead<T> keys(int64_t position) const { return {pages.key(position), pages.work.block_size}; }
  /// kUnitsAhead after reading the keys of unit `at`.
  Ahead<T> after_keys(int at) const { return unit(at + kUnitsAhead); }
  /// … the values of unit `at`.
  Ahead<T> after_values(int at) const { return unit(at + kUnitsAhead + last - first); }

 private:
  Ahead<T> unit(int at) const {
    if (at < last) return keys(base + at * 16);
    if (pages.work.v) {
      at -= last - first;
      if (at < last) return {pages.value(base + at * 16), 64 / int64_t(sizeof(T))};
    }
    const int64_t next = base + kChunkKeys + (at - last) * 16;
    return keys(next < len ? next : base + first * 16);
  }
};

/// Scores of the units of `stream`.
template <class T, int L>
void score_keys(const UnitStream<T>& stream, const float* q, float* score) {
  constexpr int V = vectors_for(L);
  const AttentionWork& work = stream.pages.work;
  int vector = stream.first;
  const auto at = [&](int v) { return stream.pages.key(stream.base + v * 16); };
  for (; vector + V <= stream.last; vector += V) {
    const T* key[V];
    Ahead<T> ahead[V];
    for (int v = 0; v < V; ++v) key[v] = at(vector + v), ahead[v] = stream.after_keys(vector + v);
    score_vectors<T, L, V>(key, ahead, work.block_size, q, work.k_dim, score + vector * 16);
  }
  for (; vector < stream.last; ++vector) {
    const T* key = at(vector);
    const Ahead<T> ahead = stream.after_keys(vector);
    score_vectors<T, L, 1>(&key, &ahead, work.block_size, q, work.k_dim, score + vector * 16);
  }
}

/// o += weights · values for keys [begin, end) of the chunk, all L lines. weight: of key `begin`.
template <class T, int L>
void add_keys(const UnitStream<T>& stream, int begin, int end, const float* weight, float* o, int64_t o_stride,
              float* rows) {
  constexpr int V = vectors_for(L);
  const Pages<T>& pages = stream.pages;
  const AttentionWork& work = pages.work;
  const int64_t base = stream.base;
  const auto add = [&]<class U>(const U* value, const Ahead<T>& ahead, int num_keys, const float* w) {
    int d = 0;
    for (; d + V * 16 <= work.v_dim; d += V * 16)
      add_values<U, T, L, V>(value + d, ahead, d, work.v_dim, num_keys, w, o + d, o_stride, 16);
    for (; d < work.v_dim; d += 16)
      add_values<U, T, L, 1>(value + d, ahead, d, work.v_dim, num_keys, w, o + d, o_stride,
                             work.v_dim - d < 16 ? work.v_dim - d : 16);
  };
  for (int key = begin; key < end;) {
    const int left_in_block = work.block_size - int((base + key) % work.block_size);
    const int count = end - key < left_in_block ? end - key : left_in_block;
    const Ahead<T> ahead = stream.after_values(key / 16);
    if (work.v) {
      add(pages.value(base + key), ahead, count, weight + (key - begin));
    } else {  // V is the first v_dim of K: turn the block
      const T* from = pages.key(base + key);
      for (int d = 0; d < work.v_dim; ++d)
        for (int i = 0; i < count; ++i) rows[i * work.v_dim + d] = to_f32(from[int64_t(d) * work.block_size + i]);
      add(static_cast<const float*>(rows), ahead, count, weight + (key - begin));
    }
    key += count;
  }
}

void softcap(float* x, int64_t count, float cap) {
  for (int64_t i = 0; i < count; i += 16) {
    const int left = count - i < 16 ? int(count - i) : 16;
    store_n(x + i, math::softcap(load_n(x + i, left), cap), left);
  }
}

/// Weights e^(score - max) of keys [begin, end), zeros in the rest of their vectors; header of the line's partial.
void soften(float* score, int begin, int end, float* partial) {
  F32x16 highest(-kInfinity);
  for (int at = begin / 16 * 16; at < end; at += 16)
    highest = max_or_second(keep_lanes(load(score + at), begin - at, end - at, -kInfinity), highest);
  const float max = max_lanes(highest);
  const F32x16 base(max == -kInfinity ? 0.0f : max);
  F32x16 sum(0.0f);
  for (int at = begin / 16 * 16; at < end; at += 16) {
    const F32x16 weight = keep_lanes(math::exp_of(load(score + at) - base), begin - at, end - at, 0.0f);
    store(score + at, weight);
    sum = sum + weight;
  }
  partial[0] = max;
  partial[1] = sum_lanes(sum);
  partial[2] = 1.0f;
}

/// What the lines of a tile see of a chunk, in positions from the chunk's first on.
template <int L>
struct ChunkKeys {
  int begin[L], end[L];
  int first = kChunkKeys, last = 0;         // of any line
  int all_begin = 0, all_end = kChunkKeys;  // what every line sees, where it lies in one place for all
  int tree = kChunkKeys;                    // keys from here on lie by the lines' paths
  int places_end = 0;                       // of all that they see
  int64_t places_of_all = 0;                // positions of the sequence that hold keys of these lines
  const int32_t* path[L];                   // of each line's keys from `tree` on; places are absolute
};

/// Finds that, and writes the lines' queries, scaled, into q, [k_dim][L].
template <int L>
ChunkKeys<L> look_at_lines(const AttentionWork& work, const AttentionTile& tile, int64_t base, float* q) {
  ChunkKeys<L> keys;
  const int num_lines = tile.line_end - tile.line_begin;
  if (tile.tree_begin < base + kChunkKeys) keys.tree = tile.tree_begin > base ? int(tile.tree_begin - base) : 0;
  keys.all_end = keys.tree;
  for (int l = 0; l < L; ++l) {
    int& begin = keys.begin[l] = 0;
    int& end = keys.end[l] = 0;
    keys.path[l] = nullptr;
    if (l >= num_lines) {
      for (int d = 0; d < work.k_dim; ++d) q[d * L + l] = 0.0f;
      continue;
    }
    const int row = tile.first_row + (tile.line_begin + l) / tile.num_heads;
    const int head = tile.head_begin + (tile.line_begin + l) % tile.num_heads;
    const int64_t len = work.kv_len[row];
    const int64_t from = work.window > 0 && len > work.window ? len - work.window : 0;
    const float* x = work.q + row * work.q_stride + int64_t(head) * work.k_dim;
    for (int d = 0; d < work.k_dim; ++d) q[d * L + l] = x[d] * work.scale;
    int64_t places = len;
    const int32_t* const path = len > tile.tree_begin ? work.place + work.path_begin[row] : nullptr;
    if (path) places = path[len - 1 - tile.tree_begin] + 1;
    keys.places_of_all = places > keys.places_of_all ? places : keys.places_of_all;
    begin = int(from > base ? (from - base < kChunkKeys ? from - base : kChunkKeys) : 0);
    end = int(len > base ? (len - base < kChunkKeys ? len - base : kChunkKeys) : 0);
    if (begin >= end) {
      begin = end = 0;
      keys.all_end = 0;
      continue;
    }
    int places_end = end;
    if (end > keys.tree) {
      keys.path[l] = path + (base > tile.tree_begin ? base - tile.tree_begin : 0);
      places_end = int(keys.path[l][end - 1 - keys.tree] + 1 - base);
    }
    keys.first = begin < keys.first ? begin : keys.first;
    keys.last = end > keys.last ? end : keys.last;
    keys.places_end = places_end > keys.places_end ? places_end : keys.places_end;
    keys.all_begin = begin > keys.all_begin ? begin : keys.all_begin;
    keys.all_end = end < keys.all_end ? end : keys.all_end;
  }
  if (keys.all_begin >= keys.all_end) keys.all_begin = keys.all_end = kChunkKeys;
  return keys;
}

/// A score depends on its key alone, so all are found where the keys lie; those of a line's path then move to their
/// positions. In order, as a place is never below its position. beyond: of the places after the chunk's, [L][256].
template <int L>
void move_scores_down(const ChunkKeys<L>& keys, int64_t base, float* score, const float* beyond) {
  for (int l = 0; l < L; ++l)
    for (int key = keys.begin[l] > keys.tree ? keys.begin[l] : keys.tree; key < keys.end[l]; ++key) {
      const int place = int(keys.path[l][key - keys.tree] - base);
      score[l * kChunkKeys + key] =
          place < kChunkKeys ? score[l * kChunkKeys + place] : beyond[l * kChunkKeys + place - kChunkKeys];
    }
}

template <class T, int L>
void partial_lines(const AttentionWork& work, const AttentionTile& tile, int64_t chunk, float* partial,
                   float* scratch) {
  const Pages<T> pages{work, tile.block, tile.kv_head};
  const int num_lines = tile.line_end - tile.line_begin;
  const int64_t stride = partial_stride(work.v_dim);
  const int64_t base = chunk * kChunkKeys;
  float* q = scratch;                                           // [k_dim][L]
  float* score = q + int64_t{kMaxAttentionLines} * work.k_dim;  // [L][256]
  float* beyond = score + int64_t{kMaxAttentionLines} * kChunkKeys;
  float* rows = beyond + int64_t{kMaxAttentionLines} * kChunkKeys;
  for (int l = 0; l < L; ++l) {
    float* line = partial + l * stride;
    line[0] = -kInfinity;
    line[1] = line[2] = 0.0f;
    for (int64_t d = kPartialHeader; d < stride; d += 16) store(line + d, F32x16(0.0f));
  }
  const ChunkKeys<L> keys = look_at_lines<L>(work, tile, base, q);
  if (keys.first >= keys.last) return;
  constexpr int kUnits = kChunkKeys / 16;
  const int units = (keys.places_end + 15) / 16;
  const UnitStream<T> stream{pages, base, keys.first / 16, units < kUnits ? units : kUnits, keys.places_of_all};
  score_keys<T, L>(stream, q, score);
  if (units > kUnits)
    score_keys<T, L>(UnitStream<T>{pages, base + kChunkKeys, 0, units - kUnits, keys.places_of_all}, q, beyond);
  move_scores_down(keys, base, score, beyond);
  for (int l = 0; work.softcap > 0.0f && l < num_lines; ++l)
    if (keys.begin[l] < keys.end[l])
      softcap(score + l * kChunkKeys + keys.begin[l] / 16 * 16, (keys.end[l] + 15) / 16 * 16 - keys.begin[l] / 16 * 16,
              work.softcap);
  for (int l = 0; l < num_lines; ++l)
    if (keys.begin[l] < keys.end[l]) soften(score + l * kChunkKeys, keys.begin[l], keys.end[l], partial + l * stride);
  // Keys that every line sees are read once for all; the rest line by line, still in position order.
  float* o = partial + kPartialHeader;
  for (int l = num_lines; l < L; ++l)
    for (int key = keys.all_begin; key < keys.all_end; ++key) score[l * kChunkKeys + key] = 0.0f;
  const auto add_alone = [&](int l, int from, int to) {
    for (int key = from; key < to;) {  // a run of neighbouring places at a time
      int place = key, count = (to < keys.tree ? to : keys.tree) - key;
      if (key >= keys.tree) {
        const int32_t* const path = keys.path[l] + (key - keys.tree);
        place = int(path[0] - base);
        for (count = 1; key + count < to && path[count] == path[0] + count;) ++count;
      }
      add_keys<T, 1>(stream, place, place + count, score + l * kChunkKeys + key, o + l * stride, stride, rows);
      key += count;
    }
  };
  for (int l = 0; l < num_lines; ++l)
    add_alone(l, keys.begin[l], keys.end[l] < keys.all_begin ? keys.end[l] : keys.all_begin);
  if (keys.all_begin < keys.all_end)
    add_keys<T, L>(stream, keys.all_begin, keys.all_end, score + keys.all_begin, o, stride, rows);
  for (int l = 0; l < num_lines; ++l)
    add_alone(l, keys.begin[l] > keys.all_end ? keys.begin[l] : keys.all_end, keys.end[l]);
}

template <class T>
void attention_partial(const AttentionWork& work, const AttentionTile& tile, int64_t chunk, float* partial,
                       float* scratch) {
  const int num_lines = tile.line_end - tile.line_begin;
  if (num_lines == 1) return partial_lines<T, 1>(work, tile, chunk, partial, scratch);
  if constexpr (kMaxAccumulators >= 6) {
    if (num_lines == 2) return partial_lines<T, 2>(work, tile, chunk, partial, scratch);
    if (num_lines <= 4) return partial_lines<T, 4>(work, tile, chunk, partial, scratch);
    if (num_lines <= 6) return partial_lines<T, 6>(work, tile, chunk, partial, scratch);
  }
  if constexpr (kMaxAccumulators >= 24) {
    if (num_lines <= 8) return partial_lines<T, 8>(work, tile, chunk, partial, scratch);
    return partial_lines<T, 12>(work, tile, chunk, partial, scratch);
  }
}

/// left = left and right merged; partials are [num_lines][partial_stride].
void attention_merge(int num_lines, int v_dim, float* left, const float* right) {
  const int64_t stride = partial_stride(v_dim);
  for (int l = 0; l < num_lines; ++l, left += stride, right += stride) {
    if (right[2] == 0.0f) continue;
    if (left[2] == 0.0f) {
      for (int64_t d = 0; d < stride; d += 16) store(left + d, load(right + d));
      continue;
    }
    const float max = left[0] > right[0] ? left[0] : right[0];
    const float base = max == -kInfinity ? 0.0f : max;
    const float left_scale = math::exp(left[0] - base), right_scale = math::exp(right[0] - base);
    left[0] = max;
    left[1] = left[1] * left_scale + right[1] * right_scale;
    for (int64_t d = kPartialHeader; d < stride; d += 16)
      store(left + d, load(left + d) * F32x16(left_scale) + load(right + d) * F32x16(right_scale));
  }
}

void attention_finish(const AttentionWork& work, const AttentionTile& tile, const float* state) {
  const int64_t stride = partial_stride(work.v_dim);
  for (int line = tile.line_begin; line < tile.line_end; ++line, state += stride) {
    const int row = tile.first_row + line / tile.num_heads;
    const int head = tile.head_begin + line % tile.num_heads;
    float* out = work.out + row * work.out_stride + int64_t(head) * work.v_dim;
    const bool padding = work.kv_len[row] <= 0;
    const F32x16 sum(state[1]);
    for (int d = 0; d < work.v_dim; d += 16) {
      const int count = work.v_dim - d < 16 ? work.v_dim - d : 16;
      store_n(out + d, padding ? F32x16(0.0f) : load(state + kPartialHeader + d) / sum, count);
    }
  }
}

}  // namespace
}  // namespace paceline
