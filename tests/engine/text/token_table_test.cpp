#include "engine/tokenizer/token_table.h"

#include <gtest/gtest.h>

#include "engine/text/byte_level.h"
#include "kernels/error.h"
#include "tests/support/expect_error.h"

namespace paceline {
namespace {

using Ids = std::vector<int32_t>;

/// As GGUF has it with tokenizer.ggml.model "gpt2": 256 bytes, "ab", "abc", "Ġa", two control tokens, one of the user.
TokenTable gpt2_table() {
  TokenTable table{.file = "x.gguf", .tokens = {}, .merges = {"a b", "ab c", "Ġ a"}, .pre = "gpt-2"};
  for (int byte = 0; byte < 256; ++byte) table.tokens.push_back(byte_level_encode(std::string(1, char(byte))));
  for (const char* token : {"ab", "abc", "Ġa", "<|bos|>", "<|eos|>", "<x y>"}) table.tokens.emplace_back(token);
  table.kinds.assign(table.tokens.size(), TokenKind::normal);
  table.kinds[259] = table.kinds[260] = TokenKind::control;
  table.kinds[261] = TokenKind::user_defined;
  table.bos_id = 259;
  table.eos_id = 260;
  return table;
}

/// As with "llama": blanks are spelled as U+2581, but not in tokens of the user.
TokenTable llama_table() {
  TokenTable table{.file = "x.gguf", .spelling = TokenSpelling::metaspace};
  table.tokens = {"<unk>", "<s>", "</s>", "▁", "a", "b", "▁a", "  "};
  table.scores = {0, 0, 0, -1, -1, -1, -2, 0};
  table.kinds = {TokenKind::unknown, TokenKind::control, TokenKind::control, TokenKind::normal,
                 TokenKind::normal,  TokenKind::normal,  TokenKind::normal,  TokenKind::user_defined};
  table.bos_id = 1;
  return table;
}

TEST(TokenTable, ByteLevelTokensJoinByTheirMerges) {
  const auto tokenizer = make_tokenizer(gpt2_table());
  EXPECT_EQ(tokenizer->encode("abc a<x y>"), (Ids{257, 258, 261}));
  EXPECT_EQ(tokenizer->decode(Ids{257, 258, 261}), "abc a<x y>");
  EXPECT_EQ(tokenizer->encode("<|eos|>", {.parse_special = true}), Ids{260});
  EXPECT_EQ(tokenizer->special_ids(), (Ids{259, 260}));
}

TEST(TokenTable, WhoAddsBosIsTheFileOrElseTheScheme) {
  const auto around = [](TokenTable table) {
    return make_tokenizer(std::move(table))->encode("b", {.add_special = true});
  };
  TokenTable table = gpt2_table();
  EXPECT_EQ(around(table), Ids{'b'});
  table.add_bos = table.add_eos = true;
  EXPECT_EQ(around(table), (Ids{259, 'b', 260}));
  table.add_bos.reset();
  table.pre = "llama-bpe";
  EXPECT_EQ(around(table), (Ids{259, 'b', 260}));
  table.add_bos = false;
  EXPECT_EQ(around(table), (Ids{'b', 260}));
  EXPECT_EQ(around(llama_table()), (Ids{1, 3, 5}));
}

TEST(TokenTable, EndsOfTextAreSpecialThoughNothingSaysSo) {
  TokenTable table = gpt2_table();
  table.kinds.clear();
  const auto tokenizer = make_tokenizer(table);
  EXPECT_EQ(tokenizer->special_ids(), (Ids{259, 260}));
  EXPECT_EQ(tokenizer->decode(Ids{259, 'a', 260}, {.skip_special = true}), "a");
}

TEST(TokenTable, ABlankStandsBehindTokensOfTheUserToo) {
  const auto tokenizer = make_tokenizer(llama_table());
  EXPECT_EQ(tokenizer->encode("a  a"), (Ids{6, 7, 6}));
  EXPECT_EQ(tokenizer->encode("a</s>a", {.parse_special = true}), (Ids{6, 2, 6}));
  EXPECT_EQ(tokenizer->decode(Ids{6, 7, 4}), "a  a");
}

TEST(TokenTable, MistakesAreNamed) {
  struct Case {
    const char* expected;
    void (*change)(TokenTable&);
  };
  const Case cases[] = {
      {"tokens is empty", [](TokenTable& t) { t.tokens.clear(); }},
      {"token types has 1 entries, expected 262", [](TokenTable& t) { t.kinds.resize(1); }},
      {"scores has 2 entries, expected 262", [](TokenTable& t) { t.scores.resize(2); }},
      {"no scores, which say how", [](TokenTable& t) { t.spelling = TokenSpelling::metaspace; }},
      {"bos token: id 262 is not in [0, 262)", [](TokenTable& t) { t.bos_id = 262; }},
      {"eos token: id -1 is not in", [](TokenTable& t) { t.eos_id = -1; }},
      {"a bos token is to be added, but none is named", [](TokenTable& t) { t.add_bos = true, t.bos_id.reset(); }},
      {"unknown pre-tokenizer \"\", expected one of ", [](TokenTable& t) { t.pre.clear(); }},
      {"merges[1]: expected two tokens with one blank between, found \"abc\"",
       [](TokenTable& t) { t.merges[1] = "abc"; }},
      {"merges[1]: expected two tokens", [](TokenTable& t) { t.merges[1] = ""; }},
      {"merges[2]: merge of \"a\" and \"\": \"\" is not in the vocabulary", [](TokenTable& t) { t.merges[2] = "a "; }},
      {"tokens[\"ab\"]: id 257, but the same text has id 256", [](TokenTable& t) { t.tokens[257] = "ab"; }},
      {"tokens[259]: 2000 bytes of a control token", [](TokenTable& t) { t.tokens[259] = std::string(2000, 'x'); }},
  };
  for (const Case& one : cases) {
    TokenTable table = gpt2_table();
    one.change(table);
    test::expect_error(ExitCode::model_file, {"x.gguf: ", one.expected}, [&] { make_tokenizer(table); });
  }
}

}  // namespace
}  // namespace paceline
