// The weight-streaming GEMM: persistent blocks of 8 warps, two an SM. A warp owns one of the strict chunks and streams
// that chunk of its block's tiles through a ring in shared memory, which its lane 0 keeps filled by bulk copies across
// tiles; the ring is filled before the predecessor ends, for weights are constant. The eight (or k_chunks) sums of a
// tile meet in shared memory and are added as the fixed tree. mma.m16n8k16 has the weights on its M side, so the number
// of rows changes N tiles only, and an output's arithmetic not at all. From 9 rows on a warp takes two tiles at a time,
// since rows, which lie in the L2, are read again for each.

#include <algorithm>

#include "kernels/cuda/bulk_copy.cuh"
#include "kernels/cuda/device_code.cuh"
#include "kernels/cuda/epilogue.cuh"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/plain_rows.h"

namespace paceline::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kStageWords = 8 * 32;  // uint4: 8 steps of one tile, or 4 of two
constexpr int tiles_at_once(int row_tiles) { return row_tiles == 1 ? 1 : 2; }
constexpr int stages(int row_tiles) { return row_tiles <= 2 ? 3 : 2; }

struct Stream {
  const uint4* w;
  const uint2* x;
  int64_t units;  // one tile, or two (tiles_at_once, pair_panels)
  int64_t tiles;
  int chunks;
  int steps;      // of a chunk
  bool is_paced;  // enough blocks for one stage a warp on its way to keep the memory busy
  int row_begin;  // of this launch; its operand starts there
  int rows;       // end of them
};

/// Where a warp's chunk of its block's tiles lies. Units of tiles come one after another; two tiles at once lie side by
/// side, tile_words apart, and the second may be missing in the warp's last unit.
struct Strip {
  const uint4* first;
  int64_t left;  // chunks to stream; kTiles at once count as one
  int chunk_words;
  int64_t tile_words;
  int64_t jump_to_next;  // words from a unit's last chunk to the next unit's first
  int passes;            // over a unit, a tile each where tiles come one after another
  bool ends_odd;
  int pass = 0;

  __device__ void advance() {
    --left;
    pass = (pass + 1) % passes;
    first += pass ? tile_words : jump_to_next;
  }
  __device__ int64_t offset_of(int tile) const { return tile == 0 || (ends_odd && left == 1) ? 0 : tile_words; }
};

/// One warp's weights in the order in which it multiplies them. next() gives each lane its words of up to kSteps steps
/// of kTiles tiles; the last stage of a chunk may hold fewer.
#if __CUDA_ARCH__ >= 900
template <int kStages, int kTiles, bool kPaced>
class WarpStream {
 public:
  static constexpr int kSteps = kStageWords / 32 / kTiles;

  /// is_paced: one stage is on its way at a time, since whatever else the device reads would wait behind more.
  __device__ WarpStream(uint4* ring, uint64_t* barriers, const Strip& strip, bool is_paced)
      : ring_(ring), barrier_(shared_address(barriers)), strip_(strip), is_paced_(kPaced && is_paced) {
    if (threadIdx.x % 32 == 0) {
      for (int stage = 0; stage < kStages; ++stage) init_barrier(barrier_ + stage * 8, 1);
      asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
      for (int stage = 0; stage < kStages && strip_.left > 0; ++stage) {
        if (is_paced_ && stage > 0) wait_at(barrier_ + (stage - 1) * 8, 0);
        fill();
      }
    }
    __syncwarp();
  }

  __device__ void next(uint4 (&words)[kTiles][kSteps], int num_steps) {
    wait_at(barrier_ + stage_ * 8, parity_);
    const uint4* from = ring_ + stage_ * kStageWords + threadIdx.x % 32;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
      for (int step = 0; step < kSteps; ++step)
        words[tile][step] = step < num_steps ? from[(tile * kSteps + step) * 32] : uint4{0, 0, 0, 0};
    // The reads must be over before the copy engine, which sees memory through another proxy, writes there again.
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncwarp();
    if (threadIdx.x % 32 == 0 && strip_.left > 0) {
      const bool waits = is_paced_ && newest_ > taken_;
      if (!waits || is_past(barrier_ + newest_ % kStages * 8, newest_ / kStages & 1)) fill();
    }
    ++taken_;
    if (++stage_ == kStages) {
      stage_ = 0;
      parity_ ^= 1;
    }
  }

