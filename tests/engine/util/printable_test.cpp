#include "engine/util/printable.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

TEST(Printable, EscapesWhatMovesACursor) {
  EXPECT_EQ(printable("a\x1b[31m\n\t\x7f\xc2\x9b é"), "a\\x1b[31m\\n\\t\\x7f\\u009b é");
  EXPECT_EQ(printable(std::string_view("\0", 1)), "\\x00");
}

TEST(Printable, CutsANameInItsMiddle) {
  EXPECT_EQ(user_text(std::string(200, 'x')), std::string(200, 'x'));
  const std::string path = "/models/" + std::string(1 << 20, 'd') + "/config.json", shown = user_text(path);
  EXPECT_LE(shown.size(), kMaxShownBytes);
  EXPECT_TRUE(shown.starts_with("/models/ddd")) << shown;
  EXPECT_TRUE(shown.ends_with("ddd/config.json")) << shown;
  EXPECT_NE(shown.find("…"), std::string::npos);
  for (size_t length = 150; length < 500; ++length) {
    const std::string escapes(length, '\x1b');
    std::string accents;
    for (size_t i = 0; i < length; ++i) accents += "é";
    EXPECT_LE(user_text(escapes).size(), kMaxShownBytes);
    EXPECT_EQ(user_text(escapes).find('\x1b'), std::string::npos);
    const std::string cut = user_text(accents);
    EXPECT_LE(cut.size(), kMaxShownBytes);
    EXPECT_EQ(cut.find("é…"), length <= 100 ? std::string::npos : cut.find("…") - 2) << "a character was cut";
  }
}

TEST(Printable, CutsEveryNameOfAMessage) {
  EXPECT_EQ(message_text("a.json:1:2: unknown key \"b c\" in \"d\""), "a.json:1:2: unknown key \"b c\" in \"d\"");
  EXPECT_EQ(message_text("\"it's\" 3 \" open\n"), "\"it's\" 3 \" open\\n");
  const std::string key(1 << 20, 'k'), words = "two words " + key;
  const std::string message = message_text("unknown key \"" + words + "\" in " + key + " (did you mean \"k\"?)");
  EXPECT_LE(message.size(), 2 * kMaxShownBytes + 50);
  EXPECT_TRUE(message.starts_with("unknown key \"two words kkk"));
  EXPECT_TRUE(message.ends_with("kkk (did you mean \"k\"?)"));
  std::string many;
  for (int i = 0; i < 100'000; ++i) many += "\" ";
  EXPECT_LE(message_text(many).size(), kMaxMessageBytes);
  EXPECT_EQ(message_text(""), "");
}

TEST(Printable, IsNoHtmlInMarkdown) {
  EXPECT_EQ(markdown_text("<img onerror=x> a|b `c` & \n\x1b"), "&lt;img onerror=x&gt; a\\|b \\`c\\` &amp; \\n\\x1b");
}

}  // namespace
}  // namespace paceline
