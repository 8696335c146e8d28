#include "kernels/cuda/device.h"

#include <algorithm>
#include <cstring>

#include "kernels/error.h"

namespace paceline::cuda {

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  fail(ExitCode::device, "device cuda: {} failed: {} ({})", what, cudaGetErrorString(status), cudaGetErrorName(status));
}

DeviceMemory::DeviceMemory(size_t bytes, cudaStream_t stream) : bytes_(bytes) {
  const cudaError_t status = cudaMalloc(&data_, std::max<size_t>(bytes, 1));
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    fail(ExitCode::device, "device cuda: no room for {} bytes: {} of {} are free", bytes, free, total);
  }
  check(status, "cudaMalloc");
  const cudaError_t zeroed = cudaMemsetAsync(data_, 0, std::max<size_t>(bytes, 1), stream);
  if (zeroed != cudaSuccess) cudaFree(data_);
  check(zeroed, "cudaMemsetAsync");
}

DeviceMemory::~DeviceMemory() {
  if (data_) cudaFree(data_);
}

StagingRing::StagingRing(cudaStream_t stream) : stream_(stream), device_(kBytes, stream) {
  check(cudaMallocHost(&pinned_, kBytes), "cudaMallocHost");
}
StagingRing::~StagingRing() { cudaFreeHost(pinned_); }

void StagingRing::reserve(size_t bytes, size_t pieces) {
  bytes += pieces * kAlign;
  PACELINE_CHECK(bytes <= kBytes, "{} bytes to stage, room for {}", bytes, kBytes);
  if (used_ + bytes <= kBytes) return;
  check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  used_ = 0;
  recent_ = {};
}

void* StagingRing::stage(const void* host, size_t bytes) {
  for (const Piece& piece : recent_)
    if (bytes > 0 && piece.bytes == bytes && std::memcmp(pinned_ + piece.at, host, bytes) == 0)
      return device_.as<char>() + piece.at;
  reserve(bytes, 1);
  recent_[next_recent_++ % kRemembered] = {.at = used_, .bytes = bytes};
  char* to = device_.as<char>() + used_;
  if (bytes) {
    std::memcpy(pinned_ + used_, host, bytes);
    check(cudaMemcpyAsync(to, pinned_ + used_, bytes, cudaMemcpyHostToDevice, stream_), "cudaMemcpyAsync");
  }
  used_ += (bytes + kAlign - 1) / kAlign * kAlign;
  return to;
}

}  // namespace paceline::cuda