 private:
  /// The next stage, which is free; strip_.left > 0.
  __device__ void fill() {
    const int stage = ++newest_ % kStages;
    constexpr int kWords = kStageWords / kTiles;
    const int words = strip_.chunk_words - done_ < kWords ? strip_.chunk_words - done_ : kWords;
    const uint32_t barrier = barrier_ + stage * 8, bytes = uint32_t(words * sizeof(uint4));
    expect_bytes(barrier, bytes * kTiles);
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile)
      copy_here(ring_ + stage * kStageWords + tile * kWords, strip_.first + strip_.offset_of(tile) + done_, bytes,
                barrier);
    done_ += words;
    if (done_ < strip_.chunk_words) return;
    done_ = 0;
    strip_.advance();
  }

  uint4* ring_;
  uint32_t barrier_;
  Strip strip_;
  const bool is_paced_;
  int done_ = 0, stage_ = 0, taken_ = 0, newest_ = -1;
  uint32_t parity_ = 0;
};
#else
/// Without bulk copies: straight to registers.
template <int kStages, int kTiles, bool kPaced>
class WarpStream {
 public:
  static constexpr int kSteps = kStageWords / 32 / kTiles;

  __device__ WarpStream(uint4*, uint64_t*, const Strip& strip, bool) : strip_(strip) {}
  __device__ void next(uint4 (&words)[kTiles][kSteps], int num_steps) {
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
      for (int step = 0; step < kSteps; ++step)
        words[tile][step] =
            step < num_steps ? load_stream(strip_.first + strip_.offset_of(tile) + done_ + step * 32 + threadIdx.x % 32)
                             : uint4{0, 0, 0, 0};
    done_ += num_steps * 32;
    if (done_ < strip_.chunk_words) return;
    done_ = 0;
    strip_.advance();
  }

 private:
  Strip strip_;
  int done_ = 0;
};
#endif

/// The sums of the chunks as the fixed tree.
__device__ __forceinline__ float tree_of(const float* part, int stride, int chunks) {
  float v[kWarps];
#pragma unroll
  for (int c = 0; c < kWarps; ++c) v[c] = c < chunks ? part[c * stride] : 0.0f;
  if (chunks == 1) return v[0];
  if (chunks == 2) return v[0] + v[1];
  if (chunks == 4) return (v[0] + v[1]) + (v[2] + v[3]);
  return ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7]));
}

/// Whose sum is number `at` of those that a block's units at `base` have: kSums for each tile.
template <int kSums>
struct SumPlace {
  int sub, of_tile, lane, row;
  bool wanted;

  __device__ SumPlace(int at, const Stream& stream, int row_begin, int64_t base, int side_by_side)
      : sub(at / kSums), of_tile(at % kSums) {
    const int l = of_tile % 32, j = of_tile / 32 % 4, t = of_tile / 128;
    lane = l / 4 + j / 2 * 8;
    row = row_begin + t * 8 + l % 4 * 2 + j % 2;
    wanted = sub < side_by_side && row < stream.rows && base + sub < stream.units;
  }
};

