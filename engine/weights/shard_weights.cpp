#include "engine/weights/shard_weights.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>

#include <spdlog/spdlog.h>

#include "engine/weights/shard_weights_values.h"
#include "engine/model/weight_names.h"
#include "engine/util/json_io.h"
#include "engine/util/printable.h"

namespace paceline {
namespace {

constexpr size_t kMaxListed = 20;

/// A part of a tensor; begins say where it lies in the whole, for messages.
struct Slice {
  std::string name;
  TensorPart part;
  int64_t row_begin = 0;
  int64_t col_begin = 0;
};

class ShardLoader {
 public:
  ShardLoader(const TensorSource& source, const ModelSpec& spec, const ShardPlan& plan, Backend& backend)
      : source_(source),
        spec_(spec),
        plan_(plan),
        names_(*spec.names),
        backend_(backend),
        shape_(shard_shape(spec, plan)) {}

  ShardWeights load() {
    ShardWeights shard{.plan = plan_,
                       .num_heads = shape_.num_heads,
                       .num_kv_heads = shape_.num_kv_heads,
                       .head_offset = shape_.head_offset,
                       .heads_per_kv = shape_.heads_per_kv,
                       .intermediate = shape_.intermediate,
                       .vocab_begin = shape_.vocab_begin,
                       .vocab_rows = shape_.vocab_rows};
    const bool is_shared = plan_.first_stage && plan_.last_stage && spec_.tied_head;
    if (plan_.first_stage) shard.embed = vocabulary(weight_name(names_.embed), {.looked_up_only = !is_shared});
    for (int layer = plan_.layer_begin; layer < plan_.layer_end; ++layer) shard.layers.push_back(load_layer(layer));
    if (plan_.last_stage) {
      shard.final_norm = vector(weight_name(names_.final_norm));
      shard.final_norm_bias = norm_bias(names_.final_norm, 0);
      shard.head = is_shared ? shard.embed : vocabulary(weight_name(spec_.tied_head ? names_.embed : names_.head), {});
    }
    shard.bytes = bytes_;
    return shard;
  }

 private:
  LayerWeights load_layer(int layer) {
    const int64_t head_dim = spec_.head_dim;
    const int64_t q_rows = shape_.num_heads * head_dim, q_begin = plan_.tp_rank * q_rows;
    const int64_t kv_rows = shape_.num_kv_heads * head_dim, kv_begin = shape_.kv_head_begin * head_dim;
    const int64_t ffn = shape_.intermediate, ffn_begin = plan_.tp_rank * ffn;
    const bool gated = spec_.mlp == MlpKind::gated;
    const auto weight = [&](std::string_view pattern) { return weight_name(pattern, layer); };

    LayerWeights out;
    out.attn_norm = vector(weight(names_.attn_norm));
    out.attn_norm_bias = norm_bias(names_.attn_norm, layer);
    out.qkv = pack(slices(rows(weight(names_.q), q_begin, q_rows), rows(weight(names_.k), kv_begin, kv_rows),
                          rows(weight(names_.v), kv_begin, kv_rows)),
                   {});
    if (spec_.attention_bias) {
      append(out.qkv_bias, vector(bias_name(names_.q, layer), q_begin, q_rows));
      append(out.qkv_bias, vector(bias_name(names_.k, layer), kv_begin, kv_rows));
      append(out.qkv_bias, vector(bias_name(names_.v, layer), kv_begin, kv_rows));
    }
    out.o = pack(slices(cols(weight(names_.o), q_begin, q_rows)), {.k_chunks = shape_.row_parallel_chunks});
    if (spec_.attention_out_bias) out.o_bias = vector(bias_name(names_.o, layer));

    out.mlp_norm = vector(weight(names_.mlp_norm));
    out.mlp_norm_bias = norm_bias(names_.mlp_norm, layer);
    std::vector<Slice> up;
    for (const std::string_view pattern : {names_.gate, names_.up}) {
      if (pattern == names_.gate && !gated) continue;
      up.push_back(rows(weight(pattern), ffn_begin, ffn));
      if (spec_.mlp_bias) append(out.gate_up_bias, vector(bias_name(pattern, layer), ffn_begin, ffn));
    }
    out.gate_up = pack(up, {.pair_panels = gated});
    out.down = pack(slices(cols(weight(names_.down), ffn_begin, ffn)), {.k_chunks = shape_.row_parallel_chunks});
    if (spec_.mlp_bias) out.down_bias = vector(bias_name(names_.down, layer));
    return out;
  }

  Slice rows(const std::string& name, int64_t begin, int64_t count) const {
    const int64_t cols = source_.find(name)->shape.back();
    return slice(name, {.row_begin = begin, .num_rows = count, .num_cols = cols});
  }

  Slice cols(const std::string& name, int64_t begin, int64_t count) const {
    const int64_t rows = whole_range(*source_.find(name)).num_rows;
    return slice(name, {.num_rows = rows, .col_begin = begin, .num_cols = count});
  }

