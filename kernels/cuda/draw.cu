// A block a row. Passes over the row: its maximum; the filters' bars in the order of tokens, by radix selection;
// weights; their sum in 16 lanes in the order of kept tokens; probabilities; the race.

#include "kernels/cuda/device_code.cuh"
#include "kernels/cuda/draw.h"
#include "kernels/math/race.h"
#include "kernels/math/token_rules.h"

namespace paceline::cuda {
namespace {

constexpr int kThreads = 1024;
constexpr int kWarps = kThreads / 32;
constexpr int kDigits = 256;
constexpr int kLanes = 16;  // of the sum over weights
constexpr int kListed = 8;  // tokens of a thread at a time, where they are listed in order

struct Shared {
  union {
    uint64_t amount[kDigits][32];      // of a digit, one a lane
    float listed[kThreads * kListed];  // weights of kept tokens, in order
  };
  float value[kWarps];
  int32_t id[kWarps];
  double score[kWarps];
  uint64_t word[kWarps];
  uint64_t ahead, digit;  // of select_key
  float sum;
};

/// Over the block; every thread gets it.
template <class T, class Combine>
__device__ T over_threads(T x, T (&shared)[kWarps], Combine combine) {
  x = over_warp(x, combine);
  __syncthreads();
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = x;
  __syncthreads();
  return over_warp(shared[threadIdx.x % 32], combine);
}

template <class Body>
__device__ __forceinline__ void each_token(int32_t vocab_size, Body&& body) {
  for (int32_t id = threadIdx.x; id < vocab_size; id += kThreads) body(id);
}

struct Top {
  float value;
  int32_t id;  // -1: as math::RowMax
};

__device__ Top find_top(const float* logit, int32_t vocab_size, Shared& shared) {
  float value = -INFINITY;
  int32_t id = INT32_MAX, bad = 0;
  const auto look = [&](int32_t i, float x) {
    bad |= !(x <= 3.402823466e38f);
    if (x > value) value = x, id = i;
  };
  constexpr int kTogether = 8;  // loads of a thread that are under way
  const bool in_fours = reinterpret_cast<uintptr_t>(logit) % sizeof(float4) == 0;
  const int32_t fours = in_fours ? vocab_size / 4 : 0;
  for (int32_t begin = threadIdx.x; begin < fours; begin += kThreads * kTogether) {
    float4 x[kTogether];
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      const int32_t at = begin + i * kThreads;
      x[i] =
          at < fours ? reinterpret_cast<const float4*>(logit)[at] : float4{-INFINITY, -INFINITY, -INFINITY, -INFINITY};
    }
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      const int32_t first = (begin + i * kThreads) * 4;
      look(first, x[i].x), look(first + 1, x[i].y), look(first + 2, x[i].z), look(first + 3, x[i].w);
    }
  }
  for (int32_t id = fours * 4 + int32_t(threadIdx.x); id < vocab_size; id += kThreads) look(id, logit[id]);
  const float largest = over_threads(value, shared.value, Larger{});
  id = over_threads(value == largest ? id : INT32_MAX, shared.id, [](int32_t a, int32_t b) { return a < b ? a : b; });
  bad = over_threads(bad, shared.id, Most{});
  return {largest, bad || largest == -INFINITY ? -1 : id};
}

