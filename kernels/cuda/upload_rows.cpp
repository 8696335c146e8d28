#include "kernels/cuda/upload_rows.h"

#include <algorithm>

namespace paceline::cuda {
namespace {

size_t row_bytes(const HostWeight& part) { return size_t(part.cols) * dtype_bytes(part.dtype); }
int64_t rows_of_piece(const HostWeight& part) {
  constexpr size_t kPieceBytes = size_t{64} << 20;
  return std::clamp<int64_t>(int64_t(kPieceBytes / std::max<size_t>(1, row_bytes(part))), 1,
                             std::max<int64_t>(1, part.rows));
}

}  // namespace

void upload_rows(std::span<const HostWeight> parts, const CudaWeight& w, LaunchQueue& queue,
                 const std::function<void()>& wait) {
  size_t most_bytes = 0;
  for (const HostWeight& part : parts) most_bytes = std::max(most_bytes, size_t(rows_of_piece(part)) * row_bytes(part));
  const DeviceMemory piece(most_bytes, queue.now());
  int64_t first_row = 0;
  for (size_t part = 0; part < parts.size(); ++part) {
    const HostWeight& from = parts[part];
    const size_t stride_bytes = size_t(from.row_stride) * dtype_bytes(from.dtype);
    if (w.pair_panels) first_row = 0;
    const int64_t piece_rows = rows_of_piece(from);
    for (int64_t begin = 0; begin < from.rows; begin += piece_rows) {
      const int64_t count = std::min(piece_rows, from.rows - begin);
      check(cudaMemcpy2DAsync(piece.as<void>(), row_bytes(from),
                              static_cast<const char*>(from.data) + size_t(begin) * stride_bytes, stride_bytes,
                              row_bytes(from), size_t(count), cudaMemcpyDefault, queue.now()),
            "cudaMemcpy2DAsync");
      pack_rows(piece.as<void>(), from.dtype, count, from.cols, first_row, int(part), w, queue.to());
      wait();  // the piece is used again
      first_row += count;
    }
  }
  wait();
}

}  // namespace paceline::cuda
