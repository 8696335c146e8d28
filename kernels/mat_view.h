#pragma once
// The only tensor of the project: a row-major view that owns nothing.

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace paceline {

enum class DType : uint8_t { f32, f16, bf16, fp8_e4m3, i8, i32 };

constexpr size_t dtype_bytes(DType dtype) {
  switch (dtype) {
    case DType::f32:
    case DType::i32: return 4;
    case DType::f16:
    case DType::bf16: return 2;
    case DType::fp8_e4m3:
    case DType::i8: return 1;
  }
  return 0;
}

constexpr std::string_view dtype_name(DType dtype) {
  switch (dtype) {
    case DType::f32: return "float32";
    case DType::f16: return "float16";
    case DType::bf16: return "bfloat16";
    case DType::fp8_e4m3: return "fp8_e4m3";
    case DType::i8: return "int8";
    case DType::i32: return "int32";
  }
  return "?";
}

/// Row r, column c lies at data + (r * stride + c) elements of `dtype`; stride counts elements.
struct MatView {
  void* data = nullptr;
  DType dtype = DType::f32;
  int16_t device = -1;  // -1 = host memory
  int32_t rows = 0;
  int32_t cols = 0;
  int64_t stride = 0;

  float* f32_row(int64_t row) const { return static_cast<float*>(data) + row * stride; }
  MatView row_range(int32_t begin, int32_t count) const {
    MatView view = *this;
    view.data = static_cast<char*>(data) + int64_t{begin} * stride * int64_t(dtype_bytes(dtype));
    view.rows = count;
    return view;
  }
  MatView col_range(int32_t begin, int32_t count) const {
    MatView view = *this;
    view.data = static_cast<char*>(data) + int64_t{begin} * int64_t(dtype_bytes(dtype));
    view.cols = count;
    return view;
  }
};

inline MatView f32_view(float* data, int32_t rows, int32_t cols, int64_t stride = 0) {
  return MatView{data, DType::f32, -1, rows, cols, stride ? stride : cols};
}

}  // namespace paceline
