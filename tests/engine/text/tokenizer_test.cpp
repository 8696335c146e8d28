#include "engine/tokenizer/tokenizer.h"

#include <algorithm>
#include <cctype>
#include <sstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/text/pre_tokenizer.h"
#include "engine/text/utf8.h"
#include "kernels/error.h"
#include "tests/engine/text/text_test_support.h"
#include "tests/support/expect_error.h"

namespace paceline {
namespace {

using nlohmann::json;
using Ids = std::vector<int32_t>;

std::shared_ptr<const Tokenizer> from_json(const json& file) {
  test::TemporaryFolder folder;
  return Tokenizer::load(folder.write("tokenizer.json", file.dump()));
}

std::filesystem::path built_in_model() { return source_dir() / "configs/models/target-7m"; }

TEST(Tokenizer, Gpt2VectorsAreExact) {
  const auto folder = test::shared_dir() / "tokenizers/gpt2";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "shared tokenizers/gpt2 is missing";
  const auto tokenizer = Tokenizer::load(folder);
  EXPECT_EQ(tokenizer->vocab_size(), 50257);
  test::check_vectors(*tokenizer, "gpt-2");
  EXPECT_EQ(tokenizer->special_ids(), Ids{50256});
}

TEST(Tokenizer, StarcoderVectorsAreExactWithDigitsAndVocabMergesAgree) {
  const auto folder = test::shared_dir() / "tokenizers/starcoder";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "shared tokenizers/starcoder is missing";
  const auto plain = Tokenizer::load(folder);
  EXPECT_EQ(plain->vocab_size(), 49152);
  EXPECT_EQ(plain->special_ids(), Ids{0});

  json merges = json::array();
  std::istringstream lines(test::read_file(folder / "merges.txt"));
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && !line.starts_with("#version")) merges.push_back(line);
  }
  json file = test::small_tokenizer_json();
  file["added_tokens"] = json::array();
  file["post_processor"] = nullptr;
  file["model"]["vocab"] = json::parse(test::read_file(folder / "vocab.json"));
  file["model"]["merges"] = merges;
  file["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers", {{{"type", "Digits"}, {"individual_digits", true}}, file["pre_tokenizer"]}}};
  const auto with_digits = from_json(file);
  test::check_vectors(*with_digits, "starcoder");
  EXPECT_EQ(plain->encode("Hello world"), with_digits->encode("Hello world"));
  test::check_vectors(*Tokenizer::load(folder, {.pre = "starcoder"}), "starcoder");
}

TEST(Tokenizer, LargeFilesLoadQuickly) {
  const auto folder = test::shared_dir() / "tokenizers";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "shared tokenizers is missing";
  const double begin = test::thread_cpu_ms();
  const auto neox = Tokenizer::load(folder / "gpt-neox-20b");
  const double spent = test::thread_cpu_ms() - begin;
  if (!test::kSanitized) {
    EXPECT_LE(spent, 500.0);
  }
  EXPECT_EQ(neox->vocab_size(), 50277);
  EXPECT_EQ(neox->encode("a        b"), (Ids{66, 50270, 67}));  // a run of blanks is one added token
  EXPECT_EQ(neox->encode("e\u0301"), neox->encode("é"));        // NFC
  const auto opt = Tokenizer::load(folder / "opt");
  EXPECT_EQ(opt->vocab_size(), 50265);
  EXPECT_EQ(opt->decode(opt->encode("Hello, world")), "Hello, world");
}

TEST(Tokenizer, BuiltInModelGivesTheGoldenIds) {
  const auto tokenizer = Tokenizer::load(built_in_model());
  auto golden_path = source_dir() / "tests/data/models_golden.json";
  if (!std::filesystem::exists(golden_path)) golden_path = test::shared_dir() / "models/golden.json";
  ASSERT_TRUE(std::filesystem::exists(golden_path)) << golden_path;
  const json golden = json::parse(test::read_file(golden_path));
  int num_cases = 0;
  for (const auto& [model, content] : golden.items()) {
    for (const json& one : content["cases"]) {
      const auto text = one["text"].get<std::string>();
      const auto ids = one["prompt_ids"].get<Ids>();
      EXPECT_EQ(tokenizer->encode(text, {.parse_special = true}), ids) << model;
      EXPECT_EQ(tokenizer->decode(ids), text);
      if (one.contains("decoded")) {
        EXPECT_EQ(tokenizer->decode(one["greedy"].get<Ids>()), one["decoded"].get<std::string>());
      }
      ++num_cases;
    }
  }
  EXPECT_GE(num_cases, 4);
}

