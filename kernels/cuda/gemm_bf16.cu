// The weight-streaming GEMM: persistent blocks, up to 16 warps an SM. A warp owns one of the strict chunks and streams
// that chunk of its team's tiles through a ring in shared memory, which its lane 0 keeps filled by bulk copies across
// tiles (weight_stream.cuh); the first copies go out before the predecessor ends, for weights are constant. The eight
// (or k_chunks) sums of a tile meet in shared memory and are added as the fixed tree. mma.m16n8k16 has the weights on
// its M side, so the number of rows changes N tiles only, and an output's arithmetic not at all. From 9 rows on a warp
// takes two tiles at a time, since rows, which lie in the L2, are read again for each, up to 24 rows where there are
// enough; of a gated product always, gates and ups.
//
// Tiles that are left over when there are not enough for another turn would leave half of the device without work.
// Where that fits, two teams share such a tile: one begins it, before all else, and hands its sums to the other, which
// goes on with them after all else. The order of additions stays. (The idea of Stream-K, Osama et al. 2023, where parts
// are added; here they are continued, for the bits' sake.)
//
// One or two rows may come as a residual that each block norms for itself (norm_rows.cuh): a kernel less to wait for.

#include <algorithm>
#include <bit>
#include <type_traits>

#include "kernels/cuda/device_code.cuh"
#include "kernels/cuda/fragment_finish.cuh"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/handed_sums.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/norm_rows.cuh"
#include "kernels/cuda/plain_rows.h"
#include "kernels/cuda/weight_stream.cuh"

