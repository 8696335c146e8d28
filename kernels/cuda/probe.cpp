#include "kernels/cuda/probe.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>

#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/read_bytes.h"
#include "kernels/cuda/stream.h"
#include "kernels/error.h"

namespace paceline {
namespace {

using cuda::check;
using cuda::DeviceMemory;
using cuda::OwnStream;
using cuda::TimedEvent;

constexpr int kRounds = 6;

DriverState state_of(cudaError_t status, int supports) {
  switch (status) {
    case cudaSuccess: return DriverState::works;
    case cudaErrorInsufficientDriver: return supports == 0 ? DriverState::absent : DriverState::too_old;
    case cudaErrorNoDevice: return DriverState::no_device;
    case cudaErrorSystemNotReady: return DriverState::not_started;
    case cudaErrorSystemDriverMismatch: return DriverState::mismatched;
    default: return DriverState::broken;
  }
}

int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, which, device), "cudaDeviceGetAttribute");
  return value;
}

void ask(CudaDeviceFacts& facts, ProbeDepth depth) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, facts.index), "cudaGetDeviceProperties");
  facts.name = properties.name;
  facts.pci =
      fmt::format("{:04x}:{:02x}:{:02x}.0", properties.pciDomainID, properties.pciBusID, properties.pciDeviceID);
  facts.major = properties.major;
  facts.minor = properties.minor;
  facts.num_sms = properties.multiProcessorCount;
  facts.total_bytes = properties.totalGlobalMem;
  facts.ecc = properties.ECCEnabled != 0;
  facts.sm_clock_mhz = attribute(cudaDevAttrClockRate, facts.index) / 1000;
  facts.memory_clock_mhz = attribute(cudaDevAttrMemoryClockRate, facts.index) / 1000;
  facts.prohibited = attribute(cudaDevAttrComputeMode, facts.index) == cudaComputeModeProhibited;
  if (facts.prohibited || depth == ProbeDepth::listed) return;
  check(cudaSetDevice(facts.index), "cudaSetDevice");
  check(cudaMemGetInfo(&facts.free_bytes, &facts.total_bytes), "cudaMemGetInfo");
}

/// Ends by deadline where the stream does not.
void wait(cudaStream_t stream, int device) {
  constexpr double kDeadline_s = 5.0;
  const auto start = std::chrono::steady_clock::now();
  for (cudaError_t status = cudaStreamQuery(stream); status != cudaSuccess; status = cudaStreamQuery(stream)) {
    if (status != cudaErrorNotReady) check(status, "cudaStreamQuery");
    if (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() > kDeadline_s)
      fail(ExitCode::device, "device cuda:{}: its work did not end within {} s", device, kDeadline_s);
  }
}

/// Memory to measure in. Where measuring fails a device may still be at work on it, and giving it back would wait: then
/// it stays until the program ends.
class Scratch {
 public:
  Scratch() = default;
  ~Scratch() {
    for (auto& memory : memory_)
      if (!measured_) static_cast<void>(memory.release());
  }
  Scratch(const Scratch&) = delete;
  /// Of the current device, zeroed in stream order.
  void* add(size_t bytes, const OwnStream& stream) {
    return memory_.emplace_back(std::make_unique<DeviceMemory>(bytes, stream.stream))->as<void>();
  }
  void measured() { measured_ = true; }

 private:
  std::vector<std::unique_ptr<DeviceMemory>> memory_;
  bool measured_ = false;
};

/// The fastest of a few rounds of `work`, which puts its work on the stream.
template <class Work>
double best_seconds(cudaStream_t stream, int device, Work&& work) {
  TimedEvent begin, end;
  double best = 0.0;
  for (int round = 0; round < kRounds; ++round) {
    begin.record(stream);
    work();
    end.record(stream);
    wait(stream, device);
    const double seconds = cuda::seconds_between(begin, end);
    if (round > 0 && (best == 0.0 || seconds < best)) best = seconds;  // the first one warms up
  }
  return best;
}

double rate(double amount, double seconds) { return seconds > 0.0 ? amount / seconds : 0.0; }

}  // namespace

