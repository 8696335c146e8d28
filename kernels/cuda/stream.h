#pragma once
// Streams and events that free themselves. They belong to the device that is current when they are made.

#include <cuda_runtime.h>

#include "kernels/cuda/device.h"

namespace paceline::cuda {

struct OwnStream {
  cudaStream_t stream = nullptr;
  OwnStream() { check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate"); }
  ~OwnStream() { cudaStreamDestroy(stream); }
  OwnStream(const OwnStream&) = delete;
};

/// A mark in a stream that knows when the device passed it.
struct TimedEvent {
  cudaEvent_t event = nullptr;
  TimedEvent() { check(cudaEventCreate(&event), "cudaEventCreate"); }
  ~TimedEvent() { cudaEventDestroy(event); }
  TimedEvent(const TimedEvent&) = delete;
  void record(cudaStream_t stream) { check(cudaEventRecord(event, stream), "cudaEventRecord"); }
};

/// Of the device. REQUIRES that it has passed both.
inline double seconds_between(const TimedEvent& begin, const TimedEvent& end) {
  float milliseconds = 0.0f;
  check(cudaEventElapsedTime(&milliseconds, begin.event, end.event), "cudaEventElapsedTime");
  return double(milliseconds) * 1e-3;
}

}  // namespace paceline::cuda
