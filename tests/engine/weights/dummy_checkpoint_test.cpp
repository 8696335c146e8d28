// Random weights: parts that equal slices of the whole, and activations that stay finite at any depth.

#include "engine/weights/made/dummy_checkpoint.h"

#include <cmath>

#include <gtest/gtest.h>

#include "engine/weights/model_source.h"
#include "engine/weights/shard_weights.h"
#include "tests/support/paths.h"
#include "tests/support/reference_model.h"
#include "tests/support/shape_file.h"

namespace paceline {
namespace {

ModelSpec deep_spec() {
  return test::shape_of({{"num_hidden_layers", 40}, {"attention_bias", true}, {"mlp_bias", true}}).spec;
}

TEST(DummyCheckpoint, PartsAreSlicesOfTheWhole) {
  const DummyCheckpoint source(deep_spec(), "dummy");
  for (const char* const name : {"model.embed_tokens.weight", "model.layers.7.self_attn.o_proj.weight"}) {
    const TensorRange all = whole_range(*source.find(name));
    EXPECT_FALSE(source.rows_of(name, all).view.data) << "a whole tensor, computed to be asked for its rows";
    const TensorPart whole = source.part(name, all);
    const TensorRange range{.row_begin = 3, .num_rows = 50, .col_begin = 13, .num_cols = 101};
    const TensorPart part = source.part(name, range);
    for (int64_t row = 0; row < range.num_rows; ++row)
      for (int64_t col = 0; col < range.num_cols; ++col)
        ASSERT_EQ(value_at(part.view, row, col), value_at(whole.view, row + 3, col + 13)) << name;
  }
}

TEST(DummyCheckpoint, HasEveryTensorAndActivationsStayFinite) {
  const ModelSpec spec = deep_spec();
  const DummyCheckpoint source(spec, "dummy");
  EXPECT_TRUE(check_tensors(source, spec).empty());
  std::vector<int32_t> tokens;
  for (int i = 0; i < 12; ++i) tokens.push_back(i * 49 % spec.vocab_size);
  const test::Matrix logits = test::ReferenceModel(source, spec).logits(tokens);
  ASSERT_TRUE(logits.allFinite());
  const double deviation = std::sqrt(logits.squaredNorm() / double(logits.size()));
  EXPECT_GT(deviation, 0.5);
  EXPECT_LT(deviation, 2.0);
}

// The shape's own positions, the small model's token ids; no tensor of the folder is looked at.
TEST(ModelSource, RandomWeightsTakeTheShapesOwnPositions) {
  const std::filesystem::path small = source_dir() / "configs/models/target-7m";
  const std::filesystem::path shape = source_dir() / "configs/shapes/llama-3.1-70b.json";
  const ModelSpec random = source_spec({.directory = small, .shape_file = shape, .random_weights = true});
  EXPECT_EQ(random.max_position, 131072);
  EXPECT_EQ(random.rope.scaling, RopeScaling::llama3);
  EXPECT_EQ(random.eos_token_ids, load_model_spec(small).eos_token_ids);
  const ModelSpec inflated =
      source_spec({.directory = small, .shape_file = source_dir() / "configs/shapes/llama-3-8b.json"});
  EXPECT_EQ(inflated.max_position, 1024);
  EXPECT_EQ(inflated.rope.scaling, RopeScaling::none);
  EXPECT_EQ(inflated.num_parameters(), 8030261248);
  EXPECT_EQ(source_spec({.directory = small, .random_weights = true}).num_layers, 6);
}

TEST(ModelSource, SaysWhatItIs) {
  const std::filesystem::path small = source_dir() / "configs/models/target-7m",
                              shapes = source_dir() / "configs/shapes";
  EXPECT_EQ(describe_source({.directory = small}), "");
  EXPECT_EQ(describe_source({.directory = small, .shape_file = shapes / "llama-3-8b.json"}),
            "inflated from target-7m to llama-3-8b (exact)");
  EXPECT_EQ(describe_source({.directory = small, .shape_file = shapes / "llama-3.2-1b.json"}),
            "inflated from target-7m to llama-3.2-1b (inexact)");
  EXPECT_EQ(describe_source({.directory = small, .random_weights = true}), "random weights");
}

}  // namespace
}  // namespace paceline
