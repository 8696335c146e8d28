#include "kernels/cuda/staging.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/error.h"

namespace paceline::cuda {

StagingRing::StagingRing(LaunchTo to, std::function<void()> wait)
    : to_(to), wait_(std::move(wait)), device_(kBytes, to.stream) {
  check(cudaMallocHost(&pinned_, kBytes), "cudaMallocHost");
}
StagingRing::~StagingRing() { cudaFreeHost(pinned_); }

void StagingRing::reserve(size_t bytes, size_t pieces) {
  bytes += pieces * kAlign;
  PACELINE_CHECK(bytes <= kBytes, "{} bytes to stage, room for {}", bytes, kBytes);
  if (used_ + bytes <= kBytes) return;
  flush();
  wait_();
  used_ = flushed_ = 0;
  recent_ = {};
}

void* StagingRing::stage(const void* host, size_t bytes) {
  for (const Piece& piece : recent_)
    if (bytes > 0 && piece.bytes == bytes && std::memcmp(pinned_ + piece.at, host, bytes) == 0)
      return device_.as<char>() + piece.at;
  reserve(bytes, 1);
  recent_[next_recent_++ % kRemembered] = {.at = used_, .bytes = bytes};
  char* to = device_.as<char>() + used_;
  if (bytes) std::memcpy(pinned_ + used_, host, bytes);
  used_ += (bytes + kAlign - 1) / kAlign * kAlign;
  return to;
}

void StagingRing::flush() {
  const size_t bytes = used_ - flushed_;
  if (bytes == 0) return;
  char* const to = device_.as<char>() + flushed_;
  const char* const from = pinned_ + flushed_;
  flushed_ = used_;
  if (bytes <= kMostPutBytes)
    put_bytes(to, from, bytes, to_);
  else
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, to_.stream), "cudaMemcpyAsync");
}

HostMemory::HostMemory(size_t bytes) : bytes_(bytes) {
  check(cudaHostAlloc(&data_, std::max<size_t>(bytes, 1), cudaHostAllocPortable | cudaHostAllocMapped),
        "cudaHostAlloc");
  std::memset(data_, 0, bytes);
}
HostMemory::~HostMemory() {
  if (data_) cudaFreeHost(data_);
}

}  // namespace paceline::cuda
