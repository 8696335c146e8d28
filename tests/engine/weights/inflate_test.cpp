// Inflated models: the parent's function in float64, parts that equal slices of the whole, folders that equal the
// source.

#include "engine/weights/made/inflate.h"

#include <cmath>
#include <cstring>
#include <set>

#include <gtest/gtest.h>

#include "engine/weights/made/inflated_checkpoint.h"
#include "tests/support/checkpoint_writer.h"
#include "tests/support/expect_error.h"
#include "tests/support/paths.h"
#include "tests/support/reference_model.h"
#include "tests/support/shape_file.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using test::expect_error;
using test::ReferenceModel;
using test::shape_of;

/// Small random weights in place of llama_tensors' running numbers.
void write_random_llama(const fs::path& dir, const json& config) {
  std::vector<test::TestTensor> tensors = test::llama_tensors(config);
  uint32_t state = 1;
  for (test::TestTensor& tensor : tensors)
    for (float& value : tensor.values) {
      state = state * 1664525u + 1013904223u;
      value = (float(state >> 8) / float(1 << 24) - 0.5f) * 0.5f + (tensor.name.find("norm") != std::string::npos);
    }
  fs::create_directories(dir);
  test::write_file(dir / "config.json", config.dump());
  test::write_safetensors(dir / "model.safetensors", tensors);
}

std::vector<int32_t> some_tokens(int count, int vocab_size) {
  std::vector<int32_t> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(i % 5 == 4 ? tokens[size_t(i - 3)] : (i * 7919 + 13) % vocab_size);
  return tokens;
}

/// Largest |difference| of the parent's ids; the largest logit of new ids.
struct Drift {
  double old_ids = 0;
  double new_ids = -1e9;
};

Drift drift_of(const fs::path& parent_dir, const ModelShape& shape) {
  const InflatedModel model = inflate_model(parent_dir, shape);
  const InflatedCheckpoint inflated(Checkpoint::open(parent_dir), model);
  const Checkpoint parent = Checkpoint::open(parent_dir);
  const std::vector<int32_t> tokens = some_tokens(14, model.parent.vocab_size);
  const test::Matrix want = ReferenceModel(parent, model.parent).logits(tokens);
  const test::Matrix found = ReferenceModel(inflated, model.spec).logits(tokens);
  EXPECT_GT(want.cwiseAbs().maxCoeff(), 1.0);
  Drift drift{.old_ids = (found.leftCols(want.cols()) - want).cwiseAbs().maxCoeff()};
  if (found.cols() > want.cols()) drift.new_ids = found.rightCols(found.cols() - want.cols()).maxCoeff();
  return drift;
}

struct Pair {
  const char* name;
  const char* parent;  // of the checkout
  json shape;
};
void PrintTo(const Pair& pair, std::ostream* out) { *out << pair.name; }

class ExactPair : public testing::TestWithParam<Pair> {};

const json kTrainedMiddle = {{"hidden_size", 1024},      {"num_hidden_layers", 9}, {"num_attention_heads", 18},
                             {"num_key_value_heads", 6}, {"head_dim", 128},        {"intermediate_size", 1000},
                             {"vocab_size", 9000}};

json changed(json base, const json& changes) {
  base.merge_patch(changes);
  return base;
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, ExactPair,
    testing::Values(Pair{"trained_untied", "configs/models/target-7m", kTrainedMiddle},
                    Pair{"trained_tied", "configs/models/target-7m",
                         changed(kTrainedMiddle, {{"tie_word_embeddings", true}})},
                    Pair{"tied_to_untied", "tests/data/llama-gqa-tied", json::object()},
                    Pair{"tied_to_tied", "tests/data/llama-gqa-tied", {{"tie_word_embeddings", true}}},
                    Pair{"same_vocabulary", "tests/data/llama-gqa-tied", {{"vocab_size", 519}}},
                    Pair{"same_width", "tests/data/llama-gqa-tied", {{"vocab_size", 519}, {"hidden_size", 64}}},
                    Pair{"own_head", "tests/data/llama", {{"head_dim", 64}}},
                    Pair{"only_layers",
                         "tests/data/llama",
                         {{"num_hidden_layers", 10},
                          {"hidden_size", 64},
                          {"head_dim", 16},
                          {"num_attention_heads", 4},
                          {"num_key_value_heads", 4},
                          {"intermediate_size", 176},
                          {"vocab_size", 515}}}),
    [](const auto& pair) { return std::string(pair.param.name); });

