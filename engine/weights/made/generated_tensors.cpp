#include "engine/weights/made/generated_tensors.h"

#include <algorithm>

namespace paceline {
namespace {

constexpr uint32_t kBiasRole = 0x100;  // above every TensorRole

constexpr int kBatchBlocks = 16;

/// The values of kBatchBlocks blocks. Loops over arrays, so that the compiler runs several blocks side by side.
void make_batch(const math::WeightKey& key, uint64_t first_block, float scale, uint16_t* out) {
  uint32_t bits[kBatchBlocks * math::kWeightsPerBlock];
  for (int block = 0; block < kBatchBlocks; ++block) {
    const math::PhiloxWords words = math::weight_words(key, first_block + uint64_t(block));
    for (int i = 0; i < math::kWeightsPerBlock; ++i)
      bits[block * math::kWeightsPerBlock + i] = math::weight_bits(words, i);
  }
  for (int i = 0; i < kBatchBlocks * math::kWeightsPerBlock; ++i)
    AsBFloat::put(math::weight_value(bits[i], scale), out + i);
}

}  // namespace

const char* file_dtype_name(DType dtype) { return dtype == DType::f32 ? "F32" : dtype == DType::f16 ? "F16" : "BF16"; }

TensorInfo made_tensor(std::string name, std::vector<int64_t> shape, DType dtype) {
  uint64_t bytes = dtype_bytes(dtype);
  for (const int64_t dim : shape) bytes *= uint64_t(dim);
  return {.name = std::move(name),
          .file_dtype = file_dtype_name(dtype),
          .dtype = dtype,
          .shape = std::move(shape),
          .bytes = bytes};
}

TensorList::TensorList(const ModelSpec& spec, DType dtype) : dtype_(dtype) {
  for (ExpectedTensor& tensor : expected_tensors(spec)) {
    TensorInfo info = made_tensor(tensor.name, tensor.shape, dtype);
    entries_.add({.expected = std::move(tensor), .info = std::move(info)});
  }
}

math::WeightKey weight_key(uint64_t seed, const ExpectedTensor& tensor) {
  return {.seed = seed,
          .role = uint32_t(tensor.role) | (tensor.piece == TensorPiece::bias ? kBiasRole : 0u),
          .layer = uint32_t(tensor.layer)};
}

void fill_random(const math::WeightKey& key, double deviation, int64_t first, std::span<uint16_t> out) {
  const float scale = math::weight_scale(deviation);
  const int64_t end = first + int64_t(out.size());
  constexpr int64_t kBatch = kBatchBlocks * math::kWeightsPerBlock;
  for (int64_t begin = first / kBatch * kBatch; begin < end; begin += kBatch) {
    uint16_t values[kBatch];
    make_batch(key, uint64_t(begin / math::kWeightsPerBlock), scale, values);
    const int64_t from = std::max(begin, first), to = std::min(begin + kBatch, end);
    std::copy(values + (from - begin), values + (to - begin), out.data() + (from - first));
  }
}

}  // namespace paceline
