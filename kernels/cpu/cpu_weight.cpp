#include "kernels/cpu/cpu_weight.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/storage.h"
#include "kernels/error.h"
#include "kernels/host_weight.h"

namespace paceline {
namespace {

const char* element(const HostWeight& part, int64_t row) {
  return static_cast<const char*>(part.data) + row * part.row_stride * int64_t(dtype_bytes(part.dtype));
}

/// Rows [begin, begin + count) of `part`, made in `room` where nobody holds them.
HostWeight rows_at(const HostWeight& part, int64_t begin, int64_t count, void* room) {
  HostWeight rows = part;
  rows.rows = count;
  rows.data = part.made ? room : element(part, begin);
  if (part.made) part.made->make(begin, count, room);
  return rows;
}

void widen_row(const HostWeight& part, int64_t row, void* room, float* out) {
  const char* from = static_cast<const char*>(rows_at(part, row, 1, room).data);
  for (int64_t i = 0; i < part.cols; ++i) {
    if (part.dtype == DType::f32) out[i] = reinterpret_cast<const float*>(from)[i];
    if (part.dtype == DType::f16) out[i] = to_f32(reinterpret_cast<const Half*>(from)[i]);
    if (part.dtype == DType::bf16) out[i] = to_f32(reinterpret_cast<const BFloat*>(from)[i]);
  }
}

/// Stacked rows [begin, begin + 16) to one panel of `dtype`; rows beyond the last part are zero. room: for as many rows
/// of a part. False: a value of them cannot be stored.
bool pack_rows_of(std::span<const HostWeight> parts, int64_t begin, DType dtype, const PanelOrder& order,
                  const CpuKernels& kernels, void* room, void* panel) {
  const StorageIndex target = storage_index(dtype);
  int64_t part_begin = 0;
  for (const HostWeight& part : parts) {
    const bool ends_here = begin + kPanel <= part_begin + part.rows || &part == &parts.back();
    if (begin >= part_begin && begin < part_begin + part.rows && ends_here) {
      const int64_t row = begin - part_begin;
      const int num_rows = int(std::min<int64_t>(kPanel, part.rows - row));
      const HostWeight rows = rows_at(part, row, num_rows, room);
      const bool is_storable = !find_unstorable(rows, dtype);  // while they are on their way through the cache
      kernels.pack_panel[storage_index(part.dtype)][target](rows.data, part.row_stride, num_rows, order, panel);
      return is_storable;
    }
    part_begin += part.rows;
  }
  // the panel crosses parts, or is padding
  const int64_t k = parts.front().cols;
  std::vector<float> rows(size_t(kPanel * k), 0.0f);
  part_begin = 0;
  for (const HostWeight& part : parts) {
    for (int64_t r = 0; r < kPanel; ++r)
      if (begin + r >= part_begin && begin + r < part_begin + part.rows)
        widen_row(part, begin + r - part_begin, room, rows.data() + r * k);
    part_begin += part.rows;
  }
  kernels.pack_panel[kStoreF32][target](rows.data(), k, kPanel, order, panel);
  const HostWeight widened{.data = rows.data(), .dtype = DType::f32, .rows = kPanel, .cols = k, .row_stride = k};
  return !find_unstorable(widened, dtype);
}

}  // namespace

StorageIndex storage_index(DType dtype) {
  switch (dtype) {
    case DType::f32: return kStoreF32;
    case DType::f16: return kStoreF16;
    case DType::bf16: return kStoreBf16;
    default: break;
  }
  fail(ExitCode::device, "device cpu: storage type {} is not supported; use float32, float16 or bfloat16",
       dtype_name(dtype));
}

void describe_packed(std::span<const HostWeight> parts, const PackSpec& spec, PackedWeight& weight) {
  PACELINE_CHECK(!parts.empty(), "a packed weight needs at least one part, found {}", parts.size());
  PACELINE_CHECK(spec.k_chunks == 1 || spec.k_chunks == 2 || spec.k_chunks == 4 || spec.k_chunks == 8, "k_chunks {}",
                 spec.k_chunks);
  int64_t num_rows = 0;
  for (const HostWeight& part : parts) {
    PACELINE_CHECK(part.cols == parts.front().cols, "cols {} and {}", part.cols, parts.front().cols);
    storage_index(part.dtype);
    PACELINE_CHECK(part.data || part.rows == 0 || (part.made && part.row_stride == part.cols), "rows {} apart of {}",
                   part.row_stride, part.cols);
    num_rows += part.rows;
  }
  if (spec.pair_panels)
    PACELINE_CHECK(parts.size() == 2 && parts[0].rows == parts[1].rows && spec.pad_rows_to <= num_rows,
                   "pair_panels with {} parts, {} rows, pad_rows_to {}", parts.size(), num_rows, spec.pad_rows_to);
  storage_index(spec.dtype);
  weight.n = std::max(num_rows, spec.pad_rows_to);
  weight.k = parts.front().cols;
  weight.dtype = spec.dtype;
  weight.k_chunks = spec.k_chunks;
  weight.pair_panels = spec.pair_panels;
}

std::shared_ptr<CpuWeight> pack_weight(std::span<const HostWeight> parts, const PackSpec& spec,
                                       const CpuKernels& kernels, ThreadPool& pool, WeightArena& arena) {
  auto weight = std::make_shared<CpuWeight>();
  describe_packed(parts, spec, *weight);
  const int64_t num_parts = spec.pair_panels ? 2 : 1;
  const PanelOrder order = weight->order();
  weight->bytes = size_t(num_parts) * packed_bytes(weight->n / num_parts, weight->k, spec.dtype, spec.k_chunks);
  const int64_t panel_bytes = order.values() * kPanel * int64_t(dtype_bytes(spec.dtype));
  const int64_t num_panels = int64_t(weight->bytes) / std::max<int64_t>(1, panel_bytes);
  weight->memory = arena.take(weight->bytes, pool);
  storage_index(spec.dtype);  // throws for types that nobody can compute with; tasks must not
  std::atomic<bool> all_storable = true;
  size_t room_bytes = 0;  // a thread
  for (const HostWeight& part : parts)
    if (part.made) room_bytes = std::max(room_bytes, size_t(kPanel * part.cols) * dtype_bytes(part.dtype));
  std::vector<char> room(room_bytes * size_t(pool.num_threads()));
  pool.parallel_for(num_panels, [&](int64_t panel, int thread) {
    void* to = weight->memory.data + panel * panel_bytes;
    if (room_bytes > 0)  // on its way while the rows are made
      for (int64_t at = 0; at < panel_bytes; at += 64) __builtin_prefetch(static_cast<const char*>(to) + at, 1, 2);
    const auto rows_of = spec.pair_panels ? parts.subspan(size_t(panel % 2), 1) : parts;
    const int64_t begin = (spec.pair_panels ? panel / 2 : panel) * kPanel;
    if (!pack_rows_of(rows_of, begin, spec.dtype, order, kernels, room.data() + size_t(thread) * room_bytes, to))
      all_storable = false;
  });
  weight->has_unstorable = !all_storable;
  return weight;
}

}  // namespace paceline