/// The largest key for which the amounts of the tokens with this key and larger ones reach `need`, which all together
/// do; need >= 1. amount_of(id): 0 for tokens that take no part. Tokens have different keys.
template <class AmountOf>
__device__ uint64_t select_key(const float* logit, int32_t vocab_size, uint64_t need, AmountOf&& amount_of,
                               Shared& shared) {
  constexpr int kDigitBits = 8, kDigitsOfLane = kDigits / 32;
  const int lane = threadIdx.x % 32;
  uint64_t key = 0;
  if (threadIdx.x == 0) shared.ahead = 0;
  for (int shift = 64 - kDigitBits; shift >= 0; shift -= kDigitBits) {
    for (int i = threadIdx.x; i < kDigits * 32; i += kThreads) shared.amount[i / 32][i % 32] = 0;
    __syncthreads();
    each_token(vocab_size, [&](int32_t id) {
      const uint64_t mine = math::order_key(logit[id], id);
      // the digits before this one are those of the key
      if (shift < 64 - kDigitBits && mine >> (shift + kDigitBits) != key >> (shift + kDigitBits)) return;
      const uint64_t amount = amount_of(id);
      if (amount)
        atomicAdd(reinterpret_cast<unsigned long long*>(&shared.amount[mine >> shift & (kDigits - 1)][lane]),
                  static_cast<unsigned long long>(amount));
    });
    __syncthreads();
    uint64_t sum = 0;
    if (threadIdx.x < kDigits)
      for (int i = 0; i < 32; ++i) sum += shared.amount[threadIdx.x][(i + threadIdx.x) % 32];
    __syncthreads();
    if (threadIdx.x < kDigits) shared.amount[threadIdx.x][0] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {  // larger digits come first: lane l has kDigitsOfLane of them, downwards
      const int first = kDigits - 1 - lane * kDigitsOfLane;
      uint64_t of_lane = 0;
      for (int i = 0; i < kDigitsOfLane; ++i) of_lane += shared.amount[first - i][0];
      uint64_t ahead = shared.ahead + up_to_lane(of_lane) - of_lane;
      __syncwarp();
      if (ahead < need && ahead + of_lane >= need) {  // true for one lane
        int digit = first;
        while (ahead + shared.amount[digit][0] < need) ahead += shared.amount[digit--][0];
        shared.ahead = ahead;
        shared.digit = uint64_t(digit) << shift;
      }
    }
    __syncthreads();
    key |= shared.digit;
  }
  __syncthreads();
  return key;
}

/// Sum of the weights of kept tokens in kLanes lanes, lane = place in their list % kLanes, as math::detail::normalise.
/// kept(id); weights of all ids, complete.
template <class Kept>
__device__ float sum_in_lanes(const float* weight, int32_t vocab_size, Kept&& kept, Shared& shared) {
  constexpr int kTile = kThreads * kListed;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  float sum = 0.0f;    // of lane threadIdx.x
  int32_t listed = 0;  // before this tile
  for (int32_t begin = 0; begin < vocab_size; begin += kTile) {
    const int32_t first = begin + int32_t(threadIdx.x) * kListed;
    uint32_t mask = 0;
    for (int i = 0; i < kListed; ++i)
      if (first + i < vocab_size && kept(first + i)) mask |= 1u << i;
    const int32_t up_to = up_to_lane(__popc(mask));
    if (lane == 31) shared.id[warp] = up_to;
    __syncthreads();
    int32_t place = up_to - __popc(mask), count = 0;
    for (int w = 0; w < kWarps; ++w) {
      if (w < warp) place += shared.id[w];
      count += shared.id[w];
    }
    for (int i = 0; i < kListed; ++i)
      if (mask >> i & 1) shared.listed[place++] = weight[first + i];
    __syncthreads();
    if (threadIdx.x < kLanes)
      for (int32_t at = (int32_t(threadIdx.x) - listed % kLanes + kLanes) % kLanes; at < count; at += kLanes)
        sum += shared.listed[at];
    listed += count;
    __syncthreads();
  }
  if (threadIdx.x < 32)
    for (int half = kLanes / 2; half >= 1; half /= 2) sum += __shfl_down_sync(0xffffffffu, sum, half);
  if (threadIdx.x == 0) shared.sum = sum;
  __syncthreads();
  return shared.sum;
}

/// math::race over all tokens; weight_at(id).
template <class WeightAt>
__device__ int32_t draw_token(int32_t vocab_size, WeightAt&& weight_at, const math::NoiseKey& key, Shared& shared) {
  constexpr int kTogether = 4;  // tokens that share noise words
  const int32_t groups = (vocab_size + kTogether - 1) / kTogether, first = int32_t(threadIdx.x);
  const int32_t mine = first < groups ? (groups - first + kThreads - 1) / kThreads : 0;
  const auto id_at = [&](int32_t i) { return (first + i / kTogether * kThreads) * kTogether + i % kTogether; };
  const math::RaceWinner winner = math::race_winner(
      mine * kTogether, id_at, [&](int32_t i) { return id_at(i) < vocab_size ? weight_at(id_at(i)) : 0.0f; }, key);
  const double best = over_threads(winner.score, shared.score, [](double a, double b) { return a > b ? a : b; });
  const int32_t id = winner.id >= 0 && winner.score == best ? winner.id : INT32_MAX;
  const int32_t lowest = over_threads(id, shared.id, [](int32_t a, int32_t b) { return a < b ? a : b; });
  return lowest == INT32_MAX ? -1 : lowest;
}

