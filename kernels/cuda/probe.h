#pragma once
// What there is of CUDA and what it can do, beside any backend: for `runexp doctor` and for the ceilings of a run.
// Stubs in no_cuda.cpp. Any thread; nothing is kept between calls but what the CUDA runtime keeps itself.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/cuda/driver.h"

namespace paceline {

/// Never throws.
DriverStatus driver_status();

/// Throws Error(device) unless the driver works and there is such a device.
void check_cuda_device(int device);

struct CudaDeviceFacts {
  int index = 0;  // as "cuda:N" counts, CUDA_VISIBLE_DEVICES applied
  std::string name;
  std::string pci;           // "0000:1b:00.0"
  int major = 0, minor = 0;  // compute capability
  int num_sms = 0;           // streaming multiprocessors
  int sm_clock_mhz = 0;      // the highest; 0: not told
  int memory_clock_mhz = 0;  // likewise
  bool ecc = false;          // memory errors are corrected
  bool prohibited = false;   // compute mode that lets no program on
  size_t free_bytes = 0;     // 0 unless opened
  size_t total_bytes = 0;
  std::string error;  // what it said instead of answering; empty: it answers
};

struct CudaFacts {
  DriverStatus driver;
  std::string architectures;  // compiled for, "80-real 90a-real 90-virtual"; empty without CUDA
  std::vector<CudaDeviceFacts> devices;
  std::vector<uint8_t>
      reaches;  // [num_devices, num_devices] 1: kernels of the row's device may use the column's memory
};

enum class ProbeDepth : uint8_t {
  listed,  // what the driver tells of them all: milliseconds, no memory of theirs
  opened,  // and free_bytes: a context on each device, for as long as the process lives
};
/// Never throws: what a device cannot answer is in its `error`.
CudaFacts probe_cuda(ProbeDepth depth);

/// Bytes per second of device memory, the best of a few rounds over more than its caches hold.
struct CudaMemoryRates {
  double read_bytes_s = 0;  // a kernel that only reads
  double copy_bytes_s = 0;  // cudaMemcpy in the device: bytes read and bytes written
};
/// Takes a quarter of the free memory for its time, 2 GiB at most. Throws Error(device), also after 5 s without an end.
CudaMemoryRates measure_cuda_memory(int device);

struct CudaLinkRate {
  double bytes_s = 0;    // one way, 64 MiB pieces
  double latency_s = 0;  // one of many copies of 16 bytes behind each other
};
/// Copies from one device's memory to another's, direct where they reach each other (which this enables), else by way
/// of the host. Throws Error(device), also after 5 s without an end.
CudaLinkRate measure_cuda_link(int from, int to);

}  // namespace paceline
