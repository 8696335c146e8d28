#pragma once
// Ops that work on rows of activations. Contracts: Backend; spans lie in device memory.

#include "kernels/cuda/device.h"
#include "kernels/cuda/operand.h"
#include "kernels/op_args.h"

namespace paceline::cuda {

inline constexpr int kMaxNormCols = 32768;
/// Threads that a row's columns are spread over, four each and four again: what the bits of its sums depend on.
PACELINE_MATH constexpr int norm_threads(int cols) { return cols <= 2048 ? 256 : cols <= 4096 ? 512 : 1024; }
/// Whether rows of float32 can be read four values at a time; null can.
inline bool lies_in_fours(const float* rows, int64_t stride) {
  return reinterpret_cast<uintptr_t>(rows) % sizeof(float4) == 0 && stride % 4 == 0;
}
/// operand: null, or what is written in place of args.out. is_handed_over: the product that made args.delta has sent it
/// to the peers of args.sum.
void norm(const NormArgs& args, const Operand& operand, bool is_handed_over, const cudaDeviceProp& device,
          LaunchTo queue);
void gather_rows(const GatherRowsArgs& args, LaunchTo queue);
/// factors: [max position + 1][rotary_dim / 2] of {cos, sin}, made by rope_factors; inv_freq is not looked at.
void rope(const RopeArgs& args, const float2* factors, LaunchTo queue);
/// Both in one pass: the last heads of rope.x are those of store.k; they are rotated on their way into the pages.
void rope_store(const RopeArgs& rope, const float2* factors, const StoreKvArgs& store, LaunchTo queue);
/// Positions [0, count) of the table; inv_freq: [half] in device memory.
void rope_factors(const double* inv_freq, int half, float attention_factor, int32_t count, float2* factors,
                  LaunchTo queue);
void activation(const ActivationArgs& args, LaunchTo queue);
void norm_heads(const HeadNormArgs& args, LaunchTo queue);
void softcap(const SoftcapArgs& args, LaunchTo queue);
void store_kv(const StoreKvArgs& args, LaunchTo queue);
void move_kv(const KvView& kv, std::span<const SlotMove> moves, LaunchTo queue);

}  // namespace paceline::cuda
