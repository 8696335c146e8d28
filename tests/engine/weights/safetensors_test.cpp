#include "engine/weights/safetensors.h"

#include <string>
#include <sys/resource.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/checkpoint_writer.h"
#include "tests/support/expect_error.h"

namespace paceline {
namespace {

using test::expect_error;
using test::safetensors_bytes;
using test::TempDir;
using test::write_file;

class Safetensors : public ::testing::Test {
 protected:
  SafetensorsFile open(std::string_view bytes) {
    write_file(dir_ / "model.safetensors", bytes);
    return SafetensorsFile(dir_ / "model.safetensors");
  }
  SafetensorsFile open(std::string_view header, std::string_view data) { return open(safetensors_bytes(header, data)); }
  void refuses(const std::vector<std::string>& pieces, std::string_view bytes) {
    std::vector<std::string> all = {"model.safetensors"};
    all.insert(all.end(), pieces.begin(), pieces.end());
    expect_error(ExitCode::model_file, all, [&] { open(bytes); });
  }
  void refuses(const std::vector<std::string>& pieces, std::string_view header, std::string_view data) {
    refuses(pieces, safetensors_bytes(header, data));
  }

  TempDir dir_;
};

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}";
}

std::string length_only(uint64_t length) {
  std::string bytes(8, '\0');
  for (size_t i = 0; i < 8; ++i) bytes[i] = char((length >> (8 * i)) & 0xff);
  return bytes;
}

TEST_F(Safetensors, ReadsTensorsInTheOrderOfTheirBytes) {
  const SafetensorsFile file =
      open("{" + entry("b", "F32", "[2]", "[4,12]") + "," + entry("a", "BF16", "[2,1]", "[0,4]") + "," +
               entry("none", "I8", "[0,3]", "[4,4]") + ",\"__metadata__\":{\"format\":\"pt\"}}   ",
           "abcdefghijkl");
  ASSERT_EQ(file.tensors().size(), 3u);
  EXPECT_EQ(file.tensors()[0].name, "a");
  EXPECT_EQ(file.tensors()[0].dtype, DType::bf16);
  EXPECT_EQ(file.tensors()[0].shape, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(file.tensors()[1].name, "none");
  EXPECT_EQ(file.tensors()[2].name, "b");
  EXPECT_EQ(file.tensors()[2].bytes, 8u);
  EXPECT_EQ(char(*file.data(file.tensors()[2])), 'e');
}

TEST_F(Safetensors, AnEmptyFileOfTensorsIsFine) { EXPECT_TRUE(open("{}", "").tensors().empty()); }

TEST_F(Safetensors, AScalarHasOneElement) {
  EXPECT_EQ(open("{" + entry("s", "F32", "[]", "[0,4]") + "}", "abcd").tensors()[0].bytes, 4u);
}

TEST_F(Safetensors, F1_ShorterThanTheHeaderLength) {
  for (size_t bytes = 0; bytes < 8; ++bytes)
    refuses({fmt::format("header length: need 8 bytes, file has {}", bytes)}, std::string(bytes, '\1'));
}

TEST_F(Safetensors, F2_HeaderLengthBeyondReason) {
  rusage before{}, after{};
  getrusage(RUSAGE_SELF, &before);
  refuses({"header length 9223372036854775808", "100000000"}, length_only(uint64_t{1} << 63));
  refuses({"header length 18446744073709551615"}, length_only(~uint64_t{0}));
  refuses({"header length 100000001 is more than the format's limit"}, length_only(100'000'001));
  refuses({"header length 100000000 is more than the 0 bytes"}, length_only(100'000'000));
  refuses({"header length 3 is more than the 2 bytes"}, length_only(3) + "{}");
  getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 32 * 1024);
}

