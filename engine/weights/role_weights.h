#pragma once
// The matrices and vectors of roles, wherever a family's files keep them (engine/model/weight_table.h).

#include <cstdint>
#include <string>
#include <vector>

#include "engine/model/weight_table.h"
#include "engine/weights/tensor_source.h"

namespace paceline {

/// Const after construction, any thread; source and spec outlive it. REQUIRES check_tensors(source, spec) for parts.
class RoleWeights {
 public:
  /// pool: as TensorSource::part_on.
  RoleWeights(const TensorSource& source, const ModelSpec& spec, ThreadPool* pool = nullptr);

  /// Of all names: the first prefix of the table under which the embedding lies, the first of all where none does.
  std::string_view prefix() const { return prefix_; }

  /// Rows and columns `range` of the role's weight [outputs, inputs] (a vector: [1, n]): a view where the file holds
  /// them as asked, else a copy put in order. Throws what TensorSource::part throws.
  TensorPart part(TensorRole role, TensorPiece piece, int layer, const TensorRange& range,
                  MadeRows made = MadeRows::at_once) const;

  /// Elements [begin, begin + count) of a vector role or of a bias, in float32, as the forward pass uses them.
  std::vector<float> floats(const TensorPart& part, TensorRole role, TensorPiece piece) const;

  /// Element (row, col) of the role, for messages: `tensor "model.norm.weight" at [5]`.
  std::string where(TensorRole role, TensorPiece piece, int layer, int64_t row, int64_t col) const;

  /// As TensorSource::recycle.
  void recycle(TensorPart part) const { source_.recycle(std::move(part)); }

  /// The caller has done with the weight of `role`.
  void release(TensorRole role, TensorPiece piece, int layer) const;

 private:
  const WeightSite& site(TensorRole role) const;
  std::string name(TensorRole role, TensorPiece piece, int layer, int head = 0) const;
  TensorPart read(std::string_view name, const TensorRange& range) const;
  TensorPart part_of_heads(TensorRole role, TensorPiece piece, int layer, const TensorRange& range) const;

  const TensorSource& source_;
  const ModelSpec& spec_;
  ThreadPool* const pool_;
  std::string_view prefix_;
};

}  // namespace paceline
