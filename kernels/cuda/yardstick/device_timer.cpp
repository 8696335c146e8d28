#include "kernels/cuda/yardstick/device_timer.h"

#include "kernels/cuda/stream.h"

namespace paceline {

double device_seconds(CUstream_st* stream, int calls, const std::function<void()>& call) {
  cuda::TimedEvent begin, end;
  begin.record(stream);
  for (int i = 0; i < calls; ++i) call();
  end.record(stream);
  cuda::check(cudaEventSynchronize(end.event), "cudaEventSynchronize");
  return cuda::seconds_between(begin, end);
}

}  // namespace paceline
