#pragma once
// Packed weights of the CPU: panels of 16 output rows, [n / 16][step in PanelOrder][16][value], the last
// panel filled with zero rows.

#include <atomic>
#include <memory>
#include <span>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/cpu/weight_arena.h"
#include "kernels/op_args.h"

namespace paceline {

/// Index of a storage type in the kernel tables; throws for types that weights and KV cannot have.
StorageIndex storage_index(DType dtype);

struct CpuWeight final : PackedWeight {
  WeightMemory memory;
  std::shared_ptr<std::atomic<size_t>> bytes_alive;  // of the backend that packed it

  PanelOrder order() const { return {k, k_chunks, storage_index(dtype)}; }
  ~CpuWeight() override {
    if (bytes_alive) bytes_alive->fetch_sub(bytes);
  }
};

/// What Backend::pack makes of `parts`, but for its values: n, k, dtype, k_chunks, pair_panels. Throws for parts that
/// do not fit each other or `spec`, and for types that nobody computes with.
void describe_packed(std::span<const HostWeight> parts, const PackSpec& spec, PackedWeight& weight);

/// Contract: Backend::pack. Panels are packed in parallel, into memory of `arena`.
std::shared_ptr<CpuWeight> pack_weight(std::span<const HostWeight> parts, const PackSpec& spec,
                                       const CpuKernels& kernels, ThreadPool& pool, WeightArena& arena);

}  // namespace paceline