TEST_F(Safetensors, F3_HeaderIsNotJson) {
  refuses({"byte 8", "must begin with '{'"}, "", "");
  refuses({"byte 8", "must begin with '{'"}, " {}", "");
  refuses({"byte 8", "must begin with '{'"}, "[]", "");
  refuses({"byte 9", "not JSON"}, "{x", "");
  refuses({"not JSON"}, "{\"\xff\xfe\":{}}", "");
  refuses({"not JSON"}, "{} {}", "");
  refuses({"byte 10", "NUL"}, std::string_view("{}\0garbage", 10), "");
  refuses({"tensor \"a\" is an array, expected an object"}, "{\"a\":" + std::string(10'000, '[') + "}", "");
  std::string deep;
  for (int i = 0; i < 10'000; ++i) deep += "{\"a\":";
  refuses({"byte 20", "tensor \"a\": unknown field \"a\""}, "{\"a\": {   \"a\":" + deep, "");
  refuses({"byte", "shape holds an array"}, "{" + entry("a", "F32", std::string(10'000, '['), "[0,4]") + "}", "");
}

TEST_F(Safetensors, F4_DuplicateNames) {
  refuses({"\"a\" is listed twice"},
          "{" + entry("a", "F32", "[1]", "[0,4]") + "," + entry("a", "F32", "[1]", "[4,8]") + "}", "12345678");
  refuses({"duplicate key \"__metadata__\""}, R"({"__metadata__":{},"__metadata__":{}})", "");
  refuses({"\"a\": field dtype given twice"}, R"({"a":{"dtype":"F32","dtype":"F32"}})", "");
}

TEST_F(Safetensors, F5_OverlapsHolesAndTrailingBytes) {
  const auto two = [](const std::string& first, const std::string& second) {
    return "{" + entry("one", "U8", "[4]", first) + "," + entry("two", "U8", "[4]", second) + "}";
  };
  EXPECT_NO_THROW(open(two("[0,4]", "[4,8]"), "12345678"));
  refuses({"\"one\" and \"two\" overlap"}, two("[0,4]", "[3,7]"), "1234567");
  refuses({"hole of 1 bytes between \"one\" and tensor \"two\""}, two("[0,4]", "[5,9]"), "123456789");
  refuses({"hole of 1 bytes between the start of the data and tensor \"one\""}, two("[1,5]", "[5,9]"), "123456789");
  refuses({"\"one\": data_offsets [4, 0] run backwards"}, two("[4,0]", "[4,8]"), "12345678");
  refuses({"1 trailing bytes after the last tensor \"two\""}, two("[0,4]", "[4,8]"), "123456789");
  refuses({"3 trailing bytes after the header"}, "{}", "abc");
}

TEST_F(Safetensors, F6_SizesThatDoNotFit) {
  refuses({"\"a\"", "[4294967296, 4294967296] overflows 64 bits"},
          "{" + entry("a", "F32", "[4294967296,4294967296]", "[0,0]") + "}", "");
  refuses({"\"a\"", "overflows"}, "{" + entry("a", "F32", "[4611686018427387904]", "[0,0]") + "}", "");
  refuses({"\"a\"", "dimension 18446744073709551615 overflows"},
          "{" + entry("a", "F32", "[18446744073709551615]", "[0,0]") + "}", "");
  refuses({"\"a\"", "hold 8 bytes, but shape [3] x F32 needs 12"}, "{" + entry("a", "F32", "[3]", "[0,8]") + "}",
          "12345678");
  refuses({"\"a\"", "shape holds -1"}, "{" + entry("a", "F32", "[-1]", "[0,4]") + "}", "1234");
  refuses({"\"a\"", "shape holds 1.5"}, "{" + entry("a", "F32", "[1.5]", "[0,4]") + "}", "1234");
  std::string dims = "[1";
  for (int i = 0; i < 32; ++i) dims += ",1";
  refuses({"\"a\"", "at most 32"}, "{" + entry("a", "F32", dims + "]", "[0,4]") + "}", "1234");
  refuses({"data_offsets holds 1 numbers"}, "{" + entry("a", "F32", "[1]", "[0]") + "}", "1234");
  refuses({"data_offsets holds 9"}, "{" + entry("a", "F32", "[1]", "[0,4,9]") + "}", "1234");
  refuses({"field data_offsets is missing"}, R"({"a":{"dtype":"F32","shape":[1]}})", "1234");
}

TEST_F(Safetensors, F7_DTypes) {
  refuses({"\"a\"", "unknown dtype \"Q4_K\"", "supported: F32, F16, BF16"},
          "{" + entry("a", "Q4_K", "[1]", "[0,4]") + "}", "1234");
  refuses({"\"a\"", "12 bits, not whole bytes"}, "{" + entry("a", "F4", "[3]", "[0,2]") + "}", "12");
  EXPECT_EQ(open("{" + entry("a", "F4", "[4]", "[0,2]") + "}", "12").tensors()[0].dtype, std::nullopt);
  refuses({"found 7, expected dtype to be a string"}, R"({"a":{"dtype":7}})", "");
}

TEST_F(Safetensors, F8_MetadataHoldsStrings) {
  refuses({"__metadata__ key \"version\" holds 2, expected a string"}, R"({"__metadata__":{"version":2}})", "");
  refuses({"__metadata__ key \"x\" holds an object"}, R"({"__metadata__":{"x":{}}})", "");
  refuses({"__metadata__ is \"pt\""}, R"({"__metadata__":"pt"})", "");
}

TEST_F(Safetensors, F11_TruncatedByOneByte) {
  test::write_safetensors(dir_ / "good", {{"a", {4}, {1, 2, 3, 4}}, {"b", {2}, {5, 6}}});
  std::string bytes = test::read_file(dir_ / "good");
  bytes.pop_back();
  refuses({"\"b\" ends at data byte 24, but the file holds 23", "truncated"}, bytes);
}

TEST_F(Safetensors, EveryTruncationOfAGoodFileIsAnError) {
  test::write_safetensors(dir_ / "good", {{"a", {4}, {1, 2, 3, 4}}, {"b", {2}, {5, 6}}});
  const std::string bytes = test::read_file(dir_ / "good");
  for (size_t length = 0; length < bytes.size(); ++length)
    expect_error(ExitCode::model_file, {}, [&] { open(std::string_view(bytes).substr(0, length)); });
  EXPECT_NO_THROW(open(bytes));
}

TEST_F(Safetensors, DamagedHeadersAreErrorsOrStayInsideTheFile) {
  test::write_safetensors(dir_ / "good", {{"a", {4}, {1, 2, 3, 4}}, {"b", {2}, {5, 6}}});
  const std::string good = test::read_file(dir_ / "good");
  const size_t header_end = good.size() - 24;
  int num_refused = 0;
  for (size_t at = 0; at < header_end; ++at) {
    for (const int flip : {0x01, 0x04, 0x10, 0x80, 0xff}) {
      std::string bad = good;
      bad[at] = char(bad[at] ^ flip);
      try {
        const SafetensorsFile file = open(bad);
        for (const TensorInfo& tensor : file.tensors()) EXPECT_LE(tensor.offset + tensor.bytes, bad.size());
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ExitCode::model_file);
        ++num_refused;
      }
    }
  }
  EXPECT_GT(num_refused, 500);
}

TEST_F(Safetensors, F15_F16_ForeignFormats) {
  refuses({"pickle checkpoints are refused", "convert to safetensors"},
          std::string("PK\x03\x04") + std::string(60, 'x'));
  refuses({"pickle checkpoints are refused"}, std::string("\x80\x02}q\x00.", 6) + std::string(60, 'x'));
  refuses({"is a GGUF file", "the path of the .gguf file itself"},
          std::string("GGUF\3\0\0\0", 8) + std::string(60, 'x'));
  refuses({"git lfs pull"}, "version https://git-lfs.github.com/spec/v1\n");
  // 0x0280 bytes of header begin like a pickle of protocol 2.
  EXPECT_TRUE(open("{" + std::string(0x280 - 2, ' ') + "}", "").tensors().empty());
}

}  // namespace
}  // namespace paceline
