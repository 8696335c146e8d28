// runexp models

#include <algorithm>
#include <sstream>

#include "engine/model/families.h"
#include "engine/model/gguf_family.h"
#include "tests/cli/runexp.h"

namespace paceline::test {
namespace {

/// Each yes is run by SupportedFamily (tests/speculative/lossless/support_test.cpp).
TEST(ModelsCommand, SupportIsWhatTheListOfFamiliesSays) {
  const ProcessResult result = runexp({"models", "--support"});
  ASSERT_EQ(result.exit_code, 0) << described(result);
  const std::vector<std::string> lines = lines_of(result.out);
  ASSERT_EQ(lines.size(), 1 + families().size());
  for (size_t i = 0; i < families().size(); ++i) {
    const Family& family = families()[i];
    std::istringstream in(lines[1 + i]);
    std::vector<std::string> words;
    for (std::string word; in >> word;) words.push_back(word);
    std::vector<std::string> expected(9, "yes");
    expected[0] = family.architecture;
    expected[2] = family.gguf ? family.gguf->architecture : std::string_view("-");
    EXPECT_EQ(words, expected);
  }
  EXPECT_TRUE(holds(lines[0], "architecture")) << lines[0];
  EXPECT_TRUE(holds(result.err, "CUDA: this build ")) << result.err;
}

}  // namespace
}  // namespace paceline::test
