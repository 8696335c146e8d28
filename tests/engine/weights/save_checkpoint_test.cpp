// Folders on disk that equal the source they were made from.

#include "engine/weights/save_checkpoint.h"

#include <cstring>

#include <gtest/gtest.h>

#include "engine/weights/checkpoint.h"
#include "engine/weights/made/inflated_checkpoint.h"
#include "engine/weights/shard_weights.h"
#include "tests/support/checkpoint_writer.h"
#include "tests/support/expect_error.h"
#include "tests/support/paths.h"
#include "tests/support/recording_backend.h"
#include "tests/support/shape_file.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;
using test::expect_error;

class SaveInflated : public testing::Test {
 protected:
  SaveInflated()
      : model_(inflate_model(kParent, test::shape_of({{"vocab_size", 601}}))),
        source_(Checkpoint::open(kParent), model_) {}

  const fs::path kParent = source_dir() / "tests/data/llama-gqa-tied";
  InflatedModel model_;
  InflatedCheckpoint source_;
};

SaveOptions small_shards(const InflatedModel& model) {
  return {
      .config = model.config, .card = "card\n", .copies = {}, .max_shard_bytes = 1 << 20, .max_part_bytes = 1 << 12};
}

TEST_F(SaveInflated, SavedFolderHoldsTheSameBytes) {
  const test::TempDir dir;
  save_checkpoint(source_, dir / "big", small_shards(model_));
  const Checkpoint saved = Checkpoint::open(dir / "big");
  EXPECT_EQ(saved.names(), source_.names());
  for (const std::string& name : source_.names()) {
    const TensorRange all = whole_range(*source_.find(name));
    ASSERT_EQ(saved.find(name)->shape, source_.find(name)->shape) << name;
    ASSERT_EQ(saved.find(name)->file_dtype, source_.find(name)->file_dtype) << name;
    const TensorPart want = source_.part(name, all), found = saved.part(name, all);
    ASSERT_EQ(std::memcmp(want.view.data, found.view.data, saved.find(name)->bytes), 0) << name;
  }
  EXPECT_TRUE(fs::exists(dir / "big" / "model.safetensors.index.json"));
  const ModelSpec spec = load_model_spec(dir / "big");
  EXPECT_EQ(spec.norm.eps, model_.spec.norm.eps);
  EXPECT_EQ(spec.rope.theta, model_.parent.rope.theta);
  EXPECT_EQ(spec.max_position, model_.parent.max_position);
  EXPECT_EQ(spec.num_parameters(), model_.spec.num_parameters());
  EXPECT_EQ(std::distance(fs::directory_iterator(dir.path()), fs::directory_iterator()), 1) << "left a temporary";
}

// What a rank packs is the same from the rule and from the files.
TEST_F(SaveInflated, RanksPackTheSameFromBoth) {
  const test::TempDir dir;
  save_checkpoint(source_, dir / "big", small_shards(model_));
  const Checkpoint saved = Checkpoint::open(dir / "big");
  for (const int rank : {0, 1}) {
    const ShardPlan plan{.tp_rank = rank, .tp_size = 2, .layer_begin = 3, .layer_end = 7, .dtype = DType::f32};
    test::RecordingBackend made, read;
    const ShardWeights a = load_shard(source_, model_.spec, plan, made);
    const ShardWeights b = load_shard(saved, model_.spec, plan, read);
    ASSERT_EQ(made.packed.size(), read.packed.size());
    for (size_t i = 0; i < made.packed.size(); ++i) {
      ASSERT_EQ(made.packed[i]->part_rows, read.packed[i]->part_rows);
      ASSERT_EQ(made.packed[i]->values, read.packed[i]->values) << "matrix " << i;
    }
    EXPECT_EQ(a.final_norm, b.final_norm);
    EXPECT_EQ(a.layers[1].attn_norm, b.layers[1].attn_norm);
    EXPECT_EQ(a.bytes, b.bytes);
  }
}

TEST_F(SaveInflated, NothingIsWrittenOverOrBesideAFolder) {
  const test::TempDir dir;
  fs::create_directory(dir / "big");
  expect_error(ExitCode::usage, {"big: exists", "expected a new folder"},
               [&] { save_checkpoint(source_, dir / "big", small_shards(model_)); });
  expect_error(ExitCode::usage, {"none: no such folder"},
               [&] { save_checkpoint(source_, dir / "none" / "big", small_shards(model_)); });
  SaveOptions with_missing = small_shards(model_);
  with_missing.copies = {kParent / "config.json", kParent / "config.json"};  // the second cannot be copied
  EXPECT_THROW(save_checkpoint(source_, dir / "other", with_missing), Error);
  EXPECT_EQ(std::distance(fs::directory_iterator(dir.path()), fs::directory_iterator()), 1) << "left a temporary";
}

/// More than any disk, and none of it can be had.
class Endless final : public TensorSource {
 public:
  std::string label() const override { return "endless"; }
  const TensorInfo* find(std::string_view) const override { return &info_; }
  std::vector<std::string> names() const override { return {info_.name}; }
  TensorPart part(std::string_view, const TensorRange&) const override { fail(ExitCode::model_file, "asked for"); }
  void release(std::string_view) const override {}

 private:
  const TensorInfo info_{
      .name = "w", .file_dtype = "BF16", .dtype = DType::bf16, .shape = {1 << 30, 1 << 29}, .bytes = 1ull << 60};
};

TEST(SaveCheckpoint, TooLittleRoomIsSaidBeforeWriting) {
  const test::TempDir dir;
  expect_error(ExitCode::store, {"needs 115292150", "1073741824.0 GiB", "free", "make room"},
               [&] { save_checkpoint(Endless(), dir / "big", {}); });
  EXPECT_TRUE(fs::is_empty(dir.path()));
}

}  // namespace
}  // namespace paceline
