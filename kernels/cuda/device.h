#pragma once
// What every file of the CUDA backend needs: checked calls, memory that frees itself, launches. No kernel here.

#include <cstddef>
#include <cstdint>
#include <cuda_runtime.h>
#include <utility>

namespace paceline::cuda {

/// Throws Error(device) with the driver's words unless `status` is cudaSuccess. what: the call, for the message.
void check(cudaError_t status, const char* what);

/// Throws Error(device) for one that the kernels do not run on.
cudaDeviceProp supported_properties(int device);

/// Before memory is freed: until the work of `stream` has ended, well or badly. What hangs for limit_s seconds uses
/// memory that nobody can free, and the driver's calls would wait without a limit: the process ends as of an exception
/// that nobody catches.
void outlast_work(cudaStream_t stream, int device, double limit_s) noexcept;

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
/// A kernel with its arguments, as the runtime takes it; `argument` points to `num_arguments` of `argument_bytes` each.
struct KernelCall {
  const void* function = nullptr;
  dim3 grid, block;
  size_t shared_bytes = 0;
  LaunchOptions options;
  void* const* argument = nullptr;
  const size_t* argument_bytes = nullptr;
  size_t num_arguments = 0;
};

class LaunchList;
/// Where a kernel goes: to the stream at once, or onto a list of what will go there (launch_list.h).
struct LaunchTo {
  cudaStream_t stream = nullptr;
  LaunchList* list = nullptr;
  size_t ahead_of = SIZE_MAX;  // entry of the list; beyond its end: of none
  bool early_starts;           // as BackendOptions says
  LaunchTo(cudaStream_t to, bool early = true) : stream(to), early_starts(early) {}
};

/// As a dependent launch (PDL): the kernel may start before its predecessor in the stream ends, and must wait
/// (device_code.cuh). Every kernel of the backend is launched so, unless it has no early starts.
void launch_call(LaunchTo to, const KernelCall& call);

template <class... Args>
void launch_with(const LaunchOptions& options, void (*kernel)(Args...), dim3 grid, dim3 block, size_t shared_bytes,
                 LaunchTo to, Args... args) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  void* const argument[] = {&args...};
  constexpr size_t kBytes[] = {sizeof(Args)...};
  launch_call(to, {.function = reinterpret_cast<const void*>(kernel),
                   .grid = grid,
                   .block = block,
                   .shared_bytes = shared_bytes,
                   .options = options,
                   .argument = argument,
                   .argument_bytes = kBytes,
                   .num_arguments = sizeof...(Args)});
}

/// Without options.
template <class... Args>
void launch(void (*kernel)(Args...), dim3 grid, dim3 block, size_t shared_bytes, LaunchTo to, Args... args) {
  launch_with({}, kernel, grid, block, shared_bytes, to, args...);
}

}  // namespace paceline::cuda
