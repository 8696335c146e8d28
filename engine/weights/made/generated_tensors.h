#pragma once
// What sources share that make their tensors instead of handing out a file's bytes (inflated_checkpoint.h,
// dummy_checkpoint.h, gguf_checkpoint.h).

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/model/weight_table.h"
#include "engine/weights/safetensors.h"
#include "kernels/cpu/storage.h"
#include "kernels/error.h"
#include "kernels/math/random_weight.h"

namespace paceline {

/// A tensor of `dtype` that lies in no file.
TensorInfo made_tensor(std::string name, std::vector<int64_t> shape, DType dtype);

/// Tensors by name, each with what it is made of. Entry: a TensorInfo `info`, and more. Const members, any thread.
template <class Entry>
class TensorEntries {
 public:
  void add(Entry entry) {
    std::string name = entry.info.name;
    entries_.emplace(std::move(name), std::move(entry));
  }
  const TensorInfo* find(std::string_view name) const {  // null: no such tensor
    const auto found = entries_.find(name);
    return found == entries_.end() ? nullptr : &found->second.info;
  }
  /// REQUIRES find(name).
  const Entry& at(std::string_view name) const {
    const auto found = entries_.find(name);
    PACELINE_CHECK(found != entries_.end(), "no tensor {}", name);
    return found->second;
  }
  std::vector<std::string> names() const {  // sorted
    std::vector<std::string> result;
    for (const auto& each : entries_) result.push_back(each.first);
    return result;
  }

 private:
  std::map<std::string, Entry, std::less<>> entries_;
};

/// The tensors that a model must have, all of one type. Const after construction, any thread.
class TensorList {
 public:
  TensorList(const ModelSpec& spec, DType dtype);

  const TensorInfo* find(std::string_view name) const { return entries_.find(name); }                 // or null
  const ExpectedTensor& expected(std::string_view name) const { return entries_.at(name).expected; }  // REQUIRES: found
  std::vector<std::string> names() const { return entries_.names(); }                                 // sorted
  DType dtype() const { return dtype_; }

 private:
  struct Entry {
    ExpectedTensor expected;
    TensorInfo info;
  };
  TensorEntries<Entry> entries_;
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
