#include "kernels/cuda/device.h"
#include "kernels/cuda/device_code.cuh"
#include "kernels/cuda/read_bytes.h"

namespace paceline::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kOwn = 4;  // vectors of a thread, under way at once
constexpr size_t kBlockBytes = size_t{kThreads} * kOwn * sizeof(uint4);

__global__ void __launch_bounds__(kThreads) read_bytes_kernel(const uint4* from, int64_t num_tiles, uint4* sink) {
  launch_dependents();
  wait_for_predecessor();
  uint4 all{};
  for (int64_t tile = blockIdx.x; tile < num_tiles; tile += gridDim.x) {
    const uint4* const at = from + tile * (kThreads * kOwn) + threadIdx.x;
    uint4 value[kOwn];
#pragma unroll
    for (int i = 0; i < kOwn; ++i) value[i] = load_stream(at + i * kThreads);
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      all.x |= value[i].x;
      all.y |= value[i].y;
      all.z |= value[i].z;
      all.w |= value[i].w;
    }
  }
  if (all.x == 0x9e3779b9u && all.y == 0x7f4a7c15u && all.z == 0xf39cc060u && all.w == 0x5cedc834u) *sink = all;
}

}  // namespace

void read_bytes(const void* from, size_t bytes, void* sink, cudaStream_t stream) {
  constexpr int64_t kBlocks = 132 * 16;  // some waves on any device
  const int64_t num_tiles = int64_t(bytes / kBlockBytes);
  launch(read_bytes_kernel, dim3(unsigned(num_tiles < kBlocks ? num_tiles : kBlocks)), dim3(kThreads), 0, stream,
         static_cast<const uint4*>(from), num_tiles, static_cast<uint4*>(sink));
}

}  // namespace paceline::cuda
