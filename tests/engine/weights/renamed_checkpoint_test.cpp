#include "engine/weights/renamed_checkpoint.h"

#include <array>
#include <cstring>

#include <gtest/gtest.h>

#include "engine/weights/checkpoint.h"
#include "engine/weights/gguf_checkpoint.h"
#include "tests/engine/weights/both_forms.h"

namespace paceline {
namespace {

using nlohmann::json;
using test::BothForms;
using test::expect_same;
using test::RecordingBackend;

/// Every tensor of a folder, from its GGUF form.
TEST(RenamedCheckpoint, GivesTheFoldersTensorsBack) {
  for (const json& changes : {json::object(), json{{"attention_bias", true}, {"mlp_bias", true}}}) {
    const BothForms model(changes);
    const ModelSpec from = load_model_spec(model.file()), to = load_model_spec(model.folder());
    const GgufCheckpoint file(GgufFile(model.file()), DType::f32);
    const Checkpoint folder = Checkpoint::open(model.folder());
    const RenamedCheckpoint renamed(file, from, to);
    EXPECT_EQ(renamed.names(), folder.names());
    for (const std::string& name : folder.names()) {
      EXPECT_EQ(renamed.find(name)->shape, folder.find(name)->shape);
      EXPECT_EQ(renamed.find(name)->bytes, folder.find(name)->bytes);
      TensorRange range = whole_range(*folder.find(name));
      for (const bool cut : {false, true}) {
        if (cut) range.row_begin = range.num_rows / 3, range.num_rows -= range.row_begin + range.num_rows / 4;
        const TensorPart found = renamed.part(name, range), wanted = folder.part(name, range);
        for (int64_t row = 0; row < range.num_rows; ++row)
          ASSERT_EQ(std::memcmp(static_cast<const float*>(found.view.data) + row * found.view.row_stride,
                                static_cast<const float*>(wanted.view.data) + row * wanted.view.row_stride,
                                size_t(range.num_cols) * sizeof(float)),
                    0)
              << name << " row " << row;
      }
      renamed.release(name);
    }
  }
}

/// Tables of other shapes, from a folder that holds all roles apart.
constexpr std::array kStackedSites = {
    WeightSite{.role = TensorRole::embed, .module = "wte"},
    WeightSite{.role = TensorRole::attn_norm, .module = "h.{}.n", .plus_one = true},
    WeightSite{.role = TensorRole::q, .module = "h.{}.qkv", .rows = RowOrder::by_kv_group},
    WeightSite{.role = TensorRole::k, .module = "h.{}.qkv", .rows = RowOrder::by_kv_group},
    WeightSite{.role = TensorRole::v, .module = "h.{}.qkv", .rows = RowOrder::by_kv_group},
    WeightSite{.role = TensorRole::o, .module = "h.{}.o", .transposed = true},
    WeightSite{.role = TensorRole::mlp_norm, .module = "h.{}.m"},
    WeightSite{.role = TensorRole::gate, .module = "h.{}.gu", .rows = RowOrder::stacked, .transposed = true},
    WeightSite{.role = TensorRole::up, .module = "h.{}.gu", .rows = RowOrder::stacked, .transposed = true},
    WeightSite{.role = TensorRole::down, .module = "h.{}.d"},
    WeightSite{.role = TensorRole::final_norm, .module = "n"},
    WeightSite{.role = TensorRole::head, .module = "head"},
};
constexpr WeightTable kStackedTable{.sites = kStackedSites, .prefixes = {}, .ignored_suffixes = {}};

/// There and back: what RoleWeights reads of the other order is what the folder holds.
TEST(RenamedCheckpoint, OtherOrdersReadAsTheSameRoles) {
  const BothForms model(json{{"attention_bias", true}});
  const ModelSpec spec = load_model_spec(model.folder());
  ModelSpec stacked = spec;
  stacked.table = &kStackedTable;
  const Checkpoint folder = Checkpoint::open(model.folder());
  const RenamedCheckpoint other(folder, spec, stacked);
  EXPECT_EQ(other.find("h.0.gu.weight")->shape, (std::vector<int64_t>{16, 64}));
  for (const int tp : {1, 2}) {
    for (int rank = 0; rank < tp; ++rank) {
      const ShardPlan plan{.tp_rank = rank, .tp_size = tp, .layer_end = 2, .dtype = DType::f32};
      RecordingBackend backend;
      expect_same(load_shard(other, stacked, plan, backend), load_shard(folder, spec, plan, backend));
    }
  }
}

}  // namespace
}  // namespace paceline
