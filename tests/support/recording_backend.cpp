#include "tests/support/recording_backend.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "kernels/host_weight.h"

namespace paceline::test {

void* RecordingBackend::alloc(size_t bytes) { return std::calloc(std::max<size_t>(bytes, 1), 1); }
void RecordingBackend::free(void* data) noexcept { std::free(data); }
void RecordingBackend::upload(void* to, const void* from, size_t bytes) { std::memcpy(to, from, bytes); }
void RecordingBackend::download(void* to, const void* from, size_t bytes) { std::memcpy(to, from, bytes); }

Weight RecordingBackend::pack(std::span<const HostWeight> stacked_rows, const PackSpec& spec) {
  auto weight = std::make_shared<RecordedWeight>();
  weight->k = stacked_rows[0].cols;
  weight->dtype = spec.dtype;
  weight->k_chunks = spec.k_chunks;
  weight->pair_panels = spec.pair_panels;
  weight->spec = spec;
  for (HostWeight part : stacked_rows) {
    std::vector<float> made;  // large enough for any type
    if (part.made) {
      made.resize(size_t(part.rows * part.cols));
      part.made->make(0, part.rows, made.data());
      part.data = made.data();
    }
    PACELINE_CHECK(part.cols == weight->k, "stacked parts of {} and {} columns", weight->k, part.cols);
    for (int64_t row = 0; row < part.rows; ++row)
      for (int64_t col = 0; col < part.cols; ++col) weight->values.push_back(value_at(part, row, col));
    if (any_unstorable(part, spec.dtype)) weight->has_unstorable = true;
    weight->n += part.rows;
    weight->part_rows.push_back(part.rows);
    weight->part_data.push_back(part.data);
    if (spec.pair_panels) weight->bytes += packed_bytes(part.rows, weight->k, spec.dtype, spec.k_chunks);
  }
  weight->n = std::max(weight->n, spec.pad_rows_to);
  weight->values.resize(size_t(weight->n * weight->k), 0.0f);
  if (!spec.pair_panels) weight->bytes = packed_bytes(weight->n, weight->k, spec.dtype, spec.k_chunks);
  packed.push_back(weight);
  return weight;
}

}  // namespace paceline::test
