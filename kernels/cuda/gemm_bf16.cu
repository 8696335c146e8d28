// The weight-streaming GEMM: persistent blocks of 8 warps, two an SM. A warp owns one of the strict chunks and streams
// that chunk of its block's tiles through a ring in shared memory, which its lane 0 keeps filled by bulk copies across
// tiles; the ring is filled before the predecessor ends, for weights are constant. The eight (or k_chunks) sums of a
// tile meet in shared memory and are added as the fixed tree. mma.m16n8k16 has the weights on its M side, so the number
// of rows changes N tiles only, and an output's arithmetic not at all.

#include "kernels/cuda/bulk_copy.cuh"
#include "kernels/cuda/device_code.cuh"
#include "kernels/cuda/epilogue.cuh"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/mma.cuh"

namespace paceline::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kStageSteps = 8;
constexpr int kStageWords = kStageSteps * 32;  // uint4
constexpr int stages(int n_tiles) { return n_tiles <= 2 ? 3 : 2; }

struct Stream {
  const uint4* w;
  const uint2* x;
  int64_t units;
  int chunks;
  int steps;      // of a chunk
  int row_begin;  // of this launch; its operand starts there
  int rows;       // end of them
};

/// One warp's weights in the order in which it multiplies them. next() gives each lane its words of up to kStageSteps
/// steps; the last stage of a chunk may hold fewer.
#if __CUDA_ARCH__ >= 900
template <int kStages>
class WarpStream {
 public:
  __device__ WarpStream(uint4* ring, uint64_t* barriers, const uint4* first, int64_t total_chunks, int chunk_words,
                        int64_t jump_even, int64_t jump_odd, int tiles_per_unit)
      : ring_(ring),
        barrier_(shared_address(barriers)),
        next_(first),
        left_(total_chunks),
        chunk_words_(chunk_words),
        jump_even_(jump_even),
        jump_odd_(jump_odd),
        tiles_per_unit_(tiles_per_unit) {
    if (threadIdx.x % 32 == 0) {
      for (int stage = 0; stage < kStages; ++stage) init_barrier(barrier_ + stage * 8, 1);
      asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
      for (int stage = 0; stage < kStages; ++stage) fill(stage);
    }
    __syncwarp();
  }

  __device__ void next(uint4 (&words)[kStageSteps], int num_steps) {
    wait_at(barrier_ + stage_ * 8, parity_);
    const uint4* from = ring_ + stage_ * kStageWords + threadIdx.x % 32;
#pragma unroll
    for (int step = 0; step < kStageSteps; ++step) words[step] = step < num_steps ? from[step * 32] : uint4{0, 0, 0, 0};
    // The reads must be over before the copy engine, which sees memory through another proxy, writes there again.
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncwarp();
    if (threadIdx.x % 32 == 0) fill(stage_);
    if (++stage_ == kStages) {
      stage_ = 0;
      parity_ ^= 1;
    }
  }

 private:
  __device__ void fill(int stage) {
    if (left_ == 0) return;
    const int words = chunk_words_ - done_ < kStageWords ? chunk_words_ - done_ : kStageWords;
    const uint32_t barrier = barrier_ + stage * 8, bytes = uint32_t(words * sizeof(uint4));
    expect_bytes(barrier, bytes);
    copy_here(ring_ + stage * kStageWords, next_ + done_, bytes, barrier);
    done_ += words;
    if (done_ < chunk_words_) return;
    done_ = 0;
    --left_;
    odd_ = (odd_ + 1) % tiles_per_unit_;
    next_ += odd_ ? jump_odd_ : jump_even_;
  }

  uint4* ring_;
  uint32_t barrier_;
  const uint4* next_;
  int64_t left_;
  int chunk_words_;
  int64_t jump_even_, jump_odd_;
  int tiles_per_unit_;
  int done_ = 0, odd_ = 0, stage_ = 0;
  uint32_t parity_ = 0;
};
#else
/// Without bulk copies: straight to registers.
template <int kStages>
class WarpStream {
 public:
  __device__ WarpStream(uint4*, uint64_t*, const uint4* first, int64_t, int chunk_words, int64_t jump_even,
                        int64_t jump_odd, int tiles_per_unit)
      : next_(first),
        chunk_words_(chunk_words),
        jump_even_(jump_even),
        jump_odd_(jump_odd),
        tiles_per_unit_(tiles_per_unit) {}
  __device__ void next(uint4 (&words)[kStageSteps], int num_steps) {
#pragma unroll
    for (int step = 0; step < kStageSteps; ++step)
      words[step] = step < num_steps ? load_stream(next_ + done_ + step * 32 + threadIdx.x % 32) : uint4{0, 0, 0, 0};
    done_ += num_steps * 32;
    if (done_ < chunk_words_) return;
    done_ = 0;
    odd_ = (odd_ + 1) % tiles_per_unit_;
    next_ += odd_ ? jump_odd_ : jump_even_;
  }

 private:
  const uint4* next_;
  int chunk_words_;
  int64_t jump_even_, jump_odd_;
  int tiles_per_unit_;
  int done_ = 0, odd_ = 0;
};
#endif