template <int kRowTiles>
__global__ void __launch_bounds__(kWarps * 32, 2) gemm_bf16_kernel(Stream stream, Epilogue epilogue) {
  constexpr int kStages = stages(kRowTiles), kTiles = tiles_at_once(kRowTiles);
  constexpr int kSums = kRowTiles * 4 * 32;  // of a tile
  constexpr int kSides = kTiles == 1 ? 2 : 1;
  constexpr bool kFewRegisters = kRowTiles < 4;  // are taken by sums and operands
  using Weights = WarpStream<kStages, kTiles, kFewRegisters>;
  extern __shared__ __align__(128) uint4 ring[];
  __shared__ __align__(8) uint64_t barriers[kWarps * kStages];
  __shared__ float partial[kSides][kWarps][kTiles * kSums];
  launch_dependents();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int side_by_side = kWarps / stream.chunks;  // units that the block works on at once
  const int chunk = warp % stream.chunks, mine = warp / stream.chunks;
  const int unit_tiles = kTiles == 1 ? epilogue.tiles_per_unit() : 2;
  const int passes = unit_tiles / kTiles;  // over a unit
  const int64_t stride = int64_t{gridDim.x} * side_by_side;
  const int64_t first_unit = int64_t{blockIdx.x} * side_by_side + mine;
  const int64_t num_units = first_unit < stream.units ? (stream.units - first_unit + stride - 1) / stride : 0;
  const int64_t last_tile = (first_unit + (num_units - 1) * stride) * unit_tiles + 1;
  const int chunk_words = stream.steps * 32;
  const int64_t tile_words = int64_t{stream.chunks} * chunk_words;
  Weights weights(ring + warp * kStages * kStageWords, barriers + warp * kStages,
                  {.first = stream.w + first_unit * unit_tiles * tile_words + int64_t{chunk} * chunk_words,
                   .left = num_units * passes,
                   .chunk_words = chunk_words,
                   .tile_words = tile_words,
                   .jump_to_next = (stride * unit_tiles - (passes - 1)) * tile_words,
                   .passes = passes,
                   .ends_odd = kTiles == 2 && last_tile == stream.tiles},
                  stream.is_paced);
  wait_for_predecessor();

  const int row_begin = stream.row_begin + blockIdx.y * kMaxRowTile;
  const uint2* x =
      stream.x +
      (int64_t{blockIdx.y} * stream.chunks * kMaxRowTile / 8 + int64_t{chunk} * kRowTiles) * stream.steps * 32 + lane;
  const int rows_from_mine = stream.rows - row_begin - lane / 4;     // what others would give goes nowhere
  constexpr int kSlots = (kSums + kWarps * 32 - 1) / (kWarps * 32);  // of a thread, where chunks are kWarps
  using Place = SumPlace<kSums>;
  float gate[kSlots];
  int side = 0;
  for (int64_t base = int64_t{blockIdx.x} * side_by_side; base < stream.units; base += stride) {
    for (int pass = 0; pass < passes; ++pass, side ^= kSides - 1) {
      float standing[kSlots][kTiles] = {};  // on its way while the sums are made
      if (kFewRegisters && epilogue.add)
#pragma unroll
        for (int slot = 0; slot < kSlots; ++slot) {
          const Place place(slot * kWarps * 32 + threadIdx.x, stream, row_begin, base, side_by_side);
#pragma unroll
          for (int tile = 0; tile < kTiles; ++tile)
            if (place.wanted)
              standing[slot][tile] = epilogue.standing(place.row, (base + place.sub) * kTiles + tile, place.lane);
        }
      float sum[kTiles][kRowTiles][4] = {};
      if (base + mine < stream.units) {
        for (int step = 0; step < stream.steps; step += Weights::kSteps) {
          const int count = stream.steps - step < Weights::kSteps ? stream.steps - step : Weights::kSteps;
          uint4 words[kTiles][Weights::kSteps];
          uint2 operand[Weights::kSteps][kRowTiles];
#pragma unroll
          for (int s = 0; s < Weights::kSteps; ++s)
#pragma unroll
            for (int t = 0; t < kRowTiles; ++t)
              operand[s][t] = s < count && t * 8 < rows_from_mine ? x[((step + s) * kRowTiles + t) * 32] : uint2{0, 0};
          weights.next(words, count);
#pragma unroll
          for (int s = 0; s < Weights::kSteps; ++s)
#pragma unroll
            for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
              for (int t = 0; t < kRowTiles; ++t) mma(sum[tile][t], words[tile][s], operand[s][t]);
        }
      }
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
        for (int t = 0; t < kRowTiles; ++t)
#pragma unroll
          for (int j = 0; j < 4; ++j) partial[side][warp][tile * kSums + (t * 4 + j) * 32 + lane] = sum[tile][t][j];
      __syncthreads();
      for (int first = 0; first < side_by_side * kSums; first += kSlots * kWarps * 32) {
#pragma unroll
        for (int slot = 0; slot < kSlots; ++slot) {
          const Place place(first + slot * kWarps * 32 + threadIdx.x, stream, row_begin, base, side_by_side);
          if (!place.wanted) continue;
#pragma unroll
          for (int tile = 0; tile < kTiles; ++tile) {
            const float* const part = &partial[side][place.sub * stream.chunks][tile * kSums + place.of_tile];
            const float total = tree_of(part, kTiles * kSums, stream.chunks);
            const int which = pass * kTiles + tile;  // of the unit's tiles
            const int64_t unit = epilogue.pairs ? base + place.sub : (base + place.sub) * kTiles + which;
            epilogue.put(
                place.row, unit, epilogue.pairs ? which : 0, place.lane, total, gate[slot],
                kFewRegisters && first == 0 ? standing[slot][tile] : epilogue.standing(place.row, unit, place.lane));
          }
        }
      }
      // one barrier a pass with two sides: the other is written next, and this one only after the next barrier
      if (kSides == 1) __syncthreads();
    }
  }
}

