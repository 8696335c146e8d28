#pragma once
// Where a family keeps its weights: for each role in the forward pass, which rows of which tensor. Everything that is
// known of a checkpoint before it is read follows from this table and the ModelSpec: names, shapes, a rank's slices,
// bytes.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/model_spec.h"

namespace paceline {

/// What a matrix [outputs, inputs], or a vector with its bias, is in the forward pass. New roles go to the end: a
/// role's value names its random numbers (kernels/math/random_weight.h).
enum class TensorRole : uint8_t {
  embed,
  attn_norm,
  q,
  k,
  v,
  o,
  mlp_norm,
  gate,
  up,
  down,
  final_norm,
  head,
  position,       // rows of learned positions
  project_in,     // from the embedding's width to the residual's
  project_out,    // back, before the head
  attn_out_norm,  // of what attention adds to the residual
  mlp_out_norm,   // of what the MLP adds
  q_norm,         // of query heads
  k_norm,         // of key heads
};

enum class TensorPiece : uint8_t { weight, bias };

/// How the output rows of a role lie in its tensor.
enum class RowOrder : uint8_t {
  own,          // the tensor is this role's alone
  stacked,      // roles of one tensor one after another, as the table lists them: q | k | v, gate | up
  by_kv_group,  // for each KV head its query heads, its key head, its value head (one of each without groups: "per
                // head")
  alternating,  // gate row 0, up row 0, gate row 1, …
};

/// One row of the table. Sites with the same module are parts of one tensor and stand together.
struct WeightSite {
  TensorRole role = TensorRole::embed;
  std::string_view module;  // "{}" stands for the layer, "{head}" for each head, with a tensor of its own; the tensors
                            // are module + ".weight" and ".bias"
  RowOrder rows = RowOrder::own;
  bool transposed = false;      // stored [inputs, outputs], as Conv1D does
  bool rope_pairs = false;      // rows 2i, 2i + 1 of a head are its dimensions i, i + head_dim / 2
  bool plus_one = false;        // a norm that multiplies by 1 + what is stored
  bool without_prefix = false;  // the prefixes do not go before it
  bool head_rows = false;       // norms of heads that have one each lie as rows of [heads, head_dim]
};

struct WeightTable {
  std::span<const WeightSite> sites;                   // in the order of the forward pass
  std::span<const std::string_view> prefixes;          // a checkpoint has the same one before all names
  std::span<const std::string_view> ignored_suffixes;  // tensors that may be there and are recomputed instead
};

/// The site of `role`; null: the family has none.
const WeightSite* find_site(const WeightTable& table, TensorRole role);

bool is_norm(TensorRole role);
bool is_in_layer(const WeightSite& site);

/// Size of a role's matrix in the whole model; inputs 0: a vector of `outputs`.
struct RoleShape {
  int64_t outputs = 0;
  int64_t inputs = 0;
  bool has_weight = true;
  bool has_bias = false;
};

/// Empty where a model of `spec` has nothing in this role, or not in this layer (which roles outside the layers
/// ignore).
std::optional<RoleShape> role_shape(const ModelSpec& spec, TensorRole role, int layer = 0);

bool is_per_head(const WeightSite& site);
/// Whether the site's vector lies as rows, in this layer.
bool has_head_rows(const ModelSpec& spec, const WeightSite& site, int layer);

/// The tensor's name. `prefix`: of table.prefixes.
std::string tensor_name(std::string_view prefix, const WeightSite& site, TensorPiece piece, int layer, int head = 0);

struct ExpectedTensor {
  std::string name;
  std::vector<int64_t> shape;
  TensorRole role = TensorRole::embed;  // the first of its roles
  TensorPiece piece = TensorPiece::weight;
  int layer = 0;          // 0 outside the layers
  int head = 0;           // of modules with a tensor for each
  bool plus_one = false;  // as in WeightSite
};

/// Every tensor that a checkpoint of `spec` must hold, in the table's order. REQUIRES spec.table.
std::vector<ExpectedTensor> expected_tensors(const ModelSpec& spec, std::string_view prefix);
std::vector<ExpectedTensor> expected_tensors(const ModelSpec& spec);  // under the table's first prefix

/// Rows of a role that can be had by one read: `num_rows` of them lie in tensor rows [first, first + num_tensor_rows).
struct RowRun {
  int64_t num_rows = 0;
  int64_t first = 0;
  int64_t num_tensor_rows = 0;
  bool in_order = true;  // row i of the run is tensor row first + i; else the run is whole heads, each by pairs
};

/// Where the rows of `site` lie among those of its tensor.
class RowMap {
 public:
  RowMap(const ModelSpec& spec, const WeightSite& site, int layer);

  int64_t tensor_row(int64_t row) const;
  /// Of rows row, row + 1, …, at most `max_rows`: at least one.
  RowRun run(int64_t row, int64_t max_rows) const;

 private:
  int64_t in_blocks(int64_t row) const { return first_ + row / block_rows_ * block_stride_ + row % block_rows_; }

  int64_t num_rows_ = 0;
  int64_t block_rows_ = 0;    // rows that follow each other (in the order of pairs, with rope_pairs)
  int64_t block_stride_ = 0;  // from one block to the next, in the tensor
  int64_t first_ = 0;         // tensor row of the first
  int64_t head_rows_ = 0;     // rows of a head; 0: not by pairs
};

}  // namespace paceline
