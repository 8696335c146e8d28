#include "kernels/cpu/attention.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/cpu_weight.h"
#include "kernels/error.h"

namespace paceline {
namespace {

constexpr double kAttentionInlineNs = 4000;
// Rough speed of one thread: bytes and flops per nanosecond.
constexpr double kAttentionBytesPerNs = 10;
constexpr double kAttentionFlopsPerNs = 30;

}  // namespace

void CpuAttention::plan(const AttentionArgs& args, const CpuKernels& kernels, int num_threads) {
  const KvView& kv = args.kv;
  const int group = args.group > 0 ? args.group : args.num_heads / kv.num_kv_heads;
  PACELINE_CHECK((args.num_heads + args.head_offset + group - 1) / group == kv.num_kv_heads,
                 "{} heads from {} in groups of {} do not read {} KV heads", args.num_heads, args.head_offset, group,
                 kv.num_kv_heads);
  task_.clear();
  num_partials_ = num_heads_ = 0;
  read_bytes_ = flops_ = 0;
  const double key_bytes = double(kv.k_dim + (kv.v ? kv.v_dim : 0)) * double(dtype_bytes(kv.dtype));
  for (const SeqSpan& seq : args.seqs) {
    int64_t longest = 0, oldest = INT64_MAX, visible = 0, places_end = 0;
    for (int32_t row = seq.first_row; row < seq.first_row + seq.num_rows; ++row) {
      const int64_t len = args.kv_len[size_t(row)];
      const int64_t from = args.window > 0 ? std::max<int64_t>(0, len - args.window) : 0;
      longest = std::max(longest, len);
      if (len > 0) oldest = std::min(oldest, from);
      visible += std::max<int64_t>(0, len - from);
      if (len > seq.tree_begin) places_end = std::max<int64_t>(places_end, last_place(args, seq, row) + 1);
    }
    if (longest == 0) continue;
    num_heads_ += kv.num_kv_heads;
    read_bytes_ += double(std::max(longest, places_end) - oldest) * kv.num_kv_heads * key_bytes;
    flops_ += 2.0 * double(visible) * args.num_heads * (kv.k_dim + kv.v_dim);
    for (int kv_head = 0; kv_head < kv.num_kv_heads; ++kv_head) {
      const int head = std::max(0, kv_head * group - args.head_offset);
      const int num_heads = std::min(args.num_heads, (kv_head + 1) * group - args.head_offset) - head;
      const int num_lines = seq.num_rows * num_heads;
      const int num_tiles = (num_lines + kernels.max_attention_lines - 1) / kernels.max_attention_lines;
      for (int t = 0; t < num_tiles; ++t) {
        const AttentionTile tile{.block = args.block.data() + seq.block_begin,
                                 .first_row = seq.first_row,
                                 .kv_head = kv_head,
                                 .head_begin = head,
                                 .num_heads = num_heads,
                                 .line_begin = int32_t(int64_t(num_lines) * t / num_tiles),
                                 .line_end = int32_t(int64_t(num_lines) * (t + 1) / num_tiles),
                                 .tree_begin = seq.tree_begin};
        int64_t key_begin = INT64_MAX, key_end = 0;
        for (int line = tile.line_begin; line < tile.line_end; line += 1) {
          const int64_t len = args.kv_len[size_t(tile.first_row + line / num_heads)];
          if (len <= 0) continue;
          key_begin = std::min(key_begin, args.window > 0 ? std::max<int64_t>(0, len - args.window) : 0);
          key_end = std::max(key_end, len);
        }
        Task task{.tile = tile, .first_partial = num_partials_};
        if (key_end > 0) {
          task.chunk_begin = key_begin / kChunkKeys;
          task.chunk_end = (key_end + kChunkKeys - 1) / kChunkKeys;
        }
        num_partials_ += task.chunk_end - task.chunk_begin;
        task_.push_back(task);
      }
    }
  }
  const int64_t num_tiles = int64_t(task_.size());
  by_chunks_ = num_threads > 1 && num_tiles < 4 * num_threads && num_partials_ >= 4 * num_tiles;
}

void CpuAttention::run_tiles(const AttentionWork& work, const AttentionArgs& args, const Prepare& prepare,
                             const CpuKernels& kernels, ThreadPool& pool) {
  const int64_t partial_floats = kMaxAttentionLines * partial_stride(work.v_dim);
  const int64_t worker_floats = 2 * partial_floats + attention_scratch(work.k_dim, work.v_dim);
  scratch_.reserve(size_t(worker_floats * pool.num_threads()) * sizeof(float));
  const auto partial = kernels.attention_partial[storage_index(args.kv.dtype)];
  const double ns = std::max(read_bytes_ / kAttentionBytesPerNs, flops_ / kAttentionFlopsPerNs);
  const int64_t num_tasks = int64_t(task_.size());
  pool.parallel_ranges(num_tasks, ns < kAttentionInlineNs ? num_tasks : 1, [&](int64_t begin, int64_t end, int worker) {
    float* state = scratch_.floats() + worker * worker_floats;
    float* next = state + partial_floats;
    for (int64_t i = begin; i < end; ++i) {
      const Task& task = task_[size_t(i)];
      if (prepare) prepare(task.tile);
      for (int64_t chunk = task.chunk_begin; chunk < task.chunk_end; ++chunk) {
        const bool first = chunk == task.chunk_begin;
        partial(work, task.tile, chunk, first ? state : next, next + partial_floats);
        if (!first) kernels.attention_merge(task.tile.line_end - task.tile.line_begin, work.v_dim, state, next);
      }
      kernels.attention_finish(work, task.tile, state);
    }
  });
}

void CpuAttention::run_chunks(const AttentionWork& work, const AttentionArgs& args, const CpuKernels& kernels,
                              ThreadPool& pool) {
  const int64_t partial_floats = kMaxAttentionLines * partial_stride(work.v_dim);
  const int64_t worker_floats = attention_scratch(work.k_dim, work.v_dim);
  scratch_.reserve(size_t(worker_floats * pool.num_threads()) * sizeof(float));
  partials_.reserve(size_t(num_partials_ * partial_floats) * sizeof(float));
  const auto partial = kernels.attention_partial[storage_index(args.kv.dtype)];
  pool.parallel_for(num_partials_, [&](int64_t index, int worker) {
    size_t t = task_.size() - 1;  // few tasks here
    while (task_[t].first_partial > index) --t;
    const Task& task = task_[t];
    partial(work, task.tile, task.chunk_begin + index - task.first_partial, partials_.floats() + index * partial_floats,
            scratch_.floats() + worker * worker_floats);
  });
  for (const Task& task : task_) {
    float* state = partials_.floats() + task.first_partial * partial_floats;
    for (int64_t i = 1; i < task.chunk_end - task.chunk_begin; ++i)
      kernels.attention_merge(task.tile.line_end - task.tile.line_begin, work.v_dim, state, state + i * partial_floats);
    kernels.attention_finish(work, task.tile, state);
  }
}

void CpuAttention::run(const AttentionArgs& args, const Prepare& prepare, const CpuKernels& kernels, ThreadPool& pool,
                       Traffic& traffic) {
  const KvView& kv = args.kv;
  PACELINE_CHECK(!prepare || one_task_per_head(), "{} tasks for {} heads, by chunks: {}", task_.size(), num_heads_,
                 by_chunks_);
  PACELINE_CHECK(kv.block_size > 0 && kv.block_size % kLanes == 0, "block_size {} is not a multiple of {}",
                 kv.block_size, kLanes);
  for (int32_t row = 0; row < args.out.rows; ++row)
    if (args.kv_len[size_t(row)] <= 0)
      std::memset(args.out.f32_row(row), 0, size_t(args.num_heads) * size_t(kv.v_dim) * sizeof(float));
  if (task_.empty()) return;
  const AttentionWork work{.q = args.q.f32_row(0),
                           .q_stride = args.q.stride,
                           .out = args.out.f32_row(0),
                           .out_stride = args.out.stride,
                           .scale = args.scale,
                           .softcap = args.softcap,
                           .window = args.window,
                           .kv_len = args.kv_len.data(),
                           .path_begin = args.paths.begin.data(),
                           .place = args.paths.place.data(),
                           .k = kv.k,
                           .v = kv.v,
                           .block_size = kv.block_size,
                           .num_kv_heads = kv.num_kv_heads,
                           .k_dim = kv.k_dim,
                           .v_dim = kv.v_dim};
  if (by_chunks_)
    run_chunks(work, args, kernels, pool);
  else
    run_tiles(work, args, prepare, kernels, pool);
  traffic.kv_bytes += uint64_t(read_bytes_);
  traffic.flops += uint64_t(flops_);
  traffic.attention_flops += uint64_t(flops_);
}

}  // namespace paceline