/// The distribution of the row, dense, over its weights' place: math::distribution. Complete when it returns.
__device__ void find_distribution(const float* logit, int32_t vocab_size, const DrawParams& params, float max_logit,
                                  float* prob, Shared& shared) {
  const auto plus = [](uint64_t a, uint64_t b) { return a + b; };
  const bool has_top_k = params.top_k > 0 && params.top_k < vocab_size;
  const bool has_filter = params.top_p < 1.0f || params.min_p > 0.0f;
  uint64_t bar = 0;  // tokens with smaller keys are not kept
  if (has_top_k) {
    uint64_t finite = 0;
    each_token(vocab_size, [&](int32_t id) { finite += logit[id] > -INFINITY; });
    if (over_threads(finite, shared.word, plus) > uint64_t(params.top_k))
      bar = select_key(
          logit, vocab_size, uint64_t(params.top_k), [&](int32_t id) { return uint64_t(logit[id] > -INFINITY); },
          shared);
  }
  const auto passes = [&](int32_t id) {
    return (!has_top_k || logit[id] > -INFINITY) && (bar == 0 || math::order_key(logit[id], id) >= bar);
  };
  const float inverse = 1.0f / params.temperature;
  each_token(vocab_size,
             [&](int32_t id) { prob[id] = passes(id) ? math::weight_of(logit[id], max_logit, inverse) : 0.0f; });
  if (params.top_p < 1.0f) {
    uint64_t total = 0;
    each_token(vocab_size, [&](int32_t id) { total += math::mass_of(prob[id]); });
    total = over_threads(total, shared.word, plus);
    const uint64_t end = select_key(
        logit, vocab_size, math::nucleus_mass(params.top_p, total), [&](int32_t id) { return math::mass_of(prob[id]); },
        shared);
    bar = end > bar ? end : bar;
  }
  __syncthreads();
  const auto kept = [&](int32_t id) { return passes(id) && !(has_filter && prob[id] < params.min_p); };
  const float sum = sum_in_lanes(prob, vocab_size, kept, shared);
  each_token(vocab_size, [&](int32_t id) { prob[id] = kept(id) ? prob[id] / sum : 0.0f; });
  __syncthreads();
}

struct Call {
  int32_t vocab_size;
  const DrawRow* row;
  const StagedDraft* draft;
  MatView probs;
  float* scratch;
  uint32_t mark;
  DrawResult* result;

  /// Where the weights of a row stand.
  __device__ float* prob_of(int32_t index) const {
    const int32_t probs_row = row[index].probs_row;
    return probs_row >= 0 ? static_cast<float*>(probs.data) + probs_row * probs.stride
                          : scratch + int64_t{index} * vocab_size;
  }
  __device__ void finish(const DrawResult& drawn) const {
    if (threadIdx.x != 0) return;
    DrawResult& to = result[blockIdx.x];
    const DrawRow& of = row[blockIdx.x];
    const int32_t token = of.ids && drawn.token >= 0 ? of.ids[drawn.token] : drawn.token;
    if (of.token_cell) *of.token_cell = token;
    to.token = token, to.kept = drawn.kept, to.prob = drawn.prob;
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(&to.call), "r"(mark) : "memory");
  }
};

/// Sum of fine_mass_of(prob_at(id)) over all ids below size.
template <class ProbAt>
__device__ uint64_t sum_of_masses(int32_t size, ProbAt&& prob_at, Shared& shared) {
  uint64_t mass = 0;
  each_token(size, [&](int32_t id) { mass += math::fine_mass_of(prob_at(id)); });
  return over_threads(mass, shared.word, [](uint64_t a, uint64_t b) { return a + b; });
}