TEST_P(ExactPair, ComputesTheParentsLogitsInFloat64) {
  const ModelShape shape = shape_of(GetParam().shape);
  const InflatedModel model = inflate_model(source_dir() / GetParam().parent, shape);
  EXPECT_TRUE(model.exact);
  const Drift drift = drift_of(source_dir() / GetParam().parent, shape);
  RecordProperty("max_logit_difference", fmt::format("{:.3g}", drift.old_ids));
  EXPECT_LE(drift.old_ids, 1e-6);
  EXPECT_LE(drift.new_ids, -100.0);
}

TEST(Inflate, BiasesAreInflatedToo) {
  const test::TempDir dir;
  write_random_llama(dir.path(), changed(test::tiny_llama_config(), {{"attention_bias", true}, {"mlp_bias", true}}));
  const ModelShape shape = shape_of({{"head_dim", 16}});
  const Drift drift = drift_of(dir.path(), shape);
  EXPECT_LE(drift.old_ids, 1e-6);
  EXPECT_LE(drift.new_ids, -100.0);
}

// Factors that bfloat16 cannot hold: close, and said to be inexact.
TEST(Inflate, OtherFactorsAreInexact) {
  for (const json& change : {json{{"hidden_size", 1536}}, json{{"head_dim", 64}}}) {
    const ModelShape shape = shape_of(changed(kTrainedMiddle, change));
    EXPECT_FALSE(inflate_model(source_dir() / "configs/models/target-7m", shape).exact);
    const Drift drift = drift_of(source_dir() / "configs/models/target-7m", shape);
    EXPECT_GT(drift.old_ids, 1e-6);
    EXPECT_LT(drift.old_ids, 1.0);
    EXPECT_LE(drift.new_ids, -100.0);
  }
}

TEST(Inflate, LayersAreSpreadEvenly) {
  ModelSpec parent, inflated;
  parent.num_layers = 6;
  inflated.num_layers = 32;
  std::vector<int> old;
  for (int layer = 0; layer < 32; ++layer)
    if (parent_layer(parent, inflated, layer) >= 0) old.push_back(layer);
  EXPECT_EQ(old, (std::vector<int>{0, 5, 10, 16, 21, 26}));
}

class InflatedGolden : public testing::Test {
 protected:
  InflatedGolden()
      : model_(inflate_model(kParent, shape_of({{"vocab_size", 601}}))), source_(Checkpoint::open(kParent), model_) {}

  const fs::path kParent = source_dir() / "tests/data/llama-gqa-tied";
  InflatedModel model_;
  InflatedCheckpoint source_;
};

TEST_F(InflatedGolden, RandomPartHasTheStatedDeviation) {
  const TensorPart part = source_.part("model.layers.1.mlp.up_proj.weight",
                                       whole_range(*source_.find("model.layers.1.mlp.up_proj.weight")));
  double sum = 0, squares = 0, largest = 0;
  std::set<float> values;
  for (int64_t row = 0; row < part.view.rows; ++row)
    for (int64_t col = 0; col < part.view.cols; ++col) {
      const double value = value_at(part.view, row, col);
      sum += value, squares += value * value, largest = std::max(largest, std::abs(value));
      values.insert(float(value));
    }
  const double count = double(part.view.rows * part.view.cols);
  EXPECT_NEAR(sum / count, 0.0, 4 * 0.02 / std::sqrt(count));
  EXPECT_NEAR(std::sqrt(squares / count), 0.02, 0.02 * 2 / std::sqrt(count));
  EXPECT_LE(largest, 0.02 * std::sqrt(3.0) * (1 + 1.0 / 256));
  EXPECT_GT(values.size(), 1000u);
}

// Every value is named by its place in the whole: a rank makes its own part and no more.
TEST_F(InflatedGolden, PartsAreSlicesOfTheWhole) {
  for (const std::string& name : source_.names()) {
    const TensorRange all = whole_range(*source_.find(name));
    const TensorPart whole = source_.part(name, all);
    for (const auto& [begin, end] : {std::pair{0.0, 0.5}, {0.37, 0.41}, {0.5, 1.0}, {0.0, 1.0}}) {
      for (const bool by_rows : {true, false}) {
        if (by_rows && all.num_rows == 1) continue;
        TensorRange range = all;
        int64_t& first = by_rows ? range.row_begin : range.col_begin;
        int64_t& count = by_rows ? range.num_rows : range.num_cols;
        first = int64_t(begin * double(count));
        count = int64_t(end * double(count)) - first;
        const TensorPart part = source_.part(name, range);
        for (int64_t row = 0; row < range.num_rows; ++row) {
          const auto* const want =
              static_cast<const float*>(whole.view.data) + (range.row_begin + row) * all.num_cols + range.col_begin;
          const auto* const found = static_cast<const float*>(part.view.data) + row * part.view.row_stride;
          ASSERT_EQ(std::memcmp(want, found, size_t(range.num_cols) * sizeof(float)), 0) << name << " row " << row;
        }
      }
    }
  }
}

