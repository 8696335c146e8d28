// The GEMM of 129 rows and more: blocks of 128 outputs x 128 rows, so that a weight is read once for 128 rows. Bits of
// wgmma are those of mma.m16n8k16 (wgmma.cuh), chunks and tree those of gemm_bf16.cu: so are the bits of an output.
//
// Two blocks with the same outputs and neighbouring rows are a cluster: each copies one half of the weights into the
// shared memory of both. A ninth warp does the copying, stage by stage through a ring. A warpgroup computes 64 outputs
// x 128 rows in registers; the chunk sums that wait in the tree lie in registers (level 0) and shared memory (1 and 2).

#include <algorithm>

#include "kernels/cuda/bulk_copy.cuh"
#include "kernels/cuda/device_code.cuh"
#include "kernels/cuda/epilogue.cuh"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/wgmma.cuh"

namespace paceline::cuda {
namespace {

constexpr int kCluster = 2;  // blocks; one where there are no more rows than a block takes
constexpr int kWarps = 8;    // that compute, two warpgroups; each takes a tile of 16 outputs
constexpr int kStageSteps = 4;
constexpr int kStages = 3;
constexpr int kSums = kWideRows / 8 * 4;  // of a thread

struct Shared {
  uint4 weights[kStages][kWarps][kStageSteps * 32];
  uint4 rows[kStages][kStageSteps * kWideRows / 8 * Operand::kTileWords];
  float level[2][kSums][kWarps * 32];
  uint64_t full[kStages];   // the stage's bytes have come
  uint64_t empty[kStages];  // all threads of the cluster that compute have read it
};

struct Wide {
  const uint4* w;
  int64_t num_tiles;
  Operand x;
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
__device__ __forceinline__ uint32_t cluster_rank() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
__device__ __forceinline__ uint32_t cluster_size() {
  uint32_t size;
  asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
  return size;
}
/// Every thread of the cluster.
__device__ __forceinline__ void cluster_barrier() {
  asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}
__device__ __forceinline__ void arrive_at(uint64_t& barrier, uint32_t rank) {
  if (rank == cluster_rank())
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(&barrier)) : "memory");
  else
    asm volatile(
        "{\n.reg .b32 remote;\nmapa.shared::cluster.u32 remote, %0, %1;\n"
        "mbarrier.arrive.shared::cluster.b64 _, [remote];\n}" ::"r"(shared_address(&barrier)),
        "r"(rank)
        : "memory");
}
/// To the same place of all blocks of the cluster.
__device__ __forceinline__ void copy_to_cluster(void* to, const void* from, uint32_t bytes, uint64_t& barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], "
      "%4;" ::"r"(shared_address(to)),
      "l"(from), "r"(bytes), "r"(shared_address(&barrier)), "h"(uint16_t((1u << cluster_size()) - 1))
      : "memory");
}

/// A stage of a product: kStageSteps steps of one chunk; the last one of a chunk may hold fewer. No division: one warp
/// steers the ring, and it may not be slower than the copies.
struct StageCursor {
  int chunk_steps;
  int first_step = 0;  // of all chunks
  int in_chunk = 0;
  int slot = 0;  // of the ring
  uint32_t parity = 0;

  __device__ int steps() const { return min(kStageSteps, chunk_steps - in_chunk); }
  __device__ void advance() {
    const int done = steps();
    first_step += done;
    in_chunk = in_chunk + done == chunk_steps ? 0 : in_chunk + done;
    parity ^= slot + 1 == kStages;
    slot = slot + 1 == kStages ? 0 : slot + 1;
  }
};

