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

size_t weight_bytes(const ModelSpec& spec, const ShardPlan& plan, Numerics numerics) {
  const ShardShape shape = shard_shape(spec, plan);
  const int64_t d = spec.hidden_size;
  const int64_t q_rows = int64_t{shape.num_heads} * spec.head_dim;
  const int64_t qkv_rows = q_rows + 2 * int64_t{shape.num_kv_heads} * spec.head_dim;
  const bool gated = spec.mlp == MlpKind::gated;
  const int64_t num_up_parts = gated ? 2 : 1;
  const int64_t norm_floats = spec.norm == NormKind::layer ? 2 * d : d;

  const auto matrix_bytes = [&](int64_t n, int64_t k, PackSpec pack) {
    pack.dtype = plan.dtype;
    const int64_t parts = pack.pair_panels ? 2 : 1;  // each is padded on its own, as their panels are interleaved
    return size_t(parts) * packed_bytes(n / parts, k, pack.dtype, pack.k_chunks) +
           (numerics == Numerics::fast ? row_copy_bytes(n, k, pack) : 0);
  };
  const size_t layer_matrices = matrix_bytes(qkv_rows, d, {}) +
                                matrix_bytes(d, q_rows, {.k_chunks = shape.row_parallel_chunks}) +
                                matrix_bytes(num_up_parts * shape.intermediate, d, {.pair_panels = gated}) +
                                matrix_bytes(d, shape.intermediate, {.k_chunks = shape.row_parallel_chunks});
  int64_t layer_floats = 2 * norm_floats;
  if (spec.attention_bias) layer_floats += qkv_rows;
  if (spec.attention_out_bias) layer_floats += d;
  if (spec.mlp_bias) layer_floats += num_up_parts * shape.intermediate + d;

  size_t total = size_t(plan.layer_end - plan.layer_begin) * (layer_matrices + size_t(layer_floats) * sizeof(float));
  const bool is_shared = plan.first_stage && plan.last_stage && spec.tied_head;
  if (plan.first_stage) total += matrix_bytes(shape.vocab_rows, d, {.looked_up_only = !is_shared});
  if (plan.last_stage) total += size_t(norm_floats) * sizeof(float);
  if (plan.last_stage && !is_shared) total += matrix_bytes(shape.vocab_rows, d, {});
  return total;
}

}  // namespace paceline
