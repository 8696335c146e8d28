#include "kernels/cuda/device_code.cuh"
#include "kernels/cuda/peer_words.cuh"
#include "kernels/cuda/row_ops.h"

namespace paceline::cuda {
namespace {

struct NoSum {};

struct NormWork {
  bool layer;
  float* residual;
  int64_t residual_stride;
  const float* delta;
  int64_t delta_stride;
  const float* delta_bias;
  const float* weight;
  const float* bias;
  float eps;
  float* out;
  int64_t out_stride;
  Operand operand;  // written in place of out where it has values
  bool is_handed_over;
  int cols;
  bool in_fours;  // cols, strides and addresses allow it
};

/// A thread's columns of a row, all loads under way together; zeros beyond the last and where there is no row.
template <int kThreads, int kFours>  // 4 * kFours * kThreads >= cols
struct Columns {
  float4 value[kFours];

  /// body(index, first column), for those that the row has.
  template <class Body>
  __device__ __forceinline__ static void each(int cols, Body&& body) {
#pragma unroll
    for (int i = 0; i < kFours; ++i) {
      const int c = (i * kThreads + int(threadIdx.x)) * 4;
      if (c < cols) body(i, c);
    }
  }
  __device__ __forceinline__ Columns(const NormWork& work, const float* from) : value{} {
    if (!from) return;
    if (work.in_fours)
      each(work.cols, [&](int i, int c) { value[i] = __ldcg(reinterpret_cast<const float4*>(from + c)); });
    else
      each(work.cols, [&](int i, int c) {
        value[i].x = __ldcg(from + c);
        if (c + 1 < work.cols) value[i].y = __ldcg(from + c + 1);
        if (c + 2 < work.cols) value[i].z = __ldcg(from + c + 2);
        if (c + 3 < work.cols) value[i].w = __ldcg(from + c + 3);
      });
  }
  /// To and from the peers: row `row` of contiguous rows of whole fours.
  template <int kRanks>
  __device__ __forceinline__ void push(const NormWork& work, const PushGroup& group, uint32_t message, int row) const {
    each(work.cols, [&](int i, int c) {
      const int64_t pair = (int64_t{row} * work.cols + c) / 2;
      push_pair<kRanks>(group, message, pair, {value[i].x, value[i].y});
      push_pair<kRanks>(group, message, pair + 1, {value[i].z, value[i].w});
    });
  }
  template <int kRanks>
  __device__ __forceinline__ void add_peers(const NormWork& work, const PushGroup& group, uint32_t message, int row) {
    int64_t pair[2 * kFours];
    float2 x[2 * kFours];
#pragma unroll
    for (int i = 0; i < 2 * kFours; ++i) pair[i] = -1;
    each(work.cols, [&](int i, int c) {
      pair[2 * i] = (int64_t{row} * work.cols + c) / 2;
      pair[2 * i + 1] = pair[2 * i] + 1;
    });
#pragma unroll
    for (int i = 0; i < kFours; ++i) {
      x[2 * i] = {value[i].x, value[i].y};
      x[2 * i + 1] = {value[i].z, value[i].w};
    }
    sum_pairs<kRanks>(group, message, pair, x);
#pragma unroll
    for (int i = 0; i < kFours; ++i) value[i] = {x[2 * i].x, x[2 * i].y, x[2 * i + 1].x, x[2 * i + 1].y};
  }
};

/// Columns c to c + 3 of a row of float32.
__device__ __forceinline__ void store_four(const NormWork& work, float* row, int c, float4 x) {
  if (work.in_fours) {
    *reinterpret_cast<float4*>(row + c) = x;
    return;
  }
  row[c] = x.x;
  if (c + 1 < work.cols) row[c + 1] = x.y;
  if (c + 2 < work.cols) row[c + 2] = x.z;
  if (c + 3 < work.cols) row[c + 3] = x.w;
}

/// A row normed, to where the work wants it. x: the residual; shared: [kWarps].
template <int kWarps, int kFours>
__device__ __forceinline__ void finish_row(const NormWork& work, int row_index, const Columns<kWarps * 32, kFours>& x,
                                           const Columns<kWarps * 32, kFours>& weight, float* shared) {
  using Row = Columns<kWarps * 32, kFours>;
  if (!work.out && !work.operand.values) return;
  float mean = 0.0f;
  if (work.layer) {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < kFours; ++i) sum += (x.value[i].x + x.value[i].y) + (x.value[i].z + x.value[i].w);
    mean = over_block<kWarps>(sum, shared, Plus{}) / float(work.cols);
  }
  float squares = 0.0f;
  Row::each(work.cols, [&](int i, int c) {
    const auto square = [&](float value, int k) {
      const float d = value - mean;
      return c + k < work.cols ? d * d : 0.0f;
    };
    squares +=
        (square(x.value[i].x, 0) + square(x.value[i].y, 1)) + (square(x.value[i].z, 2) + square(x.value[i].w, 3));
  });
  const float variance = over_block<kWarps>(squares, shared, Plus{}) / float(work.cols);
  const float scale = 1.0f / sqrtf(variance + work.eps);
  const Row bias(work, work.bias);
  Operand::Row to{};
  if (work.operand.values) to = work.operand.row(row_index);
  Row::each(work.cols, [&](int i, int c) {
    const auto normed = [&](float value, float weight_of, float bias_of) {
      const float y = (value - mean) * scale * weight_of;
      return work.bias ? y + bias_of : y;
    };
    const float4 y = {normed(x.value[i].x, weight.value[i].x, bias.value[i].x),
                      normed(x.value[i].y, weight.value[i].y, bias.value[i].y),
                      normed(x.value[i].z, weight.value[i].z, bias.value[i].z),
                      normed(x.value[i].w, weight.value[i].w, bias.value[i].w)};
    if (work.operand.values)
      to.put4(c, y);
    else
      store_four(work, work.out + row_index * work.out_stride, c, y);
  });
}

/// A block a row. Thread t holds four columns from 4 t on, then four from 4 (t + kThreads) on, …; threads are added as
/// a fixed tree. Little code: it runs once, so fetching instructions would cost more than they. Sum: PeerSum, or
/// NoSum where kRanks is 1.
template <int kWarps, int kFours, int kRanks, class Sum>
__global__ void __launch_bounds__(kWarps * 32) norm_kernel(NormWork work, Sum sum) {
  using Row = Columns<kWarps * 32, kFours>;
  __shared__ float shared[kWarps];
  const Row weight(work, work.weight);  // constant, as packed weights are
  uint32_t message = 0;
  if constexpr (kRanks > 1) message = message_of(sum);
  wait_for_predecessor();
  const int row_index = int(blockIdx.x);
  float* const row = work.residual + row_index * work.residual_stride;
  Row delta(work, work.delta ? work.delta + row_index * work.delta_stride : nullptr);
  if constexpr (kRanks > 1) {
    if (!work.is_handed_over) delta.template push<kRanks>(work, sum.group, message, row_index);
  }
  Row x(work, row);
  launch_dependents();  // not before: the next product's weights would take the memory from these rows
  if (work.delta) {
    const Row bias(work, work.delta_bias);
    if constexpr (kRanks > 1) delta.template add_peers<kRanks>(work, sum.group, message, row_index);
    Row::each(work.cols, [&](int i, int c) {
      x.value[i] = x.value[i] + (work.delta_bias ? delta.value[i] + bias.value[i] : delta.value[i]);
      store_four(work, row, c, x.value[i]);
    });
  }
  finish_row<kWarps, kFours>(work, row_index, x, weight, shared);
}

constexpr int kManyRows = 1024, kThreadsOfSm = 1024;
template <int kWarps>
constexpr int kBlocksOfSm = kThreadsOfSm / (kWarps * 32);
/// The same for many rows that nothing is added to: as many blocks as run at once, each of which takes one row after
/// another, the next on its way.
template <int kWarps, int kFours>
__global__ void __launch_bounds__(kWarps * 32, kBlocksOfSm<kWarps>) norm_many_kernel(NormWork work, int rows) {
  using Row = Columns<kWarps * 32, kFours>;
  __shared__ float shared[kWarps];
  const Row weight(work, work.weight);
  const auto row_at = [&](int index) {
    return Row(work, index < rows ? work.residual + index * work.residual_stride : nullptr);
  };
  wait_for_predecessor();
  launch_dependents();
  Row x = row_at(int(blockIdx.x));
  for (int index = blockIdx.x; index < rows; index += int(gridDim.x)) {
    const Row next = row_at(index + int(gridDim.x));
    finish_row<kWarps, kFours>(work, index, x, weight, shared);
    x = next;
  }
}

template <int kWarps, int kFours, int kRanks, class Sum>
void run(const NormWork& work, const Sum& sum, int rows, int num_sms, LaunchTo queue) {
  if constexpr (kRanks == 1 && kFours == 2) {
    if (rows >= kManyRows && !work.delta)
      return launch(norm_many_kernel<kWarps, kFours>, dim3(unsigned(kBlocksOfSm<kWarps> * num_sms)), dim3(kWarps * 32),
                    0, queue, work, rows);
  }
  launch(norm_kernel<kWarps, kFours, kRanks, Sum>, dim3(unsigned(rows)), dim3(kWarps * 32), 0, queue, work, sum);
}
/// The same threads, and so the same bits, with and without a sum.
template <int kRanks, class Sum>
void run(const NormWork& work, const Sum& sum, int rows, int num_sms, LaunchTo queue) {
  switch (work.cols <= 8192 ? norm_threads(work.cols) : 0) {
    case 256: return run<8, 2, kRanks>(work, sum, rows, num_sms, queue);
    case 512: return run<16, 2, kRanks>(work, sum, rows, num_sms, queue);
    case 1024: return run<32, 2, kRanks>(work, sum, rows, num_sms, queue);
  }
  if constexpr (kRanks == 1) run<32, 8, kRanks>(work, sum, rows, num_sms, queue);
}
static_assert(kMaxSummedCols == 8192);

NormWork norm_work(const NormArgs& args, const Operand& operand, bool is_handed_over) {
  const int cols = args.residual.cols;
  return {.layer = args.kind == NormKind::layer,
          .residual = args.residual.f32_row(0),
          .residual_stride = args.residual.stride,
          .delta = args.delta.f32_row(0),
          .delta_stride = args.delta.stride,
          .delta_bias = args.delta_bias,
          .weight = args.weight,
          .bias = args.bias,
          .eps = args.eps,
          .out = args.out.f32_row(0),
          .out_stride = args.out.stride,
          .operand = operand,
          .is_handed_over = is_handed_over,
          .cols = cols,
          .in_fours = lies_in_fours(args.residual.f32_row(0), args.residual.stride) &&
                      lies_in_fours(args.out.f32_row(0), args.out.stride) &&
                      lies_in_fours(args.delta.f32_row(0), args.delta.stride) && lies_in_fours(args.delta_bias, cols) &&
                      lies_in_fours(args.weight, cols) && lies_in_fours(args.bias, cols)};
}

}  // namespace

void norm(const NormArgs& args, const Operand& operand, bool is_handed_over, const cudaDeviceProp& device,
          LaunchTo queue) {
  const NormWork work = norm_work(args, operand, is_handed_over);
  const int rows = args.residual.rows, num_sms = device.multiProcessorCount;
  if (!args.sum) return run<1>(work, NoSum{}, rows, num_sms, queue);
  with_ranks(args.sum->group.size, [&](auto ranks) { run<ranks>(work, *args.sum, rows, num_sms, queue); });
}

}  // namespace paceline::cuda
