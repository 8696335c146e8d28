#include "engine/weights/checkpoint.h"

#include <string>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "tests/support/checkpoint_writer.h"
#include "tests/support/expect_error.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using test::expect_error;
using test::TempDir;
using test::write_file;
using test::write_safetensors;

class CheckpointTest : public ::testing::Test {
 protected:
  void refuses(const std::vector<std::string>& pieces) {
    expect_error(ExitCode::model_file, pieces, [&] { Checkpoint::open(model_); });
  }
  void write_index(const json& weight_map) {
    write_file(model_ / "model.safetensors.index.json", json{{"weight_map", weight_map}}.dump());
  }
  void SetUp() override { fs::create_directory(model_); }

  TempDir dir_;
  fs::path model_ = dir_ / "model";
};

TEST_F(CheckpointTest, ViewsPointIntoTheMapping) {
  write_safetensors(model_ / "model.safetensors", {{"w", {2, 3}, {1, 2, 3, 4, 5, 6}}, {"v", {2}, {7, 8}}});
  const Checkpoint checkpoint = Checkpoint::open(model_);
  EXPECT_EQ(checkpoint.total_bytes(), 32u);
  EXPECT_EQ(checkpoint.names(), (std::vector<std::string>{"v", "w"}));
  EXPECT_EQ(checkpoint.find("x"), nullptr);
  const HostWeight w = checkpoint.weight("w");
  EXPECT_EQ(w.rows, 2);
  EXPECT_EQ(w.cols, 3);
  EXPECT_EQ(w.row_stride, 3);
  EXPECT_EQ(static_cast<const float*>(w.data)[5], 6.0f);
  EXPECT_EQ(checkpoint.weight("w").data, w.data);
  const HostWeight v = checkpoint.weight("v");
  EXPECT_EQ(v.rows, 1);
  EXPECT_EQ(v.cols, 2);
  EXPECT_EQ(static_cast<const float*>(v.data), static_cast<const float*>(w.data) + 6);
  checkpoint.release("w");
  EXPECT_EQ(static_cast<const float*>(w.data)[5], 6.0f);
}