__global__ void pack_operand_kernel(const float* x, int64_t stride, Operand operand) {
  launch_dependents();
  wait_for_predecessor();
  const FragmentOrder& order = operand.order;
  const int group = blockIdx.y, row_tiles = operand.row_tiles(group);
  const int64_t count = operand.all_steps() * row_tiles * 32;
  __nv_bfloat16* const to = operand.group(group);
  for (int64_t at = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; at < count; at += int64_t{gridDim.x} * blockDim.x) {
    const int lane = int(at % 32), tile = int(at / 32 % row_tiles);
    const int64_t step = at / 32 / row_tiles;
    const int chunk = int(step / order.steps);
    const int64_t begin = order.chunk_begin(chunk), end = order.chunk_begin(chunk + 1);
    const int row = group * operand.group_rows() + tile * 8 + lane / 4;
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

/// Of a block's shared memory; devices without bulk copies need none.
template <int kRowTiles>
size_t ring_bytes(const cudaDeviceProp& device) {
  return device.major >= 9 ? size_t(kWarps) * stages(kRowTiles) * kStageWords * sizeof(uint4) : 0;
}

template <int kRowTiles>
void allow_ring(const cudaDeviceProp& device) {
  check(cudaFuncSetAttribute(gemm_bf16_kernel<kRowTiles>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             int(ring_bytes<kRowTiles>(device))),
        "cudaFuncSetAttribute");
}

int64_t num_units(const CudaWeight& w, int row_tiles) {
  const int unit_tiles = w.pair_panels ? 2 : tiles_at_once(row_tiles);
  return (w.tiles() + unit_tiles - 1) / unit_tiles;
}

/// Of a pass over the weights; `groups` of them go side by side.
int num_blocks(const CudaWeight& w, int row_tiles, int groups, const cudaDeviceProp& device) {
  const int64_t side_by_side = kWarps / w.k_chunks;
  return int(std::min<int64_t>((num_units(w, row_tiles) + side_by_side - 1) / side_by_side,
                               (groups > 1 ? 1 : 2) * device.multiProcessorCount));
}

template <int kRowTiles>
void run(const CudaWeight& w, Stream stream, const Epilogue& epilogue, int groups, const cudaDeviceProp& device,
         cudaStream_t cuda) {
  const int blocks = num_blocks(w, kRowTiles, groups, device);
  stream.units = num_units(w, kRowTiles);
  stream.is_paced = blocks * groups > device.multiProcessorCount;
  launch(gemm_bf16_kernel<kRowTiles>, dim3(unsigned(blocks), unsigned(groups)), dim3(kWarps * 32),
         ring_bytes<kRowTiles>(device), cuda, stream, epilogue);
}

}  // namespace

void prepare_gemm_bf16(const cudaDeviceProp& device) {
  allow_ring<1>(device);
  allow_ring<2>(device);
  allow_ring<3>(device);
  allow_ring<4>(device);
  prepare_gemm_wide(device);
}

void pack_operand(const MatView& x, const Operand& operand, cudaStream_t stream) {
  if (operand.is_plain()) return pack_plain(x, operand, stream);
  const int64_t words = operand.all_steps() * operand.row_tiles(0) * 32;
  launch(pack_operand_kernel, dim3(unsigned((words + 255) / 256), unsigned(operand.groups())), dim3(256), 0, stream,
         static_cast<const float*>(x.f32_row(0)), x.stride, operand);
}

void gemm_bf16(const GemmArgs& args, const Operand& x, const Operand& y, const cudaDeviceProp& device,
               cudaStream_t cuda) {
  if (x.is_wide()) return gemm_wide(args, x, y, cuda);
  const auto& w = static_cast<const CudaWeight&>(*args.w);
  const int groups = x.groups(), full = args.x.rows / kMaxRowTile;
  Stream stream{.w = w.memory.as<const uint4>(),
                .x = reinterpret_cast<const uint2*>(x.group(0)),
                .units = 0,
                .tiles = w.tiles(),
                .chunks = w.k_chunks,
                .steps = x.order.steps,
                .is_paced = false,
                .row_begin = 0,
                .rows = full * kMaxRowTile};
  const Epilogue ends = epilogue(args, y);
  if (full > 0) run<kMaxRowTile / 8>(w, stream, ends, full, device, cuda);
  if (full == groups) return;
  stream.x = reinterpret_cast<const uint2*>(x.group(full));
  stream.row_begin = stream.rows;
  stream.rows = args.x.rows;
  switch (x.row_tiles(full)) {
    case 1: return run<1>(w, stream, ends, 1, device, cuda);
    case 2: return run<2>(w, stream, ends, 1, device, cuda);
    case 3: return run<3>(w, stream, ends, 1, device, cuda);
    default: return run<4>(w, stream, ends, 1, device, cuda);
  }
}

}  // namespace paceline::cuda
