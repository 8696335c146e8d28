#include <algorithm>
#include <cstring>

#include "kernels/cuda/device_code.cuh"
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

/// As put_kernel<true>.
struct WordList {
  int count;
  WordAt at[kMostPutWords];
};
__global__ void __launch_bounds__(kMostPutWords) put_words_kernel(const __grid_constant__ WordList words, int32_t* to) {
  wait_for_predecessor();
  const int i = int(threadIdx.x);
  if (i < words.count) to[words.at[i].index] = words.at[i].word;
  __threadfence();
}

}  // namespace

void put_bytes(void* to, const void* host, size_t bytes, LaunchTo queue) {
  Words words;
  std::memcpy(words.word, host, bytes);
  launch(put_kernel<false>, dim3(1), dim3(unsigned((bytes + sizeof(uint4) - 1) / sizeof(uint4))), 0, queue, words,
         static_cast<uint4*>(to));
}

void put_over(void* to, const void* host, LaunchTo queue) {
  Words words;
  std::memcpy(words.word, host, kMostPutBytes);
  launch(put_kernel<true>, dim3(1), dim3(kWords), 0, queue, words, static_cast<uint4*>(to));
}

void put_words(int32_t* to, std::span<const WordAt> words, LaunchTo queue) {
  WordList list{.count = int(words.size()), .at = {}};
  std::ranges::copy(words, list.at);
  launch(put_words_kernel, dim3(1), dim3(kMostPutWords), 0, queue, list, to);
}

}  // namespace paceline::cuda