TEST(Tokenizer, BuiltInModelVocabulary) {
  const double begin = test::thread_cpu_ms();
  const auto tokenizer = Tokenizer::load(built_in_model() / "tokenizer.json");
  if (!test::kSanitized) {
    EXPECT_LE(test::thread_cpu_ms() - begin, 60.0);
  }
  EXPECT_EQ(tokenizer->vocab_size(), 8193);
  EXPECT_EQ(tokenizer->special_ids(), (Ids{0, 1, 2, 3}));
  EXPECT_EQ(tokenizer->token_to_id("<|end|>"), 3);
  EXPECT_EQ(tokenizer->token_to_id("no such token"), std::nullopt);
  for (int32_t id = 0; id < tokenizer->vocab_size(); ++id)
    ASSERT_EQ(tokenizer->token_to_id(tokenizer->id_to_token(id)), id);
  const int32_t the = tokenizer->encode(" the").at(0);
  EXPECT_EQ(tokenizer->id_to_token(the), "Ġthe");
  EXPECT_EQ(tokenizer->token_bytes(the), " the");
  EXPECT_THROW(tokenizer->id_to_token(8193), Error);
  EXPECT_THROW(tokenizer->id_to_token(-1), Error);
  EXPECT_EQ(tokenizer->token_bytes(8193), "");
  EXPECT_EQ(tokenizer->decode(Ids{8200, -5, the}), " the");
  EXPECT_FALSE(tokenizer->is_special(8200));
}

TEST(Tokenizer, ControlTokensInTextNeedPermission) {
  const auto tokenizer = Tokenizer::load(built_in_model());
  const Ids plain = tokenizer->encode("a<|end|>b");
  EXPECT_EQ(std::count(plain.begin(), plain.end(), 3), 0);
  EXPECT_EQ(tokenizer->decode(plain), "a<|end|>b");
  const Ids parsed = tokenizer->encode("a<|end|>b", {.parse_special = true});
  EXPECT_EQ(std::count(parsed.begin(), parsed.end(), 3), 1);
  EXPECT_EQ(tokenizer->decode(parsed, {.skip_special = true}), "ab");
}

TEST(Tokenizer, RoundTripOfRandomText) {
  const auto tokenizer = Tokenizer::load(built_in_model());
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    const std::string text = test::random_text(seed);
    ASSERT_TRUE(utf8_valid(text));
    for (const bool parse_special : {false, true}) {
      const Ids ids = tokenizer->encode(text, {.parse_special = parse_special});
      ASSERT_EQ(tokenizer->decode(ids), text) << seed;
    }
  }
}

TEST(Tokenizer, TenMegabytesOfMixedTextComeBack) {
  const auto tokenizer = Tokenizer::load(built_in_model());
  const std::string text = test::mixed_text(10'000'000);
  const double begin = test::thread_cpu_ms();
  const Ids ids = tokenizer->encode(text);
  if (!test::kSanitized) {
    EXPECT_LE(test::thread_cpu_ms() - begin, 3000.0);
  }
  EXPECT_TRUE(tokenizer->decode(ids) == text);
}

/// Where a letter stands before a blank and one behind it, ByteLevel's words end whatever is around.
size_t next_word_end(const std::string& text, size_t pos) {
  const auto is_letter = [&](size_t i) { return std::isalpha(static_cast<unsigned char>(text[i])) != 0; };
  while (pos + 1 < text.size() && !(text[pos] == ' ' && is_letter(pos - 1) && is_letter(pos + 1))) ++pos;
  return pos + 1 < text.size() ? pos : text.size();
}