__device__ double uniform_of(const DrawRow& row, int32_t accept_offset) {
  const math::PhiloxWords words =
      math::noise_words({row.key.seed, NoisePurpose::accept, row.key.origin, accept_offset}, 0);
  return math::uniform64(words.word[0], words.word[1]);
}

/// A token with these weights; where they are all 0, one of `prob`: both distributions are the same up to rounding.
template <class WeightAt>
__device__ int32_t draw_in_place(int32_t vocab_size, WeightAt&& weight_at, const float* prob, const math::NoiseKey& key,
                                 Shared& shared) {
  const int32_t token = draw_token(vocab_size, weight_at, key, shared);
  return token >= 0 ? token
                    : draw_token(
                          vocab_size, [&](int32_t id) { return prob[id]; }, key, shared);
}

/// math::verify_rejection's row: the drafts behind it one after another. prob: complete; what refusals leave takes its
/// place.
__device__ DrawResult decide(const DrawRow& row, const StagedDraft* draft, int32_t vocab_size, float* prob,
                             Shared& shared) {
  const bool is_dense = row.kind == DraftProbKind::dense;
  uint64_t left_to_draft = 0;  // dense: from the first refusal on
  for (int32_t i = 0;; ++i) {
    const StagedDraft& one = draft[i];
    const auto whole_prob_at = [&](int32_t id) {
      return math::draft_prob_of(row.kind, one.token, row.draft_prob, row.draft_cols, id);
    };
    const double left = math::total_of(left_to_draft);
    const auto draft_prob_at = [&](int32_t id) {
      const float whole = whole_prob_at(id);
      return i == 0 || !is_dense ? whole : math::sibling_prob(whole, left);
    };
    const float target_prob = one.token >= 0 && one.token < vocab_size ? prob[one.token] : 0.0f;
    if (math::accepts_draft(uniform_of(row, one.accept_offset), target_prob, draft_prob_at(one.token)))
      return {.kept = one.node};
    const auto residual_at = [&](int32_t id) { return math::residual_prob(prob[id], draft_prob_at(id)); };
    if (i + 1 == row.num_drafts) return {.token = draw_in_place(vocab_size, residual_at, prob, row.key, shared)};

    const double total = math::total_of(sum_of_masses(vocab_size, residual_at, shared));
    if (total > 0.0) {
      const float share = float(1.0 / total);
      each_token(vocab_size, [&](int32_t id) { prob[id] = residual_at(id) * share; });
    }
    if (is_dense) {
      if (i == 0)
        left_to_draft = sum_of_masses(
            row.draft_cols, [&](int32_t id) { return row.draft_prob[id]; }, shared);
      left_to_draft -= math::fine_mass_of(whole_prob_at(one.token));
    }
    __syncthreads();
  }
}

/// math::top_tokens' token number `rank`. top: of the row.
__device__ DrawResult find_ranked(const float* logit, int32_t vocab_size, const Top& top, int32_t rank,
                                  Shared& shared) {
  const auto mass_at = [&](int32_t id) { return math::mass_of(math::weight_of(logit[id], top.value, 1.0f)); };
  const auto plus = [](uint64_t a, uint64_t b) { return a + b; };
  uint64_t total = 0, finite = 0;
  each_token(vocab_size, [&](int32_t id) { total += mass_at(id), finite += logit[id] > -INFINITY; });
  total = over_threads(total, shared.word, plus);
  finite = over_threads(finite, shared.word, plus);
  if (uint64_t(rank) >= finite) return {};
  const int32_t token = rank == 0 ? top.id
                                  : math::key_index(select_key(
                                        logit, vocab_size, uint64_t(rank) + 1,
                                        [&](int32_t id) { return uint64_t(logit[id] > -INFINITY); }, shared));
  return {.token = token, .prob = math::share_of(mass_at(token), total)};
}

