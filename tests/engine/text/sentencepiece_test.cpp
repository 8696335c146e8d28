// SentencePiece's .model, and tokenizer.json files of the same scheme.

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/tokenizer/detokenizer.h"
#include "engine/tokenizer/tokenizer.h"
#include "engine/tokenizer/tokenizer_parts.h"
#include "kernels/error.h"
#include "tests/engine/text/sentencepiece_writer.h"
#include "tests/engine/text/text_test_support.h"
#include "tests/support/expect_error.h"

namespace paceline {
namespace {

using nlohmann::json;
using test::SentencePieceFile;
using Ids = std::vector<int32_t>;

std::shared_ptr<const Tokenizer> load_bytes(const std::string& bytes) {
  const test::TemporaryFolder folder;
  return Tokenizer::load(folder.write("tokenizer.model", bytes));
}

std::shared_ptr<const Tokenizer> load_file(const SentencePieceFile& file) {
  return load_bytes(sentencepiece_model(file));
}

/// 259 "▁", 260 "a", 261 "b", 262 "c", 263 "▁a", 264 "ab", 265 "bc", 266 "▁▁", 267 "cc".
SentencePieceFile small_file() {
  return {
      .pieces = test::llama_pieces(
          {{"▁", -9}, {"a", -9}, {"b", -9}, {"c", -9}, {"▁a", -3}, {"ab", -1}, {"bc", -1}, {"▁▁", -2}, {"cc", -0.5}})};
}

TEST(SentencePiece, Llama2VectorsAreExact) {
  const auto folder = test::shared_dir() / "tokenizers/llama2";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "shared tokenizers/llama2 is missing";
  const auto tokenizer = Tokenizer::load(folder);
  EXPECT_EQ(tokenizer->vocab_size(), 32000);
  test::check_vectors(*tokenizer, "llama-spm");
  EXPECT_EQ(tokenizer->special_ids(), (Ids{0, 1, 2}));
  EXPECT_EQ(tokenizer->encode("Hello", {.add_special = true}), (Ids{1, 15043}));
  const std::string text = test::mixed_text(1 << 20);
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
}

TEST(SentencePiece, TheHighestScoreJoinsFirstAndTheLeftmostOfEquals) {
  const auto tokenizer = load_file(small_file());
  EXPECT_EQ(tokenizer->encode("abc"), (Ids{259, 264, 262})) << "ab and bc are equal";
  SentencePieceFile swapped = small_file();
  std::swap(swapped.pieces[264], swapped.pieces[265]);
  EXPECT_EQ(load_file(swapped)->encode("abc"), (Ids{259, 265, 262})) << "whatever their ids";
  EXPECT_EQ(tokenizer->encode("abcc"), (Ids{259, 264, 267})) << "cc goes first";
  EXPECT_EQ(tokenizer->encode("bcc"), (Ids{259, 261, 267}));
  EXPECT_EQ(tokenizer->encode("a"), (Ids{263}));
  EXPECT_EQ(tokenizer->encode(" a"), (Ids{266, 260})) << "the blank in front, then the text's own";
  EXPECT_EQ(tokenizer->encode(""), Ids{});
}

TEST(SentencePiece, UnknownCharactersAreBytesAndBlanksComeBack) {
  const auto tokenizer = load_file(small_file());
  EXPECT_EQ(tokenizer->encode("é"), (Ids{259, 3 + 0xC3, 3 + 0xA9}));
  EXPECT_EQ(tokenizer->decode(Ids{259, 3 + 0xC3, 3 + 0xA9}), "é");
  EXPECT_EQ(tokenizer->token_bytes(263), " a");
  EXPECT_EQ(tokenizer->token_bytes(3 + 0x0A), "\n");
  EXPECT_EQ(tokenizer->id_to_token(263), "▁a");
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    const std::string text = test::random_text(seed);
    ASSERT_EQ(tokenizer->decode(tokenizer->encode(text)), text) << seed;
  }
}

TEST(SentencePiece, WithoutByteFallbackARunIsOneUnknown) {
  SentencePieceFile file = small_file();
  file.byte_fallback = false;
  EXPECT_EQ(load_file(file)->encode("aéßa"), (Ids{263, 0, 260}));
}

TEST(SentencePiece, ABlankStandsBeforeTheTextAndBehindControlTokens) {
  SentencePieceFile file = small_file();
  file.pieces.push_back({"<tool>", 0, TokenKind::user_defined});
  const auto tokenizer = load_file(file);
  const int32_t tool = 268;
  EXPECT_EQ(tokenizer->encode("a<s>a", {.parse_special = true}), (Ids{263, 1, 263}));
  EXPECT_EQ(tokenizer->encode("a<tool>a"), (Ids{263, tool, 260}));
  EXPECT_EQ(tokenizer->encode("a", {.add_special = true}), (Ids{1, 263}));
  file.add_dummy_prefix = false;
  const auto plain = load_file(file);
  EXPECT_EQ(plain->encode("a"), (Ids{260}));
  EXPECT_EQ(plain->decode(Ids{263}), " a");
}

TEST(SentencePiece, UserDefinedRunsOfBlanksAreFoundInTheText) {
  SentencePieceFile file = small_file();
  file.add_dummy_prefix = false;
  file.pieces.push_back({"▁▁▁", 0, TokenKind::user_defined});
  const auto tokenizer = load_file(file);
  EXPECT_EQ(tokenizer->encode("   a"), (Ids{268, 260}));
  EXPECT_EQ(tokenizer->decode(Ids{268, 260}), "   a");
}

TEST(SentencePiece, ExtraBlanksGoWhereTheFileSaysSo) {
  SentencePieceFile file = small_file();
  file.remove_extra_whitespaces = true;
  const auto tokenizer = load_file(file);
  EXPECT_EQ(tokenizer->encode("  a   a "), (Ids{263, 263}));
  EXPECT_EQ(tokenizer->encode("a ▁"), (Ids{263})) << "at the end U+2581 is a blank";
}

TEST(SentencePiece, UnusedPiecesAreNeverMade) {
  SentencePieceFile file = small_file();
  file.pieces[264].kind = TokenKind::unused;
  EXPECT_EQ(load_file(file)->encode("ab"), (Ids{263, 261}));
}

TEST(SentencePiece, AStreamLosesTheSameBlankAsWholeText) {
  const auto tokenizer = load_file(small_file());
  StreamDecoder stream(tokenizer);
  for (const Ids& ids : {Ids{263, 263}, Ids{259, 263}, Ids{1, 263}, Ids{260}, Ids{3 + 0xC3, 3 + 0xA9, 263}}) {
    std::string text;
    for (const int32_t id : ids) text += stream.push(id);
    text += stream.flush();
    EXPECT_EQ(text, tokenizer->decode(ids));
  }
}

TEST(SentencePiece, TokensBesideTheFileAreHonoured) {
  const test::TemporaryFolder folder;
  folder.write("tokenizer.model", sentencepiece_model(small_file()));
  folder.write("tokenizer_config.json", R"({"added_tokens_decoder": {
      "1": {"content": "<s>", "special": true}, "268": {"content": "<|end|>", "special": true},
      "269": {"content": "<x>", "special": false}}, "eos_token": "<|end|>", "add_bos_token": false,
      "add_eos_token": true})");
  const auto tokenizer = Tokenizer::load(folder.path());
  EXPECT_EQ(tokenizer->vocab_size(), 270);
  EXPECT_EQ(tokenizer->encode("<x>a", {.add_special = true}), (Ids{259, 269, 260, 268}));
  EXPECT_TRUE(tokenizer->is_special(268));
  folder.write("added_tokens.json", R"({"<y>": 271})");
  test::expect_error(ExitCode::model_file, {"\"<y>\": id 271, but the ids before it end at 270"},
                     [&] { Tokenizer::load(folder.path()); });
}