TEST(Tokenizer, WhatIsRememberedOfALongTextChangesNoIds) {
  const auto tokenizer = Tokenizer::load(built_in_model());
  const std::string text = test::mixed_text(1 << 20);
  Ids in_parts;  // too short to be remembered
  for (size_t pos = 0; pos < text.size();) {
    const size_t end = next_word_end(text, pos + 1);
    const Ids part = tokenizer->encode(std::string_view(text).substr(pos, end - pos));
    in_parts.insert(in_parts.end(), part.begin(), part.end());
    pos = end;
  }
  EXPECT_TRUE(tokenizer->encode(text) == in_parts);
  EXPECT_TRUE(tokenizer->encode(text) == in_parts) << "all is known by now";
}

TEST(Tokenizer, StagesBehindByteLevelSeeItsAlphabet) {
  json file = test::small_tokenizer_json();
  const json byte_level = file["pre_tokenizer"];
  const auto digits = [](bool each) { return json{{"type", "Digits"}, {"individual_digits", each}}; };
  file["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {byte_level, digits(false)}}};
  file["model"]["merges"] = {"a b", "Ġ a"};
  EXPECT_EQ(from_json(file)->encode(" a1ab"), (Ids{258, '1', 256}));
  // A byte that is "²" there is a digit: "Ĳ" is C4 B2, spelled "Ä²".
  file["model"]["vocab"]["Ä²"] = 262;
  file["model"]["merges"] = json::array({"Ä ²"});
  EXPECT_EQ(from_json(file)->encode("Ĳ"), (Ids{0xC4, 0xB2}));
  file["pre_tokenizer"] = byte_level;
  EXPECT_EQ(from_json(file)->encode("Ĳ"), Ids{262});
}

TEST(Tokenizer, IllFormedUtf8IsReplaced) {
  const auto tokenizer = Tokenizer::load(built_in_model());
  const std::pair<std::string, std::string> cases[] = {{"a\xff"
                                                        "b",
                                                        "a\uFFFDb"},
                                                       {"\xE2\x82", "\uFFFD"},
                                                       {"\xF0\x9F\x99", "\uFFFD"},
                                                       {"\xED\xA0\x80", "\uFFFD\uFFFD\uFFFD"},
                                                       {"\xC0\xAF", "\uFFFD\uFFFD"},
                                                       {"\xE2\x82z", "\uFFFDz"},
                                                       {"\x80\x80", "\uFFFD\uFFFD"},
                                                       {"\xF4\x90\x80\x80", "\uFFFD\uFFFD\uFFFD\uFFFD"},
                                                       {std::string("\0x", 2), std::string("\0x", 2)},
                                                       {"", ""}};
  for (const auto& [text, expected] : cases) {
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), expected);
    EXPECT_EQ(tokenizer->encode(text), tokenizer->encode(expected));
  }
}

TEST(Tokenizer, OneMebibyteOfAnythingTakesAtMostASecond) {
  const auto tokenizer = Tokenizer::load(built_in_model());
  const size_t size = size_t{1} << 20;
  std::string words, marks;
  while (words.size() < size) words += "Hello, world! 123 the quick brown fox\n";
  while (marks.size() < size) marks += "\u0315\u0300";
  for (const std::string& text :
       {std::string(size, 'a'), std::string(size, ' '), std::string(size, '\n'), words, marks}) {
    const double begin = test::thread_cpu_ms();
    const Ids ids = tokenizer->encode(text);
    const double spent = test::thread_cpu_ms() - begin;
    EXPECT_EQ(tokenizer->decode(ids), text);
    if (!test::kSanitized) {
      EXPECT_LE(spent, 1000.0) << text.substr(0, 10);
    }
  }
}

