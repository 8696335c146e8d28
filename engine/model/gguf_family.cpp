#include "engine/model/gguf_family.h"

#include <algorithm>
#include <string>
#include <vector>

namespace paceline {
namespace {

constexpr std::array<std::string_view, 3> kFactorTensors = {"rope_freqs.weight", "rope_factors_long.weight",
                                                            "rope_factors_short.weight"};

constexpr std::array kGgufSites = {
    WeightSite{.role = TensorRole::embed, .module = "token_embd"},
    WeightSite{.role = TensorRole::position, .module = "position_embd"},
    WeightSite{.role = TensorRole::attn_norm, .module = "blk.{}.attn_norm"},
    WeightSite{.role = TensorRole::q, .module = "blk.{}.attn_q"},
    WeightSite{.role = TensorRole::k, .module = "blk.{}.attn_k"},
    WeightSite{.role = TensorRole::v, .module = "blk.{}.attn_v"},
    WeightSite{.role = TensorRole::q_norm, .module = "blk.{}.attn_q_norm"},
    WeightSite{.role = TensorRole::k_norm, .module = "blk.{}.attn_k_norm"},
    WeightSite{.role = TensorRole::o, .module = "blk.{}.attn_output"},
    WeightSite{.role = TensorRole::attn_out_norm, .module = "blk.{}.post_attention_norm"},
    WeightSite{.role = TensorRole::mlp_norm, .module = "blk.{}.ffn_norm"},
    WeightSite{.role = TensorRole::gate, .module = "blk.{}.ffn_gate"},
    WeightSite{.role = TensorRole::up, .module = "blk.{}.ffn_up"},
    WeightSite{.role = TensorRole::down, .module = "blk.{}.ffn_down"},
    WeightSite{.role = TensorRole::mlp_out_norm, .module = "blk.{}.post_ffw_norm"},
    WeightSite{.role = TensorRole::final_norm, .module = "output_norm"},
    WeightSite{.role = TensorRole::head, .module = "output"},
};

constexpr auto kGgufPairSites = [] {
  auto sites = kGgufSites;
  for (WeightSite& site : sites) site.rope_pairs = site.role == TensorRole::q || site.role == TensorRole::k;
  return sites;
}();

constexpr auto kGgufStackedSites = [] {
  using enum TensorRole;
  auto sites = kGgufSites;
  for (WeightSite& site : sites) {
    const bool in_qkv = site.role == q || site.role == k || site.role == v;
    if (!in_qkv && site.role != gate && site.role != up) continue;
    site.module = in_qkv ? "blk.{}.attn_qkv" : "blk.{}.ffn_up";
    site.rows = RowOrder::stacked;
  }
  return sites;
}();

constexpr WeightTable kGgufTable{.sites = kGgufSites, .prefixes = {}, .ignored_suffixes = kFactorTensors};
constexpr WeightTable kGgufPairTable{.sites = kGgufPairSites, .prefixes = {}, .ignored_suffixes = kFactorTensors};
constexpr WeightTable kGgufStackedTable{.sites = kGgufStackedSites, .prefixes = {}, .ignored_suffixes = kFactorTensors};

}  // namespace

const WeightTable& gguf_table(const ModelSpec&) { return kGgufTable; }
const WeightTable& gguf_table_by_pairs(const ModelSpec&) { return kGgufPairTable; }
const WeightTable& gguf_table_stacked(const ModelSpec&) { return kGgufStackedTable; }

nlohmann::json gguf_number(const GgufFile& file, std::string_view key, GgufKey::Kind kind) {
  const GgufValue* const value = file.find(key);
  if (!value) return nullptr;
  const auto same = [](const auto& all) {
    return !all.empty() && std::all_of(all.begin(), all.end(), [&](auto each) { return each == all.front(); });
  };
  if (kind == GgufKey::Kind::integer) {
    const std::vector<int64_t> numbers = value->integers();
    if (same(numbers)) return numbers.front();
  } else {
    const std::vector<double> numbers = value->reals();
    if (same(numbers)) return numbers.front();
  }
  const bool differs = value->is_array() && !value->reals().empty();
  fail(ExitCode::model_file, "{}: {}: found {}, expected {}{}", file.path().string(), key, value->text(),
       kind == GgufKey::Kind::integer ? "an integer" : "a number", differs ? " that is the same for all layers" : "");
}

}  // namespace paceline
