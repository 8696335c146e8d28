#include "engine/weights/shard_weights_plan.h"

#include <algorithm>
#include <optional>
#include <string>

#include "engine/util/checked_math.h"

namespace paceline {
namespace {

constexpr int kMaxSizesNamed = 8;

/// TP sizes for which strict numerics give the bits of one rank: shards are unions of the strict chunks.
bool divides_strict_tree(int tp) { return tp == 1 || tp == 2 || tp == 4 || tp == 8; }

std::optional<std::string> tp_problem(const ModelSpec& spec, int tp) {
  const auto indivisible = [tp](const char* field, int value) {
    return fmt::format("{} {} is not divisible by tp {}", field, value, tp);
  };
  if (tp < 1) return fmt::format("tp is {}; expected at least 1", tp);
  if (spec.num_heads % tp != 0) return indivisible("num_attention_heads", spec.num_heads);
  if (spec.intermediate_size % tp != 0) return indivisible("intermediate_size", spec.intermediate_size);
  if (tp > 1 && divides_strict_tree(tp)) {
    const auto uneven = [tp](const char* field, int value) {
      return fmt::format("{} {} is not divisible by {}: tp {} would cut the strict sum inside a chunk", field, value,
                         kStrictChunks, tp);
    };
    if (spec.intermediate_size % kStrictChunks != 0) return uneven("intermediate_size", spec.intermediate_size);
    if (spec.num_heads * spec.head_dim % kStrictChunks != 0)
      return uneven("num_attention_heads * head_dim", spec.num_heads * spec.head_dim);
  }
  return std::nullopt;
}

std::string working_tp_sizes(const ModelSpec& spec) {
  std::string list;
  int num_named = 0;
  for (int tp = 1; tp <= spec.num_heads; ++tp) {
    if (tp_problem(spec, tp)) continue;
    if (num_named++ == kMaxSizesNamed) return list + ", …";
    list += (list.empty() ? "" : ", ") + std::to_string(tp);
  }
  return list;
}

}  // namespace

void validate_parallel(const ModelSpec& spec, int tp, int pp) {
  if (const auto problem = tp_problem(spec, tp))
    fail(ExitCode::usage, "{}; use tp {}", *problem, working_tp_sizes(spec));
  if (pp < 1 || pp > spec.num_layers)
    fail(ExitCode::usage, "pp {} does not fit num_hidden_layers {}; use pp 1 to {}", pp, spec.num_layers,
         spec.num_layers);
}

ShardShape shard_shape(const ModelSpec& spec, const ShardPlan& plan) {
  PACELINE_CHECK(plan.tp_rank >= 0 && plan.tp_rank < plan.tp_size, "tp rank {} of {}", plan.tp_rank, plan.tp_size);
  PACELINE_CHECK(plan.layer_begin >= 0 && plan.layer_begin <= plan.layer_end && plan.layer_end <= spec.num_layers,
                 "layers [{}, {}) of {}", plan.layer_begin, plan.layer_end, spec.num_layers);
  const int tp = plan.tp_size;
  const int vocab_rows = int(ceil_div(spec.vocab_size, tp));
  const int64_t vocab_begin = int64_t{plan.tp_rank} * vocab_rows;
  const int num_heads = spec.num_heads / tp, head_begin = plan.tp_rank * num_heads;
  const int group = spec.num_heads / spec.num_kv_heads;
  const int kv_begin = head_begin / group;
  return {
      .num_heads = num_heads,
      .kv_head_begin = kv_begin,
      .num_kv_heads = int(ceil_div(head_begin + num_heads, group)) - kv_begin,
      .head_offset = head_begin % group,
      .heads_per_kv = group,
      .intermediate = spec.intermediate_size / tp,
      .vocab_begin = int(vocab_begin),
      .vocab_rows = vocab_rows,
      .real_vocab_rows = int(std::clamp<int64_t>(spec.vocab_size - vocab_begin, 0, vocab_rows)),
      .row_parallel_chunks = divides_strict_tree(tp) ? kStrictChunks / tp : kStrictChunks,
  };
}

namespace {

/// This shard's rows of the embedding or the head; a rank beyond the real rows holds zeros.
PackedMatrix vocabulary_matrix(const ModelSpec& spec, const ShardPlan& plan, TensorRole role, bool looked_up_only) {
  const ShardShape shape = shard_shape(spec, plan);
  const int64_t rows = shape.real_vocab_rows;
  PackedMatrix matrix;
  matrix.rows = {{.role = role,
                  .range = {.row_begin = rows == 0 ? 0 : shape.vocab_begin,
                            .num_rows = rows,
                            .num_cols = role_shape(spec, role)->inputs}}};
  matrix.pack = {.pad_rows_to = rows < shape.vocab_rows ? shape.vocab_rows : 0, .looked_up_only = looked_up_only};
  return matrix;
}

bool shares_head(const ModelSpec& spec, const ShardPlan& plan) {
  return plan.first_stage && plan.last_stage && spec.tied_head;
}

}  // namespace

int64_t PackedMatrix::num_rows() const {
  int64_t total = 0;
  for (const Rows& each : rows) total += each.range.num_rows;
  return total;
}

LayerMatrices layer_matrices(const ModelSpec& spec, const ShardPlan& plan, int layer) {
  using enum TensorRole;
  const ShardShape shape = shard_shape(spec, plan);
  const int64_t head_dim = spec.head_dim;
  const int64_t q_rows = shape.num_heads * head_dim, q_begin = plan.tp_rank * q_rows;
  const int64_t kv_rows = shape.num_kv_heads * head_dim, kv_begin = shape.kv_head_begin * head_dim;
  const int64_t ffn = shape.intermediate, ffn_begin = plan.tp_rank * ffn;
  const auto rows = [&](TensorRole role, int64_t begin, int64_t count) -> PackedMatrix::Rows {
    return {role, {.row_begin = begin, .num_rows = count, .num_cols = role_shape(spec, role, layer)->inputs}};
  };
  const auto cols = [&](TensorRole role, int64_t begin, int64_t count) -> PackedMatrix::Rows {
    return {role, {.num_rows = role_shape(spec, role, layer)->outputs, .col_begin = begin, .num_cols = count}};
  };
  const bool gated = spec.layers.empty() || spec.layer(layer).mlp.kind == MlpKind::gated;
  LayerMatrices matrices;
  matrices.qkv.rows = {rows(q, q_begin, q_rows), rows(k, kv_begin, kv_rows), rows(v, kv_begin, kv_rows)};
  matrices.o = {.rows = {cols(o, q_begin, q_rows)}, .pack = {.k_chunks = shape.row_parallel_chunks}};
  if (gated) matrices.gate_up.rows.push_back(rows(gate, ffn_begin, ffn));
  matrices.gate_up.rows.push_back(rows(up, ffn_begin, ffn));
  matrices.gate_up.pack.pair_panels = gated;
  matrices.down = {.rows = {cols(down, ffn_begin, ffn)}, .pack = {.k_chunks = shape.row_parallel_chunks}};
  return matrices;
}

PackedMatrix embedding_matrix(const ModelSpec& spec, const ShardPlan& plan) {
  return vocabulary_matrix(spec, plan, TensorRole::embed, !shares_head(spec, plan));
}

PackedMatrix head_matrix(const ModelSpec& spec, const ShardPlan& plan) {
  return vocabulary_matrix(spec, plan, spec.tied_head ? TensorRole::embed : TensorRole::head, false);
}

std::optional<PackedMatrix> whole_matrix(const ModelSpec& spec, TensorRole role) {
  const auto shape = role_shape(spec, role);
  if (!shape) return std::nullopt;
  PackedMatrix matrix;
  matrix.rows = {{.role = role, .range = {.num_rows = shape->outputs, .num_cols = shape->inputs}}};
  matrix.pack.looked_up_only = role == TensorRole::position;
  return matrix;
}

size_t weight_bytes(const ModelSpec& spec, const ShardPlan& plan, Numerics numerics) {
  using enum TensorRole;
  const auto matrix_bytes = [&](const PackedMatrix& matrix) {
    PackSpec pack = matrix.pack;
    pack.dtype = plan.dtype;
    const int64_t n = std::max(matrix.num_rows(), pack.pad_rows_to), k = matrix.num_cols();
    const int64_t parts = pack.pair_panels ? 2 : 1;  // each is padded on its own, as their panels are interleaved
    return size_t(parts) * packed_bytes(n / parts, k, pack.dtype, pack.k_chunks) +
           (numerics == Numerics::fast ? row_copy_bytes(n, k, pack) : 0);
  };
  const auto bias_floats = [&](const PackedMatrix& matrix, int layer) {
    int64_t floats = 0;
    for (const PackedMatrix::Rows& rows : matrix.rows)
      if (role_shape(spec, rows.role, layer)->has_bias) floats += rows.range.num_rows;
    return floats;
  };
  const auto norm_bytes = [&](TensorRole role, int layer) {
    const auto shape = role_shape(spec, role, layer);
    if (!shape) return size_t{0};
    return size_t(shape->outputs) * ((shape->has_weight ? 1u : 0u) + (shape->has_bias ? 1u : 0u)) * sizeof(float);
  };
  const auto whole_bytes = [&](TensorRole role) {
    const auto matrix = whole_matrix(spec, role);
    return matrix ? matrix_bytes(*matrix) : 0;
  };
  size_t total = 0;
  for (int index = plan.layer_begin; index < plan.layer_end; ++index) {
    const LayerMatrices layer = layer_matrices(spec, plan, index);
    for (const PackedMatrix* matrix : {&layer.qkv, &layer.o, &layer.gate_up, &layer.down})
      total += matrix_bytes(*matrix) + size_t(bias_floats(*matrix, index)) * sizeof(float);
    for (const TensorRole role : {attn_norm, mlp_norm, attn_out_norm, mlp_out_norm}) total += norm_bytes(role, index);
    for (const auto& [role, rows] : {std::pair{q_norm, 0}, {k_norm, 1}}) {
      const bool each = spec.layer(index).attention.head_norm == HeadNorm::each;
      total += each ? size_t(layer.qkv.rows[size_t(rows)].range.num_rows) * sizeof(float) : norm_bytes(role, index);
    }
  }
  if (plan.first_stage)
    total += matrix_bytes(embedding_matrix(spec, plan)) + whole_bytes(position) + whole_bytes(project_in);
  if (plan.last_stage) total += norm_bytes(final_norm, 0) + whole_bytes(project_out);
  if (plan.last_stage && !shares_head(spec, plan)) total += matrix_bytes(head_matrix(spec, plan));
  return total;
}

}  // namespace paceline
