#include "engine/text/word_scanner.h"

#include <gtest/gtest.h>

#include "engine/text/char_class.h"
#include "engine/text/regex.h"
#include "engine/text/utf8.h"
#include "engine/util/utf8_chars.h"
#include "tests/engine/text/text_test_support.h"

namespace paceline {
namespace {

const WordPattern* const kPatterns[] = {&kGpt2Words, &kLlama3Words, &kQwen2Words, &kGpt4oWords, &kTekkenWords};

/// Characters of all classes, where each follows each.
std::string random_classes(uint64_t seed) {
  static const char* const kChars[] = {
      "a",      "b",      "s",      "t", "l", "d", "e", "r", "A", "S", "L",    "ſ",      "ǅ",      "ʰ",  "漢",
      "ß",      "É",      "\u0301", "1", "2", "²", "Ⅷ", "٣", " ", " ", "\t",   "\u00a0", "\n",     "\r", "\u2028",
      "\u3000", "\u180e", "\u200b", "'", "'", ".", "/", "-", "_", "€", "🙂", "\u0903", "\u20dd", "𐐀",  "𝟙"};
  uint64_t state = seed * 2654435761u + 1;
  const auto random = [&](uint64_t below) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (state >> 33) % below;
  };
  std::string text;
  for (uint64_t left = random(24); left > 0; --left) text += kChars[random(std::size(kChars))];
  return text;
}

/// The text without characters that PCRE2's edition of Unicode, perhaps older than the table's, does not know.
std::string known_to_pcre(const std::string& text) {
  static const Regex unassigned(R"(\p{Cn})", "class");
  RegexMatcher matcher(text.size() * 10);
  std::string known;
  for (size_t pos = 0; pos < text.size();) {
    const auto length = static_cast<size_t>(utf8_decode(text, pos).num_bytes);
    if (!matcher.match_at(unassigned, text, pos)) known += text.substr(pos, length);
    pos += length;
  }
  return known;
}

void expect_words_of_the_regex(const WordPattern& pattern, const Regex& regex, const std::string& text) {
  RegexMatcher matcher(text.size());
  for (size_t pos = 0; pos < text.size();) {
    const auto length = matcher.match_at(regex, text, pos);
    ASSERT_TRUE(length) << "the pattern leaves a gap at " << pos << " of " << text;
    ASSERT_EQ(pattern.scan(text, pos), pos + *length) << "at " << pos << " of " << text;
    pos += *length;
  }
}

TEST(WordScanner, FindsTheWordsOfTheRegularExpression) {
  for (const WordPattern* pattern : kPatterns) {
    const Regex regex(std::string(pattern->regex), "pattern");
    for (uint64_t seed = 0; seed < 20'000 && !HasFatalFailure(); ++seed)
      expect_words_of_the_regex(*pattern, regex, random_classes(seed));
    for (uint64_t seed = 0; seed < 1000 && !HasFatalFailure(); ++seed)
      expect_words_of_the_regex(*pattern, regex, known_to_pcre(test::random_text(seed)));
  }
}

TEST(WordScanner, ClassesAreThoseOfTheRegularExpressions) {
  const std::pair<const char*, unsigned> kClasses[] = {{R"([\p{Lu}\p{Lt}])", kUpperish},
                                                       {R"(\p{Ll})", kLower},
                                                       {R"([\p{Lm}\p{Lo}])", kOtherLetter},
                                                       {R"(\p{M})", kMark},
                                                       {R"(\p{N})", kNumber},
                                                       {R"(\s)", kWhite}};
  std::string all;
  for (char32_t code = 0; code < 0x110000; ++code) {
    if (code < 0xD800 || code > 0xDFFF) utf8_append(all, code);
  }
  all = known_to_pcre(all);
  EXPECT_GT(utf8_length(all), 280'000u);
  std::vector<unsigned> expected(all.size(), 0);
  for (const auto& [pattern, bit] : kClasses) {
    const Regex regex(pattern, "class");
    RegexMatcher matcher(all.size() * 10);
    for (size_t pos = 0; pos < all.size(); pos += CharClasses::get().at(all, pos).num_bytes)
      expected[pos] |= matcher.match_at(regex, all, pos) ? bit : 0;
  }
  for (size_t pos = 0; pos < all.size(); pos += CharClasses::get().at(all, pos).num_bytes) {
    const Utf8Char c = utf8_decode(all, pos);
    ASSERT_EQ(CharClasses::get().at(all, pos).num_bytes, c.num_bytes);
    ASSERT_EQ(CharClasses::get().at(all, pos).classes & ~unsigned{kLineEnd}, expected[pos])
        << static_cast<uint32_t>(c.code);
  }
}

TEST(WordScanner, TakesLinearTime) {
  const size_t size = size_t{1} << 20;
  const auto repeated = [&](const char* part) {
    std::string text;
    while (text.size() < size) text += part;
    return text;
  };
  for (const char* part : {"a", "A", " ", "\n", " \n", "\t", "1", "!", "ʰA", "'", "漢", "\u0301", "aA", "/\n"}) {
    const std::string text = repeated(part);
    for (const WordPattern* pattern : kPatterns) {
      const double begin = test::thread_cpu_ms();
      for (size_t pos = 0; pos < text.size();) pos = pattern->scan(text, pos);
      if (!test::kSanitized) {
        EXPECT_LE(test::thread_cpu_ms() - begin, 300.0) << part << " " << pattern->regex;
      }
    }
  }
}

TEST(WordScanner, IsKnownByItsExpression) {
  for (const WordPattern* pattern : kPatterns) EXPECT_EQ(find_word_scanner(pattern->regex), pattern->scan);
  EXPECT_EQ(find_word_scanner(R"(\p{L}+)"), nullptr);
}

}  // namespace
}  // namespace paceline