namespace paceline::cuda {
namespace {

/// Of a ring, where an SM's 16 warps have one each. No more than keep the memory busy: what they leave is L1.
constexpr int kSharedStages = 3;

struct Product {
  WeightShares weights;
  const uint2* x;  // OperandRows
  int ring_stages;
  bool is_paced;   // enough warps for one stage each on its way to keep the memory busy
  int row_begin;   // of this launch; its operand starts there
  int rows;        // end of them
  Operand::Row y;  // row_begin of the epilogue's operand, if it has one
  int64_t next_y;  // from there to the next group of rows
  uint4* handed;   // SumHandover::words()
};

/// Rows are an operand, which every warp reads stage by stage. (Else they are NormedRows.)
struct OperandRows {};

/// Of a block that shares an SM with another, or of one alone.
template <class Rows>
constexpr int kWarpsOf = std::is_same_v<Rows, OperandRows> ? 8 : 16;
/// Whether an SM has room for blocks of the next kernel beside a block that norms: attention's fetch old keys there.
template <int kTiles, class Rows>
constexpr bool kLeavesRoom = kTiles == 1 && std::is_same_v<Rows, NormedRows>;
template <int kTiles, class Rows>
constexpr int kThreadsBeside = kLeavesRoom<kTiles, Rows> ? 96 : 0;  // whose registers it leaves
/// Whether a team may hand its sums to another: those of few rows.
template <int kRowTiles>
constexpr bool kHandsSums = kRowTiles == 1;

/// kGated: of gate tiles and up tiles side by side (Epilogue::glu).
template <int kTiles, int kRowTiles, class Rows, bool kGated>
__global__ void __launch_bounds__(kWarpsOf<Rows> * 32 + kThreadsBeside<kTiles, Rows>, 16 / kWarpsOf<Rows>)
    gemm_bf16_kernel(Product product, Epilogue epilogue, Rows rows) {
  constexpr bool kNorms = std::is_same_v<Rows, NormedRows>, kHands = kHandsSums<kRowTiles>;
  constexpr int kWarps = kWarpsOf<Rows>;
  constexpr int kPairs = kRowTiles * SumPair::kOfRowTile;  // of a tile
  constexpr int kSides = kRowTiles == 1 && (kTiles == 1 || kWarps == 8) ? 2 : 1;
  constexpr bool kFewRegisters = kRowTiles < 4;  // are taken by sums and operands
  using Weights = WarpStream<kTiles, kFewRegisters>;
  constexpr int kSteps = Weights::kSteps;
  extern __shared__ __align__(128) uint4 ring[];
  __shared__ __align__(8) uint64_t barriers[kWarps * kMostStages];
  __shared__ float2 partial[kSides][kWarps][kTiles * kPairs];
  __shared__ uint32_t message[kNorms ? 1 : kWarps];  // of what is sent to the peers
  const WeightShares& shares = product.weights;
  const int warp = __shfl_sync(0xffffffffu, int(threadIdx.x) / 32, 0), lane = threadIdx.x % 32;
  const int chunk = warp & (shares.chunks - 1), of_block = warp >> shares.chunk_bits;
  const int team = int(blockIdx.x) * (kWarps >> shares.chunk_bits) + of_block;
  Walk walk(shares.units, team);
  const Strip<kTiles> strip(shares, chunk);
  Weights weights(ring + warp * product.ring_stages * kStageWords, barriers + warp * kMostStages, product.ring_stages,
                  strip, walk, product.is_paced);
  char* const normed = reinterpret_cast<char*>(ring + kWarps * product.ring_stages * kStageWords);
  if constexpr (kNorms) {
    __shared__ typename RowNorm<kWarps * 32>::Shared shared;
    const RowNorm<kWarps * 32> row_norm(rows);
    wait_for_predecessor();
    launch_dependents();  // not before: attention may count on what came before this kernel (keys_stay)
    row_norm.run(normed, shared, [&] { weights.fill_more(); });
    __syncthreads();
  } else {
    weights.fill_ring();
    if (epilogue.push.count > 0 && threadIdx.x % 32 == 0) message[warp] = message_of(epilogue.push);
    wait_for_predecessor();
    launch_dependents();  // before the wait it was slower
  }

  const int row_begin = product.row_begin + blockIdx.y * kMaxRowTile;
  Operand::Row y = product.y;
  y.first += blockIdx.y * product.next_y;
  const FragmentFinish finish(epilogue, y, row_begin, product.rows);
  const uint2* const x =
      product.x +
      (int64_t{blockIdx.y} * shares.chunks * kMaxRowTile / 8 + int64_t{chunk} * kRowTiles) * shares.steps * 32 + lane;
  const int rows_from_mine = product.rows - row_begin - lane / 4;  // what others would give goes nowhere
  uint2 operand[kSteps][kRowTiles];
  const auto load_operand = [&](int stage, int count) {
    if constexpr (kNorms) {
      const char* const from = normed + lane / 4 * rows.row_bytes() +
                               (chunk * shares.steps + stage * kSteps) * NormedRows::kStepBytes +
                               lane % 4 * int(sizeof(uint2));
#pragma unroll
      for (int s = 0; s < kSteps; ++s)
        operand[s][0] = s < count && rows_from_mine > 0
                            ? *reinterpret_cast<const uint2*>(from + s * NormedRows::kStepBytes)
                            : uint2{0, 0};
    } else {
#pragma unroll
      for (int s = 0; s < kSteps; ++s)
#pragma unroll
        for (int t = 0; t < kRowTiles; ++t)
          operand[s][t] =
              s < count && t * 8 < rows_from_mine ? x[((stage * kSteps + s) * kRowTiles + t) * 32] : uint2{0, 0};
    }
  };
  const int team_threads = shares.chunks * 32, thread = int(threadIdx.x) % team_threads;
  const auto team_barrier = [&] {  // the block's own, number 0, is over
    asm volatile("bar.sync %0, %1;" ::"r"(of_block), "r"(team_threads) : "memory");
  };
  // pairs of a thread, where chunks are most
  constexpr int kSlots = (kTiles * kPairs + kWarps * 32 - 1) / (kWarps * 32);
  SumPassage<kTiles, kRowTiles> passage(product.handed, (team - shares.units.over) * shares.chunks + chunk);
  bool has_asked = false;
  int side = 0;
  while (walk.left > 0) {
    const int unit = walk.unit;
    const bool ends_here = walk.stop == shares.units.unit_stages;
    float sum[kTiles][kRowTiles][4] = {};
    if (kHands && walk.stage > 0) {
      if (!has_asked) passage.ask();
      passage.take(sum);
    }
    float2 standing[kSlots] = {};  // on its way while the sums are made
    if (!kGated && kFewRegisters && epilogue.add && ends_here)
#pragma unroll
      for (int slot = 0; slot < kSlots; ++slot) {
        const int at = slot * team_threads + thread;
        if (at < kTiles * kPairs) standing[slot] = finish.standing(unit * kTiles + at / kPairs, SumPair(at % kPairs));
      }
    for (bool begins = false; !begins;) {
      const int count = strip.steps_at(walk);
      load_operand(walk.stage, count);
      weights.await();
      constexpr int kTogether = kFewRegisters ? kSteps : kSteps / 2;  // of their steps
#pragma unroll
      for (int first = 0; first < kSteps; first += kTogether) {
        uint4 words[kTiles][kTogether];
        weights.take(words, first, count);
        if (first == 0) weights.fill_more();  // the one that had its turn has come
#pragma unroll
        for (int s = 0; s < kTogether; ++s)
#pragma unroll
          for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
            for (int t = 0; t < kRowTiles; ++t) mma(sum[tile][t], words[tile][s], operand[first + s][t]);
      }
      weights.give_back();
      begins = walk.advance();
    }
    if (kHands && !ends_here) {
      SumPassage<kTiles, kRowTiles>(product.handed, team * shares.chunks + chunk).give(sum);
      continue;
    }
    if (kHands && walk.left > 0 && walk.stage > 0) {  // comes while sums are added
      passage.ask();
      has_asked = true;
    }
    float2* const mine = partial[side][warp] + lane;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
      for (int t = 0; t < kRowTiles; ++t)
#pragma unroll
        for (int half = 0; half < 2; ++half)
          mine[((tile * kRowTiles + t) * 2 + half) * 32] = {sum[tile][t][half * 2], sum[tile][t][half * 2 + 1]};
    team_barrier();
    const float2* const first_chunk = partial[side][of_block * shares.chunks];
    // by all, each time that they have read sums: behind the last ones `partial` may be written
    const auto has_read = [&](int begin, int pairs) {
      if (kSides == 1 && begin < pairs && begin + team_threads >= pairs) team_barrier();
    };
    const auto sums_at = [&](int pair) { return tree_of(first_chunk + pair, kTiles * kPairs, shares.chunks); };
    if constexpr (kGated) {
#pragma unroll 1
      for (int begin = 0; begin < kPairs; begin += team_threads) {
        const int at = begin + thread;
        Floats<2> gates, ups;
        if (at < kPairs) gates = sums_at(at), ups = sums_at(kPairs + at);
        has_read(begin, kPairs);
        if (at < kPairs) finish.put_gated(unit * 2, SumPair(at), gates, ups);
      }
    } else {
#pragma unroll 1
      for (int first = 0; first < kTiles * kPairs; first += kSlots * team_threads)
#pragma unroll
        for (int slot = 0; slot < kSlots; ++slot) {
          const int begin = first + slot * team_threads, at = begin + thread;
          Floats<2> sums;
          if (at < kTiles * kPairs) sums = sums_at(at);
          has_read(begin, kTiles * kPairs);
          if (at >= kTiles * kPairs) continue;
          const int tile = unit * kTiles + at / kPairs;
          const SumPair pair(at % kPairs);
          finish.put(tile, pair, sums, kFewRegisters && first == 0 ? standing[slot] : finish.standing(tile, pair),
                     kNorms ? 0 : message[warp]);
        }
    }
    side ^= kSides - 1;  // of two the other is written next, and this one only behind the next barrier
  }
}

__global__ void pack_operand_kernel(const float* x, int64_t stride, Operand operand) {
  launch_dependents();
  wait_for_predecessor();
  const WeightOrder& order = operand.order;
  const int group = blockIdx.y, row_tiles = operand.row_tiles(group);
  const int64_t count = operand.all_steps() * row_tiles * 32;
  __nv_bfloat16* const to = operand.group(group);
  for (int64_t at = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; at < count; at += int64_t{gridDim.x} * blockDim.x) {
    const int lane = int(at % 32), tile = int(at / 32 % row_tiles);
    const int64_t step = at / 32 / row_tiles;
    const int chunk = int(step / order.steps);
    const int64_t begin = order.chunk_begin(chunk), end = order.chunk_begin(chunk + 1);
    const int row = group * operand.group_rows + tile * 8 + lane / 4;
    const auto put_pair = [&](int k) {
      const int64_t i = begin + step % order.steps * kStep + k;
      const auto value = [&](int64_t j) { return row < operand.rows && j < end ? x[row * stride + j] : 0.0f; };
      *reinterpret_cast<__nv_bfloat162*>(to + at / 32 * Operand::kTileValues + operand.place_in_tile(lane / 4, k)) =
          __floats2bfloat162_rn(value(i), value(i + 1));
    };
    put_pair(lane % 4 * 2);
    put_pair(lane % 4 * 2 + 8);
  }
}

constexpr size_t kStageBytes = kStageWords * sizeof(uint4);

template <int kTiles, int kRowTiles, class Rows>
void allow_shared(size_t bytes) {
  const auto allow = [&](auto* kernel) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(bytes)),
          "cudaFuncSetAttribute");
  };
  allow(gemm_bf16_kernel<kTiles, kRowTiles, Rows, false>);
  if constexpr (kTiles == 2) allow(gemm_bf16_kernel<kTiles, kRowTiles, Rows, true>);
}

