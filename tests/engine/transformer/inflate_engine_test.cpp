// The engine over an inflated model: the parent's greedy text, and the same logits from the rule and from its folder.

#include <algorithm>

#include "engine/weights/made/inflated_checkpoint.h"
#include "engine/weights/save_checkpoint.h"
#include "greedy_text.h"
#include "kernels/cuda/cuda_backend.h"
#include "tests/support/checkpoint_writer.h"
#include "tests/support/shape_file.h"

namespace paceline {
namespace {

using test::greedy;
using test::ModelRig;
using test::ModelRigOptions;
using test::read_json;

/// A folder with `parent` inflated; a checkpoint of its own from then on.
class InflatedFolder {
 public:
  InflatedFolder(const std::string& parent, const nlohmann::json& shape)
      : model_(inflate_model(test::source_path(parent), test::shape_of(shape))),
        source_(Checkpoint::open(test::source_path(parent)), model_) {
    save_checkpoint(source_, folder(), {.config = model_.config, .card = {}, .copies = {}});
  }
  std::string folder() const { return (dir_.path() / "big").string(); }
  const InflatedModel& model() const { return model_; }
  const InflatedCheckpoint& source() const { return source_; }

 private:
  test::TempDir dir_;
  InflatedModel model_;
  InflatedCheckpoint source_;
};

const nlohmann::json kTrainedMiddle = {
    {"hidden_size", 1024}, {"num_hidden_layers", 8},    {"num_attention_heads", 16}, {"num_key_value_heads", 8},
    {"head_dim", 128},     {"intermediate_size", 1024}, {"vocab_size", 8320}};

TEST(InflateEngine, GreedyTextIsTheParentsInFloat32) {
  const InflatedFolder inflated("configs/models/target-7m", kTrainedMiddle);
  const nlohmann::json golden = read_json("tests/data/models_golden.json").at("target-7m");
  ModelRig rig({.folder = inflated.folder(), .threads = 2, .dtype = DType::f32});
  for (const auto& entry : golden["cases"]) {
    const auto text = entry["greedy"].get<std::vector<int32_t>>();
    EXPECT_EQ(greedy(rig, entry["prompt_ids"].get<std::vector<int32_t>>(), int(text.size())), text);
  }
}

/// Ids of the largest and the second largest logit of a row, and their distance.
struct TopTwo {
  int first = 0;
  float gap = 0;
};
TopTwo top_two(const float* row, int vocab_size) {
  int first = row[1] > row[0] ? 1 : 0;
  float second = row[1 - first];
  for (int id = 2; id < vocab_size; ++id) {
    if (row[id] > row[first])
      second = row[first], first = id;
    else
      second = std::max(second, row[id]);
  }
  return {.first = first, .gap = row[first] - second};
}

/// Every next token of the golden texts, given the text before it: bfloat16 may differ from the parent's float32 only
/// where that was undecided.
void check_teacher_forced(const std::string& device) {
  const InflatedFolder inflated("configs/models/target-7m", kTrainedMiddle);
  const nlohmann::json golden = read_json("tests/data/models_golden.json").at("target-7m");
  ModelRig parent({.folder = "configs/models/target-7m", .threads = 2, .dtype = DType::f32});
  ModelRig big({.folder = inflated.folder(), .threads = 2, .dtype = DType::bf16, .device = device});
  const int small_vocab = parent.spec().vocab_size, big_vocab = big.spec().vocab_size;
  int num_rows = 0, num_flips = 0;
  for (const auto& entry : golden["cases"]) {
    auto text = entry["prompt_ids"].get<std::vector<int32_t>>();
    for (const auto& token : entry["greedy"]) text.push_back(token.get<int32_t>());
    const int length = int(text.size());
    const std::vector<float> want = parent.run({{text, parent.pages(length), 0, length}});
    const std::vector<float> found = big.run({{text, big.pages(length), 0, length}});
    for (int row = 0; row < length; ++row, ++num_rows) {
      const TopTwo sure = top_two(want.data() + size_t(row) * size_t(small_vocab), small_vocab);
      const TopTwo said = top_two(found.data() + size_t(row) * size_t(big_vocab), big_vocab);
      if (said.first == sure.first) continue;
      ++num_flips;
      EXPECT_LT(sure.gap, 0.1f) << "row " << row << ": " << said.first << ", not " << sure.first;
    }
  }
  testing::Test::RecordProperty("rows", num_rows);
  testing::Test::RecordProperty("flips", num_flips);
  EXPECT_GT(num_rows, 200);
  EXPECT_LT(num_flips, num_rows / 20);
}

TEST(InflateEngine, TeacherForcedInBfloat16) { check_teacher_forced("cpu"); }

TEST(InflateEngine, TeacherForcedInBfloat16OnCuda) {
  if (num_cuda_devices() == 0) GTEST_SKIP() << "no CUDA device here";
  check_teacher_forced("cuda");
}

TEST(InflateEngine, RanksThatMakeTheirOwnPartsGiveTheFoldersLogits) {
  const InflatedFolder inflated("tests/data/llama-gqa-tied", {{"tie_word_embeddings", true}, {"vocab_size", 601}});
  const std::vector<int32_t> text = test::sample_text(40, inflated.model().parent.vocab_size);
  ModelRig from_folder({.folder = inflated.folder()});
  const std::vector<float> want = from_folder.run({{text, from_folder.pages(40), 0, 40}});
  for (const auto& [tp, pp] : {std::pair{1, 1}, {2, 1}, {1, 2}, {2, 2}}) {
    ModelRig made({.folder = inflated.folder(), .tp = tp, .pp = pp}, inflated.source());
    const std::vector<float> found = made.run({{text, made.pages(40), 0, 40}});
    ASSERT_EQ(found.size(), want.size());
    EXPECT_EQ(test::first_difference(want, 0, found, inflated.model().spec.vocab_size), -1)
        << "tp " << tp << " pp " << pp;
  }
}

}  // namespace
}  // namespace paceline
