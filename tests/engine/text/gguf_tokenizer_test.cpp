#include "engine/tokenizer/gguf_tokenizer.h"

#include <gtest/gtest.h>

#include "engine/tokenizer/chat_template.h"
#include "tests/support/expect_error.h"
#include "tests/support/gguf_writer.h"

namespace paceline {
namespace {

using test::expect_error;
using test::GgufWriter;
using test::TempDir;
using Texts = std::vector<std::string>;

class GgufTokenizer : public ::testing::Test {
 protected:
  std::filesystem::path write(const GgufWriter& writer) {
    test::write_file(dir_ / "m.gguf", writer.bytes());
    return dir_ / "m.gguf";
  }
  TokenTable table(const GgufWriter& writer) { return gguf_token_table(GgufFile(write(writer))); }
  void refuses(const std::vector<std::string>& pieces, const GgufWriter& writer) {
    std::vector<std::string> all = {"m.gguf: "};
    all.insert(all.end(), pieces.begin(), pieces.end());
    expect_error(ExitCode::model_file, all, [&] { table(writer); });
  }

  TempDir dir_;
};

GgufWriter byte_level() {
  GgufWriter writer;
  writer.add("tokenizer.ggml.model", "gpt2");
  writer.add("tokenizer.ggml.pre", "smollm");
  writer.add("tokenizer.ggml.tokens", Texts{"<s>", "a", "b", "ab"});
  writer.add("tokenizer.ggml.token_type", std::vector<int32_t>{3, 1, 1, 1});
  writer.add("tokenizer.ggml.merges", Texts{"a b"});
  writer.add("tokenizer.ggml.bos_token_id", 0u);
  writer.add("tokenizer.ggml.eos_token_id", 3u);
  return writer;
}

TEST_F(GgufTokenizer, ReadsByteLevelTables) {
  GgufWriter writer = byte_level();
  writer.add("tokenizer.ggml.add_bos_token", false);
  writer.add("tokenizer.ggml.unknown_token_id", ~0u);  // "none"
  const TokenTable found = table(writer);
  EXPECT_EQ(found.spelling, TokenSpelling::byte_level);
  EXPECT_EQ(found.tokens, (Texts{"<s>", "a", "b", "ab"}));
  EXPECT_EQ(found.kinds[0], TokenKind::control);
  EXPECT_EQ(found.merges, Texts{"a b"});
  EXPECT_EQ(found.pre, "smollm");
  EXPECT_EQ(found.bos_id, 0);
  EXPECT_EQ(found.eos_id, 3);
  EXPECT_FALSE(found.unknown_id);
  EXPECT_EQ(found.add_bos, false);
  EXPECT_FALSE(found.add_eos);
}

TEST_F(GgufTokenizer, ReadsMetaspaceTables) {
  GgufWriter writer;
  writer.add("tokenizer.ggml.model", "llama");
  writer.add("tokenizer.ggml.tokens", Texts{"<unk>", "a"});
  writer.add("tokenizer.ggml.scores", std::vector<float>{0.0f, -1.5f});
  writer.add("tokenizer.ggml.add_space_prefix", false);
  writer.add("tokenizer.ggml.remove_extra_whitespaces", true);
  const TokenTable found = table(writer);
  EXPECT_EQ(found.spelling, TokenSpelling::metaspace);
  EXPECT_EQ(found.scores, (std::vector<float>{0.0f, -1.5f}));
  EXPECT_TRUE(found.kinds.empty());
  EXPECT_FALSE(found.add_space_prefix);
  EXPECT_TRUE(found.collapse_white_space);
}

TEST_F(GgufTokenizer, WhatCannotBeIsNamed) {
  refuses({"tokenizer.ggml.model: found nothing, expected \"gpt2\""}, GgufWriter());
  for (const auto& [model, kind] : {std::pair{"t5", "(Unigram)"}, std::pair{"bert", "(WordPiece)"}, {"rwkv", ", "}}) {
    GgufWriter writer;
    writer.add("tokenizer.ggml.model", model);
    refuses({fmt::format("tokenizer.ggml.model: found \"{}\"", model), kind}, writer);
  }
  GgufWriter empty;
  empty.add("tokenizer.ggml.model", "gpt2");
  refuses({"tokenizer.ggml.tokens: 0 tokens"}, empty);
  GgufWriter numbers = empty;
  numbers.add("tokenizer.ggml.tokens", std::vector<int32_t>{1, 2});
  refuses({"tokenizer.ggml.tokens: found array of 2 i32, expected an array of strings"}, numbers);
  GgufWriter types = empty;
  types.add("tokenizer.ggml.tokens", Texts{"a", "b"});
  types.add("tokenizer.ggml.token_type", std::vector<int32_t>{1});
  refuses({"tokenizer.ggml.token_type holds 1 elements for 2 tokens"}, types);
  GgufWriter kind = empty;
  kind.add("tokenizer.ggml.tokens", Texts{"a", "b"});
  kind.add("tokenizer.ggml.token_type", std::vector<int32_t>{1, 9});
  refuses({"tokenizer.ggml.token_type[1]: found 9, expected 1 to 6"}, kind);
  GgufWriter bos = byte_level();
  bos.add("tokenizer.ggml.unknown_token_id", 4u);
  refuses({"tokenizer.ggml.unknown_token_id: found 4, expected an id below 4"}, bos);
  GgufWriter flag = byte_level();
  flag.add("tokenizer.ggml.add_bos_token", 1u);
  refuses({"tokenizer.ggml.add_bos_token: found 1, expected true or false"}, flag);
}

TEST_F(GgufTokenizer, TheChatTemplateKnowsTheSpecialTokens) {
  EXPECT_FALSE(ChatTemplate::exists(write(byte_level())));
  expect_error(ExitCode::model_file, {"m.gguf: no tokenizer.chat_template"},
               [&] { ChatTemplate::load(write(byte_level())); });
  GgufWriter writer = byte_level();
  writer.add("tokenizer.chat_template", "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}");
  EXPECT_TRUE(ChatTemplate::exists(write(writer)));
  EXPECT_EQ(ChatTemplate::load(dir_ / "m.gguf").render({{{"role", "user"}, {"content", "Hi"}}}), "<s>Hiab");
  GgufWriter number = byte_level();
  number.add("tokenizer.chat_template", 1u);
  expect_error(ExitCode::model_file, {"tokenizer.chat_template: found 1, expected a string"},
               [&] { ChatTemplate::exists(write(number)); });
}

}  // namespace
}  // namespace paceline
