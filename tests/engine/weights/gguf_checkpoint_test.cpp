#include "engine/weights/gguf_checkpoint.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "engine/model/gguf_model.h"
#include "engine/weights/model_source.h"
#include "engine/weights/shard_weights.h"
#include "kernels/cpu/storage.h"
#include "kernels/cpu/thread_pool.h"
#include "tests/engine/weights/both_forms.h"
#include "tests/support/expect_error.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/paths.h"
#include "tests/support/recording_backend.h"

namespace paceline {
namespace {

using nlohmann::json;
using test::BothForms;
using test::expect_error;
using test::expect_same;
using test::GgufWriter;
using test::RecordingBackend;
using test::TempDir;
using test::TestTensor;

ModelSource source_of(const std::filesystem::path& path) {
  ModelSource source;
  source.directory = path;
  return source;
}

TEST(GgufCheckpoint, EveryRankLoadsWhatTheFolderHolds) {
  for (const json& changes :
       {json::object(), json{{"attention_bias", true}, {"mlp_bias", true}}, json{{"tie_word_embeddings", true}},
        json{{"num_attention_heads", 8}, {"head_dim", 4}, {"hidden_size", 32}, {"num_key_value_heads", 1}}}) {
    const BothForms model(changes);
    const ModelSpec of_folder = load_model_spec(model.folder()), of_file = load_model_spec(model.file());
    const auto folder = open_tensors(source_of(model.folder())), file = open_tensors(source_of(model.file()));
    for (const int tp : {1, 2, 4}) {
      for (int rank = 0; rank < tp; ++rank) {
        SCOPED_TRACE(fmt::format("{} rank {} of {}", changes.dump(), rank, tp));
        const ShardPlan plan{.tp_rank = rank, .tp_size = tp, .layer_end = 2, .dtype = DType::f32};
        RecordingBackend backend;
        expect_same(load_shard(*file, of_file, plan, backend), load_shard(*folder, of_folder, plan, backend));
      }
    }
  }
}

TEST(GgufCheckpoint, TensorsThatAreMissingOrLeftOverAreNamed) {
  const json config = test::tiny_llama_config();
  std::vector<TestTensor> tensors = test::llama_tensors(config);
  std::erase_if(tensors, [](const TestTensor& each) { return each.name == "model.layers.1.mlp.down_proj.weight"; });
  GgufWriter writer = test::llama_gguf(config, tensors);
  writer.add_tensor({.name = "rope_freqs.weight", .shape = {2}, .values = {1, 1}});
  writer.add_tensor({.name = "extra.weight", .shape = {2}, .values = {1, 1}});
  const TempDir dir;
  test::write_file(dir / "m.gguf", writer.bytes());
  const ModelSpec spec = gguf_spec(GgufFile(dir / "m.gguf"));
  expect_error(ExitCode::model_file, {"m.gguf", "\"blk.1.ffn_down.weight\" is missing, expected [16, 32]"},
               [&] { check_tensors(GgufCheckpoint(GgufFile(dir / "m.gguf"), DType::bf16), spec); });
  writer.add_tensor({.name = "blk.1.ffn_down.weight", .shape = {16, 32}, .values = std::vector<float>(512)});
  test::write_file(dir / "m.gguf", writer.bytes());
  EXPECT_EQ(check_tensors(GgufCheckpoint(GgufFile(dir / "m.gguf"), DType::bf16), spec),
            std::vector<std::string>{"extra.weight"});
}

class PackedTensors : public ::testing::Test {
 protected:
  GgufCheckpoint open(DType widened) { return {GgufFile(source_dir() / "tests/data/gguf/blocks.gguf"), widened}; }
};

TEST_F(PackedTensors, PartsAreWidenedAsAskedFor) {
  for (const DType widened : {DType::f32, DType::bf16}) {
    const GgufCheckpoint checkpoint = open(widened);
    const TensorInfo& info = *checkpoint.find("Q6_K");
    EXPECT_EQ(info.dtype, widened);
    EXPECT_EQ(info.file_dtype, widened == DType::f32 ? "F32" : "BF16");
    EXPECT_EQ(info.bytes, 3 * 512 * dtype_bytes(widened));
    const TensorRange range{.row_begin = 1, .num_rows = 2, .col_begin = 130, .num_cols = 200};
    const TensorPart part = checkpoint.part("Q6_K", range), wanted = checkpoint.part("Q6_K.expected", range);
    EXPECT_EQ(part.view.dtype, widened);
    EXPECT_EQ(wanted.view.dtype, DType::f32);
    EXPECT_EQ(wanted.owned.data(), nullptr);  // a view of the mapping
    for (int64_t row = 0; row < 2; ++row) {
      for (int64_t col = 0; col < 200; ++col) {
        const float value = static_cast<const float*>(wanted.view.data)[row * wanted.view.row_stride + col];
        BFloat rounded;
        from_f32(value, &rounded);
        if (widened == DType::f32)
          ASSERT_EQ(static_cast<const float*>(part.view.data)[row * 200 + col], value);
        else
          ASSERT_EQ(static_cast<const uint16_t*>(part.view.data)[row * 200 + col], rounded.bits);
      }
    }
    checkpoint.release("Q6_K");
  }
}

TEST_F(PackedTensors, ALargeTensorIsMadeByThreadsOfTheSameBits) {
  const TempDir dir;
  std::string blocks;
  for (int i = 0; i < 1024 * 1024 / 32; ++i)
    for (int byte = 0; byte < 34; ++byte) blocks += byte == 0 ? '\0' : byte == 1 ? '\x3c' : char(i * 7 + byte * 13);
  GgufWriter writer;
  writer.add_tensor("t", {1024, 1024}, GgufType::q8_0, blocks);
  test::write_file(dir / "m.gguf", writer.bytes());
  const GgufCheckpoint checkpoint(GgufFile(dir / "m.gguf"), DType::f32);
  const TensorRange all{.row_begin = 0, .num_rows = 1024, .col_begin = 0, .num_cols = 1024};
  const TensorPart rows = checkpoint.rows_of("t", all);
  EXPECT_FALSE(rows.view.data);
  std::vector<float> row(1024);
  rows.made->make(700, 1, row.data());
  for (size_t i = 0; i < row.size(); ++i)
    ASSERT_EQ(row[i], float(int8_t(blocks[(700 * 32 + i / 32) * 34 + 2 + i % 32])));
  ThreadPool pool(3);
  for (const bool on_pool : {false, true}) {
    const TensorPart part = on_pool ? checkpoint.part_on(&pool, "t", all) : checkpoint.part("t", all);
    for (int i = 0; i < 1024 * 1024; ++i)
      ASSERT_EQ(part.owned.floats()[i], float(int8_t(blocks[size_t(i / 32 * 34 + 2 + i % 32)]))) << on_pool;
  }
}

TEST_F(PackedTensors, TypesThatCannotBeReadAreNamed) {
  const TempDir dir;
  GgufWriter writer;
  writer.add_tensor("t", {1, 256}, GgufType(16), std::string(66, 'x'));
  writer.add_tensor("v", {32}, GgufType::q8_0, std::string(34, '\0'));
  writer.add_tensor("cube", {1, 1, 1}, GgufType::f32, "1234");
  test::write_file(dir / "m.gguf", writer.bytes());
  const GgufCheckpoint checkpoint(GgufFile(dir / "m.gguf"), DType::bf16);
  EXPECT_FALSE(checkpoint.find("t")->dtype);
  EXPECT_EQ(checkpoint.find("v")->dtype, DType::f32);  // vectors stay exact
  expect_error(ExitCode::model_file,
               {"m.gguf: tensor \"t\" has type IQ2_XXS; supported: F32, F16, BF16, Q8_0", "IQ4_XS"},
               [&] { checkpoint.part("t", {.num_rows = 1, .num_cols = 256}); });
  expect_error(ExitCode::model_file, {"tensor \"cube\": shape [1, 1, 1]"}, [&] { checkpoint.part("cube", {}); });
  expect_error(ExitCode::model_file, {"tensor \"none\" is missing"}, [&] { checkpoint.part("none", {}); });
}

TEST_F(PackedTensors, AFileThatShrankIsNotTrusted) {
  const TempDir dir;
  GgufWriter writer;
  writer.add_tensor("t", {1, 32}, GgufType::q8_0, std::string(34, '\0'));
  test::write_file(dir / "m.gguf", writer.bytes());
  const GgufCheckpoint checkpoint(GgufFile(dir / "m.gguf"), DType::bf16);
  std::filesystem::resize_file(dir / "m.gguf", 40);
  expect_error(ExitCode::model_file, {"shrank"}, [&] { checkpoint.part("t", {.num_rows = 1, .num_cols = 32}); });
}

}  // namespace
}  // namespace paceline
