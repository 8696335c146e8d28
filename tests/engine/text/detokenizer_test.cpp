#include "engine/tokenizer/detokenizer.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/text/utf8.h"
#include "tests/engine/text/text_test_support.h"

namespace paceline {
namespace {

using Ids = std::vector<int32_t>;

std::shared_ptr<const Tokenizer> small_tokenizer() {
  test::TemporaryFolder folder;
  return Tokenizer::load(folder.write("tokenizer.json", test::small_tokenizer_json().dump()));
}

std::string streamed(const std::shared_ptr<const Tokenizer>& tokenizer, const Ids& ids, DecodeOptions options) {
  StreamDecoder decoder(tokenizer, options);
  std::string text;
  for (const int32_t id : ids) {
    const std::string part = decoder.push(id);
    EXPECT_TRUE(utf8_valid(part));
    text += part;
  }
  const std::string tail = decoder.flush();
  EXPECT_TRUE(utf8_valid(tail));
  EXPECT_EQ(decoder.flush(), "");
  return text + tail;
}

TEST(StreamDecoder, HoldsBackUnfinishedCharacters) {
  StreamDecoder decoder(small_tokenizer());
  // Ids below 256 are bytes.
  EXPECT_EQ(decoder.push('a'), "a");
  EXPECT_EQ(decoder.push(0xF0), "");
  EXPECT_EQ(decoder.push(0x9F), "");
  EXPECT_EQ(decoder.push(0x99), "");
  EXPECT_EQ(decoder.push(0x82), "\U0001F642");
  EXPECT_EQ(decoder.push(0xE2), "");
  EXPECT_EQ(decoder.push('b'), "\uFFFDb");  // can no longer be completed
  EXPECT_EQ(decoder.push(0x80), "\uFFFD");
  EXPECT_EQ(decoder.push(0xF0), "");
  EXPECT_EQ(decoder.push(0x9F), "");
  EXPECT_EQ(decoder.flush(), "\uFFFD");
  EXPECT_EQ(decoder.push('c'), "c");
  EXPECT_EQ(decoder.push(100000), "");
}

TEST(StreamDecoder, SpecialTokensOnDemand) {
  const auto tokenizer = small_tokenizer();
  EXPECT_EQ(streamed(tokenizer, {'a', 259, 'b'}, {}), "a<|end|>b");
  EXPECT_EQ(streamed(tokenizer, {'a', 259, 'b'}, {.skip_special = true}), "ab");
  // A skipped token does not cut a character in two.
  EXPECT_EQ(streamed(tokenizer, {0xC3, 259, 0xA9}, {.skip_special = true}), "é");
}

TEST(StreamDecoder, EqualsDecodeOfAllOnRandomIds) {
  const auto tokenizers = {small_tokenizer(), Tokenizer::load(source_dir() / "configs/models/target-7m")};
  uint64_t state = 3;
  const auto random = [&](uint64_t below) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<int32_t>((state >> 33) % below);
  };
  for (const auto& tokenizer : tokenizers) {
    for (int round = 0; round < 4000; ++round) {
      Ids ids;
      const bool bytes_only = round % 2 == 0;  // many broken and unfinished characters
      for (int i = random(24); i > 0; --i) {
        const int32_t lead_bytes[] = {0xC3, 0xE2, 0xF0, 0xED, 0xF4, 0xE0, 0x80, 0x9F, 0xBF, 0xA0};
        ids.push_back(bytes_only ? (random(3) == 0 ? random(256) : lead_bytes[random(10)])
                                 : random(static_cast<uint64_t>(tokenizer->vocab_size()) + 3));
      }
      for (const bool skip : {false, true})
        ASSERT_EQ(streamed(tokenizer, ids, {.skip_special = skip}), tokenizer->decode(ids, {.skip_special = skip}));
    }
  }
}

}  // namespace
}  // namespace paceline
