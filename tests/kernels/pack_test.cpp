// Packing looks at every value: none that the storage type cannot hold goes unseen, wherever it lies.

#include <cmath>
#include <limits>
#include <utility>

#include "tests/kernels/backend_ops.h"

namespace paceline::test {
namespace {

/// Two parts of 20 rows and 37: panels within one, across both, and with padding.
struct TwoParts {
  static constexpr int64_t kFirst = 20, kSecond = 37, kCols = 24;
  std::vector<float> first = std::vector<float>(kFirst * kCols, 1.0f),
                     second = std::vector<float>(kSecond * kCols, 1.0f);

  bool has_unstorable(Backend& backend, const PackSpec& spec, int64_t second_rows = kSecond) const {
    const HostWeight parts[] = {
        {.data = first.data(), .dtype = DType::f32, .rows = kFirst, .cols = kCols, .row_stride = kCols},
        {.data = second.data(), .dtype = DType::f32, .rows = second_rows, .cols = kCols, .row_stride = kCols}};
    return backend.pack(parts, spec)->has_unstorable;
  }
};

TEST_P(BackendOps, PackingSeesValuesThatCannotBeStored) {
  TwoParts parts;
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    SCOPED_TRACE(dtype_name(dtype));
    EXPECT_FALSE(parts.has_unstorable(backend(), {.dtype = dtype}));
    EXPECT_FALSE(parts.has_unstorable(backend(), {.dtype = dtype, .pad_rows_to = 80}));
    for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN(), -7e4f}) {
      const bool fits = std::isfinite(bad) && dtype != DType::f16;
      for (std::vector<float>* const part : {&parts.first, &parts.second}) {
        for (const size_t at : {size_t{0}, part->size() / 2, part->size() - 1}) {
          const float good = std::exchange((*part)[at], bad);
          EXPECT_EQ(parts.has_unstorable(backend(), {.dtype = dtype, .pad_rows_to = 80}), !fits) << bad << " at " << at;
          if (part == &parts.first) {
            EXPECT_EQ(parts.has_unstorable(backend(), {.dtype = dtype, .pair_panels = true}, TwoParts::kFirst), !fits);
          }
          (*part)[at] = good;
        }
      }
    }
  }
}

}  // namespace
}  // namespace paceline::test
