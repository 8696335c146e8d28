#include "kernels/cuda/device.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "kernels/cuda/gemm.h"
#include "kernels/cuda/launch_list.h"
#include "kernels/error.h"

namespace paceline::cuda {

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  fail(ExitCode::device, "device cuda: {} failed: {} ({})", what, cudaGetErrorString(status), cudaGetErrorName(status));
}

cudaDeviceProp supported_properties(int device) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  if (properties.major < 8)
    fail(ExitCode::device, "device cuda:{}: {} has compute capability {}.{}; 8.0 or newer is needed", device,
         properties.name, properties.major, properties.minor);
  if (properties.major >= 9 && properties.sharedMemPerBlockOptin < kGemmSharedBytes)
    fail(ExitCode::device, "device cuda:{}: {} gives a block {} bytes of shared memory; {} are needed", device,
         properties.name, properties.sharedMemPerBlockOptin, kGemmSharedBytes);
  return properties;
}

void outlast_work(cudaStream_t stream, int device, double limit_s) noexcept {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  while (cudaStreamQuery(stream) == cudaErrorNotReady) {
    if (std::chrono::duration<double>(Clock::now() - start).count() > limit_s)
      fail(ExitCode::device, "device cuda:{}: its work did not end within {} s; it hangs, and the process with it",
           device, limit_s);
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
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

void launch_call(LaunchTo to, const KernelCall& call) {
  if (to.list) return to.list->add(call, std::min(to.ahead_of, to.list->size()));
  cudaLaunchAttribute attribute[3]{};
  unsigned count = 0;
  if (to.early_starts) {
    attribute[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute[count++].val.programmaticStreamSerializationAllowed = 1;
  }
  const dim3 cluster = call.options.cluster;
  if (cluster.x * cluster.y * cluster.z > 1) {
    attribute[count].id = cudaLaunchAttributeClusterDimension;
    attribute[count++].val.clusterDim = {cluster.x, cluster.y, cluster.z};
  }
#if CUDART_VERSION >= 12060  // a hint that older toolkits do not know
  if (call.options.beside_large) {
    attribute[count].id = cudaLaunchAttributePreferredSharedMemoryCarveout;
    attribute[count++].val.sharedMemCarveout = cudaSharedmemCarveoutMaxShared;
  }
#endif
  cudaLaunchConfig_t config{};
  config.gridDim = call.grid;
  config.blockDim = call.block;
  config.dynamicSmemBytes = call.shared_bytes;
  config.stream = to.stream;
  config.attrs = attribute;
  config.numAttrs = count;
  check(cudaLaunchKernelExC(&config, call.function, const_cast<void**>(call.argument)), "kernel launch");
}

}  // namespace paceline::cuda
