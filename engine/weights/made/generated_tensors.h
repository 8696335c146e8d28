#pragma once
// What sources share that make their tensors instead of handing out a file's bytes (inflated_checkpoint.h,
// dummy_checkpoint.h, gguf_checkpoint.h).

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/weight_table.h"
#include "engine/weights/tensor_source.h"
#include "kernels/cpu/storage.h"
#include "kernels/math/random_weight.h"

namespace paceline {

/// The tensors that a model must have, all of one type. Const after construction, any thread.
class TensorList {
 public:
  TensorList(const ModelSpec& spec, DType dtype);

  const TensorInfo* find(std::string_view name) const;          // null: no such tensor
  const ExpectedTensor& expected(std::string_view name) const;  // REQUIRES find(name)
  std::vector<std::string> names() const;                       // sorted
  DType dtype() const { return dtype_; }

 private:
  struct Entry {
    ExpectedTensor expected;
    TensorInfo info;
  };
  std::map<std::string, Entry, std::less<>> entries_;
  DType dtype_;
};

// How a value is stored, in the types that checkpoints have.
struct AsFloat {
  using Bits = float;
  static void put(float value, Bits* out) { *out = value; }
};
struct AsHalf {
  using Bits = uint16_t;
  static void put(float value, Bits* out) {
    Half rounded;
    from_f32(value, &rounded);
    *out = rounded.bits;
  }
};
struct AsBFloat {
  using Bits = uint16_t;
  static void put(float value, Bits* out) {
    BFloat rounded;
    from_f32(value, &rounded);
    *out = rounded.bits;
  }
};

/// As a safetensors header names it. REQUIRES f32, f16 or bf16.
const char* file_dtype_name(DType dtype);

/// Calls make(AsFloat{} | AsHalf{} | AsBFloat{}), by `dtype`.
template <class Make>
auto with_storage(DType dtype, const Make& make) {
  switch (dtype) {
    case DType::f32: return make(AsFloat{});
    case DType::f16: return make(AsHalf{});
    default: return make(AsBFloat{});
  }
}

/// The random numbers of a tensor: weights and biases of one role and layer differ.
math::WeightKey weight_key(uint64_t seed, const ExpectedTensor& tensor);

/// Elements [first, first + out.size()) of the tensor of `key`, row-major, as the bits of bfloat16 (kernels/math/
/// random_weight.h).
void fill_random(const math::WeightKey& key, double deviation, int64_t first, std::span<uint16_t> out);

}  // namespace paceline
