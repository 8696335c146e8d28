// runexp models

#include <filesystem>
#include <set>
#include <sstream>

#include "engine/model/families.h"
#include "engine/model/gguf_family.h"
#include "tests/cli/runexp.h"
#include "tests/support/paths.h"

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

TEST(ModelsCommand, FoldersOfAnyLengthStandInOneColumn) {
  const TempDir dir;
  const std::filesystem::path models = dir.path() / "a folder whose name is a long one";
  std::filesystem::create_directories(models);
  std::filesystem::copy(source_dir() / "configs/models/draft-600k", models / "m",
                        std::filesystem::copy_options::recursive);
  const ProcessResult result = runexp({"models"}, {.environment = {"PACELINE_MODELS=" + models.string()}});
  ASSERT_EQ(result.exit_code, 0) << described(result);
  std::set<size_t> columns;
  for (const std::string& line : lines_of(result.out))
    if (const size_t at = line.find(" llama "); at != std::string::npos) columns.insert(at);
  EXPECT_EQ(columns.size(), 1u) << result.out;
  EXPECT_TRUE(holds(result.out, models.string())) << result.out;
}

}  // namespace
}  // namespace paceline::test
