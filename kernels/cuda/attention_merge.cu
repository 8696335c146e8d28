// Rows whose long sequences are cut into pieces: the sum that the first piece has left, then each further chunk's part,
// from left to right, as attention_merge_kernel adds them. There are thousands of parts and few rows: a block takes one
// row, head and 32 dimensions, so that all SMs read. One warp adds, one finds the factors a stage ahead, and two have
// parts come through a ring in shared memory.

#include "kernels/cuda/attention_merge.cuh"
#include "kernels/cuda/bulk_copy.cuh"

namespace paceline::cuda {
namespace {

constexpr int kSliceDims = 32, kStageParts = 32, kStages = 9;  // 42 KB of shared memory
constexpr int kFetchingThreads = 64, kThreads = 64 + kFetchingThreads;

struct Stage {
  float4 header[kStageParts];
  float output[kStageParts][kSliceDims];
};

__global__ void __launch_bounds__(kThreads) merge_pieces_kernel(AttentionWork work) {
  __shared__ Stage stages[kStages];
  __shared__ float4 steps[2][kStageParts];  // of MergeStep
  __shared__ bool keeps[2];                 // whether all of them leave the sum before as it is
  launch_dependents();                      // as in attention_merge_kernel
  const MergedRow at = work.plan.merged[blockIdx.x];
  const int head = blockIdx.y, first_dim = int(blockIdx.z) * kSliceDims;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int32_t len = work.plan.kv_len[at.row];
  const int first = max(work.first_key(len) / kDeviceChunk, at.border);
  const int count = len > 0 ? max((len - 1) / kDeviceChunk + 1 - first, 0) : 0;
  const int stride = kHeader + work.v_dim;
  wait_for_predecessor();
  if (len <= 0) {
    if (warp == 0) work.put(at.row, head, first_dim + lane, 0.0f);
    return;
  }
  const float* const sum_before = work.workspace + (at.first_part + int64_t{head} * at.row_parts) * stride;
  const float* const left = sum_before + int64_t{first - at.border + 1} * stride;
  const int num_stages = (count + kStageParts - 1) / kStageParts;
  const auto fetch = [&](int s) {
    const int thread = int(threadIdx.x) - (kThreads - kFetchingThreads);
    if (thread < 0) return;
    Stage& to = stages[s % kStages];
    const int here = min(kStageParts, count - s * kStageParts);  // none beyond the last stage
    const float* const from = left + int64_t{s} * kStageParts * stride;
    for (int i = thread; i < here * (kSliceDims / 4); i += kFetchingThreads) {
      const int part = i / (kSliceDims / 4), d = i % (kSliceDims / 4) * 4;
      copy_16(shared_address(&to.output[part][d]), from + part * stride + kHeader + first_dim + d);
    }
    if (thread < here) copy_16(shared_address(&to.header[thread]), from + thread * stride);
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  for (int s = 0; s < kStages - 2; ++s) fetch(s);
  float before = sum_before[0], sum = sum_before[1], o = sum_before[kHeader + first_dim + lane];
  for (int s = -1; s < num_stages; ++s) {  // stage s is added, factors of the next are found
    asm volatile("cp.async.wait_group %0;" ::"n"(kStages - 3) : "memory");
    __syncthreads();
    fetch(s + kStages - 1);
    const int next = s + 1;
    if (warp == 1 && next < num_stages) {
      const bool any = next * kStageParts + lane < count;
      const float4 header = stages[next % kStages].header[lane];
      const MergeStep step = merge_steps(any ? header.x : -INFINITY, any ? header.y : 0.0f, before);
      steps[next % 2][lane] = {step.left, step.part, step.sum, 0.0f};
      const bool all_keep = __all_sync(0xffffffffu, step.left == 1.0f);
      if (lane == 0) keeps[next % 2] = all_keep;
    } else if (warp == 0 && s >= 0) {
      const Stage& here = stages[s % kStages];
      const auto add = [&](int c) {
        const float4 of = steps[s % 2][c];
        const MergeStep step = {of.x, of.y, of.z};
        sum = step.rescale().add(sum, step.sum);
        o = step.rescale().add(o, here.output[c][lane]);
      };
      if ((s + 1) * kStageParts > count) {
        for (int c = 0; c < count - s * kStageParts; ++c) add(c);
      } else if (keeps[s % 2]) {  // most do; a product with 1 changes no bit, and costs half of the chain
#pragma unroll
        for (int c = 0; c < kStageParts; ++c) {
          const float4 of = steps[s % 2][c];
          sum = __fmaf_rn(of.z, of.y, sum);
          o = __fmaf_rn(here.output[c][lane], of.y, o);
        }
      } else {
#pragma unroll
        for (int c = 0; c < kStageParts; ++c) add(c);
      }
    }
  }
  if (warp == 0) work.put(at.row, head, first_dim + lane, o * factor_of(sum));
}

}  // namespace

void merge_pieces(const AttentionWork& work, LaunchTo queue) {
  const dim3 blocks(unsigned(work.plan.num_merged), unsigned(work.num_heads), unsigned(work.v_dim / kSliceDims));
  launch(merge_pieces_kernel, blocks, dim3(kThreads), 0, queue, work);
}

}  // namespace paceline::cuda
