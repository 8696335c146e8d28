#include <cstring>
#include <iterator>

#include "kernels/cuda/device_code.cuh"
#include "kernels/cuda/launch_list.h"
#include "kernels/cuda/staging.h"

namespace paceline::cuda {
namespace {

constexpr int kWords = int(kMostPutBytes / sizeof(uint4));

struct Words {
  uint4 word[kWords];
};

/// Its dependents start when it has ended, as they and those behind them read these bytes before they wait. kOver:
/// kernels before may read there; else it writes before it waits.
template <bool kOver>
__global__ void __launch_bounds__(kWords) put_kernel(const __grid_constant__ Words words, uint4* to) {
  if (kOver) wait_for_predecessor();
  to[threadIdx.x] = words.word[threadIdx.x];
  __threadfence();  // kernels behind the dependents look before they wait, too
  if (!kOver) wait_for_predecessor();
}

}  // namespace

void put_bytes(void* to, const void* host, size_t bytes, LaunchTo queue) {
  Words words;
  std::memcpy(words.word, host, bytes);
  launch(put_kernel<false>, dim3(1), dim3(unsigned((bytes + sizeof(uint4) - 1) / sizeof(uint4))), 0, queue, words,
         static_cast<uint4*>(to));
}

void put_over(void* to, const void* host, LaunchList& list, size_t index) {
  Words words;
  std::memcpy(words.word, host, kMostPutBytes);
  void* const argument[] = {&words, &to};
  constexpr size_t kBytes[] = {sizeof(words), sizeof(to)};
  list.add({.function = reinterpret_cast<const void*>(put_kernel<true>),
            .grid = dim3(1),
            .block = dim3(kWords),
            .shared_bytes = 0,
            .options = {},
            .argument = argument,
            .argument_bytes = kBytes,
            .num_arguments = std::size(argument)},
           index);
}

}  // namespace paceline::cuda
