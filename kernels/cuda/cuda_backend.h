#pragma once
// The CUDA backend, or its stub (no_cuda.cpp): CMake picks one.

#include <memory>

#include "kernels/backend.h"

struct CUstream_st;  // what a cudaStream_t points to

namespace paceline {

/// Throws Error(device) when the build or the machine has no such device.
std::unique_ptr<Backend> make_cuda_backend(int device, const BackendOptions& options);

/// A device's stream, for what else works on the memory of its backend: behind all that this has given out by then.
struct CudaStream {
  int device = 0;
  CUstream_st* stream = nullptr;
  bool early_starts = true;  // of kernels, as BackendOptions says
};
/// Of a CUDA backend; null of any other.
CudaStream cuda_stream(Backend& backend);

/// Graphs that a CUDA backend has launched for its passes; 0 of any other.
uint64_t cuda_graphs_launched(const Backend& backend);

/// Visible CUDA devices; 0 without CUDA.
int num_cuda_devices();

/// Most bytes that a backend takes for itself, beside what alloc and pack give out and what is named below, rooms for
/// peers included.
inline constexpr size_t kCudaWorkspaceBytes = size_t{912} << 20;
/// Of both operands of bfloat16 products, of passes of up to `rows` rows of `widest` values: filled up to groups of
/// rows and whole chunks, and a quarter larger, as buffers grow.
constexpr size_t cuda_operand_bytes(int64_t rows, int64_t widest) {
  return rows * widest == 0 ? 0 : 2 * size_t((rows + 127) * (widest + 127)) * 2 / 4 * 5;
}
/// Of the factors that turn positions below `positions`: tables double, and are a quarter larger.
constexpr size_t cuda_rope_bytes(int64_t positions, int64_t rotary_dim) {
  constexpr int64_t kFewest = 1024, kFactorBytes = 8;
  const int64_t most = 2 * (positions > kFewest ? positions : kFewest);
  return size_t(most * (rotary_dim / 2) * kFactorBytes / 4 * 5);
}

/// Memory that nobody uses yet. Throws as make_cuda_backend does.
size_t cuda_free_bytes(int device);

}  // namespace paceline
