#include "speculative/eagle3_weights.h"

#include "engine/weights/role_weights.h"
#include "kernels/host_weight.h"

namespace paceline {
namespace {

/// Where the target's values serve as they lie.
bool is_whole(const Weight& weight, const ModelSpec& target, DType dtype) {
  return weight && weight->n >= target.vocab_size && weight->dtype == dtype;
}

class Loader {
 public:
  Loader(const TensorSource& source, const Eagle3Spec& spec, DType dtype, Backend& backend)
      : source_(source), spec_(spec), dtype_(dtype), backend_(backend) {}

  Weight matrix(std::initializer_list<std::string> names, PackSpec pack = {}) const {
    std::vector<TensorPart> parts;
    std::vector<HostWeight> stacked;
    for (const std::string& name : names) {
      parts.push_back(whole(name));
      stacked.push_back(parts.back().view);
    }
    pack.dtype = dtype_;
    const Weight packed = backend_.pack(stacked, pack);
    for (const std::string& name : names) {
      if (packed->has_unstorable) check(name, dtype_);
      source_.release(spec_.prefix + name);
    }
    return packed;
  }

  std::vector<float> vector(const std::string& name) const {
    check(name, DType::f32);
    return to_floats(whole(name).view);
  }

 private:
  TensorPart whole(const std::string& name) const {
    const std::string full = spec_.prefix + name;
    return source_.part(full, whole_range(*source_.find(full)));
  }
  void check(const std::string& name, DType storage) const {
    const TensorPart part = whole(name);
    const auto bad = find_unstorable(part.view, storage);
    if (!bad) return;
    const float value = value_at(part.view, bad->row, bad->col);
    fail(ExitCode::model_file, "{}: tensor \"{}{}\" at [{}, {}]: found {}, expected finite weights within {}",
         source_.label(), spec_.prefix, name, bad->row, bad->col, value, dtype_name(storage));
  }

  const TensorSource& source_;
  const Eagle3Spec& spec_;
  const DType dtype_;
  Backend& backend_;
};

/// The target's own matrix, [vocab_size, hidden]; `held`: what the rank has of it already.
Weight target_matrix(const Eagle3Target& target, TensorRole role, const Weight& held, DType dtype, Backend& backend) {
  if (is_whole(held, target.spec, dtype)) return held;
  const RoleWeights weights(target.source, target.spec);
  TensorPart part =
      weights.part(role, TensorPiece::weight, 0,
                   {.num_rows = target.spec.vocab_size, .num_cols = role_shape(target.spec, role)->inputs});
  const Weight packed =
      backend.pack(std::span(&part.view, 1), {.dtype = dtype, .looked_up_only = role == TensorRole::embed});
  weights.recycle(std::move(part));
  return packed;
}

}  // namespace

size_t eagle3_weight_bytes(const Eagle3Spec& spec, DType dtype, bool is_alone, Numerics numerics) {
  size_t total = 0;
  const auto add = [&](int64_t n, int64_t k, const PackSpec& like = {}) {
    PackSpec pack = like;
    pack.dtype = dtype;
    const int64_t parts = pack.pair_panels ? 2 : 1;
    total += size_t(parts) * packed_bytes(n / parts, k, dtype, pack.k_chunks);
    if (numerics == Numerics::fast) total += row_copy_bytes(n, k, pack);
  };
  const int64_t h = spec.hidden_size, t = spec.target_hidden_size, n = int64_t(spec.taps.size());
  const int64_t q = int64_t{spec.num_heads} * spec.head_dim, kv = int64_t{spec.num_kv_heads} * spec.head_dim;
  add(h, n * t);
  add(q + 2 * kv, 2 * h);
  add(h, q);
  add(2 * int64_t{spec.intermediate_size}, h, {.pair_panels = true});
  add(h, spec.intermediate_size);
  if (spec.has_head || !is_alone) add(spec.draft_vocab_size, h);
  if (spec.has_embedding || !is_alone) add(spec.vocab_size, h, {.looked_up_only = true});
  const int64_t norms = (spec.norm_before_fc || spec.fc_norm ? n * t : 0) + 4 * h;
  return total + size_t(norms) * sizeof(float) + size_t(spec.draft_vocab_size) * sizeof(int32_t);
}

size_t eagle3_read_bytes(const Eagle3Spec& spec, DType dtype) {
  Eagle3Spec own = spec;  // a head of its own, and nobody's embedding
  own.has_head = true;
  own.has_embedding = false;
  return eagle3_weight_bytes(own, dtype, true, Numerics::strict);
}

Eagle3Weights load_eagle3_weights(const TensorSource& source, const Eagle3Spec& spec, const Eagle3Target& target,
                                  DType dtype, Backend& backend) {
  const Loader load(source, spec, dtype, backend);
  const std::string attention = spec.layer + "self_attn.", mlp = spec.layer + "mlp.";
  Eagle3Weights weights;
  weights.fc = load.matrix({"fc.weight"});
  weights.qkv = load.matrix({attention + "q_proj.weight", attention + "k_proj.weight", attention + "v_proj.weight"});
  weights.o = load.matrix({attention + "o_proj.weight"});
  weights.gate_up = load.matrix({mlp + "gate_proj.weight", mlp + "up_proj.weight"}, {.pair_panels = true});
  weights.down = load.matrix({mlp + "down_proj.weight"});
  if (spec.norm_before_fc) weights.input_norm = load.vector("input_norm.weight");
  for (size_t i = 0; spec.fc_norm && i < spec.taps.size(); ++i) {
    const std::vector<float> one = load.vector(fmt::format("fc_norm.{}.weight", i));
    weights.input_norm.insert(weights.input_norm.end(), one.begin(), one.end());
  }
  weights.token_norm = load.vector(spec.layer + "input_layernorm.weight");
  weights.feature_norm = load.vector(spec.layer + "hidden_norm.weight");
  weights.mlp_norm = load.vector(spec.layer + "post_attention_layernorm.weight");
  weights.last_norm = load.vector("norm.weight");
  if (spec.has_head_norms) {
    weights.q_norm = load.vector(attention + "q_norm.weight");
    weights.k_norm = load.vector(attention + "k_norm.weight");
  }
  if (spec.has_attention_bias) {
    for (const char* const part : {"q_proj.bias", "k_proj.bias", "v_proj.bias"}) {
      const std::vector<float> one = load.vector(attention + part);
      weights.qkv_bias.insert(weights.qkv_bias.end(), one.begin(), one.end());
    }
  }
  const Weight none;
  weights.head = spec.has_head ? load.matrix({"lm_head.weight"})
                               : target_matrix(target, target.spec.tied_head ? TensorRole::embed : TensorRole::head,
                                               target.held ? target.held->head : none, dtype, backend);
  weights.embed = spec.has_embedding ? load.matrix({"embed_tokens.weight"}, {.looked_up_only = true})
                                     : target_matrix(target, TensorRole::embed, target.held ? target.held->embed : none,
                                                     dtype, backend);
  return weights;
}

}  // namespace paceline
