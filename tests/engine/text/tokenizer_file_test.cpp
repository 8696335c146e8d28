// Bad tokenizer files: every one is an Error that names file and entry, never anything else.

#include <functional>
#include <sys/stat.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/tokenizer/tokenizer.h"
#include "kernels/error.h"
#include "tests/engine/text/text_test_support.h"
#include "tests/support/expect_error.h"

namespace paceline {
namespace {

using nlohmann::json;

std::string error_of_text(const std::string& text) {
  test::TemporaryFolder folder;
  const auto path = folder.write("tokenizer.json", text);
  try {
    Tokenizer::load(path);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::model_file) << error.what();
    const std::string message = error.what();
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    EXPECT_NE(message.find("tokenizer.json"), std::string::npos) << message;
    return message;
  }
  return "no error";
}

TEST(TokenizerFile, AFolderWithoutATokenizerSaysWhatIsLookedFor) {
  const test::TemporaryFolder folder;
  test::expect_error(ExitCode::model_file,
                     {"no tokenizer: expected tokenizer.json, vocab.json and merges.txt, or tokenizer.model"},
                     [&] { Tokenizer::load(folder.path()); });
}

TEST(TokenizerFile, APreTokenizerBesideAFileThatHasOneIsRefused) {
  const test::TemporaryFolder folder;
  const auto file = folder.write("tokenizer.json", test::small_tokenizer_json().dump());
  test::expect_error(ExitCode::usage, {"engine.target.pre (--pre) is \"gpt-2\", but the file says how text is cut"},
                     [&] { Tokenizer::load(file, {.pre = "gpt-2"}); });
}

TEST(TokenizerFile, BadEntriesAreNamed) {
  struct Case {
    const char* expected;
    std::function<void(json&)> change;
  };
  const Case cases[] = {
      {"model.type: \"Unigram\" is not supported", [](json& j) { j["model"]["type"] = "Unigram"; }},
      {"model.type: \"WordPiece\" is not supported", [](json& j) { j["model"]["type"] = "WordPiece"; }},
      {"model: expected an object", [](json& j) { j.erase("model"); }},
      {"model.vocab: expected an object", [](json& j) { j["model"]["vocab"] = json::array(); }},
      {"id 255 is used already by model.vocab[\"ab\"]", [](json& j) { j["model"]["vocab"]["ab"] = 255; }},
      {"id 256 is missing", [](json& j) { j["model"]["vocab"]["ab"] = 100000000; }},
      {"model.vocab[\"ab\"]: expected an id", [](json& j) { j["model"]["vocab"]["ab"] = -1; }},
      {"model.vocab[\"ab\"]: expected an id", [](json& j) { j["model"]["vocab"]["ab"] = 1.5; }},
      {"model.vocab[\"ab\"]: expected an id", [](json& j) { j["model"]["vocab"]["ab"] = 4294967296; }},
      {"model.merges[2]: merge of \"\\u0120\" and \"q\": \"\\u0120q\" is not in the vocabulary",
       [](json& j) {
         j["model"]["merges"][2] = {"Ġ", "q"};
       }},
      {"model.merges[0]: merge of \"zz\"", [](json& j) { j["model"]["merges"][0] = "zz a"; }},
      {"model.merges[1]: expected \"a b\"", [](json& j) { j["model"]["merges"][1] = "a b c"; }},
      {"model.merges[1]: expected \"a b\"", [](json& j) { j["model"]["merges"][1] = {"a"}; }},
      {"model.merges: expected an array", [](json& j) { j["model"]["merges"] = "a b"; }},
      {"model.unk_token: \"<x>\" is not in", [](json& j) { j["model"]["unk_token"] = "<x>"; }},
      {"no token of a single byte",
       [](json& j) {
         j["model"]["vocab"] = {{"ab", 0}};
         j["model"]["merges"] = json::array();
         j["added_tokens"] = json::array();
         j["post_processor"] = nullptr;
       }},
      {"model.dropout: 0.1", [](json& j) { j["model"]["dropout"] = 0.1; }},
      {"model.byte_fallback: true", [](json& j) { j["model"]["byte_fallback"] = true; }},
      {"model.end_of_word_suffix: \"</w>\"", [](json& j) { j["model"]["end_of_word_suffix"] = "</w>"; }},
      {"added_tokens[1].content: 0 bytes", [](json& j) { j["added_tokens"][1]["content"] = ""; }},
      {"added_tokens[1].id: expected an id", [](json& j) { j["added_tokens"][1]["id"] = "x"; }},
      {"added_tokens[2]: id 260 is used already by added_tokens[1]", [](json& j) { j["added_tokens"][2]["id"] = 260; }},
      {"added token \"<|bos|>\" appears twice", [](json& j) { j["added_tokens"][2]["content"] = "<|bos|>"; }},
      {"added_tokens[2]: id 261, but the same text has id 97", [](json& j) { j["added_tokens"][2]["content"] = "a"; }},
      {"added_tokens[0].special: expected true or false", [](json& j) { j["added_tokens"][0]["special"] = 1; }},
      {"normalizer: normalizer \"Lowercase\" is not supported",
       [](json& j) {
         j["normalizer"] = {{"type", "Lowercase"}};
       }},
      {"pre_tokenizer: expected a pre-tokenizer", [](json& j) { j["pre_tokenizer"] = nullptr; }},
      {"pre_tokenizer: pre-tokenizer \"WhitespaceSplit\" is not supported",
       [](json& j) {
         j["pre_tokenizer"] = {{"type", "WhitespaceSplit"}};
       }},
      {"pre_tokenizer: no ByteLevel stage",
       [](json& j) {
         j["pre_tokenizer"] = {{"type", "Digits"}};
       }},
      {"pretokenizers[1]: a second ByteLevel",
       [](json& j) {
         j["pre_tokenizer"] = {{"type", "Sequence"},
                               {"pretokenizers", {{{"type", "ByteLevel"}}, {{"type", "ByteLevel"}}}}};
       }},
      {"is not supported at offset",
       [](json& j) {
         j["pre_tokenizer"] = {{"type", "Split"}, {"behavior", "Isolated"}, {"pattern", {{"Regex", "(a"}}}};
       }},
      {"unknown behavior \"Sideways\"",
       [](json& j) {
         j["pre_tokenizer"] = {{"type", "Split"}, {"behavior", "Sideways"}, {"pattern", {{"Regex", "a"}}}};
       }},
      {"intersects classes with &&",
       [](json& j) {
         j["pre_tokenizer"] = {{"type", "Split"}, {"behavior", "Isolated"}, {"pattern", {{"Regex", "[a-z&&[^b]]"}}}};
       }},
      {"post_processor.type: \"BertProcessing\"",
       [](json& j) {
         j["post_processor"] = {{"type", "BertProcessing"}};
       }},
      {"post_processor: id 999 is not in the vocabulary",
       [](json& j) { j["post_processor"]["special_tokens"]["<|bos|>"]["ids"] = {999}; }},
      {"decoder.type: \"WordPiece\"",
       [](json& j) {
         j["decoder"] = {{"type", "WordPiece"}};
       }},
  };
  for (const Case& one : cases) {
    json file = test::small_tokenizer_json();
    one.change(file);
    const std::string message = error_of_text(file.dump());
    EXPECT_NE(message.find(one.expected), std::string::npos) << "expected: " << one.expected << "\n  got: " << message;
  }
  EXPECT_EQ(error_of_text(test::small_tokenizer_json().dump()), "no error");
}

TEST(TokenizerFile, AFifoIsNotWaitedFor) {
  const test::TemporaryFolder folder;
  folder.write("vocab.json", R"({"a": 0})");
  ASSERT_EQ(::mkfifo((folder.path() / "merges.txt").c_str(), 0600), 0);
  test::expect_error(ExitCode::model_file, {"merges.txt", "is a FIFO"}, [&] { Tokenizer::load(folder.path()); });
}

TEST(TokenizerFile, NotJson) {
  for (const char* text :
       {"", "{", "[]", "null", "\xff\xfe", "{\"model\": {\"vocab\": {\"\\ud800\": 0}}}", "{\"a\": 1, \"a\": 2}"})
    EXPECT_NE(error_of_text(text), "no error") << text;
  EXPECT_NE(error_of_text(std::string(10'000, '[')), "no error");
  EXPECT_THROW(Tokenizer::load("/no/such/folder/tokenizer.json"), Error);
  test::TemporaryFolder empty;
  EXPECT_THROW(Tokenizer::load(empty.path()), Error);
}

/// Loads and, when that works, uses the tokenizer; only Error may come out.
bool survives(const test::TemporaryFolder& folder, const std::string& text) {
  try {
    const auto tokenizer = Tokenizer::load(folder.write("tokenizer.json", text));
    tokenizer->decode(tokenizer->encode("abc <|end|> 12 \u00e9", {.parse_special = true, .add_special = true}));
    return true;
  } catch (const Error&) {
    return false;
  }
}

TEST(TokenizerFile, EveryTypeSwapEndsInAnErrorOrWorks) {
  const test::TemporaryFolder folder;
  json file = test::small_tokenizer_json();
  file["normalizer"] = {{"type", "Sequence"}, {"normalizers", {{{"type", "NFC"}}}}};
  file["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       {{{"type", "Split"}, {"pattern", {{"Regex", "a|b"}}}, {"behavior", "Isolated"}, {"invert", false}},
        {{"type", "Digits"}, {"individual_digits", true}},
        {{"type", "ByteLevel"}, {"add_prefix_space", false}}}}};
  // Fewer entries keep the walk short; ids must have no gaps.
  json vocab = json::object();
  for (const auto& entry : file["model"]["vocab"].items()) {
    if (vocab.size() < 8 || entry.key() == "ab") vocab[entry.key()] = vocab.size();
  }
  for (const char* piece : {"a", "b", "ab"}) {
    if (!vocab.contains(piece)) vocab[piece] = vocab.size();
  }
  file["model"]["vocab"] = vocab;
  file["model"]["merges"] = {"a b", {"a", "b"}};
  for (size_t i = 0; i < 3; ++i) file["added_tokens"][i]["id"] = vocab.size() + i;
  file["post_processor"]["special_tokens"]["<|bos|>"]["ids"] = {vocab.size()};
  ASSERT_TRUE(survives(folder, file.dump()));

  const json swaps[] = {nullptr,       true,           -1,     1e300,        18446744073709551615ull, "", "x",
                        json::array(), json::object(), {1, 2}, {{"type", 3}}};
  std::vector<json::json_pointer> places;
  const json flat = file.flatten();
  for (const auto& [place, value] : flat.items()) {
    for (json::json_pointer pointer(place); !pointer.empty(); pointer = pointer.parent_pointer())
      places.push_back(pointer);
  }
  int num_errors = 0, num_works = 0;
  for (const auto& place : places) {
    for (const json& swap : swaps) {
      json mutant = file;
      mutant[place] = swap;
      survives(folder, mutant.dump()) ? ++num_works : ++num_errors;
    }
    json without = file;
    json& parent = without[place.parent_pointer()];
    if (parent.is_object()) parent.erase(place.back());
    survives(folder, without.dump()) ? ++num_works : ++num_errors;
  }
  EXPECT_GE(num_errors, 300);
  EXPECT_GE(num_works, 50);
}

TEST(TokenizerFile, TruncationsAndByteFlipsEndInAnErrorOrWork) {
  const test::TemporaryFolder folder;
  const std::string text = test::small_tokenizer_json().dump();
  uint64_t state = 1;
  const auto random = [&](size_t below) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<size_t>(state >> 33) % below;
  };
  for (int round = 0; round < 300; ++round) EXPECT_FALSE(survives(folder, text.substr(0, random(text.size()))));
  int num_errors = 0;
  for (int round = 0; round < 700; ++round) {
    std::string mutant = text;
    for (size_t flips = 1 + random(4); flips > 0; --flips)
      mutant[random(mutant.size())] = static_cast<char>(random(256));
    num_errors += survives(folder, mutant) ? 0 : 1;
  }
  EXPECT_GE(num_errors, 300);
}

}  // namespace
}  // namespace paceline