/// Stages of the rings of a block that is alone on its SM.
int stages_alone(const cudaDeviceProp& device) {
  constexpr size_t kBesideRings = size_t{34} << 10;  // sums of two tiles and 32 rows, barriers
  const size_t room = device.sharedMemPerBlockOptin - kBesideRings;
  return std::clamp(int(room / (kWarpsOf<OperandRows> * kStageBytes)), kSharedStages - 1, kMostStages);
}
/// The stages of a launch's rings, and what its blocks take of dynamic shared memory; devices without bulk copies have
/// no rings. is_alone: no SM gets two blocks.
template <int kTiles, int kRowTiles>
size_t plan_ring(Product& product, const OperandRows&, bool is_alone, const cudaDeviceProp& device) {
  product.ring_stages = is_alone         ? stages_alone(device)
                        : kRowTiles <= 2 ? kSharedStages
                                         : kSharedStages - 1;  // sums take the rest, or L1 that rows are read through
  return device.major >= 9 ? size_t(kWarpsOf<OperandRows>) * size_t(product.ring_stages) * kStageBytes : 0;
}
template <int kTiles, int>
size_t plan_ring(Product& product, const NormedRows& rows, bool, const cudaDeviceProp&) {
  static_assert(kMostNormedCols == kWarpsOf<NormedRows> * 32 * 4 * RowNorm<kWarpsOf<NormedRows> * 32>::kFours);
  const size_t row_bytes = size_t(rows.rows) * size_t(rows.row_bytes());
  product.ring_stages = kLeavesRoom<kTiles, NormedRows> ? kSharedStages - 1 : kSharedStages;
  return size_t(kWarpsOf<NormedRows>) * size_t(product.ring_stages) * kStageBytes + row_bytes;
}