/// What the block reads, stage by stage. One warp: its first lanes copy a tile of the block's half of the weights each.
class Producer {
 public:
  __device__ Producer(const Wide& wide, Shared& shared, int64_t first_tile, int group)
      : shared_(shared),
        lane_(threadIdx.x % 32),
        tile_(lane_ * int(cluster_size()) + int(cluster_rank())),
        num_tiles_(int(min(int64_t{kWarps}, wide.num_tiles - first_tile))),
        row_tiles_(group < wide.x.groups() ? wide.x.row_tiles(group) : 0),
        all_steps_(int(wide.x.all_steps())),
        weights_(wide.w + (first_tile + tile_) * wide.x.all_steps() * 32),
        rows_(reinterpret_cast<const uint4*>(wide.x.group(row_tiles_ > 0 ? group : 0))) {}
  __device__ void run(int chunk_steps) {
    StageCursor weights{chunk_steps}, rows{chunk_steps};
    for (int stage = 0; stage < kStages && weights.first_step < all_steps_; ++stage) copy_weights(weights);  // constant
    wait_for_predecessor();
    while (rows.first_step < weights.first_step) copy_rows(rows);
    while (weights.first_step < all_steps_) {
      wait_at(shared_address(&shared_.empty[weights.slot]), weights.parity ^ 1);
      copy_weights(weights);
      copy_rows(rows);
    }
  }

 private:
  __device__ uint32_t row_bytes(int steps) const {
    return uint32_t(steps * row_tiles_ * Operand::kTileWords * sizeof(uint4));
  }
  __device__ void copy_weights(StageCursor& at) {
    const int steps = at.steps();
    const uint32_t bytes = uint32_t(steps * 32 * sizeof(uint4));  // of a tile
    if (lane_ == 0) expect_bytes(shared_address(&shared_.full[at.slot]), num_tiles_ * bytes + row_bytes(steps));
    __syncwarp();
    if (tile_ < num_tiles_)
      copy_to_cluster(shared_.weights[at.slot][tile_], weights_ + at.first_step * 32, bytes, shared_.full[at.slot]);
    at.advance();
  }
  __device__ void copy_rows(StageCursor& at) {
    if (lane_ == 0 && row_tiles_ > 0)
      copy_here(shared_address(shared_.rows[at.slot]),
                rows_ + int64_t{at.first_step} * row_tiles_ * Operand::kTileWords, row_bytes(at.steps()),
                shared_address(&shared_.full[at.slot]));
    at.advance();
  }

  Shared& shared_;
  const int lane_, tile_, num_tiles_, row_tiles_, all_steps_;
  const uint4* const weights_;
  const uint4* const rows_;
};

/// A thread's sums: of the chunk under way, and those that wait in the tree.
struct Sums {
  float chunk[kSums] = {};
  float level0[kSums];

  /// Chunk `done` of `chunks` is whole; after the last one `chunk` holds the total. The cases are outside of the loops:
  /// a branch a sum would cost more than the sums.
  __device__ __forceinline__ void fold(int done, int chunks, Shared& shared) {
    const auto each = [&](auto&& body) {
#pragma unroll
      for (int i = 0; i < kSums; ++i) {
        body(i);
        if (i % 8 == 7) asm volatile("" ::: "memory");  // few loads at once: no more registers are there
      }
    };
    const auto level = [&](int index, int i) -> float& { return shared.level[index][i][threadIdx.x]; };
    if (chunks == 1) return;
    if (done % 2 == 0) {
      each([&](int i) { level0[i] = chunk[i]; });
    } else {
      each([&](int i) { chunk[i] = level0[i] + chunk[i]; });
      if (done % 4 == 3) each([&](int i) { chunk[i] = level(0, i) + chunk[i]; });
      if (done % 8 == 7) each([&](int i) { chunk[i] = level(1, i) + chunk[i]; });
      if (done + 1 == chunks) return;
      if (done % 4 == 1) each([&](int i) { level(0, i) = chunk[i]; });
      if (done % 4 == 3) each([&](int i) { level(1, i) = chunk[i]; });
    }
    each([&](int i) { chunk[i] = 0.0f; });
  }
};

/// kSteps steps from `first` on, of the stage whose weights and rows these are.
template <int kSteps>
__device__ __forceinline__ void multiply_steps(const uint4* weights, const uint4* rows, int first, int row_tiles,
                                               Sums& sums) {
  uint4 words[kSteps];
#pragma unroll
  for (int step = 0; step < kSteps; ++step) words[step] = weights[(first + step) * 32];
  begin_wgmmas();
#pragma unroll
  for (int step = 0; step < kSteps; ++step)
    wgmma(sums.chunk, words[step], row_descriptor(rows + (first + step) * row_tiles * Operand::kTileWords));
  commit_wgmmas();
  await_wgmmas<0>();
}

