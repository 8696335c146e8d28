#include "speculative/vocabulary_match.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/checkpoint_writer.h"
#include "tests/support/expect_error.h"
#include "tests/support/paths.h"

namespace paceline {
namespace {

/// A byte-level tokenizer whose id i is tokens[i]; the last `num_added` are added tokens.
std::shared_ptr<const Tokenizer> tokenizer(const std::vector<std::string>& tokens, size_t num_added = 0) {
  nlohmann::json vocab = nlohmann::json::object(), added = nlohmann::json::array();
  for (size_t id = 0; id < tokens.size(); ++id) {
    if (id + num_added < tokens.size())
      vocab[tokens[id]] = id;
    else
      added.push_back({{"id", id},
                       {"content", tokens[id]},
                       {"special", true},
                       {"single_word", false},
                       {"lstrip", false},
                       {"rstrip", false},
                       {"normalized", false}});
  }
  const nlohmann::json byte_level{
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  const nlohmann::json file{{"version", "1.0"},
                            {"added_tokens", added},
                            {"normalizer", nullptr},
                            {"pre_tokenizer", byte_level},
                            {"post_processor", nullptr},
                            {"decoder", byte_level},
                            {"model",
                             {{"type", "BPE"},
                              {"dropout", nullptr},
                              {"unk_token", nullptr},
                              {"fuse_unk", false},
                              {"byte_fallback", false},
                              {"vocab", vocab},
                              {"merges", nlohmann::json::array()}}}};
  const test::TempDir dir;
  test::write_file(dir / "tokenizer.json", file.dump());
  return Tokenizer::load(dir.path());
}

const std::vector<std::string> kTokens{"a", "b", "c", "d", "e", "f", "<|end|>"};

TEST(CheckVocabularies, Equal) {
  EXPECT_NO_THROW(check_vocabularies(*tokenizer(kTokens, 1), *tokenizer(kTokens, 1), "speculation.draft"));
}

TEST(CheckVocabularies, APrefixOfTheOther) {
  auto longer = kTokens;
  longer.insert(longer.end(), {"<|x|>", "<|y|>"});
  const auto small = tokenizer(kTokens, 1), big = tokenizer(longer, 3);
  EXPECT_NO_THROW(check_vocabularies(*small, *big, "speculation.draft"));
  EXPECT_NO_THROW(check_vocabularies(*big, *small, "speculation.draft"));
}

TEST(CheckVocabularies, DifferentNamesTheFirstIdsAndTheShare) {
  auto other = kTokens;
  std::swap(other[1], other[4]);
  const auto target = tokenizer(kTokens, 1), draft = tokenizer(other, 1);
  test::expect_error(ExitCode::usage,
                     {"speculation.draft", "id 1: target \"b\", draft \"e\"", "id 4: target \"e\", draft \"b\"",
                      "71.4 %", "7 tokens", "target's tokenizer"},
                     [&] { check_vocabularies(*target, *draft, "speculation.draft"); });
}

// Same size, same tokens, all ids moved by one: sizes say nothing.
TEST(CheckVocabularies, TheSameSizeIsNotEnough) {
  std::vector<std::string> rotated{"f", "a", "b", "c", "d", "e", "<|end|>"};
  test::expect_error(ExitCode::usage, {"id 0: target \"a\", draft \"f\"", "id 2", "14.3 %"},
                     [&] { check_vocabularies(*tokenizer(kTokens, 1), *tokenizer(rotated, 1), "speculation.draft"); });
  try {
    check_vocabularies(*tokenizer(kTokens, 1), *tokenizer(rotated, 1), "speculation.draft");
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find("id 3"), std::string::npos) << error.what();  // three examples are enough
  }
}

TEST(CheckVocabularies, TheBuiltInModelsAgree) {
  const std::filesystem::path models = source_dir() / "configs/models";
  EXPECT_NO_THROW(check_vocabularies(*Tokenizer::load(models / "target-7m"), *Tokenizer::load(models / "draft-600k"),
                                     "speculation.draft"));
}

}  // namespace
}  // namespace paceline
