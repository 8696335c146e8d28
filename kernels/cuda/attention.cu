#include "kernels/cuda/attention_merge.cuh"
#include "kernels/cuda/device_code.cuh"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/row_ops.h"
#include "kernels/math/activation.h"

namespace paceline::cuda {
namespace {

constexpr int kWarps = kDeviceChunk / kWarpKeys;
constexpr int kThreads = kWarps * 32;
constexpr int kLines = 4;  // that a warp works on together
constexpr int kMergeThreads = 128;
constexpr int kMergeAhead = 16;  // chunks

template <class T, int kCount>
struct alignas(kCount * sizeof(T)) Pack {
  T value[kCount];
};

/// A query head of a row; its keys in the chunk.
struct Line {
  int row = 0;
  int head = 0;
  int32_t begin = 0, end = 0;

  __device__ Line of_lane(int lane) const {
    return {__shfl_sync(0xffffffffu, row, lane), __shfl_sync(0xffffffffu, head, lane),
            __shfl_sync(0xffffffffu, begin, lane), __shfl_sync(0xffffffffu, end, lane)};
  }
};

/// kSteps values of a row of `dim`, from `first` on; zeros beyond it. aligned: rows start at multiples of kSteps
/// values.
template <class T, int kSteps>
__device__ __forceinline__ void load_dims(const T* row, int first, int dim, bool aligned, float (&out)[kSteps]) {
  if (aligned) {
    Pack<T, kSteps> pack{};
    if (first < dim) pack = *reinterpret_cast<const Pack<T, kSteps>*>(row + first);
#pragma unroll
    for (int s = 0; s < kSteps; ++s) out[s] = first < dim ? widen(pack.value[s]) : 0.0f;
  } else {
#pragma unroll
    for (int s = 0; s < kSteps; ++s) out[s] = first + s < dim ? widen(row[first + s]) : 0.0f;
  }
}

/// run(pages), by their storage type: one kernel for all of them, as only loads differ.
template <class Run>
__device__ __forceinline__ void with_storage(DType dtype, const void* pages, Run&& run) {
  if (dtype == DType::f32)
    run(static_cast<const float*>(pages));
  else if (dtype == DType::f16)
    run(static_cast<const __half*>(pages));
  else
    run(static_cast<const __nv_bfloat16*>(pages));
}

/// Lane i gets the sum of value[i] over all lanes: lanes i and i + 16, then 8, 4, 2, 1, as over_warp adds.
template <int kWidth = 16>
__device__ __forceinline__ float sum_for_lane(const float (&value)[2 * kWidth]) {
  const bool upper = threadIdx.x & kWidth;
  float half[kWidth];
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    const float keep = upper ? value[i + kWidth] : value[i], give = upper ? value[i] : value[i + kWidth];
    half[i] = keep + __shfl_xor_sync(0xffffffffu, give, kWidth);
  }
  if constexpr (kWidth == 1)
    return half[0];
  else
    return sum_for_lane<kWidth / 2>(half);
}

/// Over the lanes that hold the same line: lane = key * kLines + line.
template <class Combine>
__device__ __forceinline__ float over_keys(float x, Combine combine) {
#pragma unroll
  for (int width = 16; width >= kLines; width /= 2) x = combine(x, __shfl_xor_sync(0xffffffffu, x, width));
  return x;
}

/// One chunk of the keys of one KV head, for the lines of a tile: maximum, sum of exp, unnormalised output of each.
/// Warp w keeps keys and values [w kWarpKeys, (w + 1) kWarpKeys) of the chunk in registers, a lane kSteps neighbouring
/// dimensions, and takes kLines lines at a time; a lane then holds the score of one key for one line. The warps' parts
/// are added in order.
template <int kSteps, class Tile>  // kSteps * 32 >= k_dim, v_dim
// two blocks an SM: one more chunk than SMs must not cost a second round
__global__ void __launch_bounds__(kThreads, kSteps <= 4 ? 2 : 1) attention_chunk_kernel(AttentionWork work) {
  constexpr int L = kLines;
  static_assert(kWarpKeys * L == 32);
  __shared__ float largest_of[kWarps][L], sum_of[kWarps][L];
  __shared__ __align__(32) float weights_of[kWarps][32], part[kWarps][L][kSteps * 32];
  wait_for_predecessor();
  TileChunk at{.tile = int(blockIdx.x), .chunk = int(blockIdx.z)};
  if constexpr (kOfTree<Tile>) at = work.plan.chunk[blockIdx.x];
  const Tile tile = work.tile_at(at.tile, static_cast<const Tile*>(nullptr));
  const int kv_head = blockIdx.y, chunk = at.chunk;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, first_dim = lane * kSteps;
  const int32_t chunk_begin = chunk * kDeviceChunk, warp_begin = chunk_begin + warp * kWarpKeys;
  // pages hold whole warps' keys; those of later sequences, or none, where this one has ended
  const int32_t page = work.plan.block[min(tile.block_begin + warp_begin / work.block_size, work.plan.num_blocks - 1)];
  // lane i: row i of the tile
  const int first_row = work.row_of_line(tile.first_line);
  const int num_rows = work.row_of_line(tile.first_line + tile.num_lines - 1) + 1 - first_row;
  const int32_t my_len = lane < num_rows ? work.plan.kv_len[work.row_of(tile, first_row + lane)] : 0;
  const int32_t my_first = my_len > chunk_begin ? max(work.first_key(my_len), chunk_begin) : INT32_MAX;
  const int32_t last = min(over_warp(my_len, Most{}), chunk_begin + kDeviceChunk);
  const int32_t first = -over_warp(-my_first, Most{});
  if (first >= last) return;
  // lane i: line i of the tile
  const int row_of_tile = work.row_of_line(tile.first_line + lane);
  const int head_of_group = tile.first_line + lane - row_of_tile * work.group;
  const int32_t len = __shfl_sync(0xffffffffu, my_len, (row_of_tile - first_row) % 32);
  Line mine{.row = lane < tile.num_lines ? work.row_of(tile, row_of_tile) : 0,
            .head = kv_head * work.group + head_of_group - work.head_offset,
            .begin = max(work.first_key(len), chunk_begin),
            .end = min(len, chunk_begin + kDeviceChunk)};
  if (lane >= tile.num_lines || mine.head < 0 || mine.head >= work.num_heads) mine = {};
  const auto load_q = [&](int line, float(&q)[kSteps]) {
    const Line of = mine.of_lane(line % 32);
    load_dims(work.q + of.row * work.q_stride + int64_t{of.head} * work.k_dim, first_dim, work.k_dim, work.q_aligned,
              q);
  };
  const int64_t first_place =
      (int64_t{page} * work.num_kv_heads + kv_head) * work.block_size + warp_begin % work.block_size;
  const auto place_of = [&](int a) {
    if constexpr (kOfTree<Tile>) {
      if (warp_begin + a >= tile.tree_begin) {
        const int32_t place = work.place_of(tile, warp_begin + a);
        return work.row_of_page(kv_head, work.plan.block[tile.block_begin + place / work.block_size],
                                place % work.block_size);
      }
    }
    return first_place + a;
  };
  float key[kWarpKeys][kSteps] = {}, value[kWarpKeys][kSteps] = {}, q[L][kSteps];
  const auto load_all = [&](const auto* pages, int stride, int dim, float(&to)[kWarpKeys][kSteps]) {
#pragma unroll
    for (int a = 0; a < kWarpKeys; ++a)
      if (warp_begin + a >= first && warp_begin + a < last)
        load_dims(pages + place_of(a) * stride, first_dim, dim, stride % kSteps == 0 && dim % kSteps == 0, to[a]);
  };
  with_storage(work.dtype, work.k, [&](const auto* k) { load_all(k, work.k_dim, work.k_dim, key); });
#pragma unroll
  for (int l = 0; l < L; ++l) load_q(l, q[l]);
  with_storage(work.dtype, work.v, [&](const auto* v) { load_all(v, work.v_stride, work.v_dim, value); });

  launch_dependents();  // not before, as in norm.cu
  for (int done = 0; done < tile.num_lines; done += L) {
    float scores[32];
#pragma unroll
    for (int a = 0; a < kWarpKeys; ++a)
#pragma unroll
      for (int l = 0; l < L; ++l) {
        float score = 0.0f;
#pragma unroll
        for (int s = 0; s < kSteps; ++s) score = __fmaf_rn(q[l][s] * work.scale, key[a][s], score);
        scores[a * L + l] = score;
      }
    if (done + L < tile.num_lines)  // of the next lines
#pragma unroll
      for (int l = 0; l < L; ++l) load_q(done + L + l, q[l]);
    const float sum_of_scores = sum_for_lane(scores);
    const float score = work.softcap > 0.0f ? math::softcap(sum_of_scores, work.softcap) : sum_of_scores;
    const Line line = mine.of_lane(done + lane % L);
    const int32_t my_key = warp_begin + lane / L;
    const bool seen = my_key >= line.begin && my_key < line.end;
    const float largest_here = over_keys(seen ? score : -INFINITY, Larger{});
    if (lane < L) largest_of[warp][lane] = largest_here;
    __syncthreads();
    float largest = largest_of[0][lane % L];
#pragma unroll
    for (int w = 1; w < kWarps; ++w) largest = Larger{}(largest_of[w][lane % L], largest);
    const float weight = seen ? math::exp_of(score - largest) : 0.0f;
    const float sum_here = over_keys(weight, Plus{});
    if (lane < L) sum_of[warp][lane] = sum_here;
    weights_of[warp][lane] = weight;
    __syncwarp();
    const uint32_t all_seen = __ballot_sync(0xffffffffu, seen);
    Pack<float, kSteps> o[L] = {};
#pragma unroll
    for (int a = 0; a < kWarpKeys; ++a) {
      const Pack<float, L> w = *reinterpret_cast<const Pack<float, L>*>(&weights_of[warp][a * L]);
#pragma unroll
      for (int l = 0; l < L; ++l) {
        if (all_seen != 0xffffffffu && !(all_seen >> (a * L + l) & 1)) continue;  // what lies there may be no number
#pragma unroll
        for (int s = 0; s < kSteps; ++s) o[l].value[s] = __fmaf_rn(w.value[l], value[a][s], o[l].value[s]);
      }
    }
#pragma unroll
    for (int l = 0; l < L; ++l) *reinterpret_cast<Pack<float, kSteps>*>(&part[warp][l][first_dim]) = o[l];
    __syncthreads();
    // a part of the block a line
    static_assert(kThreads % L == 0);
    const int l = threadIdx.x / (kThreads / L), thread = threadIdx.x % (kThreads / L);
    const Line left_line = mine.of_lane(done + l);
    const float largest_of_l = __shfl_sync(0xffffffffu, largest, l);
    if (left_line.begin < left_line.end) {
      float* const left = work.part_of(left_line.row, left_line.head, chunk - tile.before_part);
      if (thread == 0) {
        float sum = sum_of[0][l];
        for (int w = 1; w < kWarps; ++w) sum += sum_of[w][l];
        left[0] = largest_of_l;
        left[1] = sum;
      }
      for (int d = thread; d < work.v_dim; d += kThreads / L) {
        float sum = part[0][l][d];
#pragma unroll
        for (int w = 1; w < kWarps; ++w) sum += part[w][l][d];
        left[kHeader + d] = sum;
      }
    }
    if (done + L < tile.num_lines) __syncthreads();
  }
}

/// A row and head: its chunks' parts are added from left to right. kBelow: to the sum of those below the tree, which is
/// the row's first part (AttentionPlan::chunks_below).
template <bool kBelow>
__global__ void __launch_bounds__(kMergeThreads) attention_merge_kernel(AttentionWork work) {
  extern __shared__ MergeStep step[];  // [num_parts]
  launch_dependents();                 // the next product's weights in time are worth what they slow these reads
  const int row = work.plan.first_row + blockIdx.x, head = blockIdx.y;
  const int32_t len = work.plan.kv_len[row];
  const int below = kBelow ? work.plan.chunks_below[row] : 0;
  const int first = max(work.first_key(len) / kDeviceChunk, below);
  const int count = len > 0 ? max((len - 1) / kDeviceChunk + 1 - first, 0) : 0;
  const int stride = kHeader + work.v_dim;
  wait_for_predecessor();
  if (len <= 0) {
    for (int d = threadIdx.x; d < work.v_dim; d += kMergeThreads) work.put(row, head, d, 0.0f);
    return;
  }
  const float* const left = work.part_of(row, head, kBelow ? first - below + 1 : first);
  const float* const left_below = kBelow && below > 0 ? work.part_of(row, head, 0) : nullptr;
  const auto part_of = [&](int c, int d) { return left[c * stride + kHeader + d]; };
  float ahead[kMergeAhead];  // the first parts come while their weights are found
#pragma unroll
  for (int c = 0; c < kMergeAhead; ++c)
    ahead[c] = c < count && int(threadIdx.x) < work.v_dim ? part_of(c, threadIdx.x) : 0.0f;
  if (threadIdx.x < 32) {
    float before = left_below ? left_below[0] : -INFINITY;  // largest of the chunks before these 32
    for (int begin = 0; begin < count; begin += 32) {
      const int c = begin + int(threadIdx.x);
      const MergeStep mine =
          merge_steps(c < count ? left[c * stride] : -INFINITY, c < count ? left[c * stride + 1] : 0.0f, before);
      if (c < count) step[c] = mine;
    }
  }
  __syncthreads();
  for (int d = threadIdx.x; d < work.v_dim; d += kMergeThreads) {
    float sum = left_below ? left_below[1] : 0.0f, o = left_below ? left_below[kHeader + d] : 0.0f;
    const auto add = [&](int c, float part) {
      sum = step[c].rescale().add(sum, step[c].sum);
      o = step[c].rescale().add(o, part);
    };
#pragma unroll
    for (int c = 0; c < kMergeAhead; ++c)
      if (c < count) add(c, d < kMergeThreads ? ahead[c] : part_of(c, d));
#pragma unroll 8
    for (int c = kMergeAhead; c < count; ++c) add(c, part_of(c, d));
    work.put(row, head, d, o * factor_of(sum));
  }
}

template <int kSteps>
void run_chunks(AttentionWork work, LaunchTo queue) {
  work.q_aligned = work.k_dim % kSteps == 0 && work.q_stride % kSteps == 0 &&
                   reinterpret_cast<uintptr_t>(work.q) % (kSteps * sizeof(float)) == 0;
  const AttentionPlan& plan = work.plan;
  const unsigned heads = unsigned(work.num_kv_heads);
  if (plan.tree_tile)
    launch(attention_chunk_kernel<kSteps, TreeTile>, dim3(unsigned(plan.num_tile_chunks), heads), dim3(kThreads), 0,
           queue, work);
  else
    launch(attention_chunk_kernel<kSteps, LineTile>, dim3(unsigned(plan.num_tiles), heads, unsigned(plan.num_chunks)),
           dim3(kThreads), 0, queue, work);
}

void merge(const AttentionWork& work, LaunchTo queue) {
  // whole words of the unrolled loops: the compiler may read more steps than it needs
  const size_t chunks = (size_t(work.plan.num_parts) + kMergeAhead - 1) / kMergeAhead * kMergeAhead;
  // blocks of the next product begin beside these: of more rows their weights come in time, of one or two they would
  // delay this kernel's reads by more
  const LaunchOptions options{.beside_large =
                                  work.plan.num_rows > kMostNormedRows && work.plan.num_rows <= kMaxRowTile};
  const auto kernel = work.plan.chunks_below ? attention_merge_kernel<true> : attention_merge_kernel<false>;
  launch_with(options, kernel, dim3(unsigned(work.plan.num_rows), unsigned(work.num_heads)), dim3(kMergeThreads),
              chunks * sizeof(MergeStep), queue, work);
}

/// Of shared memory, for the steps of a merge: three floats a part of a long context.
size_t most_step_bytes(const cudaDeviceProp& device) { return device.sharedMemPerBlockOptin - kReservedShared; }

}  // namespace