template <int kRowTiles>
__global__ void __launch_bounds__(kWarps * 32, 2) gemm_bf16_kernel(Stream stream, Epilogue epilogue) {
  constexpr int kStages = stages(kRowTiles);
  constexpr int kSums = kRowTiles * 4 * 32;                               // of a tile
  constexpr int kBatch = kRowTiles <= 2 ? kStageSteps : kStageSteps / 2;  // steps whose operand is in registers
  extern __shared__ __align__(128) uint4 ring[];
  __shared__ __align__(8) uint64_t barriers[kWarps * kStages];
  __shared__ float partial[2][kWarps][kSums];
  launch_dependents();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int side_by_side = kWarps / stream.chunks;  // units that the block works on at once
  const int chunk = warp % stream.chunks, mine = warp / stream.chunks;
  const int tiles = epilogue.tiles_per_unit();
  const int64_t stride = int64_t{gridDim.x} * side_by_side;
  const int64_t first_unit = int64_t{blockIdx.x} * side_by_side + mine;
  const int64_t num_units = first_unit < stream.units ? (stream.units - first_unit + stride - 1) / stride : 0;
  const int chunk_words = stream.steps * 32;
  const int64_t tile_words = int64_t{stream.chunks} * chunk_words;
  const int64_t to_next_unit = (stride * tiles - (tiles - 1)) * tile_words;
  WarpStream<kStages> weights(ring + warp * kStages * kStageWords, barriers + warp * kStages,
                              stream.w + first_unit * tiles * tile_words + int64_t{chunk} * chunk_words,
                              num_units * tiles, chunk_words, to_next_unit, tile_words, tiles);
  wait_for_predecessor();

  const int row_begin = stream.row_begin + blockIdx.y * kMaxRowTile;
  const uint2* x =
      stream.x +
      (int64_t{blockIdx.y} * stream.chunks * kMaxRowTile / 8 + int64_t{chunk} * kRowTiles) * stream.steps * 32 + lane;
  constexpr int kMostSlots = (kSums + kWarps * 32 - 1) / (kWarps * 32);  // of a thread, where chunks are kWarps
  float gate[kMostSlots];
  int side = 0;
  for (int64_t base = int64_t{blockIdx.x} * side_by_side; base < stream.units; base += stride) {
    for (int tile = 0; tile < tiles; ++tile, side ^= 1) {
      float sum[kRowTiles][4] = {};
      if (base + mine < stream.units) {
        for (int step = 0; step < stream.steps; step += kStageSteps) {
          const int count = stream.steps - step < kStageSteps ? stream.steps - step : kStageSteps;
          uint4 words[kStageSteps];
          uint2 operand[kBatch][kRowTiles];
          const auto load_operand = [&](int begin) {
#pragma unroll
            for (int s = 0; s < kBatch; ++s)
#pragma unroll
              for (int t = 0; t < kRowTiles; ++t)
                operand[s][t] = begin + s < count ? x[((step + begin + s) * kRowTiles + t) * 32] : uint2{0, 0};
          };
          load_operand(0);
          weights.next(words, count);
#pragma unroll
          for (int begin = 0; begin < kStageSteps; begin += kBatch) {
            if (begin > 0) load_operand(begin);
#pragma unroll
            for (int s = 0; s < kBatch; ++s)
#pragma unroll
              for (int t = 0; t < kRowTiles; ++t) mma(sum[t], words[begin + s], operand[s][t]);
          }
        }
      }
#pragma unroll
      for (int t = 0; t < kRowTiles; ++t)
#pragma unroll
        for (int j = 0; j < 4; ++j) partial[side][warp][(t * 4 + j) * 32 + lane] = sum[t][j];
      __syncthreads();
      // one barrier a tile: the other side is written next, and this one only after the next barrier
      int slot = 0;
      for (int at = threadIdx.x; at < side_by_side * kSums; at += kWarps * 32, ++slot) {
        const int sub = at / kSums, e = at % kSums;
        const float* part = &partial[side][sub * stream.chunks][e];
        float v[kWarps];
#pragma unroll
        for (int c = 0; c < kWarps; ++c) v[c] = c < stream.chunks ? part[c * kSums] : 0.0f;
        float total = v[0];
        if (stream.chunks == 2) total = v[0] + v[1];
        if (stream.chunks == 4) total = (v[0] + v[1]) + (v[2] + v[3]);
        if (stream.chunks == 8) total = ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7]));
        const int l = e % 32, j = e / 32 % 4, t = e / 128;
        const int row = row_begin + t * 8 + l % 4 * 2 + j % 2;
        if (row < stream.rows && base + sub < stream.units)
          epilogue.put(row, base + sub, tile, l / 4 + j / 2 * 8, total, gate[slot % kMostSlots]);
      }
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

template <int kRowTiles>
void run(const Stream& stream, const Epilogue& epilogue, int groups, const cudaDeviceProp& device, cudaStream_t cuda) {
  const int64_t side_by_side = kWarps / stream.chunks;
  const int64_t needed = (stream.units + side_by_side - 1) / side_by_side;
  const int64_t room = int64_t{2} * device.multiProcessorCount;
  launch(gemm_bf16_kernel<kRowTiles>, dim3(unsigned(needed < room ? needed : room), unsigned(groups)),
         dim3(kWarps * 32), ring_bytes<kRowTiles>(device), cuda, stream, epilogue);
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
                .units = w.tiles() / (w.pair_panels ? 2 : 1),
                .chunks = w.k_chunks,
                .steps = x.order.steps,
                .row_begin = 0,
                .rows = full * kMaxRowTile};
  const Epilogue ends = epilogue(args, y);
  if (full > 0) run<kMaxRowTile / 8>(stream, ends, full, device, cuda);
  if (full == groups) return;
  stream.x = reinterpret_cast<const uint2*>(x.group(full));
  stream.row_begin = stream.rows;
  stream.rows = args.x.rows;
  switch (x.row_tiles(full)) {
    case 1: return run<1>(stream, ends, 1, device, cuda);
    case 2: return run<2>(stream, ends, 1, device, cuda);
    case 3: return run<3>(stream, ends, 1, device, cuda);
    default: return run<4>(stream, ends, 1, device, cuda);
  }
}

}  // namespace paceline::cuda
