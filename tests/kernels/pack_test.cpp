// Packing keeps every value in its place and looks at it: none that the storage type cannot hold goes unseen.

#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/storage.h"
#include "kernels/host_weight.h"
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

/// Chunks of 3 to 72 values, even and odd, with ends before, at and behind whole vectors.
TEST_P(BackendOps, RowsComeBackAsTheyWerePacked) {
  constexpr int64_t kRows = 35, kPadded = 48;  // two panels, three rows and zeros
  std::vector<int32_t> every(kPadded);
  std::iota(every.begin(), every.end(), 0);
  for (const DType source : {DType::f32, DType::f16, DType::bf16})
    for (const DType storage : {DType::f32, DType::bf16})
      for (const int k_chunks : {1, 2, 8})
        for (const int64_t k : {24, 33, 256, 258, 264, 272, 520, 576, 577}) {
          const StoredMatrix table(kRows, k, source, uint32_t(k));
          const HostWeight part = table.host();
          const Weight packed =
              backend().pack({&part, 1}, {.dtype = storage, .k_chunks = k_chunks, .pad_rows_to = kPadded});
          GuardedRows out(backend(), int(kPadded), int(k));
          backend().embed({.table = packed.get(), .token = every, .out = out.view()});
          std::vector<float> want = table.value;
          want.resize(size_t(kPadded * k));
          if (storage == DType::bf16)
            for (float& value : want) {
              BFloat rounded;
              from_f32(value, &rounded);
              value = to_f32(rounded);
            }
          ASSERT_TRUE(same_bits(out.read(), want)) << dtype_name(source) << " as " << dtype_name(storage) << ", " << k
                                                   << " inputs in " << k_chunks << " chunks";
        }
}

template <class T>
void expect_rounded_alike(const CpuKernels& kernels, StorageIndex storage, const std::vector<float>& values) {
  std::vector<T> got(values.size() + 1), want(values.size() + 1);
  for (size_t i = 0; i < values.size(); ++i) from_f32(values[i], &want[i]);
  kernels.round_row[storage](values.data(), int64_t(values.size()), got.data());
  EXPECT_EQ(std::memcmp(got.data(), want.data(), got.size() * sizeof(T)), 0) << values.size() << " values";
}

TEST(RoundRow, EveryInstructionSetRoundsAlike) {
  std::vector<float> all = {0.0f,
                            -0.0f,
                            65504.0f,
                            65519.0f,
                            65520.0f,
                            -1e30f,
                            5.9604645e-8f,
                            2.98e-8f,
                            -6.1e-5f,
                            std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN(),
                            std::numeric_limits<float>::max(),
                            1.00390625f,
                            1.01171875f};
  const std::vector<float> random = random_values(40, 3);
  all.insert(all.end(), random.begin(), random.end());
  for (const Isa isa : kIsas) {
    const CpuKernels* const kernels = kernels_for(isa);
    if (!kernels) continue;
    SCOPED_TRACE(isa_name(isa));
    for (size_t count = 0; count <= all.size(); ++count) {
      const std::vector<float> values(all.begin(), all.begin() + long(count));
      expect_rounded_alike<float>(*kernels, kStoreF32, values);
      expect_rounded_alike<Half>(*kernels, kStoreF16, values);
      expect_rounded_alike<BFloat>(*kernels, kStoreBf16, values);
    }
  }
}

}  // namespace
}  // namespace paceline::test
