// Linked when Paceline is built without the CUDA backend.

#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/probe.h"

namespace paceline {

namespace {

[[noreturn]] void fail_without_cuda(int device) {
  const Trouble trouble = driver_trouble(driver_status());
  fail(ExitCode::device, "device cuda:{}: {}; {}", device, trouble.what, trouble.fix);
}

}  // namespace

std::unique_ptr<Backend> make_cuda_backend(int device, const BackendOptions&) { fail_without_cuda(device); }
size_t cuda_free_bytes(int device) { fail_without_cuda(device); }

CudaStream cuda_stream(Backend&) { return {}; }
uint64_t cuda_graphs_launched(const Backend&) { return 0; }

int num_cuda_devices() { return 0; }

DriverStatus driver_status() { return {}; }
void check_cuda_device(int device) { fail_without_cuda(device); }
CudaFacts probe_cuda(ProbeDepth) { return {}; }
CudaMemoryRates measure_cuda_memory(int device) { fail_without_cuda(device); }
CudaLinkRate measure_cuda_link(int from, int) { fail_without_cuda(from); }

}  // namespace paceline
