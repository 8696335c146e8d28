// Tokens to text with stop strings: nothing of a stop string leaves early, over any borders of tokens.

#include "engine/serve/choice_text.h"

#include <random>

#include <gtest/gtest.h>

#include "small_tokenizer.h"

namespace paceline {
namespace {

using test::small_tokenizer;

struct Heard {
  std::string text;
  bool stopped = false;
  size_t num_tokens = 0;
};

/// The answer of a stream of these tokens; `seen` is what a client has after each.
Heard hear(const std::vector<int32_t>& tokens, const StopStrings& stop, std::vector<std::string>* seen = nullptr) {
  ChoiceText choice(small_tokenizer(), {}, stop);
  Heard heard;
  for (const int32_t token : tokens) {
    ++heard.num_tokens;
    heard.stopped = choice.push(token, heard.text) == ChoiceText::After::stopped;
    if (seen) seen->push_back(heard.text);
    if (heard.stopped) return heard;
  }
  heard.stopped = choice.flush(heard.text) == ChoiceText::After::stopped;
  return heard;
}

TEST(ChoiceText, WithoutStopsItIsTheDecodedText) {
  const auto tokens = small_tokenizer()->encode("A plain text, with ünïcödé and 漢字.");
  EXPECT_EQ(hear(tokens, {}).text, small_tokenizer()->decode(tokens));
}

TEST(ChoiceText, EndsBeforeTheStringThatIsCompleteFirst) {
  const auto tokens = small_tokenizer()->encode("one two three four");
  EXPECT_EQ(hear(tokens, {.texts = {"three"}}).text, "one two ");
  EXPECT_EQ(hear(tokens, {.texts = {"four", "two"}}).text, "one ");
  EXPECT_EQ(hear(tokens, {.texts = {"two", "two three"}}).text, "one ");
  EXPECT_EQ(hear(tokens, {.texts = {"five"}}).text, "one two three four");
}

TEST(ChoiceText, KeepsTheStringWhereItIsAskedTo) {
  const auto tokens = small_tokenizer()->encode("one two three four");
  EXPECT_EQ(hear(tokens, {.texts = {"wo three", "two three"}, .include = true}).text, "one two three");
}

TEST(ChoiceText, GivesBackWhatOnlyBeganLikeAStop) {
  const auto tokens = small_tokenizer()->encode("ababab abx");
  EXPECT_EQ(hear(tokens, {.texts = {"abab abc", "abx!"}}).text, "ababab abx");
}

TEST(ChoiceText, TokensBehindTheStopAreNotCounted) {
  const auto tokens = small_tokenizer()->encode("one two three four");
  const Heard heard = hear(tokens, {.texts = {"two"}});
  EXPECT_TRUE(heard.stopped);
  EXPECT_LT(heard.num_tokens, tokens.size());
}

/// Against the definition: the whole text cut at the first stop; and at no time has the client seen what is not a
/// prefix of the answer.
TEST(ChoiceText, RandomTextsAndStopsAgainstTheDefinition) {
  std::mt19937 random(7);
  const std::vector<std::string> letters{"a", "b", "ab", "ba", " ", "ö", "漢"};
  const auto draw = [&](size_t most) {
    std::string text;
    for (size_t i = 0, count = 1 + random() % most; i < count; ++i) text += letters[random() % letters.size()];
    return text;
  };
  for (int trial = 0; trial < 2000; ++trial) {
    const std::string text = draw(12);
    StopStrings stop{.texts = {draw(3), draw(4)}, .include = trial % 2 == 1};
    size_t begin = std::string::npos, end = std::string::npos;
    for (size_t at = 0; at <= text.size() && end == std::string::npos; ++at)
      for (const std::string& one : stop.texts)
        if (std::string_view(text).substr(0, at).ends_with(one)) end = at, begin = std::min(begin, at - one.size());
    const std::string expected = text.substr(0, stop.include ? end : begin);
    std::vector<std::string> seen;
    const Heard heard = hear(small_tokenizer()->encode(text), stop, &seen);
    ASSERT_EQ(heard.text, expected) << "text \"" << text << "\" stops \"" << stop.texts[0] << "\" \"" << stop.texts[1]
                                    << '"';
    ASSERT_EQ(heard.stopped, begin != std::string::npos);
    for (const std::string& one : seen) ASSERT_TRUE(expected.starts_with(one)) << one;
  }
}

}  // namespace
}  // namespace paceline