TEST(SentencePiece, WhatIsNotSupportedIsNamed) {
  struct Case {
    const char* expected;
    void (*change)(SentencePieceFile&);
  };
  const Case cases[] = {
      {"trainer_spec.model_type: Unigram is not supported", [](SentencePieceFile& f) { f.model_type = 1; }},
      {"trainer_spec.model_type: WORD is not supported", [](SentencePieceFile& f) { f.model_type = 3; }},
      {"trainer_spec.model_type: 9 is not supported", [](SentencePieceFile& f) { f.model_type = 9; }},
      {"treat_whitespace_as_suffix: true", [](SentencePieceFile& f) { f.space_is_suffix = true; }},
      {"escape_whitespaces: false", [](SentencePieceFile& f) { f.escapes_blanks = false; }},
      {"the character map of \"identity\" is not supported", [](SentencePieceFile& f) { f.character_map = "x"; }},
      {"pieces[260]: type 7, expected 1 to 6", [](SentencePieceFile& f) { f.pieces[260].kind = TokenKind{7}; }},
      {"scores[260]: expected a number, found NaN",
       [](SentencePieceFile& f) { f.pieces[260].score = std::numeric_limits<float>::quiet_NaN(); }},
      {"tokens[\"a\"]: id 261, but the same text has id 260", [](SentencePieceFile& f) { f.pieces[261].text = "a"; }},
      {"tokens[261]: not UTF-8", [](SentencePieceFile& f) { f.pieces[261].text = "\xff"; }},
      {"tokens[261]: 5000 bytes", [](SentencePieceFile& f) { f.pieces[261].text = std::string(5000, 'x'); }},
      {"tokens is empty", [](SentencePieceFile& f) { f.pieces.clear(); }},
  };
  for (const Case& one : cases) {
    SentencePieceFile file = small_file();
    one.change(file);
    test::expect_error(ExitCode::model_file, {"tokenizer.model: ", one.expected}, [&] { load_file(file); });
  }
  test::expect_error(ExitCode::model_file, {"ModelProto: wire type 6 of field 14; the file is no SentencePiece model"},
                     [] { load_bytes("vocabulary"); });
  test::expect_error(ExitCode::usage, {"engine.target.pre (--pre) is \"gpt-2\", but SentencePiece's tokens say"}, [] {
    const test::TemporaryFolder folder;
    Tokenizer::load(folder.write("tokenizer.model", sentencepiece_model(small_file())), {.pre = "gpt-2"});
  });
}