/// Where and how a product is launched.
struct Where {
  const cudaDeviceProp& device;
  LaunchTo queue;
  bool attention_follows = false;
};

/// `groups` of kMaxRowTile rows side by side.
template <int kTiles, int kRowTiles, class Rows = OperandRows>
void run(Product product, const Epilogue& epilogue, int groups, const Where& where, const Rows& rows = {}) {
  const cudaDeviceProp& device = where.device;
  constexpr int kWarps = kWarpsOf<Rows>;
  WeightShares& shares = product.weights;
  const int most_blocks = (groups > 1 ? 8 : 16) / kWarps * device.multiProcessorCount;
  const int block_teams = kWarps / shares.chunks, units = ceil_div(shares.tiles, kTiles);
  const int unit_stages = ceil_div(shares.steps, steps_of_stage(kTiles));
  const bool may_cut = kHandsSums<kRowTiles> && groups == 1;
  const BlockLimits limits{.most_blocks = most_blocks, .block_teams = block_teams, .may_cut = may_cut};
  const int blocks = std::is_same_v<Rows, OperandRows> && kRowTiles < 4 && groups == 1
                         ? blocks_with_room(units, unit_stages, limits, where.attention_follows)
                         : std::min(most_blocks, ceil_div(units, block_teams));
  shares.units = UnitShares::of(units, unit_stages, blocks * block_teams, may_cut);
  if (const Operand& y = epilogue.operand; y.values)
    product.y = y.row(product.row_begin), product.next_y = kMaxRowTile * y.row_values();
  product.is_paced = blocks * groups * kWarps > device.multiProcessorCount * 8;
  // of few rows the next kernel's blocks begin beside, which helps more
  const bool is_alone = kRowTiles > 1 && blocks * groups <= device.multiProcessorCount;
  const size_t bytes = plan_ring<kTiles, kRowTiles>(product, rows, is_alone, device);
  const auto start = [&](auto* kernel) {
    launch(kernel, dim3(unsigned(blocks), unsigned(groups)), dim3(kWarps * 32), bytes, where.queue, product, epilogue,
           rows);
  };
  if constexpr (kTiles == 2)
    if (epilogue.glu) return start(gemm_bf16_kernel<kTiles, kRowTiles, Rows, true>);
  start(gemm_bf16_kernel<kTiles, kRowTiles, Rows, false>);
}

