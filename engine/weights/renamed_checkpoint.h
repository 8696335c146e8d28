#pragma once
// A source's tensors under the names, and in the order of rows, of another table: a GGUF file's as a Hugging Face
// checkpoint has them.

#include <string>
#include <string_view>
#include <vector>

#include "engine/model/weight_table.h"
#include "engine/weights/made/generated_tensors.h"
#include "engine/weights/role_weights.h"
#include "engine/weights/tensor_source.h"

namespace paceline {

/// Tensors of `to` made of those of `from`, two specs of one model that differ in their tables. Keeps nothing: a part
/// is made when it is asked for. `source` and both specs outlive it. Const after construction, any thread.
class RenamedCheckpoint final : public TensorSource {
 public:
  /// REQUIRES check_tensors(source, from). Throws Error(model_file) where the parts of one tensor of `to` have several
  /// types.
  RenamedCheckpoint(const TensorSource& source, const ModelSpec& from, const ModelSpec& to);

  std::string label() const override { return source_.label(); }
  const TensorInfo* find(std::string_view name) const override { return entries_.find(name); }
  std::vector<std::string> names() const override { return entries_.names(); }
  TensorPart part(std::string_view name, const TensorRange& range) const override;
  void release(std::string_view name) const override;

 private:
  struct Entry {
    ExpectedTensor tensor;
    std::vector<const WeightSite*> sites;  // of the target's table: the roles that the tensor holds
    TensorInfo info;
  };
  void put_role(const Entry& entry, const WeightSite& site, const TensorRange& range, TensorPart& out) const;

  const TensorSource& source_;
  const ModelSpec& from_;
  const ModelSpec& to_;
  RoleWeights weights_;
  TensorEntries<Entry> entries_;
};

}  // namespace paceline
