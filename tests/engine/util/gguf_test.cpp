#include "engine/util/gguf.h"

#include <sys/resource.h>

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/paths.h"

namespace paceline {
namespace {

using test::expect_error;
using test::GgufWriter;
using test::TempDir;
using test::write_file;
using Kind = GgufValue::Kind;

class Gguf : public ::testing::Test {
 protected:
  GgufFile open(std::string_view bytes) {
    write_file(dir_ / "model.gguf", bytes);
    return GgufFile(dir_ / "model.gguf");
  }
  void refuses(const std::vector<std::string>& pieces, std::string_view bytes) {
    std::vector<std::string> all = {"model.gguf: "};
    all.insert(all.end(), pieces.begin(), pieces.end());
    expect_error(ExitCode::model_file, all, [&] { open(bytes); });
  }

  TempDir dir_;
};

/// Version, number of tensors, number of entries; then what the test adds.
std::string head(uint64_t num_tensors, uint64_t num_entries, uint32_t version = 3) {
  return "GGUF" + GgufWriter::raw(version) + GgufWriter::raw(num_tensors) + GgufWriter::raw(num_entries);
}

std::string tensor_entry(std::string_view name, const std::vector<uint64_t>& sizes, uint32_t type, uint64_t offset) {
  std::string bytes = GgufWriter::raw(name) + GgufWriter::raw(uint32_t(sizes.size()));
  for (const uint64_t size : sizes) bytes += GgufWriter::raw(size);
  return bytes + GgufWriter::raw(type) + GgufWriter::raw(offset);
}

/// A file of these tensors with `data_bytes` bytes of data.
std::string with_tensors(const std::vector<std::string>& entries, size_t data_bytes) {
  std::string bytes = head(entries.size(), 0);
  for (const std::string& entry : entries) bytes += entry;
  bytes.resize((bytes.size() + 31) / 32 * 32, '\0');
  return bytes + std::string(data_bytes, 'x');
}

std::string with_entry(std::string_view key, Kind kind, std::string_view value) {
  return head(0, 1) + GgufWriter::raw(key) + GgufWriter::raw(uint32_t(kind)) + std::string(value);
}

TEST_F(Gguf, ReadsValuesAndTensors) {
  for (const uint32_t version : {2u, 3u}) {
    GgufWriter writer;
    writer.version = version;
    writer.add("text", "some");
    writer.add("number", 7u);
    writer.add("small", 1e-5f);
    writer.add("flag", true);
    writer.add("flags", std::vector<bool>{true, false});
    writer.add("words", std::vector<std::string>{"a", "", "bc"});
    writer.add("ints", std::vector<int32_t>{3, -1});
    writer.add_raw("long", Kind::u64, GgufWriter::raw(~uint64_t{0}));
    writer.add_tensor("m", {2, 3}, GgufType::f32, std::string(24, 'm'));
    writer.add_tensor("v", {64}, GgufType::q8_0, std::string(68, 'v'));
    const GgufFile file = open(writer.bytes());
    EXPECT_EQ(file.find("text")->strings(), std::vector<std::string_view>{"some"});
    EXPECT_EQ(file.find("number")->integers(), std::vector<int64_t>{7});
    EXPECT_EQ(file.find("number")->reals(), std::vector<double>{7.0});
    EXPECT_EQ(file.find("small")->reals(), std::vector<double>{1e-5});
    EXPECT_TRUE(file.find("flag")->is_true());
    EXPECT_EQ(file.find("flags")->booleans(), (std::vector<bool>{true, false}));
    EXPECT_FALSE(file.find("flags")->is_true());
    EXPECT_TRUE(file.find("number")->booleans().empty());
    EXPECT_EQ(file.find("words")->strings(), (std::vector<std::string_view>{"a", "", "bc"}));
    EXPECT_EQ(file.find("ints")->integers(), (std::vector<int64_t>{3, -1}));
    EXPECT_EQ(file.find("ints")->text(), "array of 2 i32");
    EXPECT_TRUE(file.find("text")->integers().empty());
    EXPECT_TRUE(file.find("small")->integers().empty());
    EXPECT_TRUE(file.find("number")->strings().empty());
    EXPECT_TRUE(file.find("long")->integers().empty());
    EXPECT_EQ(file.find("long")->text(), "18446744073709551615");
    EXPECT_EQ(file.find("absent"), nullptr);
    ASSERT_NE(file.find_tensor("m"), nullptr);
    EXPECT_EQ(file.find_tensor("m")->shape, (std::vector<int64_t>{2, 3}));
    EXPECT_EQ(file.find_tensor("v")->bytes, 68u);
    EXPECT_EQ(file.find_tensor("v")->type->name, "Q8_0");
    EXPECT_EQ(char(*file.data(*file.find_tensor("v"))), 'v');
  }
}

TEST_F(Gguf, ReadsWhatAnotherProgramWrote) {
  const GgufFile file(source_dir() / "tests/data/gguf/blocks.gguf");
  EXPECT_EQ(file.find("general.architecture")->strings()[0], "none");
  EXPECT_EQ(file.find("test.numbers")->integers(), (std::vector<int64_t>{3, -1, 4}));
  EXPECT_EQ(file.find("test.small")->reals()[0], 1e-5);
  EXPECT_EQ(file.tensors().size(), 24u);
  EXPECT_EQ(file.find_tensor("Q4_K")->shape, (std::vector<int64_t>{3, 512}));
  EXPECT_EQ(file.find_tensor("Q4_K.expected")->type->name, "F32");
}

TEST_F(Gguf, AlignmentIsTheFiles) {
  GgufWriter writer;
  writer.alignment = 128;
  writer.add_tensor("a", {1}, GgufType::f32, "aaaa");
  writer.add_tensor("b", {1}, GgufType::f32, "bbbb");
  const GgufFile file = open(writer.bytes());
  EXPECT_EQ(file.find_tensor("b")->offset - file.find_tensor("a")->offset, 128u);
  EXPECT_EQ(char(*file.data(*file.find_tensor("b"))), 'b');
  for (const uint32_t bad : {0u, 4u, 48u, 1u << 30}) {
    GgufWriter wrong;
    wrong.add("general.alignment", bad);
    refuses({"general.alignment: found " + std::to_string(bad)}, wrong.bytes());
  }
  refuses({"general.alignment: found \"32\""},
          with_entry("general.alignment", Kind::string, GgufWriter::raw(std::string_view("32"))));
}

TEST_F(Gguf, OtherFilesAndVersionsAreRefused) {
  refuses({"4 bytes, but 0 follow"}, "");
  refuses({"4 bytes, but 3 follow"}, "GGU");
  refuses({"does not begin with \"GGUF\""}, "GGML....");
  refuses({"GGUF version 1; supported: 2, 3"}, head(0, 0, 1));
  refuses({"GGUF version 4; supported: 2, 3"}, head(0, 0, 4));
  refuses({"is big-endian"}, head(0, 0, 0x03000000));
  refuses({"the number of entries needs 8 bytes, but 4 follow"}, head(0, 0).substr(0, 20));
}

TEST_F(Gguf, CountsBeyondTheFile) {
  rusage before{}, after{};
  getrusage(RUSAGE_SELF, &before);
  const uint64_t huge = ~uint64_t{0};
  refuses({"18446744073709551615 entries do not fit in the 0 bytes"}, head(0, huge));
  refuses({"18446744073709551615 tensors do not fit in the 0 bytes"}, head(huge, 0));
  refuses({"the key of an entry needs 18446744073709551615 bytes"}, head(0, 1) + GgufWriter::raw(huge) + "12345");
  refuses({"\"k\" needs 100 bytes, but 3 follow"},
          with_entry("k", Kind::string, GgufWriter::raw(uint64_t{100}) + "abc"));
  const auto array = [](Kind kind, uint64_t count) {
    return GgufWriter::raw(uint32_t(kind)) + GgufWriter::raw(count) + "12345678";
  };
  refuses({"\"k\": the size of 18446744073709551615 elements overflows"},
          with_entry("k", Kind::array, array(Kind::u64, huge)));
  refuses({"\"k\" needs 9 bytes, but 8 follow"}, with_entry("k", Kind::array, array(Kind::u8, 9)));
  refuses({"\"k\": 18446744073709551615 strings do not fit"}, with_entry("k", Kind::array, array(Kind::string, huge)));
  refuses({"\"k\": 2 strings do not fit in the 8 bytes"}, with_entry("k", Kind::array, array(Kind::string, 2)));
  getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 32 * 1024);
}

TEST_F(Gguf, ValuesThatAreNone) {
  refuses({"\"k\": unknown value type 13"}, with_entry("k", Kind(13), "x"));
  refuses({"\"k\": unknown value type 99"}, with_entry("k", Kind::array, GgufWriter::raw(uint32_t{99}) + "12345678"));
  refuses({"\"k\": an array of arrays"},
          with_entry("k", Kind::array, GgufWriter::raw(uint32_t(Kind::array)) + "12345678"));
  refuses({"\"k\": found 2, expected 0 or 1"}, with_entry("k", Kind::boolean, "\2"));
  GgufWriter twice;
  twice.add("k", 1u);
  twice.add("k", 2u);
  refuses({"\"k\" is given twice"}, twice.bytes());
}

TEST_F(Gguf, TensorsThatCannotBe) {
  const uint64_t huge = uint64_t{1} << 40;
  const uint32_t f32 = 0, q4_0 = 2;
  EXPECT_NO_THROW(open(with_tensors({tensor_entry("t", {4}, f32, 0)}, 16)));
  refuses({"tensor \"t\": 0 dimensions"}, with_tensors({tensor_entry("t", {}, f32, 0)}, 16));
  refuses({"tensor \"t\": 5 dimensions"}, with_tensors({tensor_entry("t", {1, 1, 1, 1, 1}, f32, 0)}, 16));
  refuses({"tensor \"t\": a dimension of 0"}, with_tensors({tensor_entry("t", {0}, f32, 0)}, 16));
  refuses({"tensor \"t\": a dimension of 18446744073709551615"},
          with_tensors({tensor_entry("t", {~uint64_t{0}}, f32, 0)}, 16));
  refuses({"[1099511627776, 1099511627776] x F32 overflows"},
          with_tensors({tensor_entry("t", {huge, huge}, f32, 0)}, 16));
  refuses({"x F32 overflows"}, with_tensors({tensor_entry("t", {uint64_t{1} << 62}, f32, 0)}, 16));
  for (const uint32_t type : {4u, 5u, 31u, 1000u})
    refuses({fmt::format("tensor \"t\": unknown type {}", type)}, with_tensors({tensor_entry("t", {4}, type, 0)}, 16));
  refuses({"rows of 48 values are not whole blocks of 32 (Q4_0)"},
          with_tensors({tensor_entry("t", {48}, q4_0, 0)}, 64));
  refuses({"tensor \"t\": offset 8 is no multiple of general.alignment 32"},
          with_tensors({tensor_entry("t", {4}, f32, 8)}, 64));
  refuses({"tensor \"t\": 16 bytes from data byte 32 on end beyond the file"},
          with_tensors({tensor_entry("t", {4}, f32, 32)}, 47));
  refuses({"end beyond the file"}, with_tensors({tensor_entry("t", {4}, f32, ~uint64_t{0} - 31)}, 64));
  refuses({"tensors \"a\" and \"b\" overlap"},
          with_tensors({tensor_entry("b", {8}, f32, 32), tensor_entry("a", {16}, f32, 0)}, 128));
  refuses({"tensor \"t\" is there twice"},
          with_tensors({tensor_entry("t", {4}, f32, 0), tensor_entry("t", {4}, f32, 32)}, 64));
}

class SplitGguf : public Gguf {
 protected:
  std::filesystem::path part(int index) { return dir_ / fmt::format("m-{:05}-of-00002.gguf", index + 1); }
  void write(int index, uint32_t split_no, uint32_t split_count, const std::string& tensor) {
    GgufWriter writer;
    writer.add("split.no", split_no);
    writer.add("split.count", split_count);
    writer.add("split.tensors.count", 2u);
    if (index == 0) writer.add("general.architecture", "llama");
    writer.add_tensor(tensor, {1}, GgufType::f32, tensor + "...");
    write_file(part(index), writer.bytes());
  }
  void SetUp() override {
    write(0, 0, 2, "a");
    write(1, 1, 2, "b");
  }
};

TEST_F(SplitGguf, AnyPartOpensTheModel) {
  for (const int named : {0, 1}) {
    const GgufFile file(part(named));
    EXPECT_EQ(file.path(), part(0));
    EXPECT_EQ(file.find("general.architecture")->strings()[0], "llama");
    EXPECT_EQ(char(*file.data(*file.find_tensor("a"))), 'a');
    EXPECT_EQ(char(*file.data(*file.find_tensor("b"))), 'b');
  }
}

TEST_F(SplitGguf, PartsThatDoNotFitTogether) {
  const auto refused = [&](const std::vector<std::string>& pieces) {
    expect_error(ExitCode::model_file, pieces, [&] { GgufFile{part(0)}; });
  };
  write(1, 1, 2, "a");
  refused({"m-00002-of-00002.gguf", "tensor \"a\" is there twice"});
  write(1, 0, 2, "b");
  refused({"m-00002-of-00002.gguf", "is part 1 of 2 by split.no and split.count; expected part 2 of 2"});
  write(1, 1, 3, "b");
  refused({"m-00002-of-00002.gguf", "is part 2 of 3", "expected part 2 of 2"});
  write(0, 2, 2, "a");
  refused({"split.no is 2 of split.count 2"});
  write(0, 0, 2, "a");
  std::filesystem::remove(part(1));
  refused({"part 2 of 2 is missing: found no m-00002-of-00002.gguf"});
  std::filesystem::rename(part(0), dir_ / "other.gguf");
  expect_error(ExitCode::model_file, {"other.gguf", "part 1 of 2", "expected its name to end in -00001-of-00002.gguf"},
               [&] { GgufFile{dir_ / "other.gguf"}; });
}

TEST_F(SplitGguf, TensorsAreCounted) {
  GgufWriter writer;
  writer.add("split.no", 1u);
  writer.add("split.count", 2u);
  write_file(part(1), writer.bytes());
  expect_error(ExitCode::model_file, {"2 parts hold 1 tensors, expected 2 by split.tensors.count"},
               [&] { GgufFile{part(0)}; });
}

TEST(GgufPath, IsOneByItsName) {
  const TempDir dir;
  std::filesystem::create_directory(dir / "folder.gguf");
  EXPECT_TRUE(is_gguf_path("models/a.gguf"));
  EXPECT_FALSE(is_gguf_path("models/a"));
  EXPECT_TRUE(is_later_gguf_part("models/a-00002-of-00003.gguf"));
  for (const char* const whole : {"models/a.gguf", "models/a-00001-of-00003.gguf", "models/king-of-hearts.gguf",
                                  "models/a-2-of-3.gguf", "-00002-of-00003.gguf"})
    EXPECT_FALSE(is_later_gguf_part(whole)) << whole;
  EXPECT_FALSE(is_gguf_path(dir / "folder.gguf"));
}

}  // namespace
}  // namespace paceline