/// A byte-level tokenizer whose text one pattern splits first.
json split_by(const json& pattern) {
  json file = test::small_tokenizer_json();
  file["pre_tokenizer"] = {{"type", "Sequence"},
                           {"pretokenizers",
                            {{{"type", "Split"}, {"pattern", pattern}, {"behavior", "Isolated"}, {"invert", false}},
                             {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
  return file;
}

TEST(Tokenizer, CatastrophicPatternsEndWithinASecond) {
  for (const char* pattern :
       {"(a+)+$", "(a|a)*b", "a*[bc]", "a(?=a*[bc])|a", "(a*)*[^a]", "(?:a?){50}a{50}[bc]",
        // One match that is quadratic in what PCRE2 does not count: scans, and comparisons with what was captured.
        "a*(?=[^b]*+b)c|.", "(?:a(?![^b]*+b))*+c|.", "(a*)\\1b|.", "a*\\P{N}*+c|.", "a*(?=a*(?=[^b]*+b))c|.",
        "(?:a*(?=\\P{N}*+b)c){0}|(?:(?=a*+b)|a)*+|.", "(?:(?=\\X*+b)|a)*+c|."}) {
    const auto tokenizer = from_json(split_by({{"Regex", pattern}}));
    const double begin = test::thread_cpu_ms();
    try {
      const Ids ids = tokenizer->encode(std::string(size_t{1} << 20, 'a'));
      EXPECT_EQ(ids.size(), size_t{1} << 20);
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("pre_tokenizer.pretokenizers[0]"), std::string::npos) << error.what();
    }
    if (!test::kSanitized) {
      EXPECT_LE(test::thread_cpu_ms() - begin, 1000.0) << pattern;
    }
  }
}

TEST(Tokenizer, AWordThatNeedsMuchBacktrackingIsStillOneWord) {
  // Llama 3's pattern goes back over a whole run of blanks in search of a line break, far beyond the first try's limit.
  const char* const llama =
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  const auto tokenizer = from_json(split_by({{"Regex", llama}}));
  for (const size_t blanks : {1, 15, 16, 17, 100, 10'000, 1 << 20}) {
    const std::string text = "a" + std::string(blanks, ' ') + "b\n" + std::string(blanks, '\n') + "c";
    const double begin = test::thread_cpu_ms();
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
    if (!test::kSanitized) {
      EXPECT_LE(test::thread_cpu_ms() - begin, 1500.0) << blanks;
    }
  }
}

TEST(Tokenizer, SplittingAtALongLiteralTakesLinearTime) {
  const auto tokenizer = from_json(split_by({{"String", std::string(50'000, 'a') + "b"}}));
  const double begin = test::thread_cpu_ms();
  EXPECT_EQ(tokenizer->encode(std::string(size_t{1} << 20, 'a')).size(), size_t{1} << 20);
  if (!test::kSanitized) {
    EXPECT_LE(test::thread_cpu_ms() - begin, 1000.0);
  }
}

TEST(Tokenizer, AClassWithinAClassIsRefused) {
  // A union where these files are written, two classes and a bracket for PCRE2.
  for (const char* pattern : {"[the[ ]]+|.", "[a[b]]", "[^[]", "[[:x]", "[[.a.]]"})
    EXPECT_THROW(from_json(split_by({{"Regex", pattern}})), Error) << pattern;
  for (const char* pattern : {"[[:alpha:]a]+|.", "[\\[\\]]|.", "[[:^digit:][:space:]]|.", "\\[a]|."})
    EXPECT_NO_THROW(from_json(split_by({{"Regex", pattern}}))->encode("a[b] 1")) << pattern;
}

// What Hugging Face's Split (Oniguruma) makes of the same.
TEST(Tokenizer, PatternsAreReadAsOnigurumaReadsThem) {
  struct Case {
    const char* pattern;
    std::vector<std::string_view> pieces;  // of their concatenation
  };
  const Case cases[] = {
      {R"([\v-\f]+)", {"a", "\u000c\u000b", "-b"}},
      {R"(a(?i)b|c)", {"ab", " ", "aB", " C c b B"}},
      {R"((?:a(?i)b|c)d|e)", {"aBd", " Cd E ", "e"}},
      {R"(\w{,2}(?#c)+)", {"aabbab"}},
      {R"(一{1}(?#c)?)", {"一", "a"}},
      {R"((?#x\)y)a+)", {"aa", "b"}},
      {R"((?i)a|b)", {"a", "A", "b", "B"}},
      {R"(\x41{2}+)", {"AAAA", "A"}},
      {R"(\x20{2}+)", {"    ", " a"}},
      {R"(\x{4E00}{1,2}+)", {"一一一", "x"}},
      {R"(a{{2}+)", {"a{{{{"}},
      {R"((?<n>a)\k<n>{2}+)", {"aaaaa", "a"}},
      {R"((?#[)\w+)", {"ab", " ", "c"}},
      {R"((?#x)a{2}+)", {"aa", "ab"}},
      {R"(xa{3}?)", {"x", "y", "x"}},
      {R"((?:ab){2}?c)", {"ababc", "c"}},
      {R"(a{2,}?)", {"aa", "aa"}},
      {R"(\v+)", {"a\n", "\u000b", "b"}},
      {R"(\u0061{2}+)", {"aa", "ab"}},
      {R"([\S]+)", {"a", " ", "\u180eb"}},
      {R"([^\W_]+)", {"ab", "_", "c", " ", "d5"}},
      {R"([\W_]+)", {"ab", "_", "c", "- ", "d"}},
      {R"([[:space:]-]+)", {"a", " -", "b"}},
      {R"([[:^space:]x]+)", {"ab", " ", "cx"}},
      {R"([[:^punct:]]+)", {"a", "$", "b ", "-"}},
      {R"([^[:^alpha:]]+)", {"aé", "1"}},
      {R"(\101{2}+)", {"AA", "Ab"}},
      {R"(\p{N}{1,3}+)", {"a", "29447", "b"}},
      {R"(a{2}+|.)", {"aaaa", "a", "b"}},
      {R"((?:ab|c){1,2}+)", {"abcabc", "x"}},
      {R"(é{1,2}+)", {"a", "ééé", "b"}},
      {R"([ab]{2,}+)", {"aba", "c"}},
      {R"(\x{61}{1,2}+)", {"aaaa", "b"}},
      {R"(\p{N}{,3})", {"123", "4", "a"}},
      {R"(\p{Han}+)", {"日本", "、", "世界", "。x"}},
      {R"(\P{Han}+)", {"日本", "、", "世界", "。x"}},
      {R"([\p{Katakana}]+)", {"カ", "ー", "ソル"}},
      {R"(\w+)", {"नमस्ते", " ", "a_b", " ", "5²", " ", "½"}},
      {R"(\W+)", {"नमस्ते", " ", "a_b", " ", "5²", " ", "½"}},
      {R"([\w-]+)", {"नमस्ते", " ", "a-b", " ", "5", "²"}},
      {R"(\b)", {"नमस्ते", " ", "ab"}},
      {R"(\B)", {"a", "b c", "d"}},
      {R"([[:alpha:]]+)", {"Ⅷ", "①", "नमस", "्", "ते", "5"}},
      {R"([[:punct:]]+)", {"a", "$+", "b", "-!"}},
      {R"([[:upper:]][[:lower:]]+)", {"He", "L", "Lo", " ", "Ⅷⅷ"}},
      {R"([[:^digit:]_]+)", {"a_", "1٣", "b"}},
      {R"([[:space:]]+)", {"a", " ", "\u180e", "\u3000", "b"}},
      {R"(^.)", {"a", "b\n", "c", "d\n\n", "e"}},
      {R"(\s+$)", {"a", " ", "\n b", "  \n", "\nc"}},
      {R"($)", {"a", "\nb"}},
      {R"((?=(\d{3})+(?!\d)))", {"29", "441", "234"}},
      {R"(x*|b)", {"a", "xx", "b"}},
      {R"(\d*)", {"a", "12", "b"}},
      {R"((?m:a.)b)", {"a\nb"}},
      {R"(a.b)", {"a\nb"}},
  };
  for (const Case& each : cases) {
    std::string text;
    for (const std::string_view piece : each.pieces) text += piece;
    SplitScratch scratch(text.size());
    std::vector<std::string_view> pieces;
    split_at_matches(each.pattern, "test")->split(text, scratch, pieces);
    EXPECT_EQ(pieces, each.pieces) << each.pattern;
  }
  for (const char* refused : {R"([[:graph:]])", R"(\h)", R"(\Qa\E)", R"(\V)", R"(\u12)"})
    EXPECT_THROW(split_at_matches(refused, "test"), Error) << refused;
  std::string sets;  // written out they are 15 KB each
  for (int i = 0; i < 10000; ++i) sets += "[\\W_]";
  const double begin = test::thread_cpu_ms();
  EXPECT_THROW(split_at_matches(sets, "test"), Error);
  if (!test::kSanitized) {
    EXPECT_LE(test::thread_cpu_ms() - begin, 1000.0);
  }
}

TEST(Tokenizer, MarksInAnyOrderNormaliseInLinearTime) {
  json file = test::small_tokenizer_json();
  file["normalizer"] = {{"type", "Sequence"}, {"normalizers", {{{"type", "NFC"}}}}};
  const auto tokenizer = from_json(file);
  std::string marks;  // canonical order would swap every pair across the whole text
  for (int i = 0; i < 100'000; ++i) marks += "\u0F73\u0315";
  const double begin = test::thread_cpu_ms();
  EXPECT_GE(tokenizer->encode(marks).size(), marks.size() / 2);
  if (!test::kSanitized) {
    EXPECT_LE(test::thread_cpu_ms() - begin, 1000.0);
  }
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("A\u030A e\u0301")), "Å é");
}

TEST(Tokenizer, MergesInRankOrderLeftmostFirst) {
  const auto tokenizer = from_json(test::small_tokenizer_json());
  EXPECT_EQ(tokenizer->encode("abc"), Ids{257});
  EXPECT_EQ(tokenizer->encode("ababc"), (Ids{256, 257}));
  EXPECT_EQ(tokenizer->encode("b a"), (Ids{'b', 258}));
  json file = test::small_tokenizer_json();
  file["model"]["merges"] = {"a a", "aa a"};
  file["model"]["vocab"]["aa"] = 259;
  file["model"]["vocab"]["aaa"] = 260;
  for (int i = 0; i < 3; ++i) file["added_tokens"][i]["id"] = 261 + i;
  file["post_processor"] = nullptr;
  EXPECT_EQ(from_json(file)->encode("aaaaa"), (Ids{259, 260}));
  EXPECT_EQ(from_json(file)->encode("aaa"), Ids{260});
}

TEST(Tokenizer, IgnoreMergesTakesWholePieces) {
  json file = test::small_tokenizer_json();
  file["model"]["merges"] = json::array();
  EXPECT_EQ(from_json(file)->encode("abc"), (Ids{'a', 'b', 'c'}));
  file["model"]["ignore_merges"] = true;
  EXPECT_EQ(from_json(file)->encode("abc"), Ids{257});
  EXPECT_EQ(from_json(file)->encode("abcd"), (Ids{'a', 'b', 'c', 'd'}));
}

TEST(Tokenizer, MissingBytesBecomeTheUnknownTokenOrNothing) {
  json file = test::small_tokenizer_json();
  file["model"]["vocab"].erase("z");
  file["model"]["vocab"]["<unk>"] = 'z';
  EXPECT_EQ(from_json(file)->encode("azzb"), Ids{256});  // and the rest merges
  file["model"]["unk_token"] = "<unk>";
  EXPECT_EQ(from_json(file)->encode("azzb"), (Ids{'a', 'z', 'z', 'b'}));
  file["model"]["fuse_unk"] = true;
  EXPECT_EQ(from_json(file)->encode("azzb"), (Ids{'a', 'z', 'b'}));
}

TEST(Tokenizer, TemplateAddsItsTokensOnlyWhenAsked) {
  json file = test::small_tokenizer_json();
  EXPECT_EQ(from_json(file)->encode("abc"), Ids{257});
  EXPECT_EQ(from_json(file)->encode("abc", {.add_special = true}), (Ids{260, 257}));
  EXPECT_EQ(from_json(file)->encode("", {.add_special = true}), Ids{260});
  json both = file["post_processor"];
  both["single"].push_back({{"SpecialToken", {{"id", "<|bos|>"}}}});
  file["post_processor"] = {{"type", "Sequence"}, {"processors", {{{"type", "ByteLevel"}}, both}}};
  EXPECT_EQ(from_json(file)->encode("abc", {.add_special = true}), (Ids{260, 257, 260}));
}

TEST(Tokenizer, AddedTokenFlags) {
  json file = test::small_tokenizer_json();
  json& token = file["added_tokens"][2];
  token["content"] = "foo";
  EXPECT_EQ(from_json(file)->encode("xfoo"), (Ids{'x', 261}));  // not special: found without permission
  token["single_word"] = true;
  EXPECT_EQ(from_json(file)->encode("xfoo foo_ .foo."),
            (Ids{'x', 'f', 'o', 'o', 220 - 188, 'f', 'o', 'o', '_', ' ', '.', 261, '.'}));
  token["single_word"] = false;
  token["lstrip"] = true;
  EXPECT_EQ(from_json(file)->encode("x \u3000\nfoo y"), (Ids{'x', 261, ' ', 'y'}));
  token["lstrip"] = false;
  token["rstrip"] = true;
  EXPECT_EQ(from_json(file)->encode("x foo \n y"), (Ids{'x', ' ', 261, 'y'}));
  token["rstrip"] = false;
  token["content"] = "é";
  file["model"]["vocab"].erase("é");
  file["model"]["vocab"]["Éx"] = 0xE9;
  file["normalizer"] = {{"type", "NFC"}};
  EXPECT_EQ(from_json(file)->encode("e\u0301"), (Ids{0xC3, 0xA9}));  // not in the raw text
  token["normalized"] = true;
  EXPECT_EQ(from_json(file)->encode("e\u0301"), Ids{261});
}

TEST(Tokenizer, ByteLevelPrefixSpaceAndRegex) {
  json file = test::small_tokenizer_json();
  file["pre_tokenizer"] = {{"type", "ByteLevel"}};  // both default to true
  EXPECT_EQ(from_json(file)->encode("a"), Ids{258});
  EXPECT_EQ(from_json(file)->encode(" a"), Ids{258});
  file["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  file["model"]["merges"].push_back("c d");
  EXPECT_THROW(from_json(file), Error);  // "cd" is not in the vocabulary
}

TEST(Tokenizer, SplitBehaviours) {
  // "x1-2y" cut at "-", each piece visible because "1-2" would merge.
  const auto ids_of = [](const char* behavior, bool invert) {
    json file = test::small_tokenizer_json();
    file["model"]["vocab"]["1-"] = 259;
    file["model"]["vocab"]["-2"] = 260;
    file["model"]["vocab"]["--"] = 261;
    file["model"]["merges"] = {"1 -", "- 2", "- -"};
    file["added_tokens"] = json::array();
    file["post_processor"] = nullptr;
    file["pre_tokenizer"] = {
        {"type", "Sequence"},
        {"pretokenizers",
         {{{"type", "Split"}, {"pattern", {{"String", "-"}}}, {"behavior", behavior}, {"invert", invert}},
          {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
    return from_json(file)->encode("1-2--3");
  };
  EXPECT_EQ(ids_of("Isolated", false), (Ids{'1', '-', '2', '-', '-', '3'}));
  EXPECT_EQ(ids_of("Removed", false), (Ids{'1', '2', '3'}));
  EXPECT_EQ(ids_of("Removed", true), (Ids{'-', '-', '-'}));
  EXPECT_EQ(ids_of("MergedWithPrevious", false), (Ids{259, '2', '-', '-', '3'}));
  EXPECT_EQ(ids_of("MergedWithNext", false), (Ids{'1', 260, '-', '-', '3'}));
  EXPECT_EQ(ids_of("Contiguous", false), (Ids{'1', '-', '2', 261, '3'}));
}

TEST(Tokenizer, VocabAndMergesFolder) {
  test::TemporaryFolder folder;
  const json file = test::small_tokenizer_json();
  json vocab = file["model"]["vocab"];
  vocab["</s>"] = 259;
  folder.write("vocab.json", vocab.dump());
  folder.write("merges.txt", "#version: 0.2\na b\nab c\r\nĠ a\n");
  auto tokenizer = Tokenizer::load(folder.path());
  EXPECT_EQ(tokenizer->encode("abc a", {.add_special = true}), (Ids{257, 258}));
  EXPECT_TRUE(tokenizer->special_ids().empty());
  folder.write("tokenizer_config.json", R"({"bos_token": {"content": "</s>"}, "add_bos_token": true})");
  folder.write("added_tokens.json", R"({"<new>": 260})");
  tokenizer = Tokenizer::load(folder.path());
  EXPECT_EQ(tokenizer->encode("abc", {.add_special = true}), (Ids{259, 257}));
  EXPECT_EQ(tokenizer->special_ids(), (Ids{259, 260}));
  EXPECT_EQ(tokenizer->encode("a<new>", {.parse_special = true}), (Ids{'a', 260}));
  folder.write("merges.txt", "a b\nab c d\n");
  try {
    Tokenizer::load(folder.path());
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("merges.txt:2: expected two tokens"), std::string::npos) << error.what();
  }
}

TEST(Tokenizer, VocabAndMergesAreCutAsTheFamilyIsOrTheCallerSays) {
  const test::TemporaryFolder folder;
  json vocab = test::small_tokenizer_json()["model"]["vocab"];
  vocab["11"] = 259;
  folder.write("vocab.json", vocab.dump());
  folder.write("merges.txt", "a b\nab c\nĠ a\n1 1\n");
  EXPECT_EQ(Tokenizer::load(folder.path())->encode("11"), Ids{259}) << "as GPT-2";
  folder.write("config.json", R"({"model_type": "gpt_bigcode"})");
  EXPECT_EQ(Tokenizer::load(folder.path())->encode("11"), (Ids{'1', '1'}));
  EXPECT_EQ(Tokenizer::load(folder.path(), {.pre = "gpt-2"})->encode("11"), Ids{259});
  folder.write("config.json", R"({"model_type": "llama"})");
  test::expect_error(ExitCode::model_file,
                     {"nor does model_type \"llama\" of config.json; set engine.target.pre (--pre) to one of gpt-2, "},
                     [&] { Tokenizer::load(folder.path()); });
  EXPECT_EQ(Tokenizer::load(folder.path(), {.pre = "smollm"})->encode("11"), (Ids{'1', '1'}));
}

// GPT-2 calls its three special tokens <|endoftext|>; OPT's configuration gives each of them another name.
TEST(Tokenizer, EndOfTextIsATextWhereTheConfigurationNamesOtherTokens) {
  const test::TemporaryFolder folder;
  json vocab = test::small_tokenizer_json()["model"]["vocab"];
  vocab["<|endoftext|>"] = 259;
  vocab["</s>"] = 260;
  folder.write("vocab.json", vocab.dump());
  folder.write("merges.txt", "a b\nab c\nĠ a\n");
  const auto special_ids = [&folder](const char* config) {
    folder.write("tokenizer_config.json", config);
    return Tokenizer::load(folder.path())->special_ids();
  };
  EXPECT_EQ(special_ids("{}"), Ids{259});
  EXPECT_EQ(special_ids(R"({"bos_token": "</s>", "eos_token": "</s>"})"), (Ids{259, 260}));
  EXPECT_EQ(special_ids(R"({"bos_token": "</s>", "eos_token": "</s>", "unk_token": "</s>"})"), Ids{260});
}

TEST(Tokenizer, VocabAndMergesTakeTheTokensOfTokenizerConfig) {
  const test::TemporaryFolder folder;
  folder.write("vocab.json", test::small_tokenizer_json()["model"]["vocab"].dump());
  folder.write("merges.txt", "a b\nab c\nĠ a\n");
  folder.write("tokenizer_config.json", R"({"added_tokens_decoder": {
      "260": {"content": "<|im_end|>", "special": true}, "259": {"content": "<|endoftext|>", "special": true},
      "261": {"content": "<tool>", "special": false}}})");
  const auto tokenizer = Tokenizer::load(folder.path());
  EXPECT_EQ(tokenizer->special_ids(), (Ids{259, 260}));
  EXPECT_EQ(tokenizer->encode("a<tool><|im_end|>", {.parse_special = true}), (Ids{'a', 261, 260}));
  folder.write("tokenizer_config.json", R"({"added_tokens_decoder": {"x": {"content": "y"}}})");
  test::expect_error(ExitCode::model_file, {"added_tokens_decoder: expected an id as key, found \"x\""},
                     [&] { Tokenizer::load(folder.path()); });
}

}  // namespace
}  // namespace paceline
