#include <cstring>

#include "kernels/cuda/device_code.cuh"
#include "kernels/cuda/staging.h"

namespace paceline::cuda {
namespace {

constexpr int kWords = int(kMostPutBytes / sizeof(uint4));

struct Words {
  uint4 word[kWords];
};

/// Writes before it waits: nobody before reads there. Its dependents start when it has ended, as they and those behind
/// them read these bytes before they wait.
__global__ void __launch_bounds__(kWords) put_kernel(const __grid_constant__ Words words, uint4* to) {
  to[threadIdx.x] = words.word[threadIdx.x];
  __threadfence();  // kernels behind the dependents look before they wait, too
  wait_for_predecessor();
}

}  // namespace

void put_bytes(void* to, const void* host, size_t bytes, cudaStream_t stream) {
  Words words;
  std::memcpy(words.word, host, bytes);
  launch(put_kernel, dim3(1), dim3(unsigned((bytes + sizeof(uint4) - 1) / sizeof(uint4))), 0, stream, words,
         static_cast<uint4*>(to));
}

}  // namespace paceline::cuda
