#pragma once
// Cuts attention into tiles of (row, head) lines, and long contexts into chunks of keys, for the pool.

#include <functional>
#include <vector>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/mapped_memory.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/op_args.h"
#include "kernels/work.h"

namespace paceline {

class CpuAttention {
 public:
  using Prepare = std::function<void(const AttentionTile&)>;

  /// Cuts `args` into tasks for run().
  void plan(const AttentionArgs& args, const CpuKernels& kernels, int num_threads);
  /// Each KV head of each sequence is one task of the plan.
  bool one_task_per_head() const { return !by_chunks_ && task_.size() == size_t(num_heads_); }
  /// Runs what was planned for `args`, and adds what was read and computed to `traffic`. prepare (or none): called for
  /// each task, in its worker, before its queries, keys and values are read; needs one_task_per_head(), so that a tile
  /// holds all rows of its sequence.
  void run(const AttentionArgs& args, const Prepare& prepare, const CpuKernels& kernels, ThreadPool& pool,
           Traffic& traffic);

 private:
  struct Task {
    AttentionTile tile;
    int64_t chunk_begin = 0;
    int64_t chunk_end = 0;
    int64_t first_partial = 0;  // split over chunks: index of the partial of chunk_begin
  };

  void run_tiles(const AttentionWork& work, const AttentionArgs& args, const Prepare& prepare,
                 const CpuKernels& kernels, ThreadPool& pool);
  void run_chunks(const AttentionWork& work, const AttentionArgs& args, const CpuKernels& kernels, ThreadPool& pool);

  std::vector<Task> task_;
  int64_t num_partials_ = 0;
  int64_t num_heads_ = 0;   // KV heads of all sequences
  bool by_chunks_ = false;  // few tiles, long contexts
  double read_bytes_ = 0;
  double flops_ = 0;
  MappedMemory scratch_;   // per worker
  MappedMemory partials_;  // split over chunks
};

}  // namespace paceline
