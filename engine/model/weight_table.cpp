#include "engine/model/weight_table.h"

#include <algorithm>

#include "engine/util/checked_math.h"

namespace paceline {
namespace {

/// A tensor: the sites from `begin` that name the same module.
std::span<const WeightSite> sites_of_tensor(std::span<const WeightSite> sites, size_t begin) {
  size_t end = begin + 1;
  while (end < sites.size() && sites[end].module == sites[begin].module) ++end;
  return sites.subspan(begin, end - begin);
}

std::span<const WeightSite> sites_beside(const WeightTable& table, const WeightSite& site) {
  size_t begin = size_t(&site - table.sites.data());
  while (begin > 0 && table.sites[begin - 1].module == site.module) --begin;
  return sites_of_tensor(table.sites, begin);
}

class TensorLister {
 public:
  TensorLister(const ModelSpec& spec, std::string_view prefix) : spec_(spec), prefix_(prefix) {}

  std::vector<ExpectedTensor> list() {
    const std::span<const WeightSite> sites = spec_.table->sites;
    const auto in_layer = [](const WeightSite& site) { return is_in_layer(site); };
    const auto layer_begin = std::find_if(sites.begin(), sites.end(), in_layer);
    const auto layer_end = std::find_if_not(layer_begin, sites.end(), in_layer);
    add({sites.begin(), layer_begin}, 0);
    for (int layer = 0; layer < spec_.num_layers; ++layer) add({layer_begin, layer_end}, layer);
    add({layer_end, sites.end()}, 0);
    return std::move(tensors_);
  }

 private:
  void add(std::span<const WeightSite> sites, int layer) {
    for (size_t begin = 0; begin < sites.size();) {
      const std::span<const WeightSite> parts = sites_of_tensor(sites, begin);
      begin += parts.size();
      RoleShape whole{.has_weight = false};
      for (const WeightSite& part : parts) {
        const auto shape = role_shape(spec_, part.role, layer);
        if (!shape) continue;
        whole.outputs += shape->outputs;
        whole.inputs = shape->inputs;
        whole.has_weight = whole.has_weight || shape->has_weight;
        whole.has_bias = whole.has_bias || shape->has_bias;
      }
      if (whole.has_weight) add(parts.front(), TensorPiece::weight, layer, whole);
      if (whole.has_bias) add(parts.front(), TensorPiece::bias, layer, whole);
    }
  }

  void add(const WeightSite& site, TensorPiece piece, int layer, const RoleShape& shape) {
    const int num_heads = is_per_head(site) ? int(shape.outputs / spec_.head_dim) : 1;
    std::vector<int64_t> sizes{shape.outputs / num_heads};
    if (has_head_rows(spec_, site, layer)) sizes = {shape.outputs / spec_.head_dim, spec_.head_dim};
    if (piece == TensorPiece::weight && shape.inputs > 0)
      sizes.insert(site.transposed ? sizes.begin() : sizes.end(), shape.inputs);
    for (int head = 0; head < num_heads; ++head)
      tensors_.push_back(
          {tensor_name(prefix_, site, piece, layer, head), sizes, site.role, piece, layer, head, site.plus_one});
  }

