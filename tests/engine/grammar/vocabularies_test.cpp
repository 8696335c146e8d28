// Masks on vocabularies of models: byte-level, tiktoken's and SentencePiece's with its blanks and bytes.

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "engine/grammar/grammar_constraint.h"
#include "engine/tokenizer/tokenizer.h"
#include "kernels/logit_edits.h"
#include "tests/engine/grammar/grammar_cases.h"
#include "tests/support/paths.h"

namespace paceline::test {
namespace {

struct Model {
  const char* name;
  std::filesystem::path path;
  std::string pre;
};

std::vector<Model> models() {
  return {{"built in", builtin_model("target-7m"), ""},
          {"gpt2", shared_dir() / "tokenizers/gpt2/tokenizer.json", ""},
          {"llama2", shared_dir() / "tokenizers/llama2/tokenizer.model", ""},
          {"llama3", shared_dir() / "tokenizers/llama3/tokenizer.model", "llama-bpe"}};
}

const std::vector<std::string> kTexts = {
    R"({"name": "Großvater \"Joe\" 🙂 祖父", "age": 72, "tags": ["tall", "likes\ttea"], "x": [1.5e3, null, {}]})",
    "[1, 2,\n   {\"a\": \"\\u00e9\"}]",
    "  {}  ",
    "\"\x01\"",
    "{\"a\": tru}",
    "[1,]"};

class VocabularyMasks : public testing::TestWithParam<size_t> {};

// The texts as their own tokens: each is allowed where the text is JSON so far, and the end where it is complete.
// What decoding gives back is what the grammar read.
TEST_P(VocabularyMasks, TheTokensOfATextAreAllowedAsFarAsItGoes) {
  const Model model = models()[GetParam()];
  if (!std::filesystem::exists(model.path)) GTEST_SKIP() << "shared tokenizers/" << model.name << " is missing";
  const auto tokenizer = Tokenizer::load(model.path, {.pre = model.pre});
  const int32_t vocab = tokenizer->vocab_size(), end = vocab;
  const auto compiled = std::make_shared<CompiledGrammar>(ebnf_grammar(kJsonEbnf), TokenTrie::make(*tokenizer));
  for (const std::string& text : kTexts) {
    const auto constraint = make_grammar_constraint(compiled, {end});
    const std::vector<int32_t> ids = tokenizer->encode(text);
    EXPECT_EQ(tokenizer->decode(ids), text);
    StackMachine machine(ebnf_grammar(kJsonEbnf));
    for (size_t length = 0; length <= ids.size(); ++length) {
      // What the text is after so many tokens, and with one more.
      const auto state_of = [&](size_t count) {
        std::string bytes;
        for (size_t j = 0; j < count; ++j) bytes += tokenizer->token_bytes(ids[j]);
        if (tokenizer->strips_blank() && !bytes.empty() && bytes[0] == ' ') bytes.erase(0, 1);
        StackMachine::State state = machine.start();
        for (const char byte : bytes) state = machine.advance(state, uint8_t(byte));
        return state;
      };
      std::vector<uint32_t> mask(size_t(mask_words(vocab + 1)), 0);
      ASSERT_TRUE(constraint->allow(std::span(ids).first(length), {}, mask));
      const auto is_allowed = [&](int32_t id) { return bool(mask[size_t(id) / 32] >> (id % 32) & 1); };
      EXPECT_EQ(is_allowed(end), machine.complete(state_of(length))) << text << " " << length;
      for (const int32_t special : tokenizer->special_ids()) EXPECT_FALSE(is_allowed(special));
      if (length == ids.size()) break;
      const bool goes_on = state_of(length + 1) != StackMachine::kDead;
      EXPECT_EQ(is_allowed(ids[length]), goes_on) << text << " " << length;
      if (!goes_on) break;
    }
  }
}

// Each token alone, byte by byte.
TEST_P(VocabularyMasks, EqualWalkingEachTokenAlone) {
  const Model model = models()[GetParam()];
  if (!std::filesystem::exists(model.path)) GTEST_SKIP() << "shared tokenizers/" << model.name << " is missing";
  const auto tokenizer = Tokenizer::load(model.path, {.pre = model.pre});
  const int32_t vocab = tokenizer->vocab_size();
  const auto compiled = std::make_shared<CompiledGrammar>(ebnf_grammar(kJsonEbnf), TokenTrie::make(*tokenizer));
  const auto constraint = make_grammar_constraint(compiled, {vocab});
  StackMachine machine(ebnf_grammar(kJsonEbnf));
  const std::vector<int32_t> ids = tokenizer->encode(kTexts[0]);
  size_t num_allowed = 0;
  for (size_t length = 0; length <= ids.size(); length += length < 4 ? 1 : 7) {
    StackMachine::State state = machine.start();
    std::string bytes;
    for (size_t j = 0; j < length; ++j) bytes += tokenizer->token_bytes(ids[j]);
    const bool begins = bytes.empty() && tokenizer->strips_blank();
    if (tokenizer->strips_blank() && !bytes.empty() && bytes[0] == ' ') bytes.erase(0, 1);
    for (const char byte : bytes) state = machine.advance(state, uint8_t(byte));
    std::vector<uint32_t> mask(size_t(mask_words(vocab + 1)), 0);
    ASSERT_TRUE(constraint->allow(std::span(ids).first(length), {}, mask));
    for (int32_t id = 0; id < vocab; ++id) {
      std::string_view token = tokenizer->token_bytes(id);
      bool expected = !token.empty() && !tokenizer->is_special(id);
      if (begins && expected && token.front() == ' ') token.remove_prefix(1);
      StackMachine::State next = state;
      for (const char byte : token) next = machine.advance(next, uint8_t(byte));
      expected = expected && next != StackMachine::kDead;
      num_allowed += expected;
      ASSERT_EQ(bool(mask[size_t(id) / 32] >> (id % 32) & 1), expected) << bytes << " + " << token;
    }
  }
  EXPECT_GT(num_allowed, size_t(vocab));
}

INSTANTIATE_TEST_SUITE_P(Models, VocabularyMasks, testing::Range(size_t(0), size_t(4)), [](const auto& each) {
  std::string name = models()[each.param].name;
  name.erase(std::remove(name.begin(), name.end(), ' '), name.end());
  return name;
});

}  // namespace
}  // namespace paceline::test
