#include "engine/weights/shard_weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <string>
#include <utility>

#include <spdlog/spdlog.h>

#include "engine/util/json_io.h"
#include "engine/util/printable.h"
#include "engine/weights/role_weights.h"
#include "kernels/host_weight.h"

namespace paceline {
namespace {

constexpr size_t kMaxListed = 20;

/// A part of a role's weight or bias.
struct Slice {
  TensorRole role = TensorRole::embed;
  TensorPiece piece = TensorPiece::weight;
  int layer = 0;
  TensorRange range;
  TensorPart part;
};

class ShardLoader {
 public:
  ShardLoader(const TensorSource& source, const ModelSpec& spec, const ShardPlan& plan, Backend& backend)
      : label_(source.label()),
        spec_(spec),
        plan_(plan),
        weights_(source, spec, backend.host_threads()),
        backend_(backend),
        shape_(shard_shape(spec, plan)) {}

  ShardWeights load() {
    using enum TensorRole;
    ShardWeights shard{.plan = plan_,
                       .num_heads = shape_.num_heads,
                       .num_kv_heads = shape_.num_kv_heads,
                       .head_offset = shape_.head_offset,
                       .heads_per_kv = shape_.heads_per_kv,
                       .intermediate = shape_.intermediate,
                       .vocab_begin = shape_.vocab_begin,
                       .vocab_rows = shape_.vocab_rows};
    const bool is_shared = plan_.first_stage && plan_.last_stage && spec_.tied_head;
    if (plan_.first_stage) shard.embed = matrix(embedding_matrix(spec_, plan_), 0);
    if (plan_.first_stage) {
      if (const auto matrix_of = whole_matrix(spec_, position)) shard.positions = matrix(*matrix_of, 0);
      if (const auto matrix_of = whole_matrix(spec_, project_in)) shard.project_in = matrix(*matrix_of, 0);
    }
    for (int layer = plan_.layer_begin; layer < plan_.layer_end; ++layer) shard.layers.push_back(load_layer(layer));
    if (plan_.last_stage) {
      shard.final_norm = vector(final_norm, TensorPiece::weight, 0);
      shard.final_norm_bias = vector(final_norm, TensorPiece::bias, 0);
      if (const auto matrix_of = whole_matrix(spec_, project_out)) shard.project_out = matrix(*matrix_of, 0);
      shard.head = is_shared ? shard.embed : matrix(head_matrix(spec_, plan_), 0);
    }
    shard.bytes = bytes_;
    return shard;
  }

 private:
  LayerWeights load_layer(int layer) {
    using enum TensorRole;
    const LayerMatrices matrices = layer_matrices(spec_, plan_, layer);
    LayerWeights out;
    out.attn_norm = vector(attn_norm, TensorPiece::weight, layer);
    out.attn_norm_bias = vector(attn_norm, TensorPiece::bias, layer);
    out.qkv = matrix(matrices.qkv, layer);
    out.qkv_bias = biases(matrices.qkv, layer);
    out.o = matrix(matrices.o, layer);
    out.o_bias = vector(o, TensorPiece::bias, layer);
    out.mlp_norm = vector(mlp_norm, TensorPiece::weight, layer);
    out.mlp_norm_bias = vector(mlp_norm, TensorPiece::bias, layer);
    out.attn_out_norm = vector(attn_out_norm, TensorPiece::weight, layer);
    out.attn_out_norm_bias = vector(attn_out_norm, TensorPiece::bias, layer);
    out.mlp_out_norm = vector(mlp_out_norm, TensorPiece::weight, layer);
    out.mlp_out_norm_bias = vector(mlp_out_norm, TensorPiece::bias, layer);
    out.q_norm = head_norm(q_norm, layer, matrices.qkv.rows[0].range);
    out.k_norm = head_norm(k_norm, layer, matrices.qkv.rows[1].range);
    out.gate_up = matrix(matrices.gate_up, layer);
    out.gate_up_bias = biases(matrices.gate_up, layer);
    out.down = matrix(matrices.down, layer);
    out.down_bias = vector(down, TensorPiece::bias, layer);
    return out;
  }