Product product_of(const CudaWeight& w, uint4* handed) {
  return {.weights = {.w = w.memory.as<const uint4>(),
                      .tiles = int(w.tiles()),
                      .chunks = w.k_chunks,
                      .chunk_bits = std::countr_zero(unsigned(w.k_chunks)),
                      .steps = w.order().steps,
                      .units = {}},
          .x = nullptr,
          .ring_stages = 0,
          .is_paced = false,
          .row_begin = 0,
          .rows = 0,
          .y = {},
          .next_y = 0,
          .handed = handed};
}

/// Whether no team gets more than one tile: two at a time would leave half of these without work.
bool has_a_tile_a_team_at_most(const CudaWeight& w, const cudaDeviceProp& device) {
  const int64_t teams = int64_t{16} * device.multiProcessorCount / w.k_chunks;
  return !w.pair_panels && w.tiles() <= teams;
}

/// What a block that norms takes of shared memory, at most.
constexpr size_t kMostNormedBytes = size_t(kMostNormedRows) * size_t(NormedRows::row_bytes(kMostNormedCols));
constexpr size_t kNormingBytes = kWarpsOf<NormedRows> * kSharedStages * kStageBytes + kMostNormedBytes;
constexpr size_t kBesideNorming = size_t{18} << 10;  // barriers, sums

bool has_room_to_norm(const cudaDeviceProp& device) {
  return device.major >= 9 && device.sharedMemPerBlockOptin >= kNormingBytes + kBesideNorming;
}

}  // namespace

void prepare_gemm_bf16(const cudaDeviceProp& device) {
  if (device.major >= 9) {
    const size_t ring = kWarpsOf<OperandRows> * size_t(stages_alone(device)) * kStageBytes;
    allow_shared<1, 1, OperandRows>(ring);
    allow_shared<2, 1, OperandRows>(ring);
    allow_shared<1, 2, OperandRows>(ring);
    allow_shared<2, 2, OperandRows>(ring);
    allow_shared<1, 3, OperandRows>(ring);
    allow_shared<2, 3, OperandRows>(ring);
    allow_shared<2, 4, OperandRows>(ring);
  }
  if (has_room_to_norm(device)) {
    allow_shared<1, 1, NormedRows>(kNormingBytes);
    allow_shared<2, 1, NormedRows>(kNormingBytes);
  }
  prepare_gemm_split(device);
}

uint4* SumHandover::words(const cudaDeviceProp& device, cudaStream_t stream) {
  constexpr size_t kMostSums = 2 * 4 * 32;  // of a warp that hands them over
  if (words_.bytes() == 0)
    words_ = DeviceMemory(size_t(16 * device.multiProcessorCount) * kMostSums / 2 * sizeof(uint4), stream);
  return words_.as<uint4>();
}