TEST(SentencePiece, DamagedFilesEndInErrorsOrWork) {
  SentencePieceFile file = small_file();
  file.pieces.erase(file.pieces.begin() + 10, file.pieces.begin() + 250);
  const std::string bytes = sentencepiece_model(file);
  const auto survives = [](const std::string& damaged) {
    try {
      const Tokenizer tokenizer(assemble(read_token_table(read_sentencepiece_model(damaged, "damaged"))));
      tokenizer.decode(tokenizer.encode("abc é <s>", {.parse_special = true, .add_special = true}));
    } catch (const Error&) {
    }
  };
  for (size_t size = 0; size < bytes.size(); ++size) survives(bytes.substr(0, size));
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (const int change : {1, 0x80, 0xFF}) {
      std::string damaged = bytes;
      damaged[i] = static_cast<char>(damaged[i] ^ change);
      survives(damaged);
    }
  }
}

/// small_file() as Hugging Face's converter writes it; merges in the order of scores.
json small_json() {
  json vocab = json::object();
  const SentencePieceFile file = small_file();
  for (size_t id = 0; id < file.pieces.size(); ++id) vocab[file.pieces[id].text] = id;
  const auto added = [](int id, const char* content) {
    return json{{"id", id}, {"content", content}, {"normalized", false}, {"special", true}};
  };
  return {{"added_tokens", {added(0, "<unk>"), added(1, "<s>"), added(2, "</s>")}},
          {"normalizer",
           {{"type", "Sequence"},
            {"normalizers",
             {{{"type", "Prepend"}, {"prepend", "▁"}},
              {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}}}}}},
          {"pre_tokenizer", nullptr},
          {"post_processor", nullptr},
          {"decoder",
           {{"type", "Sequence"},
            {"decoders",
             {{{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}},
              {{"type", "ByteFallback"}},
              {{"type", "Fuse"}},
              {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}}},
          {"model",
           {{"type", "BPE"},
            {"unk_token", "<unk>"},
            {"fuse_unk", true},
            {"byte_fallback", true},
            {"vocab", vocab},
            {"merges", {"c c", "a b", "b c", "▁ ▁", "▁ a"}}}}};
}

std::shared_ptr<const Tokenizer> load_json(const json& file) {
  const test::TemporaryFolder folder;
  return Tokenizer::load(folder.write("tokenizer.json", file.dump()));
}

TEST(SentencePiece, TheSameSchemeAsJsonGivesTheSameIds) {
  const auto model = load_file(small_file()), converted = load_json(small_json());
  for (const char* text : {"", "a", " a", "abcc", "ab bc  é a", "  "}) {
    EXPECT_EQ(converted->encode(text), model->encode(text)) << text;
    EXPECT_EQ(converted->decode(model->encode(text)), text);
  }
  EXPECT_EQ(converted->encode("a<s>a", {.parse_special = true}), (Ids{263, 1, 263}));
}

TEST(SentencePiece, MetaspaceOfJsonPutsABlankWhereItsSchemeSays) {
  json file = small_json();
  file["normalizer"] = nullptr;
  file["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "first"}, {"split", false}};
  file["decoder"] = {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "first"}, {"split", false}};
  const auto first = load_json(file);
  EXPECT_EQ(first->encode("a<s>a", {.parse_special = true}), (Ids{263, 1, 260}));
  EXPECT_EQ(first->encode(" a"), (Ids{263})) << "one that is there is enough";
  EXPECT_EQ(first->encode("a  a"), (Ids{263, 266, 260})) << "words are not cut";
  EXPECT_EQ(first->decode(Ids{263, 263}), "a a");
  file["pre_tokenizer"]["prepend_scheme"] = "always";
  file["pre_tokenizer"]["split"] = true;
  const auto always = load_json(file);
  EXPECT_EQ(always->encode("a<s>a", {.parse_special = true}), (Ids{263, 1, 263}));
  EXPECT_EQ(always->encode("a  a"), (Ids{263, 259, 263})) << "each blank begins a word";
  file["pre_tokenizer"]["prepend_scheme"] = "never";
  file["decoder"]["prepend_scheme"] = "never";
  EXPECT_EQ(load_json(file)->encode("a"), (Ids{260}));
  EXPECT_EQ(load_json(file)->decode(Ids{263}), " a");
}

TEST(SentencePiece, BadEntriesOfJsonAreNamed) {
  const auto expect = [](const char* expected, const char* place, const json& value) {
    json file = small_json();
    file[json::json_pointer(place)] = value;
    test::expect_error(ExitCode::model_file, {"tokenizer.json: ", expected}, [&] { load_json(file); });
  };
  expect("normalizer.normalizers[0]: 3 has no string \"type\"", "/normalizer/normalizers/0", 3);
  expect("has no string \"prepend\"", "/normalizer/normalizers/0/prepend", 3);
  expect("Replace of an empty string", "/normalizer/normalizers/1/pattern/String", "");
  expect("normalizer \"Precompiled\" is not supported", "/normalizer/normalizers/0/type", "Precompiled");
  expect("replacement \"_\" is not supported", "/pre_tokenizer", {{"type", "Metaspace"}, {"replacement", "_"}});
  expect("unknown prepend_scheme \"last\"", "/pre_tokenizer",
         {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "last"}});
  expect("decoder.decoders[0]: {", "/decoder/decoders/0/content", "x");
  expect("decoder.decoders[1].type: \"ByteLevel\" is not supported", "/decoder/decoders/1/type", "ByteLevel");
  expect("decoder.decoders[3]: Strip of 2 at the start and 0 at the end", "/decoder/decoders/3/start", 2);
  json file = small_json();
  file["model"]["vocab"] = {{"<unk>", 0}, {"<s>", 1}, {"</s>", 2}};
  file["model"]["merges"] = json::array();
  test::expect_error(ExitCode::model_file, {"tokenizer.json: ", "no token of a single character"},
                     [&] { load_json(file); });
}

}  // namespace
}  // namespace paceline