TEST(Inflate, BadShapesAreNamed) {
  const fs::path parent = source_dir() / "tests/data/llama-gqa-tied";  // 3 layers x 64, heads 8/2 x 8, ffn 160, 519 ids
  const auto expect_bad = [&](const json& changes, std::vector<std::string> pieces) {
    pieces.push_back("middle.json: ");
    expect_error(ExitCode::usage, pieces, [&] { inflate_model(parent, shape_of(changes)); });
  };
  expect_bad({{"num_hidden_layers", 2}},
             {"num_hidden_layers: found 2, expected at least 3", "use a smaller parent, as small"});
  expect_bad({{"hidden_size", 32}}, {"hidden_size: found 32, expected at least 64"});
  expect_bad({{"intermediate_size", 100}}, {"intermediate_size: found 100, expected at least 160"});
  expect_bad({{"vocab_size", 500}}, {"vocab_size: found 500, expected at least 519"});
  expect_bad({{"num_key_value_heads", 1}}, {"num_key_value_heads: found 1, expected at least 2"});
  expect_bad({{"num_attention_heads", 12}},
             {"num_attention_heads: found 12, expected at least 24", "4 query heads for each of 6"});
  expect_bad({{"num_attention_heads", 20}}, {"num_attention_heads", "20 is not divisible by num_key_value_heads 6"});
  expect_bad({{"head_dim", 4}}, {"head_dim: found 4, expected at least 8"});
  expect_bad({{"head_dim", 20}}, {"head_dim: found 20, expected a multiple of the parent's 8"});
  expect_bad({{"hidden_size", 64}}, {"hidden_size: found 64, expected more than the parent's", "use vocab_size 519"});
  expect_bad({{"architectures", {"Qwen3ForCausalLM"}}}, {"norms of heads", "take another shape"});
  expect_error(ExitCode::usage, {"tie_word_embeddings: found true, expected false"}, [] {
    inflate_model(source_dir() / "tests/data/llama", shape_of({{"tie_word_embeddings", true}, {"head_dim", 64}}));
  });
  expect_error(ExitCode::usage, {"llama3-rope-scaling/config.json", "rotary positions", "take another parent"},
               [] { inflate_model(source_dir() / "tests/data/llama3-rope-scaling", shape_of(json::object())); });
  expect_error(ExitCode::model_file, {"nowhere/config.json: no such file", "small belongs to it"},
               [] { inflate_model("nowhere", shape_of(json::object())); });
}

// The committed shapes say of their parents what the numbers say.
TEST(ShapeFiles, ExactnessIsThatOfTheirParents) {
  struct Parent {
    int hidden_size, head_dim;
  };
  const std::map<std::string, Parent> parents = {
      {"target-7m", {256, 32}}, {"target-42m", {512, 64}}, {"draft-2m", {128, 32}}};
  const std::map<std::string, double> billions = {
      {"llama-3-8b", 8.03},     {"llama-3.1-8b", 8.03}, {"llama-3.2-1b", 1.236}, {"llama-3.1-70b", 70.55},
      {"llama-1b-draft", 1.27}, {"gpt2-xl", 1.558},     {"opt-6.7b", 6.658},     {"opt-125m", 0.125},
      {"qwen3-8b", 8.19},       {"gemma-3-4b", 3.88}};
  int count = 0;
  for (const auto& entry : fs::directory_iterator(source_dir() / "configs/shapes")) {
    const ModelShape shape = load_model_shape(entry.path());
    SCOPED_TRACE(shape.name);
    EXPECT_NEAR(double(shape.spec.num_parameters()) / 1e9, billions.at(shape.name), 0.01);
    ++count;
    if (shape.parent.empty()) continue;  // for random weights and plans
    ModelSpec parent = shape.spec;
    ASSERT_TRUE(parents.contains(shape.parent)) << shape.parent;
    parent.hidden_size = parents.at(shape.parent).hidden_size;
    parent.head_dim = parents.at(shape.parent).head_dim;
    EXPECT_EQ(shape.exact, inflates_exactly(parent, shape.spec));
  }
  EXPECT_EQ(count, 10);
  const ModelShape shape = load_model_shape(source_dir() / "configs/shapes/llama-3-8b.json");
  EXPECT_TRUE(inflate_model(source_dir() / "configs/models" / shape.parent, shape).exact);
}

}  // namespace
}  // namespace paceline
