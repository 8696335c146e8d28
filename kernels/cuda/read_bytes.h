#pragma once
// A kernel that reads and does nothing else.

#include <cstddef>
#include <cuda_runtime.h>

namespace paceline::cuda {

/// Reads [from, from + bytes) once, in stream order. from: 16-byte aligned; what is left after the last whole 16 KiB is
/// not read. sink: 16 bytes of device memory, written where the data is one value of 2^128. Throws Error(device).
void read_bytes(const void* from, size_t bytes, void* sink, cudaStream_t stream);

}  // namespace paceline::cuda