  Slice slice(const std::string& name, const TensorRange& range) const {
    return {
        .name = name, .part = source_.part(name, range), .row_begin = range.row_begin, .col_begin = range.col_begin};
  }

  /// This shard's rows of the embedding or the head; a rank beyond the real rows holds zeros.
  Weight vocabulary(const std::string& name, PackSpec spec) {
    const bool padded = shape_.real_vocab_rows < shape_.vocab_rows;
    const int64_t begin = shape_.real_vocab_rows == 0 ? 0 : shape_.vocab_begin;
    if (padded) spec.pad_rows_to = shape_.vocab_rows;
    return pack(slices(rows(name, begin, shape_.real_vocab_rows)), spec);
  }

  template <class... Each>
  static std::vector<Slice> slices(Each... each) {  // an initializer list would have to copy them
    std::vector<Slice> list;
    (list.push_back(std::move(each)), ...);
    return list;
  }

  Weight pack(const std::vector<Slice>& stacked, PackSpec spec) {
    spec.dtype = plan_.dtype;
    std::vector<HostWeight> parts;
    for (const Slice& slice : stacked) {
      check_values(slice, plan_.dtype);
      parts.push_back(slice.part.view);
    }
    Weight packed = backend_.pack(parts, spec);
    for (const Slice& slice : stacked) source_.release(slice.name);
    bytes_ += packed->bytes;
    return packed;
  }

  std::vector<float> vector(const std::string& name) { return vector(name, 0, source_.find(name)->shape.back()); }

  std::vector<float> vector(const std::string& name, int64_t begin, int64_t count) {
    const Slice slice = cols(name, begin, count);
    check_values(slice, DType::f32);
    std::vector<float> values = to_floats(slice.part.view);
    source_.release(name);
    bytes_ += values.size() * sizeof(float);
    return values;
  }

  std::vector<float> norm_bias(std::string_view pattern, int layer) {
    return spec_.norm == NormKind::layer ? vector(bias_name(pattern, layer)) : std::vector<float>();
  }

  static void append(std::vector<float>& to, const std::vector<float>& more) {
    to.insert(to.end(), more.begin(), more.end());
  }

  void check_values(const Slice& slice, DType storage) const {
    const auto bad = find_unstorable(slice.part.view, storage);
    if (!bad) return;
    const float value = value_at(slice.part.view, bad->row, bad->col);
    const int64_t row = slice.row_begin + bad->row, col = slice.col_begin + bad->col;
    const std::string index =
        source_.find(slice.name)->shape.size() == 1 ? fmt::format("[{}]", col) : fmt::format("[{}, {}]", row, col);
    const std::string where = fmt::format("{}: tensor {} at {}", source_.label(), json_literal(slice.name), index);
    if (!std::isfinite(value))
      fail(ExitCode::model_file, "{}: found {}, expected finite weights", where, std::isnan(value) ? "NaN" : "Inf");
    fail(ExitCode::model_file, "{}: found {}, too large for {}; use dtype {}", where, value, dtype_name(storage),
         storage == DType::f16 ? "bfloat16 or float32" : "float32");
  }

  const TensorSource& source_;
  const ModelSpec& spec_;
  const ShardPlan& plan_;
  const WeightNames& names_;
  Backend& backend_;
  const ShardShape shape_;
  size_t bytes_ = 0;
};

}  // namespace

std::vector<std::string> check_tensors(const TensorSource& source, const ModelSpec& spec) {
  std::set<std::string, std::less<>> expected_names;
  std::vector<std::string> problems;
  for (const ExpectedTensor& expected : expected_tensors(spec)) {
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
  std::vector<std::string> unused;
  for (const std::string& name : source.names()) {
    const auto& ignored = spec.names->ignored_suffixes;
    const bool recomputed =
        std::any_of(ignored.begin(), ignored.end(), [&](std::string_view suffix) { return name.ends_with(suffix); });
    const bool tied_copy = spec.tied_head && name == weight_name(spec.names->head);
    if (!expected_names.contains(name) && !recomputed && !tied_copy) unused.push_back(name);
  }
  return unused;
}

ShardWeights load_shard(const TensorSource& source, const ModelSpec& spec, const ShardPlan& plan, Backend& backend) {
  const std::vector<std::string> unused = check_tensors(source, spec);
  if (!unused.empty() && plan.first_stage && plan.tp_rank == 0) {
    const size_t listed = std::min(unused.size(), kMaxListed);
    spdlog::warn("{}: {} tensors are not used by family {}: {}{}", source.label(), unused.size(), spec.family,
                 message_text(fmt::format("{}", fmt::join(unused.begin(), unused.begin() + long(listed), ", "))),
                 unused.size() > listed ? ", …" : "");
  }
  return ShardLoader(source, spec, plan, backend).load();
}

}  // namespace paceline
