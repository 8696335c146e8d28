// Packing keeps every value in its place and looks at it: none that the storage type cannot hold goes unseen.

#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/storage.h"
#include "kernels/math/philox.h"
#include "tests/kernels/backend_ops.h"
#include "tests/support/made_rows.h"

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
          HostWeight parts[] = {table.host(), table.host()};
          parts[0].rows = 20;  // the second panel crosses
          parts[1].rows = kRows - 20;
          parts[1].data = table.bytes.data() + size_t(20 * parts[0].row_stride) * dtype_bytes(source);
          const CopiedRows rest(parts[1]);
          if (k % 2 == 0 && backend().packs_made_rows()) parts[1] = rest.view();
          const Weight packed = backend().pack(parts, {.dtype = storage, .k_chunks = k_chunks, .pad_rows_to = kPadded});
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

/// Columns [begin, end) of a row of random blocks, as a storage type.
std::vector<uint8_t> decoded(const CpuKernels& kernels, int format, int storage, const std::vector<uint8_t>& row,
                             int64_t begin, int64_t end) {
  std::vector<uint8_t> out(size_t(end - begin + 1) * sizeof(float));  // what lies behind stays
  kernels.blocks[format].decode[storage](row.data(), begin, end, out.data());
  return out;
}

// Scales are random bits, too: with infinities and numbers that are none.
TEST(DecodeBlocks, EveryInstructionSetGivesTheSameBits) {
  constexpr int64_t kCols = 1024;
  std::vector<uint8_t> row(kCols * sizeof(float));
  for (size_t i = 0; i < row.size(); ++i) row[i] = uint8_t(math::noise_words({.seed = 9}, uint32_t(i / 4)).word[i % 4]);
  const CpuKernels& want = *kernels_for(Isa::scalar);
  for (const Isa isa : kIsas) {
    const CpuKernels* const kernels = kernels_for(isa);
    if (!kernels) continue;
    for (int format = 0; format < kNumBlockFormats; ++format)
      for (int storage = 0; storage < kNumStorage; ++storage)
        for (const auto& [begin, end] :
             std::vector<std::pair<int64_t, int64_t>>{{0, kCols}, {0, 1}, {13, 77}, {300, 900}})
          ASSERT_EQ(decoded(*kernels, format, storage, row, begin, end),
                    decoded(want, format, storage, row, begin, end))
              << isa_name(isa) << ", format " << format << " as " << storage << ", [" << begin << ", " << end << ")";
  }
}

}  // namespace
}  // namespace paceline::test
