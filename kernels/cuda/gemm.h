#pragma once
// y = x Wᵀ on the device. Strict: an output's bits depend on its row, its weights and nothing else, whatever the number
// of rows. Sums follow the chunks and the tree of docs/numerics.md.

#include <atomic>

#include "kernels/cuda/device.h"
#include "kernels/cuda/operand.h"
#include "kernels/cuda/tensor_map.h"
#include "kernels/op_args.h"

namespace paceline::cuda {

/// Of a bfloat16 weight, the maps of the boxes that gemm_split copies: half a tile of 128 outputs, and a quarter, for
/// narrow tiles (split_ring.cuh).
struct WeightBoxes {
  CUtensorMap half{}, quarter{};
};

/// bfloat16 in WeightOrder; float32 and float16 as [k][n rounded up to kTile]. pair_panels: rows lie as paired_row
/// says, for every type.
struct CudaWeight final : PackedWeight {
  DeviceMemory memory;
  WeightBoxes boxes;      // of bfloat16
  DeviceMemory row_copy;  // fast numerics: [n][k] bfloat16 for cuBLASLt, part after part; empty where it takes none
  std::shared_ptr<std::atomic<size_t>> bytes_alive;  // of the backend that packed it

  ~CudaWeight() override {
    if (bytes_alive) *bytes_alive -= bytes;
  }
  WeightOrder order() const { return {k, k_chunks}; }
  /// Whether cuBLASLt multiplies `rows` rows by it.
  bool is_for_blas(int rows) const { return row_copy.bytes() > 0 && rows >= kFewestFastRows; }
  int64_t tiles() const {
    const int64_t parts = pair_panels ? 2 : 1;
    return (n / parts + kTile - 1) / kTile * parts;
  }
  int64_t tile_values() const { return dtype == DType::bf16 ? order().tile_values() : k * int64_t{kTile}; }
};

/// Where blocks of gemm_split leave sums for each other, and the flags that say so.
struct SplitPlaces {
  struct Launches {
    uint32_t number;  // of the last one whose blocks have all been counted
    uint32_t blocks;  // of the next one, that have been
  };
  float4* sums;
  uint32_t* flags;
  Launches* launches;
};

/// Of a place, at kWideRows rows.
inline constexpr size_t kSplitPlaceBytes = size_t{64} << 10;

/// Where warps of a launch leave sums for others to go on with (handed_sums.cuh); for the launches of one stream.
class SumHandover {
 public:
  /// The first call of each takes the memory. Of gemm_bf16:
  uint4* words(const cudaDeviceProp& device, cudaStream_t stream);
  /// Of gemm_split:
  SplitPlaces places(const cudaDeviceProp& device, cudaStream_t stream);
  /// Pairs of its blocks that the current device runs at once.
  int pairs_at_once();

 private:
  DeviceMemory words_, sums_, flags_;
  int pairs_at_once_ = 0;
};

/// x [rows, k] f32 to the operand.
void pack_operand(const MatView& x, const Operand& operand, LaunchTo queue);
/// Once for the current device, before its first gemm_bf16.
void prepare_gemm_bf16(const cudaDeviceProp& device);
/// x: args.x as operand, not plain. y: null, or what is written in place of args.y. Streams each weight once for up to
/// kMaxRowTile rows.
void gemm_bf16(const GemmArgs& args, const Operand& x, const Operand& y, SumHandover& handover,
               const cudaDeviceProp& device, LaunchTo queue);
/// Rows and columns of rows that a product norms itself, at most.
inline constexpr int kMostNormedRows = 2, kMostNormedCols = 4096;
/// Whether norm_gemm_bf16 takes them: few rows that nothing is added to and that go to no peers, on a device with room
/// for them.
bool norms_rows(const NormArgs& norm, const GemmArgs& args, const cudaDeviceProp& device);
/// gemm_bf16 over the rows that `norm` gives, in one kernel; norm.out and args.x stay unwritten.
void norm_gemm_bf16(const NormArgs& norm, const GemmArgs& args, const Operand& y, SumHandover& handover,
                    const cudaDeviceProp& device, LaunchTo queue);
/// Whether that hands args.y to the peers of args.sum: gemm_split of many rows and cuBLASLt do not.
inline bool hands_over(const GemmArgs& args, const Operand& x) {
  return args.sum && !x.is_plain() && (!x.is_wide() || x.rows <= kWideRows);
}
/// The same for an operand in the order for many rows; it reads a weight once for two groups of rows. The same bits.
/// REQUIRES: no other kernel of the device waits for its own blocks meanwhile, as two such kernels, each with some of
/// its blocks running, would wait for ever: one stream of a device makes products.
void gemm_split(const GemmArgs& args, const Operand& x, const Operand& y, SumHandover& handover,
                const cudaDeviceProp& device, LaunchTo queue);
void prepare_gemm_split(const cudaDeviceProp& device);
/// What CudaWeight::boxes is for a weight whose memory is there; of bfloat16, compute capability 9.0 and newer.
WeightBoxes weight_boxes(const CudaWeight& w);
/// Of operands of `rows` rows that gemm_bf16 multiplies.
RowLayout strict_layout(const cudaDeviceProp& device, int rows);
/// Shared memory that a block of gemm_bf16 needs on a device with bulk copies (9.0 and newer); it takes more where it
/// is alone or norms.
inline constexpr size_t kGemmSharedBytes = size_t{114} << 10;
/// Float32 and float16 weights: fma chains in float32, the very bits of the CPU. Hands args.y over.
void gemm_chain(const GemmArgs& args, LaunchTo queue);

/// rows: [num_rows][stride] of `source` on the device, outputs first_row … of the matrix (with pair_panels: of part
/// `part`), into w and its row copy.
void pack_rows(const void* rows, DType source, int64_t num_rows, int64_t stride, int64_t first_row, int part,
               const CudaWeight& w, LaunchTo queue);

/// Contract: Backend::embed; token: device memory.
void embed(const EmbedArgs& args, LaunchTo queue);

}  // namespace paceline::cuda