__device__ __forceinline__ void multiply(const Wide& wide, Shared& shared, int tile, int row_tiles, Sums& sums) {
  const int lane = threadIdx.x % 32;
  StageCursor at{wide.x.order.steps};
  for (int chunk = 0; chunk < wide.x.order.chunks; ++chunk) {
    do {
      const int steps = at.steps();
      wait_at(shared_address(&shared.full[at.slot]), at.parity);
      const uint4* const weights = shared.weights[at.slot][tile] + lane;
      const uint4* const rows = shared.rows[at.slot];
      if (steps == kStageSteps)
        multiply_steps<kStageSteps>(weights, rows, 0, row_tiles, sums);
      else
        for (int step = 0; step < steps; ++step) multiply_steps<1>(weights, rows, step, row_tiles, sums);
      fence_before_copy();
      for (uint32_t rank = 0; rank < cluster_size(); ++rank) arrive_at(shared.empty[at.slot], rank);
      at.advance();
    } while (at.in_chunk > 0);
    sums.fold(chunk, wide.x.order.chunks, shared);
  }
}

/// Through shared memory, so that a warp writes rows: 128 outputs of a row side by side.
__device__ __forceinline__ void finish(const Wide& wide, const Epilogue& epilogue, Shared& shared, int64_t first_tile,
                                       int group, const Sums& sums) {
  constexpr int kOutputs = kWarps * kTile, kColumns = kOutputs / 32;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  auto* const sum_of = reinterpret_cast<float(*)[kOutputs + 4]>(shared.level);  // the padding spreads the banks
  static_assert(sizeof(*sum_of) * kWideRows <= sizeof(shared.level));
  const int num_rows = (min(kWideRows, wide.x.rows - group * kWideRows) - warp + kWarps - 1) / kWarps;  // of the warp
  const auto row_of = [&](int r) { return int64_t{group} * kWideRows + r * kWarps + warp; };
  // the lane's columns of the block; with a gate, of the first half
  EpilogueColumn column[kColumns];
#pragma unroll
  for (int c = 0; c < kColumns; ++c) {
    const int64_t tile = first_tile + (c * 32 + lane) / kTile * (epilogue.glu ? 2 : 1);
    column[c] = epilogue.column(tile, lane % kTile);
    if (epilogue.glu && c >= kColumns / 2) column[c].at = -1;
  }
  __nv_bfloat16* const operand = epilogue.operand.values ? epilogue.operand.group(group) : nullptr;
  const Operand::Row first_row = epilogue.operand.row(group * kWideRows + warp);
  const int next_tile = int(epilogue.operand.next_tile());
  int in_operand[kColumns];  // what a column adds to a place; the warp's row r is the warp-th of tile r
#pragma unroll
  for (int c = 0; c < kColumns; ++c) in_operand[c] = operand ? int(first_row.place(column[c].at) - operand) : 0;
  const auto barrier = [] { asm volatile("bar.sync 1, %0;" ::"n"(kWarps * 32) : "memory"); };
  barrier();
#pragma unroll
  for (int i = 0; i < kSums; ++i)
    sum_of[i / 4 * 8 + lane % 4 * 2 + i % 2][warp * kTile + lane / 4 + i % 4 / 2 * 8] = sums.chunk[i];
  barrier();
  // value(r, c, old): of the warp's row r and the lane's column c; old: what stands there, with add
  const auto store = [&](auto&& value) {
    constexpr int kTogether = 4;  // rows whose loads are under way together
#pragma unroll 1
    for (int first = 0; first < num_rows; first += kTogether) {
      float old[kTogether][kColumns] = {};
#pragma unroll
      for (int i = 0; i < kTogether; ++i)
#pragma unroll
        for (int c = 0; c < kColumns; ++c)
          if (epilogue.add && first + i < num_rows && column[c].at >= 0)
            old[i][c] = epilogue.y[row_of(first + i) * epilogue.stride + column[c].at];
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        const int r = first + i;
        if (r >= num_rows) return;
#pragma unroll
        for (int c = 0; c < kColumns; ++c) {
          if (column[c].at < 0) continue;
          const float x = value(r, c, old[i][c]);
          if (operand)
            operand[in_operand[c] + r * next_tile] = __float2bfloat16_rn(x);
          else
            epilogue.y[row_of(r) * epilogue.stride + column[c].at] = x;
        }
      }
    }
  };
  const auto sum_at = [&](int r, int at, const float* bias) {
    const float sum = sum_of[r * kWarps + warp][at];
    return epilogue.bias ? sum + *bias : sum;
  };
  if (epilogue.add)
    store([&](int r, int c, float old) { return old + sum_at(r, c * 32 + lane, &column[c].bias); });
  else if (!epilogue.glu)
    store([&](int r, int c, float) { return sum_at(r, c * 32 + lane, &column[c].bias); });
  else
    store([&](int r, int c, float) {
      const int gate = (c * 32 + lane) / kTile * 2 * kTile + lane % kTile;
      return math::activate(epilogue.activation, sum_at(r, gate, &column[c].bias)) *
             sum_at(r, gate + kTile, &column[c].up_bias);
    });
}
#endif

