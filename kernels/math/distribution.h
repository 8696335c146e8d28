#pragma once
// From a row of logits to the distribution that a request asks for.
//
// Order: temperature, top-k, top-p, min-p, each on what the one before it kept (renormalised), as in Hugging Face
// transformers. Tokens are ordered by logit, larger first, equal logits by id, lower first; every filter keeps a
// prefix of that order, so ties never depend on how the prefix was found. Anything that works on single logits
// (penalties, biases, allowed sets) belongs before this: it rewrites the row, and -Inf takes a token out.
//
// Numerics: the bits of a row depend on its logits and parameters only. Softmax sums in Real in 16 lanes, lane =
// index in the kept list % 16, folded 8, 4, 2, 1; nucleus masses are integers, so that their sums have no order.
// Host code: one thread works on one row with its own DistributionScratch.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <type_traits>

#include "kernels/math/elementary.h"
#include "kernels/math/lanes.h"
#include "kernels/math/token_rules.h"
#include "kernels/sampling_types.h"

namespace paceline::math {

/// One row of logits and what is asked of it.
struct LogitRow {
  const float* logit = nullptr;  // [vocab_size]
  int32_t vocab_size = 0;
  DrawParams params;
};

/// A distribution over the kept tokens. size == 0: the row was NaN, +Inf or all -Inf somewhere it must not be.
template <class Real>
struct Candidates {
  int32_t size = 0;
  const int32_t* id = nullptr;  // [size] ascending; null: ids are 0 … size - 1
  const Real* prob = nullptr;   // [size], sum 1 up to rounding

  int32_t id_at(int32_t index) const { return id ? id[index] : index; }

  /// 0 for tokens that were not kept and for ids outside the vocabulary.
  Real prob_of(int32_t token) const {
    if (!id) return token >= 0 && token < size ? prob[token] : Real(0);
    const int32_t* found = std::lower_bound(id, id + size, token);
    return found != id + size && *found == token ? prob[found - id] : Real(0);
  }
};

/// Grows to the largest row seen and is then allocation-free. Candidates point into it until the next row.
template <class T>
class ScratchArray {
 public:
  T* ensure(size_t count) {
    if (count > capacity_) {
      data_ = std::make_unique_for_overwrite<T[]>(count);
      capacity_ = count;
    }
    return data_.get();
  }