TEST_F(CheckpointTest, AWeightMustBeAFloatMatrix) {
  write_safetensors(model_ / "model.safetensors", {{"cube", {1, 1, 1}, {1}}, {"one", {}, {1}}});
  const Checkpoint checkpoint = Checkpoint::open(model_);
  expect_error(ExitCode::model_file, {"\"cube\"", "[1, 1, 1]", "one or two dimensions"},
               [&] { checkpoint.weight("cube"); });
  expect_error(ExitCode::model_file, {"\"one\"", "one or two dimensions"}, [&] { checkpoint.weight("one"); });
  expect_error(ExitCode::model_file, {"\"none\" is missing"}, [&] { checkpoint.weight("none"); });
  write_file(model_ / "model.safetensors",
             test::safetensors_bytes(R"({"i":{"dtype":"I64","shape":[1],"data_offsets":[0,8]}})", "12345678"));
  expect_error(ExitCode::model_file, {"\"i\"", "I64", "F32, F16, BF16"}, [&] { Checkpoint::open(model_).weight("i"); });
  write_file(model_ / "model.safetensors",
             test::safetensors_bytes(R"({"i":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "1234"));
  expect_error(ExitCode::model_file, {"\"i\"", "misaligned"}, [&] { Checkpoint::open(model_).weight("i"); });
}

TEST_F(CheckpointTest, ReadsShards) {
  write_safetensors(model_ / "a.safetensors", {{"w", {1, 2}, {1, 2}}});
  fs::create_directory(model_ / "sub");
  write_safetensors(model_ / "sub/b.safetensors", {{"v", {1}, {3}}});
  write_index({{"w", "a.safetensors"}, {"v", "sub/b.safetensors"}});
  const Checkpoint checkpoint = Checkpoint::open(model_);
  EXPECT_EQ(checkpoint.names(), (std::vector<std::string>{"v", "w"}));
  EXPECT_EQ(*static_cast<const float*>(checkpoint.weight("v").data), 3.0f);
}

TEST_F(CheckpointTest, F12_AFileThatShrinksIsNoticed) {
  write_safetensors(model_ / "model.safetensors", {{"w", {4}, {1, 2, 3, 4}}});
  const Checkpoint checkpoint = Checkpoint::open(model_);
  checkpoint.weight("w");
  const auto size = fs::file_size(model_ / "model.safetensors");
  fs::resize_file(model_ / "model.safetensors", size - 1);
  expect_error(ExitCode::model_file, {"model.safetensors", "shrank"}, [&] { checkpoint.release("w"); });
  expect_error(ExitCode::model_file, {"model.safetensors", "shrank"}, [&] { checkpoint.weight("w"); });
}

TEST_F(CheckpointTest, F13_ShardsOutsideTheFolder) {
  write_safetensors(dir_ / "outside.safetensors", {{"w", {1}, {1}}});
  for (const std::string shard :
       {"../outside.safetensors", "../../etc/passwd", "/etc/passwd", "a/../../outside.safetensors", ""}) {
    write_index({{"w", shard}});
    refuses({"model.safetensors.index.json", "shard outside model folder"});
  }
  fs::create_symlink(dir_ / "outside.safetensors", model_ / "link.safetensors");
  write_index({{"w", "link.safetensors"}});
  refuses({"shard outside model folder", "link.safetensors"});
  fs::create_directory_symlink(dir_.path(), model_ / "up");
  write_index({{"w", "up/outside.safetensors"}});
  refuses({"shard outside model folder"});
  // Not fooled by a sibling whose name begins like the folder's.
  fs::create_directory(dir_ / "model-2");
  write_safetensors(dir_ / "model-2/s.safetensors", {{"w", {1}, {1}}});
  fs::create_symlink(dir_ / "model-2/s.safetensors", model_ / "sibling.safetensors");
  write_index({{"w", "sibling.safetensors"}});
  refuses({"shard outside model folder"});
}

TEST_F(CheckpointTest, AHuggingFaceCacheMayLinkToItsBlobs) {
  const fs::path snapshot = dir_ / "models--x/snapshots/1234";
  fs::create_directories(snapshot);
  fs::create_directories(dir_ / "models--x/blobs");
  write_safetensors(dir_ / "models--x/blobs/abcd", {{"w", {1}, {1}}});
  fs::create_symlink("../../blobs/abcd", snapshot / "a.safetensors");
  write_file(snapshot / "model.safetensors.index.json", R"({"weight_map": {"w": "a.safetensors"}})");
  EXPECT_NE(Checkpoint::open(snapshot).find("w"), nullptr);
}

TEST_F(CheckpointTest, F14_IncompleteOrDoubledShards) {
  write_safetensors(model_ / "a.safetensors", {{"w", {1}, {1}}});
  write_index({{"w", "a.safetensors"}, {"v", "b.safetensors"}});
  refuses({"b.safetensors", "No such file"});
  write_index({{"w", "a.safetensors"}, {"v", "a.safetensors"}});
  refuses({"\"v\" is listed in shard \"a.safetensors\" but is not there"});
  write_safetensors(model_ / "b.safetensors", {{"w", {1}, {1}}, {"v", {1}, {1}}});
  write_index({{"w", "a.safetensors"}, {"v", "b.safetensors"}});
  refuses({"\"w\" is in two shards: a.safetensors and b.safetensors"});
}

TEST_F(CheckpointTest, BadIndexFiles) {
  write_index("text");
  refuses({"weight_map is missing"});
  write_index({{"w", 7}});
  refuses({"weight_map[\"w\"]: found 7"});
  write_file(model_ / "model.safetensors.index.json", R"({"weight_map": {"w": "a", "w": "b"}})");
  refuses({"model.safetensors.index.json:1:", "duplicate key \"w\""});
  write_file(model_ / "model.safetensors.index.json", "[]");
  refuses({"weight_map is missing"});
}

TEST_F(CheckpointTest, F15_F16_OtherFormatsAreRefusedWithAHint) {
  refuses({"found neither model.safetensors nor model.safetensors.index.json"});
  write_file(model_ / "pytorch_model.bin", "PK");
  refuses({"pytorch_model.bin", "pickle checkpoints are refused", "convert to safetensors with experiments/"});
  write_index({{"w", "pytorch_model.bin"}});
  refuses({"pytorch_model.bin", "pickle checkpoints are refused"});
  fs::remove(model_ / "pytorch_model.bin");
  fs::remove(model_ / "model.safetensors.index.json");
  write_file(model_ / "model-q4.gguf", "GGUF");
  refuses({"model-q4.gguf", "is a GGUF file", "in place of its folder"});
  expect_error(ExitCode::model_file, {"is a GGUF file"}, [&] { Checkpoint::open(model_ / "model-q4.gguf"); });
}

TEST_F(CheckpointTest, F17_FolderThatIsNone) {
  expect_error(ExitCode::model_file, {"absent", "No such file or directory"},
               [&] { Checkpoint::open(dir_ / "absent"); });
  expect_error(ExitCode::model_file, {"/dev/zero", "Not a directory"}, [] { Checkpoint::open("/dev/zero"); });
  ASSERT_EQ(::mkfifo((dir_ / "fifo").c_str(), 0600), 0);
  expect_error(ExitCode::model_file, {"fifo", "Not a directory"}, [&] { Checkpoint::open(dir_ / "fifo"); });
  ASSERT_EQ(::mkfifo((model_ / "model.safetensors").c_str(), 0600), 0);
  refuses({"model.safetensors", "a FIFO"});
  fs::remove(model_ / "model.safetensors");
  fs::create_symlink("/dev/zero", model_ / "model.safetensors");
  refuses({"model.safetensors", "a character device"});
  fs::remove(model_ / "model.safetensors");
  fs::create_symlink("nowhere", model_ / "model.safetensors");
  refuses({"model.safetensors", "No such file"});
}

}  // namespace
}  // namespace paceline