__global__ void __launch_bounds__((kWarps + 1) * 32, 1) gemm_wide_kernel(Wide wide, Epilogue epilogue) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ __align__(128) char memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  launch_dependents();
  const int warp = threadIdx.x / 32;
  const int group = blockIdx.x;
  const int64_t first_tile = int64_t{blockIdx.y} * kWarps;
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < kStages; ++stage) {
      init_barrier(shared_address(&shared.full[stage]), 1);
      init_barrier(shared_address(&shared.empty[stage]), cluster_size() * kWarps * 32);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  cluster_barrier();
  if (warp == kWarps) {
    Producer(wide, shared, first_tile, group).run(wide.x.order.steps);
  } else {
    wait_for_predecessor();
    Sums sums;
    multiply(wide, shared, warp, group < wide.x.groups() ? wide.x.row_tiles(group) : 0, sums);
    finish(wide, epilogue, shared, first_tile, group, sums);
  }
  cluster_barrier();  // the other block's copies and arrivals come here
#else
  __trap();  // has_wide() keeps it from code without wgmma
#endif
}

/// From how many rows on gemm_split is faster than gemm_bf16, which reads the weights once for kMaxRowTile rows.
constexpr int kFewestWideRows = 33;

#ifdef PACELINE_SM_90A
constexpr bool kBuiltForWgmma = true;
#else
constexpr bool kBuiltForWgmma = false;
#endif

/// wgmma belongs to 9.0 alone, and to code that was built for sm_90a.
bool has_wide(const cudaDeviceProp& device) {
  return kBuiltForWgmma && device.major == 9 && device.minor == 0 &&
         device.sharedMemPerBlockOptin >= std::max(sizeof(Shared), split_shared_bytes());
}

}  // namespace

RowLayout strict_layout(const cudaDeviceProp& device, int rows) {
  return rows >= kFewestWideRows && has_wide(device) ? RowLayout::wide : RowLayout::fragments;
}

void prepare_gemm_wide(const cudaDeviceProp& device) {
  if (!has_wide(device)) return;
  prepare_gemm_split();
  check(cudaFuncSetAttribute(gemm_wide_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(sizeof(Shared))),
        "cudaFuncSetAttribute");
}

void gemm_wide(const GemmArgs& args, const Operand& x, const Operand& y, LaunchTo queue) {
  const auto& w = static_cast<const CudaWeight&>(*args.w);
  const Wide wide{.w = w.memory.as<const uint4>(), .num_tiles = w.tiles(), .x = x};
  const int cluster = x.groups() < kCluster ? 1 : kCluster;
  launch_with(
      {.cluster = dim3(unsigned(cluster))}, gemm_wide_kernel,
      dim3(unsigned((x.groups() + cluster - 1) / cluster * cluster), unsigned((wide.num_tiles + kWarps - 1) / kWarps)),
      dim3((kWarps + 1) * 32), sizeof(Shared), queue, wide, epilogue(args, y));
}

}  // namespace paceline::cuda
