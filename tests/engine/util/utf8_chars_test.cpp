#include "engine/util/utf8_chars.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

TEST(Utf8Chars, AreCountedFoundAndCut) {
  const std::string_view text = "aé€😀b";  // of 1, 2, 3, 4 and 1 bytes
  EXPECT_EQ(utf8_length(text), 5u);
  EXPECT_EQ(utf8_length(""), 0u);
  const size_t begins[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10};
  for (size_t pos = 0; pos < text.size(); ++pos) EXPECT_EQ(utf8_begin(text, pos), begins[pos]) << pos;
  EXPECT_EQ(utf8_first(text, 0), "");
  EXPECT_EQ(utf8_first(text, 3), "aé€");
  EXPECT_EQ(utf8_first(text, 4), "aé€😀");
  EXPECT_EQ(utf8_first(text, 5), text);
  EXPECT_EQ(utf8_first(text, 9), text);
}

TEST(Utf8Chars, WhatIsLongerEndsInAnEllipsis) {
  EXPECT_EQ(utf8_shortened("aé€😀b", 5), "aé€😀b");
  EXPECT_EQ(utf8_shortened("aé€😀b", 4), "aé€…");
  EXPECT_EQ(utf8_shortened("aé€😀b", 1), "…");
  EXPECT_EQ(utf8_shortened("", 1), "");
}

}  // namespace
}  // namespace paceline