bool norms_rows(const NormArgs& norm, const GemmArgs& args, const cudaDeviceProp& device) {
  const auto& w = static_cast<const CudaWeight&>(*args.w);
  const MatView &x = norm.residual, &y = args.y;
  if (args.sum) return false;
  const auto begins_within = [](const MatView& a, const MatView& b) {
    return a.f32_row(0) >= b.f32_row(0) && a.f32_row(0) < b.f32_row(b.rows);
  };
  if (x.rows == 0 || begins_within(x, y) || begins_within(y, x)) return false;  // blocks read x while others write y
  return has_room_to_norm(device) && !norm.delta.data && w.dtype == DType::bf16 && x.rows <= kMostNormedRows &&
         x.cols <= kMostNormedCols && w.order().chunks * w.order().steps * kStep == x.cols &&
         lies_in_fours(x.f32_row(0), x.stride) && lies_in_fours(norm.weight, x.cols) &&
         lies_in_fours(norm.bias, x.cols);
}

void norm_gemm_bf16(const NormArgs& norm, const GemmArgs& args, const Operand& y, SumHandover& handover,
                    const cudaDeviceProp& device, LaunchTo queue) {
  const auto& w = static_cast<const CudaWeight&>(*args.w);
  const NormedRows rows{.x = norm.residual.f32_row(0),
                        .stride = norm.residual.stride,
                        .weight = norm.weight,
                        .bias = norm.bias,
                        .eps = norm.eps,
                        .is_layer = norm.kind == NormKind::layer,
                        .cols = norm.residual.cols,
                        .rows = norm.residual.rows};
  Product product = product_of(w, handover.words(device, queue.stream));
  product.rows = rows.rows;
  const Epilogue ends = epilogue(args, y);
  if (w.pair_panels)
    run<2, 1>(product, ends, 1, {device, queue}, rows);
  else
    run<1, 1>(product, ends, 1, {device, queue}, rows);
}

void pack_operand(const MatView& x, const Operand& operand, LaunchTo queue) {
  if (operand.is_plain()) return pack_plain(x, operand, queue);
  const int64_t words = operand.all_steps() * operand.row_tiles(0) * 32;
  launch(pack_operand_kernel, dim3(unsigned((words + 255) / 256), unsigned(operand.groups())), dim3(256), 0, queue,
         static_cast<const float*>(x.f32_row(0)), x.stride, operand);
}

void gemm_bf16(const GemmArgs& args, const Operand& x, const Operand& y, SumHandover& handover,
               const cudaDeviceProp& device, LaunchTo queue) {
  if (x.is_wide()) return gemm_split(args, x, y, handover, device, queue);
  const auto& w = static_cast<const CudaWeight&>(*args.w);
  const Where where{device, queue, args.attention_follows};
  const int groups = x.groups(), full = args.x.rows / kMaxRowTile;
  Product product = product_of(w, handover.words(device, queue.stream));
  product.x = reinterpret_cast<const uint2*>(x.group(0));
  product.rows = full * kMaxRowTile;
  const Epilogue ends = epilogue(args, y);
  if (full > 0) run<2, kMaxRowTile / 8>(product, ends, full, where);
  if (full == groups) return;
  product.x = reinterpret_cast<const uint2*>(x.group(full));
  product.row_begin = product.rows;
  product.rows = args.x.rows;
  switch (x.row_tiles(full)) {
    case 1: return w.pair_panels ? run<2, 1>(product, ends, 1, where) : run<1, 1>(product, ends, 1, where);
    case 2:
      if (has_a_tile_a_team_at_most(w, device)) return run<1, 2>(product, ends, 1, where);
      return run<2, 2>(product, ends, 1, where);
    case 3:
      if (has_a_tile_a_team_at_most(w, device)) return run<1, 3>(product, ends, 1, where);
      return run<2, 3>(product, ends, 1, where);
    default: return run<2, 4>(product, ends, 1, where);
  }
}

}  // namespace paceline::cuda