__global__ void __launch_bounds__(kThreads) draw_kernel(const float* logits, int64_t stride, const Call call) {
  extern __shared__ __align__(16) char memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  launch_dependents();
  wait_for_predecessor();
  const DrawRow& row = call.row[blockIdx.x];
  const int32_t vocab_size = call.vocab_size;
  const float* const logit = logits + row.logits_row * stride;
  float* const prob = call.prob_of(int32_t(blockIdx.x));
  const Top top = find_top(logit, vocab_size, shared);
  if (top.id < 0) {
    if (!row.is_of_block) return call.finish({});
    if (threadIdx.x == 0) prob[0] = NAN;  // for block_kernel
    return;
  }
  if (row.rank >= 0) return call.finish(find_ranked(logit, vocab_size, top, row.rank, shared));
  if (row.params.greedy()) {
    if (row.probs_row >= 0) each_token(vocab_size, [&](int32_t id) { prob[id] = id == top.id ? 1.0f : 0.0f; });
    return call.finish({.token = top.id});
  }
  find_distribution(logit, vocab_size, row.params, top.value, prob, shared);
  if (row.is_of_block) return;
  if (row.num_drafts > 0) return call.finish(decide(row, call.draft + row.first_draft, vocab_size, prob, shared));
  call.finish({.token = draw_token(
                   vocab_size, [&](int32_t id) { return prob[id]; }, row.key, shared)});
}

/// math::verify_block, a row a block: whether the drafts before it are kept, and what follows if no more are. Behind
/// draw_kernel, which leaves the distributions.
__global__ void __launch_bounds__(kThreads) block_kernel(const Call call) {
  extern __shared__ __align__(16) char memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  launch_dependents();
  wait_for_predecessor();
  const int32_t index = int32_t(blockIdx.x), vocab_size = call.vocab_size;
  const DrawRow& row = call.row[index];
  if (!row.is_of_block) return;
  const auto draft_prob_at = [&](const DrawRow& of, int32_t id) {
    return math::draft_prob_of(of.kind, call.draft[of.first_draft].token, of.draft_prob, of.draft_cols, id);
  };
  double block_prob = 1.0;
  for (int32_t before = index - row.place; before < index; ++before) {
    const DrawRow& one = call.row[before];
    const float* const prob = call.prob_of(before);
    if (isnan(prob[0])) return call.finish({});
    const int32_t token = call.draft[one.first_draft].token;
    const float target_prob = token >= 0 && token < vocab_size ? prob[token] : 0.0f;
    block_prob = math::block_prob(block_prob, target_prob, draft_prob_at(one, token));
  }
  const float* const prob = call.prob_of(index);
  const bool is_missing = isnan(prob[0]), is_last = row.num_drafts == 0;
  const auto residual_at = [&](int32_t id) {
    return math::block_residual(block_prob, prob[id], draft_prob_at(row, id));
  };
  DrawResult drawn;
  if (row.place > 0) {
    const double left =
        is_missing || is_last ? block_prob : math::total_of(sum_of_masses(vocab_size, residual_at, shared));
    const StagedDraft& draft_before = call.draft[call.row[index - 1].first_draft];
    if (!math::accepts_block(uniform_of(row, draft_before.accept_offset), left, block_prob)) return call.finish({});
    drawn.kept = draft_before.node;
  }
  if (is_last && !is_missing)
    drawn.token = draw_token(
        vocab_size, [&](int32_t id) { return prob[id]; }, row.key, shared);
  else if (!is_missing)
    drawn.token = draw_in_place(vocab_size, residual_at, prob, row.key, shared);
  call.finish(drawn);
}

}  // namespace

void prepare_draw() {
  for (const void* kernel : {reinterpret_cast<const void*>(draw_kernel), reinterpret_cast<const void*>(block_kernel)})
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(sizeof(Shared))),
          "cudaFuncSetAttribute");
}

void draw(const MatView& logits, int32_t vocab_size, std::span<const DrawRow> row, const StagedDraft* draft,
          bool have_blocks, const MatView& probs, float* scratch, uint32_t call, DrawResult* result, LaunchTo queue) {
  const Call of{.vocab_size = vocab_size,
                .row = row.data(),
                .draft = draft,
                .probs = probs,
                .scratch = scratch,
                .mark = call,
                .result = result};
  const dim3 blocks(unsigned(row.size())), threads(kThreads);
  launch(draw_kernel, blocks, threads, sizeof(Shared), queue, static_cast<const float*>(logits.f32_row(0)),
         logits.stride, of);
  if (have_blocks) launch(block_kernel, blocks, threads, sizeof(Shared), queue, of);
}

}  // namespace paceline::cuda
