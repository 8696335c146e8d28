#pragma once
// Cuts attention into tiles of (row, head) lines, and long contexts into chunks of keys, for the pool.

#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/mapped_memory.h"
#include "kernels/cpu/thread_pool.h"

namespace paceline {

class CpuAttention {
 public:
  /// Adds what was read and computed to `traffic`.
  void run(const AttentionArgs& args, const CpuKernels& kernels, ThreadPool& pool, Traffic& traffic);

 private:
  struct Task {
    AttentionTile tile;
    int64_t chunk_begin = 0;
    int64_t chunk_end = 0;
    int64_t first_partial = 0;  // split over chunks: index of the partial of chunk_begin
  };

  void plan(const AttentionArgs& args, const CpuKernels& kernels);
  void run_tiles(const AttentionWork& work, const AttentionArgs& args, const CpuKernels& kernels, ThreadPool& pool);
  void run_chunks(const AttentionWork& work, const AttentionArgs& args, const CpuKernels& kernels, ThreadPool& pool);

  std::vector<Task> task_;
  int64_t num_partials_ = 0;
  double read_bytes_ = 0;
  double flops_ = 0;
  MappedMemory scratch_;   // per worker
  MappedMemory partials_;  // split over chunks
};

}  // namespace paceline
