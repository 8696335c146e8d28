#include "kernels/cuda/gemm.h"
#include "kernels/cuda/weight_at.cuh"

namespace paceline::cuda {
namespace {

template <class W>
__global__ void embed_kernel(const W* table, WeightPlace place, int64_t num_rows, int32_t row_begin,
                             const int32_t* token, const int32_t* cells, float scale, float* out, int64_t stride) {
  launch_dependents();
  wait_for_predecessor();
  const int32_t cell = cell_of_token(token[blockIdx.x]), id = cells && cell >= 0 ? cells[cell] : token[blockIdx.x];
  const int64_t at = int64_t{id} - row_begin;
  const bool here = id >= 0 && at >= 0 && at < num_rows;
  for (int64_t i = threadIdx.x; i < place.order.k; i += blockDim.x)
    out[blockIdx.x * stride + i] = (here ? widen(table[weight_index<W>(place, at, i)]) : -0.0f) * scale;
}

template <class W>
void run(const EmbedArgs& args, const CudaWeight& table, LaunchTo queue) {
  launch(embed_kernel<W>, dim3(unsigned(args.token.size())), dim3(256), 0, queue,
         static_cast<const W*>(table.memory.as<W>()), WeightPlace{table.order(), table.tiles() * kTile}, table.n,
         args.row_begin, args.token.data(), args.token_cells, args.scale, args.out.f32_row(0), args.out.stride);
}

}  // namespace

void embed(const EmbedArgs& args, LaunchTo queue) {
  const auto& table = static_cast<const CudaWeight&>(*args.table);
  if (table.dtype == DType::f32) run<float>(args, table, queue);
  if (table.dtype == DType::f16) run<__half>(args, table, queue);
  if (table.dtype == DType::bf16) run<__nv_bfloat16>(args, table, queue);
}

}  // namespace paceline::cuda
