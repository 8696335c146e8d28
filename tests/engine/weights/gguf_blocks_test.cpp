#include "engine/weights/gguf_blocks.h"

#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "engine/util/gguf.h"
#include "kernels/cpu/storage.h"
#include "tests/support/paths.h"

namespace paceline {
namespace {

constexpr const char* kPackedTypes[] = {"Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1",   "Q2_K",
                                        "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS"};

/// blocks.gguf: random blocks of each type, and what another program makes of them (make_blocks.py).
class GgufBlocks : public ::testing::Test {
 protected:
  template <class Value>
  std::vector<Value> decode(const std::string& name, const TensorRange& range, DType dtype) const {
    const GgufTensor& tensor = *file_.find_tensor(name);
    std::vector<Value> out(size_t(range.num_rows * range.num_cols));
    decode_gguf(*tensor.type, file_.data(tensor), tensor.shape[1], range, dtype, out.data());
    return out;
  }
  std::vector<float> expected(const std::string& name) const {
    const GgufTensor& tensor = *file_.find_tensor(name + ".expected");
    std::vector<float> values(tensor.bytes / sizeof(float));
    std::memcpy(values.data(), file_.data(tensor), tensor.bytes);
    return values;
  }
  TensorRange whole(const std::string& name) const {
    const std::vector<int64_t>& shape = file_.find_tensor(name)->shape;
    return {.row_begin = 0, .num_rows = shape[0], .col_begin = 0, .num_cols = shape[1]};
  }

  const GgufFile file_{source_dir() / "tests/data/gguf/blocks.gguf"};
};

TEST_F(GgufBlocks, Float32HasTheBitsOfAnotherProgram) {
  for (const std::string name : kPackedTypes) {
    const std::vector<float> found = decode<float>(name, whole(name), DType::f32), wanted = expected(name);
    ASSERT_EQ(found.size(), wanted.size());
    for (size_t i = 0; i < found.size(); ++i) ASSERT_EQ(found[i], wanted[i]) << name << " value " << i;
  }
}

TEST_F(GgufBlocks, SixteenBitsAreRoundedToNearestEven) {
  for (const std::string name : kPackedTypes) {
    const std::vector<float> wanted = expected(name);
    const std::vector<BFloat> bfloats = decode<BFloat>(name, whole(name), DType::bf16);
    const std::vector<Half> halves = decode<Half>(name, whole(name), DType::f16);
    for (size_t i = 0; i < wanted.size(); ++i) {
      BFloat bfloat;
      Half half;
      from_f32(wanted[i], &bfloat);
      from_f32(wanted[i], &half);
      ASSERT_EQ(bfloats[i].bits, bfloat.bits) << name << " value " << i;
      ASSERT_EQ(halves[i].bits, half.bits) << name << " value " << i;
    }
  }
}

TEST_F(GgufBlocks, CutsMayLieAnywhere) {
  for (const std::string name : kPackedTypes) {
    const std::vector<float> wanted = expected(name);
    const int64_t cols = whole(name).num_cols;
    for (const TensorRange& range : {TensorRange{.row_begin = 1, .num_rows = 2, .col_begin = 0, .num_cols = cols},
                                     TensorRange{.row_begin = 0, .num_rows = 1, .col_begin = 1, .num_cols = 1},
                                     TensorRange{.row_begin = 2, .num_rows = 1, .col_begin = 31, .num_cols = 70},
                                     TensorRange{.row_begin = 0, .num_rows = 3, .col_begin = cols / 2, .num_cols = 64},
                                     TensorRange{.row_begin = 0, .num_rows = 3, .col_begin = cols - 5, .num_cols = 5},
                                     TensorRange{.row_begin = 3, .num_rows = 0, .col_begin = 0, .num_cols = cols}}) {
      const std::vector<float> found = decode<float>(name, range, DType::f32);
      for (int64_t row = 0; row < range.num_rows; ++row)
        for (int64_t col = 0; col < range.num_cols; ++col)
          ASSERT_EQ(found[size_t(row * range.num_cols + col)],
                    wanted[size_t((range.row_begin + row) * cols + range.col_begin + col)])
              << name << " row " << row << " column " << col;
    }
  }
}

TEST_F(GgufBlocks, PlainTypesAreFloats) {
  const std::vector<float> values = {1.5f, -2.0f, 0.25f, 3.0f};
  std::vector<uint16_t> halves, bfloats;
  for (const float value : values) {
    Half half;
    BFloat bfloat;
    from_f32(value, &half);
    from_f32(value, &bfloat);
    halves.push_back(half.bits);
    bfloats.push_back(bfloat.bits);
  }
  const TensorRange range{.row_begin = 1, .num_rows = 1, .col_begin = 0, .num_cols = 2};
  for (const auto& [type, data] : {std::pair<GgufType, const void*>{GgufType::f32, values.data()},
                                   {GgufType::f16, halves.data()},
                                   {GgufType::bf16, bfloats.data()}}) {
    std::vector<float> found(2);
    decode_gguf(*find_gguf_type(uint32_t(type)), static_cast<const std::byte*>(data), 2, range, DType::f32,
                found.data());
    EXPECT_EQ(found, (std::vector<float>{0.25f, 3.0f}));
    EXPECT_TRUE(plain_dtype(*find_gguf_type(uint32_t(type))));
  }
}

TEST_F(GgufBlocks, TypesThatCanBeRead) {
  EXPECT_EQ(decodable_gguf_types(),
            "F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS");
  EXPECT_FALSE(is_decodable(*find_gguf_type(16)));  // IQ2_XXS
  EXPECT_FALSE(plain_dtype(*find_gguf_type(8)));
}

}  // namespace
}  // namespace paceline