DriverStatus driver_status() {
  DriverStatus status{.toolkit = CUDART_VERSION};
  int count = 0;
  const cudaError_t counted = cudaGetDeviceCount(&count);
  if (cudaDriverGetVersion(&status.supports) != cudaSuccess) status.supports = 0;
  status.state = state_of(counted, status.supports);
  if (counted != cudaSuccess) {
    status.words = cudaGetErrorString(counted);
    cudaGetLastError();
  }
  if (const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES")) status.visible = visible;
  std::ifstream version("/proc/driver/nvidia/version");
  status.release = driver_release(std::string(std::istreambuf_iterator<char>(version), {}));
  return status;
}

void check_cuda_device(int device) {
  const DriverStatus driver = driver_status();
  if (driver.state != DriverState::works) {
    const Trouble trouble = driver_trouble(driver);
    fail(ExitCode::device, "device cuda:{}: {}; {}", device, trouble.what, trouble.fix);
  }
  const int count = num_cuda_devices();
  if (device >= count)
    fail(ExitCode::device, "device cuda:{}: found {} CUDA device{}; use a smaller index or tp x pp", device, count,
         count == 1 ? "" : "s");
}

CudaFacts probe_cuda(ProbeDepth depth) {
  CudaFacts facts{
      .driver = driver_status(), .architectures = PACELINE_CUDA_ARCHITECTURES, .devices = {}, .reaches = {}};
  if (facts.driver.state != DriverState::works) return facts;
  const int count = num_cuda_devices();
  for (int index = 0; index < count; ++index) {
    CudaDeviceFacts& device = facts.devices.emplace_back();
    device.index = index;
    try {
      ask(device, depth);
    } catch (const Error& error) {
      device.error = error.what();
      cudaGetLastError();
    }
  }
  facts.reaches.assign(size_t(count) * size_t(count), 0);
  for (int from = 0; from < count; ++from) {
    for (int to = 0; to < count; ++to) {
      int can = from == to;
      if (from != to && cudaDeviceCanAccessPeer(&can, from, to) != cudaSuccess) {
        can = 0;
        cudaGetLastError();
      }
      facts.reaches[size_t(from) * size_t(count) + size_t(to)] = uint8_t(can != 0);
    }
  }
  return facts;
}

CudaMemoryRates measure_cuda_memory(int device) {
  constexpr size_t kMost = size_t{1} << 30, kFewest = size_t{64} << 20;
  check_cuda_device(device);
  check(cudaSetDevice(device), "cudaSetDevice");
  size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  const size_t bytes = std::min(kMost, free / 8) / kFewest * kFewest;
  if (bytes == 0)
    fail(ExitCode::device, "device cuda:{}: {} of {} bytes are free, too few to measure", device, free, total);
  const OwnStream stream;
  Scratch scratch;
  void *const from = scratch.add(bytes, stream), *const to = scratch.add(bytes, stream);
  void* const sink = scratch.add(16, stream);
  const double read = best_seconds(stream.stream, device, [&] { cuda::read_bytes(from, bytes, sink, stream.stream); });
  const double copied = best_seconds(stream.stream, device, [&] {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream.stream), "cudaMemcpyAsync");
  });
  scratch.measured();
  return {.read_bytes_s = rate(double(bytes), read), .copy_bytes_s = rate(2.0 * double(bytes), copied)};
}

CudaLinkRate measure_cuda_link(int from, int to) {
  constexpr size_t kBytes = size_t{64} << 20;
  constexpr int kSmallCopies = 64;
  constexpr size_t kSmallBytes = 16;
  PACELINE_CHECK(from != to, "a link from cuda:{} to cuda:{}", from, to);
  check_cuda_device(std::max(from, to));
  check(cudaSetDevice(to), "cudaSetDevice");
  Scratch scratch;
  const OwnStream there;
  void* const target = scratch.add(kBytes, there);
  wait(there.stream, to);
  check(cudaSetDevice(from), "cudaSetDevice");
  int can = 0;
  check(cudaDeviceCanAccessPeer(&can, from, to), "cudaDeviceCanAccessPeer");
  if (can) {
    const cudaError_t enabled = cudaDeviceEnablePeerAccess(to, 0);
    if (enabled == cudaErrorPeerAccessAlreadyEnabled)
      cudaGetLastError();
    else
      check(enabled, "cudaDeviceEnablePeerAccess");
  }
  const OwnStream stream;
  void* const source = scratch.add(kBytes, stream);
  const auto copy = [&](size_t bytes) {
    check(cudaMemcpyPeerAsync(target, to, source, from, bytes, stream.stream), "cudaMemcpyPeerAsync");
  };
  const double large = best_seconds(stream.stream, from, [&] { copy(kBytes); });
  const double small = best_seconds(stream.stream, from, [&] {
    for (int i = 0; i < kSmallCopies; ++i) copy(kSmallBytes);
  });
  scratch.measured();
  return {.bytes_s = rate(double(kBytes), large), .latency_s = small / kSmallCopies};
}

size_t cuda_free_bytes(int device) {
  check_cuda_device(device);
  check(cudaSetDevice(device), "cudaSetDevice");
  size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return free;
}

int num_cuda_devices() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

}  // namespace paceline
