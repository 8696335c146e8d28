#include "engine/weights/tensor_source.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

class NoTensors final : public TensorSource {
 public:
  std::string label() const override { return "none"; }
  const TensorInfo* find(std::string_view) const override { return nullptr; }
  std::vector<std::string> names() const override { return {}; }
  TensorPart part(std::string_view, const TensorRange&) const override { return {}; }
  void release(std::string_view) const override {}
};

constexpr TensorRange rows_of_4096(int64_t rows) { return {.num_rows = rows, .num_cols = 4096}; }

TEST(TensorSource, WhatWasLentIsLentAgain) {
  const NoTensors source;
  TensorPart large = source.room_for(rows_of_4096(64), DType::bf16);
  const void* const memory = large.view.data;
  source.recycle(std::move(large));
  EXPECT_EQ(source.spare_bytes(), size_t(64 * 4096 * 2));
  EXPECT_NE(source.room_for(rows_of_4096(65), DType::bf16).view.data, memory) << "too small";
  const TensorPart small = source.room_for(rows_of_4096(8), DType::f32);
  EXPECT_EQ(small.view.data, memory);
  EXPECT_EQ(small.view.rows, 8);
  EXPECT_EQ(small.view.dtype, DType::f32);
  EXPECT_EQ(source.spare_bytes(), 0u);
}

// Generated models are as large as memory allows: what their parts took goes back to the system.
TEST(TensorSource, OtherMemoryIsNotKept) {
  const NoTensors source;
  for (int i = 0; i < 8; ++i) source.recycle(new_part(rows_of_4096(64), DType::bf16));
  EXPECT_EQ(source.spare_bytes(), 0u);
  const int64_t most_rows = int64_t(TensorSource::kMostSpareBytes) / (4096 * 2);
  source.recycle(source.room_for(rows_of_4096(most_rows + 1), DType::bf16));
  EXPECT_EQ(source.spare_bytes(), 0u);
  std::vector<TensorPart> parts;
  for (int i = 0; i < 3; ++i) parts.push_back(source.room_for(rows_of_4096(most_rows / 2), DType::bf16));
  for (TensorPart& part : parts) source.recycle(std::move(part));
  EXPECT_EQ(source.spare_bytes(), TensorSource::kMostSpareBytes);
}

}  // namespace
}  // namespace paceline
