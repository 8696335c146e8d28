#include "kernels/cuda/device.h"

#include <algorithm>

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

}  // namespace paceline::cuda
