#include "engine/text/pre_tokenizer_table.h"

#include <gtest/gtest.h>

#include "kernels/error.h"
#include "tests/engine/text/text_test_support.h"
#include "tests/support/expect_error.h"

namespace paceline {
namespace {

/// The pieces, with | between them.
std::string cut(std::string_view name, std::string_view text) {
  SplitScratch scratch(text.size());
  std::vector<std::string_view> pieces;
  make_pre_tokenizer(named_pre_tokenizer(name, "test"))->split(text, scratch, pieces);
  std::string line;
  for (const std::string_view piece : pieces) line += (line.empty() ? "" : "|") + std::string(piece);
  return line;
}

TEST(PreTokenizerTable, CutsAsTheModelsDo) {
  const std::string text = "I'LL don't see 12345 cats,\n  HTMLFile x=3!";
  EXPECT_EQ(cut("gpt-2", text), "I|'|LL| don|'t| see| 12345| cats|,|\n | HTMLFile| x|=|3|!");
  EXPECT_EQ(cut("mpt", text), cut("gpt-2", text));
  const std::string digits = "I|'|LL| don|'t| see| |1|2|3|4|5| cats|,|\n | HTMLFile| x|=|3|!";
  for (const char* name : {"smollm", "starcoder", "refact", "command-r"}) EXPECT_EQ(cut(name, text), digits) << name;
  EXPECT_EQ(cut("llama-bpe", text), "I|'LL| don|'t| see| |123|45| cats|,\n| | HTMLFile| x|=|3|!");
  EXPECT_EQ(cut("qwen2", text), "I|'LL| don|'t| see| |1|2|3|4|5| cats|,\n| | HTMLFile| x|=|3|!");
  EXPECT_EQ(cut("stablelm2", text), cut("qwen2", text));
  EXPECT_EQ(cut("gpt-4o", text), "I'LL| don't| see| |123|45| cats|,\n| | HTMLFile| x|=|3|!");
  EXPECT_EQ(cut("tekken", text), "I|'LL| don|'t| see| |1|2|3|4|5| cats|,\n| | HTMLFile| x|=|3|!");
  EXPECT_EQ(cut("falcon", text), "I|'|LL| don|'|t| see| |123|45| cats|,|\n | HTMLFile| x|=|3|!");
  EXPECT_EQ(cut("deepseek-coder", text), "I|'|LL| don|'|t| see| |1|2|3|4|5| cats|,|\n| | HTMLFile| x|=|3|!");
  EXPECT_EQ(cut("deepseek-llm", text), "I|'|LL| don|'|t| see| |12345| cats|,|\n| | HTMLFile| x|=|3|!");
}

TEST(PreTokenizerTable, CutsOtherScripts) {
  EXPECT_EQ(cut("deepseek-llm", "ab漢字かな。x  "), "ab|漢字かな|。|x|  ");
  EXPECT_EQ(cut("deepseek-coder", "é漢1"), "é|漢|1");
  EXPECT_EQ(cut("gpt-4o", "camelCase漢字Über"), "camel|Case漢字|Über");
  EXPECT_EQ(cut("falcon", "$1000.50"), "$|100|0|.|50");
}

TEST(PreTokenizerTable, PiecesCoverTheText) {
  for (const NamedPreTokenizer& row : pre_tokenizer_table()) {
    const auto cutter = make_pre_tokenizer(row);
    for (uint64_t seed = 0; seed < 300; ++seed) {
      const std::string text = test::random_text(seed);
      SplitScratch scratch(text.size());
      std::vector<std::string_view> pieces;
      cutter->split(text, scratch, pieces);
      std::string joined;
      for (const std::string_view piece : pieces) joined += piece;
      ASSERT_EQ(joined, text) << row.name;
    }
  }
}

TEST(PreTokenizerTable, AnUnknownNameIsRefusedWithAllNearestFirst) {
  test::expect_error(ExitCode::model_file,
                     {"x.gguf: unknown pre-tokenizer \"lama-bpe\", expected one of llama-bpe, ", "gpt-2, ", "tekken"},
                     [] { named_pre_tokenizer("lama-bpe", "x.gguf"); });
  EXPECT_EQ(pre_tokenizer_names(),
            "gpt-2, llama-bpe, qwen2, smollm, starcoder, refact, falcon, mpt, deepseek-llm, deepseek-coder, command-r, "
            "stablelm2, gpt-4o, tekken");
}

TEST(PreTokenizerTable, FamiliesNameRowsOfTheTable) {
  for (const char* family : {"gpt2", "gpt_bigcode", "opt", "qwen2", "qwen3", "falcon", "stablelm"})
    EXPECT_NO_THROW(named_pre_tokenizer(pre_tokenizer_of_family(family), family));
  EXPECT_EQ(pre_tokenizer_of_family("gpt_bigcode"), "starcoder");
  EXPECT_EQ(pre_tokenizer_of_family("llama"), "") << "its models cut in several ways";
}

}  // namespace
}  // namespace paceline
