#include "kernels/cuda/yardstick/device_timer.h"

#include "kernels/cuda/stream.h"

namespace paceline {

double device_seconds(CUstream_st* stream, int calls, const std::function<void()>& call) {
  cuda::TimedEvent begin, end;
  begin.record(stream);
  for (int i = 0; i < calls; ++i) call();
  end.record(stream);
  cuda::check(cudaEventSynchronize(end.event), "cudaEventSynchronize");
  float ms = 0.0f;
  cuda::check(cudaEventElapsedTime(&ms, begin.event, end.event), "cudaEventElapsedTime");
  return ms * 1e-3;
}

}  // namespace paceline
