#pragma once
// What every file of the CUDA backend needs: checked calls, memory that frees itself, launches. No kernel here.

#include <cstddef>
#include <cstdint>
#include <cuda_runtime.h>
#include <utility>

namespace paceline::cuda {

/// Throws Error(device) with the driver's words unless `status` is cudaSuccess. what: the call, for the message.
void check(cudaError_t status, const char* what);

/// Device memory of the current device, zeroed.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  /// Throws Error(device) with sizes when memory is out.
  explicit DeviceMemory(size_t bytes, cudaStream_t stream);
  ~DeviceMemory();
  DeviceMemory(DeviceMemory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

struct LaunchOptions {
  dim3 cluster{1};            // blocks that share their memory (compute capability 9.0); the grid is a multiple of it
  bool beside_large = false;  // blocks of much shared memory fit beside: else an SM may be divided for caching instead
};
/// `kernel` as a dependent launch (PDL): it may start before its predecessor in the stream ends, and must wait
/// (device_code.cuh). Every kernel of the backend is launched so.
template <class... Args>
void launch_with(const LaunchOptions& options, void (*kernel)(Args...), dim3 grid, dim3 block, size_t shared_bytes,
                 cudaStream_t stream, Args... args) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  cudaLaunchAttribute attribute[3]{};
  unsigned count = 0;
  attribute[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute[count++].val.programmaticStreamSerializationAllowed = 1;
  const dim3 cluster = options.cluster;
  if (cluster.x * cluster.y * cluster.z > 1) {
    attribute[count].id = cudaLaunchAttributeClusterDimension;
    attribute[count++].val.clusterDim = {cluster.x, cluster.y, cluster.z};
  }
#if CUDART_VERSION >= 12060  // a hint that older toolkits do not know
  if (options.beside_large) {
    attribute[count].id = cudaLaunchAttributePreferredSharedMemoryCarveout;
    attribute[count++].val.sharedMemCarveout = cudaSharedmemCarveoutMaxShared;
  }
#endif
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = attribute;
  config.numAttrs = count;
  check(cudaLaunchKernelEx(&config, kernel, args...), "kernel launch");
}

/// Without options.
template <class... Args>
void launch(void (*kernel)(Args...), dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream, Args... args) {
  launch_with({}, kernel, grid, block, shared_bytes, stream, args...);
}

}  // namespace paceline::cuda
