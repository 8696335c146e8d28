// Linked when Paceline is built without the CUDA backend.

#include "kernels/cuda/cuda_backend.h"

namespace paceline {

namespace {

[[noreturn]] void fail_without_cuda(int device) {
  fail(ExitCode::device,
       "device cuda:{}: this build has no CUDA backend; build with `cmake --preset cuda` or use backend cpu", device);
}

}  // namespace

std::unique_ptr<Backend> make_cuda_backend(int device, const BackendOptions&) { fail_without_cuda(device); }
size_t cuda_free_bytes(int device) { fail_without_cuda(device); }

CudaStream cuda_stream(Backend&) { return {}; }
int num_cuda_devices() { return 0; }

}  // namespace paceline
