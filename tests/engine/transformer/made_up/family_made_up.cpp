// A family that nobody has, to count what a family needs: parts that no real one puts together. See docs/adding.md.

#include <array>

#include "engine/model/families.h"
#include "engine/model/family_parts.h"

namespace paceline {
namespace {

constexpr std::array<std::string_view, 1> kMadeUpPrefixes = {"body."};
constexpr std::array kMadeUpSites = {
    WeightSite{.role = TensorRole::embed, .module = "words"},
    WeightSite{.role = TensorRole::position, .module = "places"},
    WeightSite{.role = TensorRole::attn_norm, .module = "block.{}.norm_a", .plus_one = true},
    WeightSite{.role = TensorRole::q, .module = "block.{}.look", .rows = RowOrder::by_kv_group, .transposed = true},
    WeightSite{.role = TensorRole::k, .module = "block.{}.look", .rows = RowOrder::by_kv_group, .transposed = true},
    WeightSite{.role = TensorRole::v, .module = "block.{}.look", .rows = RowOrder::by_kv_group, .transposed = true},
    WeightSite{.role = TensorRole::q_norm, .module = "block.{}.norm_q"},
    WeightSite{.role = TensorRole::k_norm, .module = "block.{}.norm_k"},
    WeightSite{.role = TensorRole::o, .module = "block.{}.say"},
    WeightSite{.role = TensorRole::mlp_norm, .module = "block.{}.norm_b", .plus_one = true},
    WeightSite{.role = TensorRole::gate, .module = "block.{}.think", .rows = RowOrder::alternating},
    WeightSite{.role = TensorRole::up, .module = "block.{}.think", .rows = RowOrder::alternating},
    WeightSite{.role = TensorRole::down, .module = "block.{}.act"},
    WeightSite{.role = TensorRole::final_norm, .module = "norm", .plus_one = true},
};
constexpr WeightTable kMadeUpTable{.sites = kMadeUpSites, .prefixes = kMadeUpPrefixes, .ignored_suffixes = {}};

ModelSpec parse_made_up(const ConfigReader& config) {
  ModelSpec spec;
  spec.num_layers = config.integer("depth", kLayers);
  spec.hidden_size = config.integer("width", kWidth);
  spec.num_heads = config.integer("heads", kHeads);
  spec.num_kv_heads = config.integer("kv_heads", kHeads);
  spec.head_dim = divided(config, "width", spec.hidden_size, spec.num_heads, "heads");
  spec.intermediate_size = config.integer("inner", kWidth);
  spec.vocab_size = config.integer("vocab_size", kVocab);
  spec.max_position = spec.positions.rows = config.integer("places", kPositions);
  spec.norm.eps = 1e-5f;
  spec.rope = {.rotary_dim = spec.head_dim / 2, .theta = 5000.0};
  spec.logit_softcap = float(config.real("softcap", {0.0, 1e6}));
  spec.tied_head = true;
  // The first layer one branch after the other; those behind it side by side, behind a window, turned by position.
  LayerSpec layer;
  layer.attention = {.rope = RopeUse::none,
                     .head_norm = HeadNorm::shared,
                     .scale = usual_attention_scale(spec.head_dim),
                     .has_bias = true};
  layer.mlp = {.kind = MlpKind::gated, .activation = Activation::gelu_tanh, .has_bias = true};
  spec.layers.assign(size_t(spec.num_layers), layer);
  for (size_t i = 1; i < spec.layers.size(); ++i) {
    spec.layers[i].block = BlockLayout::parallel;
    spec.layers[i].attention.rope = RopeUse::all;
    spec.layers[i].attention.window = config.integer("window", kPositions);
  }
  spec.table = &kMadeUpTable;
  return spec;
}

}  // namespace

Family made_up_family() { return {"MadeUpForCausalLM", "made_up", parse_made_up}; }

}  // namespace paceline