int attention_most_parts(const cudaDeviceProp& device) {
  const size_t steps = most_step_bytes(device) / sizeof(MergeStep);
  return int(steps / kMergeAhead * kMergeAhead);
}

size_t attention_row_bytes(const AttentionArgs& args, int32_t num_parts) {
  return size_t(args.num_heads) * size_t(num_parts) * size_t(kHeader + args.kv.v_dim) * sizeof(float);
}

void attention(const AttentionArgs& args, const AttentionPlan& plan, const FreshRows& fresh, const PageMaps& maps,
               const Operand& operand, void* workspace, LaunchTo queue) {
  const KvView& kv = args.kv;
  const int group = group_of(args);
  const AttentionWork work{.q = args.q.f32_row(0),
                           .q_stride = args.q.stride,
                           .out = args.out.f32_row(0),
                           .out_stride = args.out.stride,
                           .operand = operand,
                           .k = kv.k,
                           .v = kv.v ? kv.v : kv.k,
                           .dtype = kv.dtype,
                           .plan = plan,
                           .workspace = static_cast<float*>(workspace),
                           .num_heads = args.num_heads,
                           .group = group,
                           .by_group = math::Divisor(group),
                           .head_offset = args.head_offset,
                           .num_kv_heads = kv.num_kv_heads,
                           .k_dim = kv.k_dim,
                           .v_dim = kv.v_dim,
                           .v_stride = kv.v ? kv.v_dim : kv.k_dim,
                           .block_size = kv.block_size,
                           .window = args.window,
                           .scale = args.scale,
                           .softcap = args.softcap,
                           .q_aligned = lies_in_fours(args.q.f32_row(0), args.q.stride),
                           .fresh = fresh};
  const bool chunks = !plan.tree_tile || plan.num_tile_chunks > 0;  // a slice may hold padding alone
  if (attention_line_tile(args) == kMmaLines) {
    if (plan.whole && plan.num_tiles > 0)
      attention_is_few(plan) ? attention_few(work, maps, queue) : attention_many(work, maps, queue);
    if (chunks && (!plan.whole || plan.tree_tile)) attention_chunks(work, maps, queue);
  } else if (chunks) {
    kv.k_dim <= 128 && kv.v_dim <= 128 ? run_chunks<4>(work, queue) : run_chunks<8>(work, queue);
  }
  if (!plan.whole || plan.tree_tile) merge(work, queue);
  if (plan.num_merged > 0) merge_pieces(work, queue);
}

