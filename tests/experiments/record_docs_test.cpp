// results/README.md says what the fields of records mean, in the words of their lists.

#include <gtest/gtest.h>

#include "experiments/analysis/metrics/summary.h"
#include "experiments/report/documents.h"
#include "tests/experiments/synthetic_run.h"
#include "tests/support/checkpoint_writer.h"
#include "tests/support/holds.h"
#include "tests/support/paths.h"

namespace paceline {
namespace {

TEST(RecordDocs, TheReadmeHasTheTablesOfTheFields) {
  const std::string page = test::read_file(source_dir() / "results/README.md");
  const std::string mark = "<!-- From here on made by `runexp config records`. -->\n\n";
  const size_t at = page.find(mark);
  ASSERT_NE(at, std::string::npos);
  EXPECT_EQ(page.substr(at + mark.size()), record_docs())
      << "write it anew: everything below the mark is the output of build/release/runexp config records";
}

/// A key that no list names would have no line in the table.
TEST(RecordDocs, EveryKeyOfACellIsExplained) {
  const RunResult run = test::synthetic_run({});
  const RunSummary summary = summarize(run);
  const std::string docs = record_docs();
  const nlohmann::json data = summary_to_json(run, summary);
  for (const nlohmann::json& cell : data.at("cells"))
    for (const auto& [key, value] : cell.items()) EXPECT_TRUE(test::holds(docs, "| `" + key + "` |")) << key;
}

}  // namespace
}  // namespace paceline