 private:
  std::unique_ptr<T[]> data_;
  size_t capacity_ = 0;
};

template <class Real>
struct DistributionScratch {
  ScratchArray<Real> prob;
  ScratchArray<Real> left;  // TargetWindow::reweighted
  ScratchArray<int32_t> id;
  ScratchArray<uint64_t> key;
};

struct RowMax {
  float value = 0.0f;
  int32_t id = -1;  // lowest id that holds the maximum; -1: a NaN, a +Inf or nothing above -Inf
};

/// Two passes: the maximum, then its first place.
inline RowMax row_max(const float* logit, int32_t size) {
  constexpr int kBlock = 4 * Lanes::kCount;
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  constexpr float kLargest = std::numeric_limits<float>::max();
  Lanes best[4] = {Lanes(kLowest), Lanes(kLowest), Lanes(kLowest), Lanes(kLowest)};
  Lanes::Ints bad[4] = {};
  int32_t begin = 0;
  for (; begin + kBlock <= size; begin += kBlock) {
    for (int part = 0; part < 4; ++part) {
      const Lanes value = Lanes::load(logit + begin + part * Lanes::kCount);
      best[part] = max_or_second(value, best[part]);
      bad[part] |= not_less_equal(value, Lanes(kLargest));
    }
  }
  RowMax result{.value = kLowest};
  bool any_bad = any(bad[0] | bad[1] | bad[2] | bad[3]);
  for (const Lanes& lanes : best) {
    for (int lane = 0; lane < Lanes::kCount; ++lane) result.value = std::max(result.value, float(lanes.value[lane]));
  }
  for (; begin < size; ++begin) {
    result.value = logit[begin] > result.value ? logit[begin] : result.value;
    any_bad |= !(logit[begin] <= kLargest);
  }
  if (any_bad || result.value == kLowest) return result;
  const Lanes wanted(result.value);
  for (begin = 0; begin + kBlock <= size; begin += kBlock) {
    Lanes::Ints hit{};
    for (int part = 0; part < 4; ++part) hit |= equal(Lanes::load(logit + begin + part * Lanes::kCount), wanted);
    if (any(hit)) break;
  }
  while (logit[begin] != result.value) ++begin;
  result.id = begin;
  return result;
}

namespace detail {

/// Writes the first k tokens of the order into `kept`, ascending; tokens at -Inf are never kept. Returns their
/// number. One pass with a buffer of 2 k keys whose k-th best is the bar for later tokens: O(size + k log k).
inline int32_t keep_top_k(const float* logit, int32_t size, int32_t k, ScratchArray<uint64_t>& keys, int32_t* kept) {
  const int64_t capacity = std::max<int64_t>(2 * int64_t{k}, 256);
  uint64_t* const key = keys.ensure(size_t(capacity));
  int64_t filled = 0;
  float bar = -std::numeric_limits<float>::infinity();
  const auto shrink = [&] {
    std::nth_element(key, key + k - 1, key + filled, std::greater<>());
    filled = k;
    bar = logit[key_index(key[k - 1])];
  };
  for (int32_t i = 0; i < size; ++i) {
    if (!(logit[i] > bar)) continue;  // a later token that ties with the bar comes after it
    key[filled++] = order_key(logit[i], i);
    if (filled == capacity) shrink();
  }
  if (filled > k) shrink();
  for (int64_t i = 0; i < filled; ++i) kept[i] = key_index(key[i]);
  std::sort(kept, kept + filled);
  return int32_t(filled);
}

/// The key of the last token of the nucleus: the shortest prefix of the order whose mass is >= top_p of the whole.
/// Masses are weights in units of 2^-40, weights being relative to the largest one. O(size): a histogram over the
/// scaled distance to the maximum finds the bin where the nucleus ends, selection by mass the token inside it.
template <class Real, class LogitAt>
uint64_t nucleus_end(int32_t size, LogitAt&& logit_at, const Real* weight, float max_logit, float temperature,
                     float top_p, ScratchArray<uint64_t>& keys) {
  constexpr int kBins = 512;
  const float bins_per_logit = 16.0f / temperature;
  const auto mass = [&](int32_t i) { return mass_of(weight[i]); };
  const auto bin = [&](int32_t i) {
    const float distance = (max_logit - logit_at(i)) * bins_per_logit;  // monotone in the order
    return distance < float(kBins - 1) ? int(distance) : kBins - 1;
  };
  uint64_t bin_mass[kBins] = {};
  uint64_t total = 0;
  for (int32_t i = 0; i < size; ++i) {
    const uint64_t m = mass(i);
    bin_mass[bin(i)] += m;
    total += m;
  }
  const uint64_t need = nucleus_mass(top_p, total);
  int end_bin = 0;
  uint64_t before = 0;
  while (before + bin_mass[end_bin] < need) before += bin_mass[end_bin++];

  uint64_t* const key = keys.ensure(size_t(size));
  int64_t end = 0;
  for (int32_t i = 0; i < size; ++i) {
    if (bin(i) == end_bin) key[end++] = order_key(logit_at(i), i);
  }
  int64_t begin = 0;  // the nucleus ends in [begin, end) of the order; `before` is the mass ahead of begin
  while (end - begin > 32) {
    const int64_t middle = begin + (end - begin) / 2;
    std::nth_element(key + begin, key + middle, key + end, std::greater<>());
    uint64_t half = 0;
    for (int64_t i = begin; i < middle; ++i) half += mass(key_index(key[i]));
    if (before + half >= need) {
      end = middle;
    } else {
      before += half;
      begin = middle;
    }
  }
  std::sort(key + begin, key + end, std::greater<>());
  while (begin + 1 < end && before + mass(key_index(key[begin])) < need) before += mass(key_index(key[begin++]));
  return key[begin];
}

/// prob /= sum(prob), summed in 16 lanes.
template <class Real>
void normalise(Real* prob, int32_t size) {
  constexpr int kLanes = 16;
  Real lane_sum[kLanes] = {};
  int32_t begin = 0;
  for (; begin + kLanes <= size; begin += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) lane_sum[lane] += prob[begin + lane];
  }
  for (int lane = 0; begin + lane < size; ++lane) lane_sum[lane] += prob[begin + lane];
  for (int half = kLanes / 2; half >= 1; half /= 2) {
    for (int lane = 0; lane < half; ++lane) lane_sum[lane] += lane_sum[lane + half];
  }
  for (int32_t i = 0; i < size; ++i) prob[i] = prob[i] / lane_sum[0];
}

/// weight[i] for the logits of `id`, or for all of them if id is null. Lanes and single values have the same bits.
template <class Real>
void weights_of(const float* logit, const int32_t* id, int32_t size, float max_logit, float temperature, Real* weight) {
  const Real inverse = Real(1) / Real(temperature);
  int32_t i = 0;
  if constexpr (std::is_same_v<Real, float>) {
    for (; !id && i + Lanes::kCount <= size; i += Lanes::kCount) {
      weight_of(Lanes::load(logit + i), Lanes(max_logit), Lanes(inverse)).store(weight + i);
    }
  }
  for (; i < size; ++i) weight[i] = weight_of(Real(logit[id ? id[i] : i]), Real(max_logit), inverse);
}

}  // namespace detail

/// The distribution of `row`; valid until the scratch serves another row. Greedy parameters: all mass on the
/// largest logit.
template <class Real>
Candidates<Real> distribution(const LogitRow& row, DistributionScratch<Real>& scratch) {
  const DrawParams& params = row.params;
  const RowMax top = row_max(row.logit, row.vocab_size);
  if (top.id < 0) return {};
  Real* const prob = scratch.prob.ensure(size_t(row.vocab_size));
  if (params.greedy()) {
    int32_t* const id = scratch.id.ensure(1);
    id[0] = top.id;
    prob[0] = Real(1);
    return {1, id, prob};
  }

  int32_t* id = nullptr;
  int32_t size = row.vocab_size;
  if (params.top_k > 0 && params.top_k < row.vocab_size) {
    id = scratch.id.ensure(size_t(row.vocab_size));
    size = detail::keep_top_k(row.logit, row.vocab_size, params.top_k, scratch.key, id);
  }
  const auto logit_at = [&](int32_t i) { return id ? row.logit[id[i]] : row.logit[i]; };

  detail::weights_of(row.logit, id, size, top.value, params.temperature, prob);

  if (params.top_p < 1.0f || params.min_p > 0.0f) {
    const uint64_t last_key = params.top_p < 1.0f ? detail::nucleus_end(size, logit_at, prob, top.value,
                                                                        params.temperature, params.top_p, scratch.key)
                                                  : 0;
    int32_t* const kept = scratch.id.ensure(size_t(row.vocab_size));
    int32_t num_kept = 0;
    for (int32_t i = 0; i < size; ++i) {  // the largest weight is 1: min_p is relative to it
      if (order_key(logit_at(i), i) < last_key || prob[i] < Real(params.min_p)) continue;
      kept[num_kept] = id ? id[i] : i;
      prob[num_kept++] = prob[i];
    }
    id = kept;
    size = num_kept;
  }
  detail::normalise(prob, size);
  return {size, id, prob};
}

}  // namespace paceline::math
