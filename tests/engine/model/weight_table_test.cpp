// Where rows of roles lie in tensors, for each way to keep them.

#include "engine/model/weight_table.h"

#include <array>
#include <set>

#include <gtest/gtest.h>

#include "engine/model/families.h"

namespace paceline {
namespace {

// 4 query heads over 2 KV heads of 2 dimensions; an MLP of 3.
ModelSpec small_spec(const WeightTable& table) {
  ModelSpec spec{.num_layers = 2,
                 .hidden_size = 8,
                 .num_heads = 4,
                 .num_kv_heads = 2,
                 .head_dim = 2,
                 .intermediate_size = 3,
                 .vocab_size = 5};
  spec.layers.resize(2);
  spec.table = &table;
  return spec;
}

constexpr std::array<WeightSite, 6> sites_with(RowOrder qkv, RowOrder mlp, bool rope_pairs) {
  using enum TensorRole;
  return {WeightSite{.role = embed, .module = "e"},
          WeightSite{.role = q, .module = "l.{}.qkv", .rows = qkv, .rope_pairs = rope_pairs},
          WeightSite{.role = k, .module = "l.{}.qkv", .rows = qkv, .rope_pairs = rope_pairs},
          WeightSite{.role = v, .module = "l.{}.qkv", .rows = qkv},
          WeightSite{.role = gate, .module = "l.{}.up", .rows = mlp},
          WeightSite{.role = up, .module = "l.{}.up", .rows = mlp}};
}

std::vector<int64_t> rows_of(const ModelSpec& spec, TensorRole role) {
  const RowMap map(spec, *find_site(*spec.table, role), 0);
  std::vector<int64_t> rows;
  for (int64_t row = 0; row < role_shape(spec, role)->outputs; ++row) rows.push_back(map.tensor_row(row));
  return rows;
}

/// A run holds the rows that it says, in order or by pairs.
void expect_true_runs(const ModelSpec& spec, TensorRole role) {
  const RowMap map(spec, *find_site(*spec.table, role), 0);
  const int64_t count = role_shape(spec, role)->outputs;
  for (int64_t row = 0; row < count;) {
    const RowRun run = map.run(row, count - row);
    ASSERT_GE(run.num_rows, 1);
    ASSERT_LE(row + run.num_rows, count);
    for (int64_t i = 0; i < run.num_rows; ++i) {
      const int64_t found = map.tensor_row(row + i);
      EXPECT_TRUE(run.in_order ? found == run.first + i : found >= run.first && found < run.first + run.num_rows);
    }
    row += run.num_rows;
  }
}

TEST(RowMap, PutsEachRoleWhereItsOrderSays) {
  using Rows = std::vector<int64_t>;
  using enum TensorRole;
  static constexpr auto kStacked = sites_with(RowOrder::stacked, RowOrder::stacked, false);
  static constexpr WeightTable kStackedTable{.sites = kStacked, .prefixes = {}, .ignored_suffixes = {}};
  const ModelSpec stacked = small_spec(kStackedTable);
  EXPECT_EQ(rows_of(stacked, q), (Rows{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(rows_of(stacked, k), (Rows{8, 9, 10, 11}));
  EXPECT_EQ(rows_of(stacked, v), (Rows{12, 13, 14, 15}));
  EXPECT_EQ(rows_of(stacked, up), (Rows{3, 4, 5}));

  static constexpr auto kGrouped = sites_with(RowOrder::by_kv_group, RowOrder::alternating, false);
  static constexpr WeightTable kGroupedTable{.sites = kGrouped, .prefixes = {}, .ignored_suffixes = {}};
  const ModelSpec grouped = small_spec(kGroupedTable);  // q0 q1 k0 v0 q2 q3 k1 v1
  EXPECT_EQ(rows_of(grouped, q), (Rows{0, 1, 2, 3, 8, 9, 10, 11}));
  EXPECT_EQ(rows_of(grouped, k), (Rows{4, 5, 12, 13}));
  EXPECT_EQ(rows_of(grouped, v), (Rows{6, 7, 14, 15}));
  EXPECT_EQ(rows_of(grouped, gate), (Rows{0, 2, 4}));
  EXPECT_EQ(rows_of(grouped, up), (Rows{1, 3, 5}));

  for (const ModelSpec* spec : {&stacked, &grouped})
    for (const TensorRole role : {q, k, v, gate, up}) expect_true_runs(*spec, role);
}

TEST(RowMap, UndoesRotaryPairs) {
  static constexpr auto kPairs = sites_with(RowOrder::stacked, RowOrder::stacked, true);
  static constexpr WeightTable kPairsTable{.sites = kPairs, .prefixes = {}, .ignored_suffixes = {}};
  ModelSpec spec = small_spec(kPairsTable);
  spec.head_dim = 6;  // dimensions 0, 3, 1, 4, 2, 5 of a head one after another
  const std::vector<int64_t> rows = rows_of(spec, TensorRole::q);
  EXPECT_EQ(std::vector<int64_t>(rows.begin(), rows.begin() + 6), (std::vector<int64_t>{0, 2, 4, 1, 3, 5}));
  EXPECT_EQ(rows[6], 6);
  EXPECT_EQ(rows_of(spec, TensorRole::k).front(), 24);
  EXPECT_EQ(rows_of(spec, TensorRole::v)[1], 37);
  expect_true_runs(spec, TensorRole::q);
}

TEST(ExpectedTensors, OfOneTensorForSeveralRolesAndTurnedRound) {
  static constexpr auto kTurned = [] {
    auto sites = sites_with(RowOrder::stacked, RowOrder::stacked, false);
    for (WeightSite& site : sites) site.transposed = site.role != TensorRole::embed;
    return sites;
  }();
  static constexpr std::array<std::string_view, 2> kTwo = {"m.", ""};
  static constexpr WeightTable kTable{.sites = kTurned, .prefixes = kTwo, .ignored_suffixes = {}};
  ModelSpec spec = small_spec(kTable);
  for (LayerSpec& layer : spec.layers) layer.attention.has_bias = true;
  std::vector<std::string> found;
  for (const ExpectedTensor& tensor : expected_tensors(spec))
    found.push_back(fmt::format("{} {}", tensor.name, fmt::join(tensor.shape, "x")));
  EXPECT_EQ(found, (std::vector<std::string>{"m.e.weight 5x8", "m.l.0.qkv.weight 8x16", "m.l.0.qkv.bias 16",
                                             "m.l.0.up.weight 8x6", "m.l.1.qkv.weight 8x16", "m.l.1.qkv.bias 16",
                                             "m.l.1.up.weight 8x6"}));
  EXPECT_EQ(expected_tensors(spec, "").front().name, "e.weight");
}

TEST(Families, HaveNamesOfTheirOwn) {
  std::set<std::string_view> architectures;
  for (const Family& family : families()) {
    EXPECT_TRUE(architectures.insert(family.architecture).second) << family.architecture;
    EXPECT_EQ(find_family(family.architecture), &family);
  }
  EXPECT_GE(families().size(), 14u);
}

}  // namespace
}  // namespace paceline
