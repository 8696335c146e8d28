// tiktoken's .model.

#include <gtest/gtest.h>

#include "engine/tokenizer/tokenizer.h"
#include "kernels/error.h"
#include "tests/engine/text/text_test_support.h"
#include "tests/support/expect_error.h"

namespace paceline {
namespace {

using Ids = std::vector<int32_t>;

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t bits = 0;
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    for (size_t k = 0; k < 3; ++k) bits = bits << 8 | (k < count ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    for (size_t k = 0; k < 4; ++k) text += k <= count ? kDigits[bits >> (18 - 6 * k) & 63] : '=';
  }
  return text;
}

/// All bytes (ids 0 to 255), then 256 "ab", 257 "bc", 258 "abc", 259 "xyz", 260 " a".
std::string small_model() {
  std::string lines;
  int rank = 0;
  const auto add = [&](std::string_view token) { lines += base64(token) + " " + std::to_string(rank++) + "\n"; };
  for (int byte = 0; byte < 256; ++byte) add(std::string(1, static_cast<char>(byte)));
  for (const char* token : {"ab", "bc", "abc", "xyz", " a"}) add(token);
  return lines;
}

std::shared_ptr<const Tokenizer> load(const std::string& lines, const std::string& pre = "llama-bpe") {
  const test::TemporaryFolder folder;
  return Tokenizer::load(folder.write("tokenizer.model", lines), {.pre = pre});
}

TEST(Tiktoken, Llama3VectorsAreExact) {
  const auto folder = test::shared_dir() / "tokenizers/llama3";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "shared tokenizers/llama3 is missing";
  const auto tokenizer = Tokenizer::load(folder, {.pre = "llama-bpe"});
  EXPECT_EQ(tokenizer->vocab_size(), 128000);
  test::check_vectors(*tokenizer, "llama-bpe");
  EXPECT_EQ(tokenizer->id_to_token(tokenizer->encode(" the").at(0)), "Ġthe");
}

TEST(Tiktoken, RanksSayWhatJoins) {
  const auto tokenizer = load(small_model());
  EXPECT_EQ(tokenizer->vocab_size(), 261);
  EXPECT_EQ(tokenizer->encode("abcx"), (Ids{258, 'x'}));
  EXPECT_EQ(tokenizer->encode("bca"), (Ids{257, 'a'}));
  EXPECT_EQ(tokenizer->encode("xyz"), Ids{259}) << "a piece that is a token, though nothing joins to it";
  EXPECT_EQ(tokenizer->encode("xyza"), (Ids{'x', 'y', 'z', 'a'}));
  EXPECT_EQ(tokenizer->encode("x a"), (Ids{'x', 260}));
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    const std::string text = test::random_text(seed);
    ASSERT_EQ(tokenizer->decode(tokenizer->encode(text)), text) << seed;
  }
}

TEST(Tiktoken, SpecialTokensComeFromTokenizerConfig) {
  const test::TemporaryFolder folder;
  folder.write("tokenizer.model", small_model());
  folder.write("config.json", R"({"model_type": "llama"})");
  folder.write("tokenizer_config.json", R"({"added_tokens_decoder": {
      "261": {"content": "<|begin|>", "special": true}, "262": {"content": "<|end|>", "special": true}},
      "bos_token": "<|begin|>"})");
  const auto tokenizer = Tokenizer::load(folder.path());
  EXPECT_EQ(tokenizer->encode("ab", {.add_special = true}), (Ids{261, 256})) << "llama-bpe adds it";
  EXPECT_EQ(tokenizer->encode("<|end|>", {.parse_special = true}), Ids{262});
  EXPECT_EQ(tokenizer->special_ids(), (Ids{261, 262}));
}

TEST(Tiktoken, HowTextIsCutMustBeSaid) {
  const test::TemporaryFolder folder;
  const auto file = folder.write("tokenizer.model", small_model());
  const auto load_it = [&] { Tokenizer::load(file); };
  test::expect_error(ExitCode::model_file,
                     {"nothing says how text is cut (model_type \"\" of config.json); set "
                      "engine.target.pre (--pre) to one of gpt-2, llama-bpe"},
                     load_it);
  folder.write("config.json", R"({"model_type": "chameleon"})");
  test::expect_error(ExitCode::model_file, {"(model_type \"chameleon\" of config.json)"}, load_it);
  folder.write("config.json", R"({"model_type": "qwen2"})");
  EXPECT_EQ(Tokenizer::load(file)->encode("11"), (Ids{'1', '1'}));
  test::expect_error(ExitCode::model_file, {"unknown pre-tokenizer \"llama\", expected one of "},
                     [&] { Tokenizer::load(file, {.pre = "llama"}); });
}

TEST(Tiktoken, BadLinesAreNamed) {
  const auto expect = [](const std::string& lines, const char* expected) {
    test::expect_error(ExitCode::model_file, {"tokenizer.model:", expected}, [&] { load(lines); });
  };
  expect("IQ== 0\nIg== 2\n", ":2: rank 2, expected 1; ranks must have no gaps");
  expect("IQ== 0\nIg= 1\n", ":2: expected a token in base64, a blank and its rank, found \"Ig= 1\"");
  expect("IQ== 0\nI*== 1\n", ":2: expected a token");
  expect("IQ== 0\nIg== -1\n", ":2: expected a token");
  expect("IQ== 0\nIg== 1 2\n", ":2: expected a token");
  expect("IQ== 0\nIQ== 1\n", "tokens[\"!\"]: id 1, but the same text has id 0");
  EXPECT_EQ(load(small_model() + "\r\n\n")->vocab_size(), 261) << "blank lines count as nothing";
}

}  // namespace
}  // namespace paceline
