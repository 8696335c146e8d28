#include "experiments/workload/dataset.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "kernels/error.h"
#include "tests/support/checkpoint_writer.h"
#include "tests/support/paths.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;

const fs::path kWorkloads = source_dir() / "configs/workloads";

std::vector<Prompt> read_own_form(const fs::path& file) {
  return read_dataset(file, {.format = DatasetFormat::paceline}).prompts;
}

class DatasetTest : public ::testing::Test {
 protected:
  fs::path write(const std::string& content) {
    const fs::path file = folder_ / "mine.jsonl";
    test::write_file(file, content);
    return file;
  }

  /// The message of the error that reading `content` gives; "" when there is none.
  std::string error_of(const std::string& content) {
    try {
      read_own_form(write(content));
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::model_file);
      EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos);
      return e.what();
    }
    return "";
  }

  test::TempDir folder_;
};

TEST_F(DatasetTest, ReadsMessagesAndPlainPromptsWithBomAndCrlf) {
  const auto prompts = read_own_form(
      write("\xEF\xBB\xBF{\"_header\": {\"license\": \"none\"}}\r\n"
            "{\"id\": \"a\", \"category\": \"qa\", \"messages\": [{\"role\": \"user\", \"content\": \"Grüße\"}]}\r\n"
            "\r\n"
            "{\"prompt\": \"raw text\", \"extra\": 1}"));
  ASSERT_EQ(prompts.size(), 2u);
  EXPECT_EQ(prompts[0].id, "a");
  EXPECT_EQ(prompts[0].category, "qa");
  EXPECT_TRUE(prompts[0].is_chat());
  EXPECT_EQ(prompts[0].messages[0].content, "Grüße");
  EXPECT_EQ(prompts[1].id, "mine-4");
  EXPECT_EQ(prompts[1].text, "raw text");
  EXPECT_EQ(prompts[1].index, 1);
  EXPECT_FALSE(prompts[1].is_chat());
}

TEST_F(DatasetTest, ByteOrderMarkBeforeABlankLine) {
  EXPECT_EQ(read_own_form(write("\xEF\xBB\xBF\r\n{\"prompt\": \"x\"}\n")).size(), 1u);
}

TEST_F(DatasetTest, ErrorsNameFileLineAndField) {
  const std::string good = "{\"prompt\": \"x\"}\n";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {good + "{\"prompt\": \"x\"\n", "mine.jsonl:2: column"},
      {good + good + "[1]\n", "mine.jsonl:3: is of type array"},
      {good + "{\"prompt\": 5}\n", "mine.jsonl:2: field \"prompt\" is of type number: expected a string"},
      {"{\"prompt\": \"\"}\n", "mine.jsonl:1: field \"prompt\" is empty"},
      {"{\"text\": \"x\"}\n", "mine.jsonl:1: field \"messages\" is missing"},
      {"{\"messages\": []}\n", "field \"messages\" is empty"},
      {"{\"messages\": [{\"role\": \"user\"}]}\n", "field \"messages[0].content\" is missing"},
      {"{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, 3]}\n", "field \"messages[1]\" is of type number"},
      {"{\"messages\": [{\"role\": \"usr\", \"content\": \"a\"}]}\n",
       "mine.jsonl:1: field \"messages[0].role\" is \"usr\": expected system, developer, user, assistant, tool (did "
       "you "
       "mean \"user\"?)"},
      {"{\"messages\": [{\"role\": \"u\", \"content\": \"a\"}], \"prompt\": \"x\"}\n", "has both"},
      {"{\"id\": \"a\", \"prompt\": \"x\"}\n{\"id\": \"a\", \"prompt\": \"y\"}\n",
       "mine.jsonl:2: field \"id\": \"a\" was used in line 1"},
      {"{\"prompt\": \"\xFF\"}\n", "mine.jsonl:1: is not UTF-8: save the file as UTF-8"},
      {good + "{\"prompt\": \"a\", \"prompt\": \"b\"}\n", "mine.jsonl:2: key \"prompt\" stands twice"},
      {good + "{\"prompt\": \"a\", \"x\": {\"y\": 1, \"y\": 1}}\n", "mine.jsonl:2: key \"y\" stands twice"},
      {good + "{\"prompt\": \"a\", \"x\": 1e400}\n", "mine.jsonl:2: a number is beyond the range"},
      {"", "holds no prompt"},
  };
  for (const auto& [content, expected] : cases) {
    EXPECT_NE(error_of(content).find(expected), std::string::npos) << content << "\n gave: " << error_of(content);
  }
}