  Weight matrix(const PackedMatrix& matrix, int layer) {
    PackSpec pack = matrix.pack;
    pack.dtype = plan_.dtype;
    std::vector<Slice> slices;
    std::vector<HostWeight> stacked;
    for (const PackedMatrix::Rows& rows : matrix.rows) {
      const MadeRows made = backend_.packs_made_rows() ? MadeRows::when_asked : MadeRows::at_once;
      slices.push_back(slice(rows.role, TensorPiece::weight, layer, rows.range, made));
      stacked.push_back(slices.back().part.view);
    }
    Weight packed = backend_.pack(stacked, pack);
    if (packed->has_unstorable)
      for (Slice& each : slices) {
        if (each.part.made) each = slice(each.role, each.piece, layer, each.range);
        check_values(each, plan_.dtype);
      }
    for (Slice& each : slices) {
      weights_.recycle(std::move(each.part));
      weights_.release(each.role, each.piece, layer);
    }
    bytes_ += packed->bytes;
    return packed;
  }

  /// Of the output rows that the matrix holds.
  std::vector<float> biases(const PackedMatrix& matrix, int layer) {
    std::vector<float> all;
    for (const PackedMatrix::Rows& rows : matrix.rows) {
      if (!role_shape(spec_, rows.role, layer)->has_bias) continue;
      const std::vector<float> part =
          vector(rows.role, TensorPiece::bias, layer, rows.range.row_begin, rows.range.num_rows);
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }

  /// Of the heads that lie in these rows.
  std::vector<float> head_norm(TensorRole role, int layer, const TensorRange& rows) {
    if (spec_.layer(layer).attention.head_norm != HeadNorm::each) return vector(role, TensorPiece::weight, layer);
    return vector(role, TensorPiece::weight, layer, rows.row_begin, rows.num_rows);
  }

  /// The whole vector; empty where the model has none.
  std::vector<float> vector(TensorRole role, TensorPiece piece, int layer) {
    const auto shape = role_shape(spec_, role, layer);
    if (!shape || !(piece == TensorPiece::bias ? shape->has_bias : shape->has_weight)) return {};
    return vector(role, piece, layer, 0, shape->outputs);
  }

  std::vector<float> vector(TensorRole role, TensorPiece piece, int layer, int64_t begin, int64_t count) {
    const Slice part = slice(role, piece, layer, {.num_rows = 1, .col_begin = begin, .num_cols = count});
    check_values(part, DType::f32);
    std::vector<float> values = weights_.floats(part.part, role, piece);
    weights_.release(role, piece, layer);
    bytes_ += values.size() * sizeof(float);
    return values;
  }

  Slice slice(TensorRole role, TensorPiece piece, int layer, const TensorRange& range,
              MadeRows made = MadeRows::at_once) const {
    return {.role = role,
            .piece = piece,
            .layer = layer,
            .range = range,
            .part = weights_.part(role, piece, layer, range, made)};
  }

  void check_values(const Slice& slice, DType storage) const {
    const auto bad = find_unstorable(slice.part.view, storage);
    if (!bad) return;
    const float value = value_at(slice.part.view, bad->row, bad->col);
    const std::string where = label_ + ": " +
                              weights_.where(slice.role, slice.piece, slice.layer, slice.range.row_begin + bad->row,
                                             slice.range.col_begin + bad->col);
    if (!std::isfinite(value))
      fail(ExitCode::model_file, "{}: found {}, expected finite weights", where, std::isnan(value) ? "NaN" : "Inf");
    fail(ExitCode::model_file, "{}: found {}, too large for {}; use dtype {}", where, value, dtype_name(storage),
         storage == DType::f16 ? "bfloat16 or float32" : "float32");
  }

  const std::string label_;
  const ModelSpec& spec_;
  const ShardPlan& plan_;
  const RoleWeights weights_;
  Backend& backend_;
  const ShardShape shape_;
  size_t bytes_ = 0;
};

}  // namespace

std::vector<std::string> check_tensors(const TensorSource& source, const ModelSpec& spec) {
  std::set<std::string, std::less<>> expected_names;
  std::vector<std::string> problems;
  const std::string_view prefix = RoleWeights(source, spec).prefix();
  for (const ExpectedTensor& expected : expected_tensors(spec, prefix)) {
    expected_names.insert(expected.name);
    const TensorInfo* found = source.find(expected.name);
    const std::string shape = TensorInfo{.shape = expected.shape}.shape_text();
    if (!found) {
      problems.push_back(fmt::format("{} is missing, expected {}", json_literal(expected.name), shape));
    } else if (found->shape != expected.shape) {
      problems.push_back(fmt::format("{} is {}, expected {}", json_literal(expected.name), found->shape_text(), shape));
    }
  }
  if (!problems.empty()) {
    const size_t listed = std::min(problems.size(), kMaxListed);
    const std::string more = problems.size() > listed ? fmt::format("; and {} more", problems.size() - listed) : "";
    fail(ExitCode::model_file, "{}: {} tensor{} not as config.json says: {}{}", source.label(), problems.size(),
         problems.size() == 1 ? " is" : "s are", fmt::join(problems.begin(), problems.begin() + long(listed), "; "),
         more);
  }
  const WeightSite* const head = find_site(*spec.table, TensorRole::head);
  std::vector<std::string> unused;
  for (const std::string& name : source.names()) {
    const auto& ignored = spec.table->ignored_suffixes;
    const bool recomputed =
        std::any_of(ignored.begin(), ignored.end(), [&](std::string_view suffix) { return name.ends_with(suffix); });
    const bool tied_copy = spec.tied_head && head && name == tensor_name(prefix, *head, TensorPiece::weight, 0);
    if (!expected_names.contains(name) && !recomputed && !tied_copy) unused.push_back(name);
  }
  return unused;
}

namespace {

/// To the bit.
bool are_alike(const TensorSource& source, const std::string& a, const std::string& b) {
  constexpr int64_t kRowsAtOnce = 1024;
  if (source.find(a)->shape != source.find(b)->shape) return false;
  const TensorRange whole = whole_range(*source.find(a));
  for (int64_t row = 0; row < whole.num_rows; row += kRowsAtOnce) {
    const TensorRange rows{.row_begin = row,
                           .num_rows = std::min(kRowsAtOnce, whole.num_rows - row),
                           .col_begin = 0,
                           .num_cols = whole.num_cols};
    const TensorPart part_a = source.part(a, rows), part_b = source.part(b, rows);
    if (part_a.view.dtype != part_b.view.dtype) return false;
    const size_t row_bytes = size_t(rows.num_cols) * dtype_bytes(part_a.view.dtype);
    const auto row_of = [&](const HostWeight& view, int64_t i) {
      return static_cast<const std::byte*>(view.data) + size_t(i * view.row_stride) * dtype_bytes(view.dtype);
    };
    for (int64_t i = 0; i < rows.num_rows; ++i)
      if (std::memcmp(row_of(part_a.view, i), row_of(part_b.view, i), row_bytes) != 0) return false;
  }
  return true;
}

/// A head beside the embedding that it shares by config.json must be its copy: transformers 5 takes one that differs,
/// older versions the embedding.
void check_tied_copy(const TensorSource& source, const ModelSpec& spec) {
  const WeightSite* const head = find_site(*spec.table, TensorRole::head);
  const WeightSite* const embed = find_site(*spec.table, TensorRole::embed);
  if (!spec.tied_head || !head || !embed) return;
  const std::string_view prefix = RoleWeights(source, spec).prefix();
  const std::string copy = tensor_name(prefix, *head, TensorPiece::weight, 0),
                    shared = tensor_name(prefix, *embed, TensorPiece::weight, 0);
  if (!source.find(copy)) return;
  if (!are_alike(source, copy, shared))
    fail(ExitCode::model_file,
         "{}: {} differs in values or type from {}, which config.json says the head shares; set tie_word_embeddings to "
         "false there to use the head, or remove it",
         source.label(), json_literal(copy), json_literal(shared));
  source.release(copy);
}

}  // namespace

ShardWeights load_shard(const TensorSource& source, const ModelSpec& spec, const ShardPlan& plan, Backend& backend) {
  const std::vector<std::string> unused = check_tensors(source, spec);
  const bool is_first = plan.first_stage && plan.tp_rank == 0;
  if (is_first) check_tied_copy(source, spec);
  if (!unused.empty() && is_first) {
    const size_t listed = std::min(unused.size(), kMaxListed);
    spdlog::warn("{}: {} tensors are not used by family {}: {}{}", source.label(), unused.size(), spec.family,
                 message_text(fmt::format("{}", fmt::join(unused.begin(), unused.begin() + long(listed), ", "))),
                 unused.size() > listed ? ", …" : "");
  }
  return ShardLoader(source, spec, plan, backend).load();
}

}  // namespace paceline
