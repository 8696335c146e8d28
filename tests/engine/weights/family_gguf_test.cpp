// GGUF files of families: what they say and hold is what the folder says and holds that they were made from.

#include "tests/support/family_gguf.h"

#include <cstring>
#include <filesystem>

#include <gtest/gtest.h>

#include "engine/model/families.h"
#include "engine/model/gguf_family.h"
#include "engine/model/gguf_model.h"
#include "engine/weights/checkpoint.h"
#include "engine/weights/gguf_checkpoint.h"
#include "engine/weights/made/dummy_checkpoint.h"
#include "engine/weights/renamed_checkpoint.h"
#include "kernels/host_weight.h"
#include "tests/engine/weights/both_forms.h"
#include "tests/support/family_cases.h"
#include "tests/support/made_rows.h"

namespace paceline {
namespace {

using test::expect_same;
using test::family_cases;
using test::FamilyCase;
using test::llama_keys;
using test::RecordingBackend;
using test::TempDir;

class FamilyGguf : public ::testing::TestWithParam<FamilyCase> {
 protected:
  void SetUp() override {
    test::write_numbered_model(folder(), GetParam().config);
    test::write_file(file(), test::family_gguf(folder()).bytes());
  }
  std::filesystem::path folder() const { return dir_ / "folder"; }
  std::filesystem::path file() const { return dir_ / "m.gguf"; }
  /// The folder's, as a GGUF file's differs in nothing else.
  ModelSpec wanted() const {
    ModelSpec spec = load_model_spec(folder());
    spec.checkpoint_dtype = DType::bf16;
    return spec;
  }

  TempDir dir_;
};

TEST_P(FamilyGguf, SaysWhatTheFolderSays) {
  ModelSpec found = load_model_spec(file());
  EXPECT_NE(found.table, wanted().table);
  found.table = wanted().table;
  EXPECT_EQ(found, wanted()) << gguf_config(GgufFile(file())).dump(1);
}

TEST_P(FamilyGguf, EveryRankLoadsWhatTheFolderHolds) {
  const ModelSpec of_folder = load_model_spec(folder()), of_file = load_model_spec(file());
  const Checkpoint checkpoint = Checkpoint::open(folder());
  const GgufCheckpoint gguf(GgufFile(file()), DType::f32);
  EXPECT_EQ(check_tensors(gguf, of_file), std::vector<std::string>{});
  for (const int tp : {1, 2}) {
    for (int rank = 0; rank < tp; ++rank) {
      SCOPED_TRACE(fmt::format("rank {} of {}", rank, tp));
      const ShardPlan plan{.tp_rank = rank, .tp_size = tp, .layer_end = of_folder.num_layers, .dtype = DType::f32};
      RecordingBackend backend;
      const ShardWeights wanted = load_shard(checkpoint, of_folder, plan, backend);
      expect_same(load_shard(gguf, of_file, plan, backend), wanted);
      expect_same(load_shard(test::MakesRows(gguf), of_file, plan, backend), wanted);
    }
  }
}

/// Also where a file keeps the norms of heads as rows of a matrix.
TEST_P(FamilyGguf, RandomWeightsHaveNormsOfOnes) {
  const ModelSpec spec = load_model_spec(file());
  const DummyCheckpoint dummy(spec, "dummy");
  for (const ExpectedTensor& tensor : expected_tensors(spec)) {
    if (!is_norm(tensor.role) || tensor.piece != TensorPiece::weight) continue;
    const TensorPart part = dummy.part(tensor.name, whole_range(*dummy.find(tensor.name)));
    for (int64_t row = 0; row < part.view.rows; ++row)
      for (int64_t col = 0; col < part.view.cols; ++col) ASSERT_EQ(value_at(part.view, row, col), 1.0f) << tensor.name;
  }
}

/// What `runexp convert` writes.
TEST_P(FamilyGguf, GivesTheFoldersTensorsBack) {
  const ModelSpec from = load_model_spec(file()), to = parse_model_spec(gguf_config(GgufFile(file())), "config.json");
  EXPECT_EQ(to, wanted());
  const GgufCheckpoint gguf(GgufFile(file()), DType::f32);
  const Checkpoint checkpoint = Checkpoint::open(folder());
  const RenamedCheckpoint renamed(gguf, from, to);
  EXPECT_EQ(renamed.names(), checkpoint.names());
  for (const std::string& name : checkpoint.names()) {
    ASSERT_NE(renamed.find(name), nullptr) << name;
    EXPECT_EQ(renamed.find(name)->shape, checkpoint.find(name)->shape) << name;
    const TensorRange range = whole_range(*checkpoint.find(name));
    const TensorPart found = renamed.part(name, range), wanted = checkpoint.part(name, range);
    EXPECT_EQ(std::memcmp(found.view.data, wanted.view.data, checkpoint.find(name)->bytes), 0) << name;
  }
}

/// Bytes of the metadata that are others: numbers, lengths, names and types.
TEST_P(FamilyGguf, DamagedMetadataEndInAnErrorOrWork) {
  const std::string good = test::read_file(file());
  const size_t end = good.find("token_embd.weight");
  ASSERT_NE(end, good.npos);
  for (size_t at = 24; at < end; at += 11) {
    std::string bad = good;
    bad[at] = char(bad[at] ^ (at % 3 == 0 ? 0x80 : at % 3 == 1 ? 0x01 : 0x7e));
    test::write_file(file(), bad);
    try {
      load_model_spec(file());
    } catch (const Error&) {
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, FamilyGguf, testing::ValuesIn(family_cases()),
                         [](const auto& each) { return each.param.name; });

TEST(RoleWeightsOfGguf, NormsOfHeadsThatLieAsRowsAreOneVector) {
  const TempDir dir;
  test::write_numbered_model(dir / "folder", llama_keys("StableLmForCausalLM", {{"qk_layernorm", true}}));
  test::write_file(dir / "m.gguf", test::family_gguf(dir / "folder").bytes());
  const ModelSpec spec = load_model_spec(dir / "m.gguf");
  const GgufCheckpoint gguf(GgufFile(dir / "m.gguf"), DType::f32);
  EXPECT_EQ(gguf.find("blk.1.attn_q_norm.weight")->shape, (std::vector<int64_t>{4, 8}));
  const RoleWeights weights(gguf, spec);
  EXPECT_EQ(weights.where(TensorRole::q_norm, TensorPiece::weight, 1, 0, 11),
            "tensor \"blk.1.attn_q_norm.weight\" at [1, 3]");
  const TensorPart whole = weights.part(TensorRole::q_norm, TensorPiece::weight, 1, {.num_rows = 1, .num_cols = 32});
  const TensorPart some =
      weights.part(TensorRole::q_norm, TensorPiece::weight, 1, {.num_rows = 1, .col_begin = 3, .num_cols = 20});
  EXPECT_EQ(std::memcmp(some.owned.floats(), static_cast<const float*>(whole.view.data) + 3, 20 * sizeof(float)), 0);
}

/// Architectures of files, each once.
TEST(GgufFamilies, EachIsTested) {
  for (const Family& family : families()) {
    if (!family.gguf) continue;
    const std::vector<FamilyCase> cases = family_cases();
    EXPECT_TRUE(std::any_of(cases.begin(), cases.end(), [&](const FamilyCase& each) {
      return find_family(each.config["architectures"][0].get<std::string>())->gguf == family.gguf;
    })) << family.architecture;
  }
}

}  // namespace
}  // namespace paceline