TEST_F(DatasetTest, RefusesAHugeLineMissingFilesAndFolders) {
  const std::string line = error_of("{\"prompt\": \"x\"}\n" + std::string(size_t{kMaxDatasetLineBytes} + 10, 'x'));
  EXPECT_NE(line.find("mine.jsonl:2: the line is longer"), std::string::npos) << line;
  EXPECT_THROW(read_own_form(folder_ / "absent.jsonl"), Error);
  EXPECT_THROW(read_own_form(folder_.path()), Error);
}

TEST(BuiltinDataset, ReadingQa) {
  const auto prompts = load_dataset("builtin:reading_qa", kWorkloads);
  ASSERT_EQ(prompts.size(), 128u);
  std::set<std::string> ids;
  size_t longest = 0;
  for (const Prompt& p : prompts) {
    ids.insert(p.id);
    ASSERT_EQ(p.messages.size(), 1u);
    EXPECT_NE(p.messages[0].content.find("\n\nPassage:\n"), std::string::npos);
    longest = std::max(longest, p.messages[0].content.size());
  }
  EXPECT_EQ(ids.size(), 128u);
  EXPECT_LE(longest, 1400u);
  EXPECT_EQ(load_dataset("builtin:code_prompts", kWorkloads).size(), 24u);
}

TEST(BuiltinDataset, UnknownNameListsTheKnownOnes) {
  for (const char* name : {"builtin:reding_qa", "builtin:../workloads/reading_qa"}) {
    try {
      load_dataset(name, kWorkloads);
      FAIL() << name;
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find("builtin:reading_qa"), std::string::npos) << e.what();
    }
  }
}

std::vector<Prompt> numbered(int n) {
  std::vector<Prompt> prompts;
  for (int i = 0; i < n; ++i)
    prompts.push_back({.id = std::to_string(i), .category = "", .index = i, .messages = {}, .text = "x"});
  return prompts;
}

TEST(SelectPrompts, OrderDependsOnTheSeedAlone) {
  const auto prompts = numbered(50);
  const auto order = [&](uint64_t seed, int n) {
    std::vector<int64_t> index;
    for (const Prompt& p : select_prompts(prompts, n, seed)) index.push_back(p.index);
    return index;
  };
  EXPECT_EQ(order(7, 50), order(7, 50));
  EXPECT_NE(order(7, 50), order(8, 50));
  EXPECT_EQ(order(0, 3), (std::vector<int64_t>{0, 1, 2}));
  auto all = order(7, 50);
  const auto first = order(7, 10);
  EXPECT_TRUE(std::equal(first.begin(), first.end(), all.begin()));  // a shorter run is a prefix of a longer one
  std::sort(all.begin(), all.end());
  for (int64_t i = 0; i < 50; ++i) EXPECT_EQ(all[static_cast<size_t>(i)], i);
}

TEST(SelectPrompts, RepeatsWithOtherIds) {
  const auto selected = select_prompts(numbered(2), 5, 0);
  ASSERT_EQ(selected.size(), 5u);
  EXPECT_EQ(selected[2].id, "0#2");
  EXPECT_EQ(selected[4].id, "0#3");
  EXPECT_TRUE(select_prompts({}, 0, 1).empty());
  EXPECT_THROW(select_prompts({}, 1, 1), Error);
}

}  // namespace
}  // namespace paceline