  const ModelSpec& spec_;
  const std::string_view prefix_;
  std::vector<ExpectedTensor> tensors_;
};

}  // namespace

const WeightSite* find_site(const WeightTable& table, TensorRole role) {
  for (const WeightSite& site : table.sites)
    if (site.role == role) return &site;
  return nullptr;
}

bool is_norm(TensorRole role) {
  using enum TensorRole;
  switch (role) {
    case attn_norm:
    case mlp_norm:
    case final_norm:
    case attn_out_norm:
    case mlp_out_norm:
    case q_norm:
    case k_norm: return true;
    default: return false;
  }
}

bool is_per_head(const WeightSite& site) { return site.module.find("{head}") != site.module.npos; }

bool has_head_rows(const ModelSpec& spec, const WeightSite& site, int layer) {
  return site.head_rows && spec.layer(layer).attention.head_norm == HeadNorm::each;
}

bool is_in_layer(const WeightSite& site) { return site.module.find("{}") != site.module.npos; }

std::optional<RoleShape> role_shape(const ModelSpec& spec, TensorRole role, int layer) {
  using enum TensorRole;
  const int64_t hidden = spec.hidden_size, ffn = spec.intermediate_size, embedding = spec.embed_cols();
  const int64_t q_rows = int64_t{spec.num_heads} * spec.head_dim, kv_rows = int64_t{spec.num_kv_heads} * spec.head_dim;
  const LayerSpec in_layer = spec.layers.empty() ? LayerSpec{} : spec.layer(layer);
  const AttentionSpec& attention = in_layer.attention;
  const MlpSpec& mlp = in_layer.mlp;
  const RoleShape norm{.outputs = hidden, .has_weight = spec.norm.has_weight, .has_bias = spec.norm.has_bias};
  switch (role) {
    case embed: return RoleShape{.outputs = spec.vocab_size, .inputs = embedding};
    case position:
      if (spec.positions.rows == 0) return std::nullopt;
      return RoleShape{.outputs = spec.positions.rows, .inputs = hidden};
    case project_in:
      if (!spec.projects_embedding()) return std::nullopt;
      return RoleShape{.outputs = hidden, .inputs = embedding};
    case project_out:
      if (!spec.projects_embedding()) return std::nullopt;
      return RoleShape{.outputs = embedding, .inputs = hidden};
    case attn_norm: return norm;
    case mlp_norm:
      if (in_layer.shares_norm) return std::nullopt;
      return norm;
    case final_norm:
      if (!spec.has_final_norm) return std::nullopt;
      return norm;
    case attn_out_norm:
    case mlp_out_norm:
      if (in_layer.norms != NormPlace::around) return std::nullopt;
      return norm;
    case q_norm:
    case k_norm: {
      if (attention.head_norm == HeadNorm::none) return std::nullopt;
      const int heads = attention.head_norm == HeadNorm::shared ? 1
                        : role == q_norm                        ? spec.num_heads
                                                                : spec.num_kv_heads;
      return RoleShape{.outputs = int64_t{heads} * spec.head_dim};
    }
    case q: return RoleShape{.outputs = q_rows, .inputs = hidden, .has_bias = attention.has_bias};
    case k:
    case v: return RoleShape{.outputs = kv_rows, .inputs = hidden, .has_bias = attention.has_bias};
    case o: return RoleShape{.outputs = hidden, .inputs = q_rows, .has_bias = attention.has_out_bias};
    case gate:
      if (mlp.kind != MlpKind::gated) return std::nullopt;
      [[fallthrough]];
    case up: return RoleShape{.outputs = ffn, .inputs = hidden, .has_bias = mlp.has_bias};
    case down: return RoleShape{.outputs = hidden, .inputs = ffn, .has_bias = mlp.has_bias};
    case head:
      if (spec.tied_head) return std::nullopt;
      return RoleShape{.outputs = spec.vocab_size, .inputs = embedding};
  }
  return std::nullopt;
}

std::string tensor_name(std::string_view prefix, const WeightSite& site, TensorPiece piece, int layer, int head) {
  std::string name(site.without_prefix ? "" : prefix);
  name += site.module;
  if (const size_t hole = name.find("{}"); hole != name.npos) name.replace(hole, 2, std::to_string(layer));
  if (const size_t hole = name.find("{head}"); hole != name.npos) name.replace(hole, 6, std::to_string(head));
  return name + (piece == TensorPiece::weight ? ".weight" : ".bias");
}

std::vector<ExpectedTensor> expected_tensors(const ModelSpec& spec, std::string_view prefix) {
  PACELINE_CHECK(spec.table != nullptr, "family {} has no table of weights", spec.family);
  return TensorLister(spec, prefix).list();
}

std::vector<ExpectedTensor> expected_tensors(const ModelSpec& spec) {
  return expected_tensors(spec, spec.table && !spec.table->prefixes.empty() ? spec.table->prefixes.front() : "");
}

RowMap::RowMap(const ModelSpec& spec, const WeightSite& site, int layer) {
  const auto shape = role_shape(spec, site.role, layer);
  PACELINE_CHECK(shape, "family {} has nothing in role {}", spec.family, int(site.role));
  num_rows_ = block_rows_ = block_stride_ = shape->outputs;
  head_rows_ = site.rope_pairs ? spec.head_dim : 0;
  const auto rows_before = [&] {
    int64_t rows = 0;
    for (const WeightSite& other : sites_beside(*spec.table, site)) {
      if (other.role == site.role) break;
      if (const auto before = role_shape(spec, other.role, layer)) rows += before->outputs;
    }
    return rows;
  };
  switch (site.rows) {
    case RowOrder::own: break;
    case RowOrder::stacked: first_ = rows_before(); break;
    case RowOrder::by_kv_group: {
      const int64_t head_dim = spec.head_dim, group = spec.num_heads / spec.num_kv_heads;
      block_rows_ = site.role == TensorRole::q ? group * head_dim : head_dim;
      block_stride_ = (group + 2) * head_dim;
      first_ = site.role == TensorRole::q ? 0 : (group + (site.role == TensorRole::v ? 1 : 0)) * head_dim;
      break;
    }
    case RowOrder::alternating:
      block_rows_ = 1;
      block_stride_ = 2;
      first_ = site.role == TensorRole::gate ? 0 : 1;
      break;
  }
}

int64_t RowMap::tensor_row(int64_t row) const {
  if (head_rows_ > 0) {
    const int64_t dim = row % head_rows_, half = head_rows_ / 2;
    row += (dim < half ? 2 * dim : 2 * (dim - half) + 1) - dim;
  }
  return in_blocks(row);
}

RowRun RowMap::run(int64_t row, int64_t max_rows) const {
  const int64_t begin = head_rows_ > 0 ? row / head_rows_ * head_rows_ : row;
  const int64_t block_end = block_stride_ == block_rows_ ? num_rows_ : (begin / block_rows_ + 1) * block_rows_;
  const int64_t end = std::min(block_end, row + max_rows);
  const int64_t read_end = head_rows_ > 0 ? round_up(end, head_rows_) : end;
  return {.num_rows = end - row,
          .first = in_blocks(begin),
          .num_tensor_rows = read_end - begin,
          .in_order = head_rows_ == 0};
}

}  // namespace paceline