void prepare_attention(const cudaDeviceProp& device) {
  for (const auto kernel : {attention_merge_kernel<false>, attention_merge_kernel<true>})
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(most_step_bytes(device))),
          "cudaFuncSetAttribute");
  prepare_attention_few(device);
  prepare_attention_many(device);
}

int attention_line_tile(const AttentionArgs& args, bool whole) {
  const KvView& kv = args.kv;
  const bool mma = args.softcap == 0.0f && kv.dtype == DType::bf16 && kv.v && kv.k_dim == kv.v_dim &&
                   kv.k_dim % 32 == 0 && kv.k_dim <= 128;
  return !mma ? kLineTile : whole ? kMmaLines : kChunkLines;
}

bool copies_boxes(const AttentionArgs& args, const cudaDeviceProp& device) {
  return device.major >= 9 && attention_line_tile(args) == kMmaLines;
}

bool attention_takes_whole_lines(const AttentionArgs& args, int num_tiles, int most_lines,
                                 const cudaDeviceProp& device) {
  // what chunks of many lines leave for the merge costs more than SMs without work
  const int fewest = most_lines <= kFewLines ? device.multiProcessorCount * 3 / 4 : device.multiProcessorCount / 5;
  return attention_line_tile(args) == kMmaLines && num_tiles * args.kv.num_kv_heads >= fewest;
}

}  // namespace paceline::cuda
