#include "tests/support/family_gguf.h"

#include <algorithm>

#include "engine/model/families.h"
#include "engine/model/gguf_family.h"
#include "engine/util/json_io.h"
#include "engine/weights/checkpoint.h"
#include "engine/weights/role_weights.h"
#include "kernels/host_weight.h"

namespace paceline::test {
namespace fs = std::filesystem;
namespace {

void add_factors(const std::string& name, const std::vector<double>& factors, GgufWriter& writer) {
  writer.add_tensor({.name = name, .shape = {int64_t(factors.size())}, .values = {factors.begin(), factors.end()}});
}

/// Which layers have a window is said where they differ.
void add_windows(const ModelSpec& spec, const std::string& architecture, GgufWriter& writer) {
  std::vector<bool> pattern;
  uint32_t window = 0;
  for (const LayerSpec& layer : spec.layers) {
    pattern.push_back(layer.attention.window > 0);
    window = std::max(window, uint32_t(layer.attention.window));
  }
  if (window == 0) return;
  writer.add(architecture + ".attention.sliding_window", window);
  if (std::find(pattern.begin(), pattern.end(), false) == pattern.end()) return;
  writer.add(architecture + ".attention.sliding_window_pattern", pattern);
  if (spec.window_rope.rotary_dim > 0) writer.add(architecture + ".rope.freq_base_swa", float(spec.window_rope.theta));
}

void add_metadata(const ModelSpec& spec, const std::string& architecture, GgufWriter& writer) {
  const auto integer = [&](const std::string& key, int value) {
    writer.add(architecture + "." + key, uint32_t(value));
  };
  const auto real = [&](const std::string& key, double value) { writer.add(architecture + "." + key, float(value)); };
  const LayerSpec& layer = spec.layer(0);
  writer.add("general.architecture", architecture);
  integer("block_count", spec.num_layers);
  integer("context_length", spec.max_position);
  integer("embedding_length", spec.hidden_size);
  integer("feed_forward_length", spec.intermediate_size);
  integer("attention.head_count", spec.num_heads);
  if (spec.num_kv_heads != spec.num_heads) integer("attention.head_count_kv", spec.num_kv_heads);
  if (spec.head_dim != spec.hidden_size / spec.num_heads)
    for (const char* const key : {"attention.key_length", "attention.value_length"}) integer(key, spec.head_dim);
  real(spec.norm.kind == NormKind::rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon",
       spec.norm.eps);
  if (spec.rope.theta != 10000.0) real("rope.freq_base", spec.rope.theta);
  if (layer.attention.rope != RopeUse::none && spec.rope.rotary_dim != spec.head_dim)
    integer("rope.dimension_count", spec.rope.rotary_dim);
  if (spec.rope.scaling == RopeScaling::linear) {
    writer.add(architecture + ".rope.scaling.type", "linear");
    real("rope.scaling.factor", spec.rope.factor);
  }
  if (spec.rope.scaling == RopeScaling::longrope) {
    integer("rope.scaling.original_context_length", spec.rope.original_max_position);
    real("rope.scaling.attn_factor", spec.rope.attention_factor);
    add_factors("rope_factors_long.weight", spec.rope.long_factor, writer);
    add_factors("rope_factors_short.weight", spec.rope.short_factor, writer);
  }
  if (layer.attention.softcap > 0) real("attn_logit_softcapping", layer.attention.softcap);
  if (spec.logit_softcap > 0) real("final_logit_softcapping", spec.logit_softcap);
  if (architecture == "gptneox") writer.add("gptneox.use_parallel_residual", layer.block == BlockLayout::parallel);
  if (architecture == "stablelm") writer.add("stablelm.use_parallel_residual", true);  // as if config.json lacked it
  add_windows(spec, architecture, writer);
}

TestTensor made_of(const RoleWeights& weights, const ModelSpec& from, const ModelSpec& to,
                   const ExpectedTensor& expected) {
  TestTensor tensor{.name = expected.name, .shape = expected.shape, .values = {}};
  tensor.values.resize(size_t(num_elements(expected.shape)));
  const std::string_view module = find_site(*to.table, expected.role)->module;
  for (const WeightSite& site : to.table->sites) {
    const auto shape = role_shape(from, site.role, expected.layer);
    if (site.module != module || !shape) continue;
    const bool is_vector = expected.piece == TensorPiece::bias || shape->inputs == 0;
    if (!(expected.piece == TensorPiece::bias ? shape->has_bias : shape->has_weight)) continue;
    const RowMap rows(to, site, expected.layer);
    const int64_t cols = is_vector ? 1 : shape->inputs;
    for (int64_t row = 0; row < shape->outputs; ++row) {
      std::vector<float> values;
      if (is_vector) {
        const TensorPart all =
            weights.part(site.role, expected.piece, expected.layer, {.num_rows = 1, .num_cols = shape->outputs});
        values = {weights.floats(all, site.role, expected.piece)[size_t(row)]};
      } else {
        const TensorPart one = weights.part(site.role, expected.piece, expected.layer,
                                            {.row_begin = row, .num_rows = 1, .num_cols = cols});
        values = to_floats(one.view);
      }
      std::copy(values.begin(), values.end(), tensor.values.begin() + rows.tensor_row(row) * cols);
    }
  }
  return tensor;
}

}  // namespace

GgufWriter family_gguf(const fs::path& folder) {
  const Checkpoint checkpoint = Checkpoint::open(folder);
  const ModelSpec spec = load_model_spec(folder);
  const nlohmann::json config = read_model_config(folder / "config.json");
  const GgufFamily& family = *find_family(config["architectures"][0].get<std::string>())->gguf;
  ModelSpec placed = spec;
  placed.table = &family.table(spec);
  GgufWriter writer;
  add_metadata(spec, std::string(family.architecture), writer);
  const RoleWeights weights(checkpoint, spec);
  for (const ExpectedTensor& expected : expected_tensors(placed))
    writer.add_tensor(made_of(weights, spec, placed, expected));
  return writer;
}

}  // namespace paceline::test
