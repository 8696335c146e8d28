#include <algorithm>

#include <gtest/gtest.h>

#include "experiments/analysis/metrics/loads.h"
#include "experiments/config/file/builtin_root.h"
#include "experiments/run/plan/sweep.h"
#include "tests/experiments/config_files.h"
#include "tests/support/paths.h"

namespace paceline {
namespace {

/// A folder as configs/ is, for one more file.
class Templates : public testing::Test {
 protected:
  Templates() {
    for (const char* name : {"base", "workloads", "models", "shapes", "experiment.schema.json"})
      std::filesystem::create_symlink(source_dir() / "configs" / name, files.folder() / name);
  }
  ConfigFiles files;
};

TEST_F(Templates, EveryTemplateLoadsAndPlansWithAndWithoutItsQuickProfile) {
  const ConfigOverrides plain{.builtin_root = source_dir() / "configs"};
  for (const ExperimentTemplate& each : experiment_templates()) {
    SCOPED_TRACE(std::string(each.name));
    const std::string text = template_text(each);
    const std::string file = "x" + std::string(each.suffix);
    ASSERT_EQ(files.complaints(text, plain, file), "");
    const auto load = [&](const ConfigOverrides& overrides) { return load_config(files.write(file, text), overrides); };
    const LoadedConfig loaded = load(plain);
    EXPECT_EQ(loaded.profiles, std::vector<std::string>{"quick"});
    const LoadedConfig quick = load({.profile = "quick", .builtin_root = plain.builtin_root});
    const std::vector<Cell> cells = expand(loaded, {.devices = 2}), few = expand(quick, {.devices = 2});
    EXPECT_GE(cells.size(), 2u);
    EXPECT_LE(few.size(), cells.size());
    for (const std::vector<Cell>* list : {&cells, &few}) {
      for (const Cell& cell : *list) {
        EXPECT_FALSE(cell.skip_reason) << cell.id << ": " << *cell.skip_reason;
        EXPECT_TRUE(cell.baseline || cell.is_baseline) << cell.id;
      }
    }
    // for people: comments, a first line that asks, a schema for the editor, a name that fits the file's
    const bool is_yaml = each.suffix == ".yaml";
    EXPECT_TRUE(text.starts_with(is_yaml ? "# " : "// "));
    EXPECT_NE(text.find(is_yaml ? "$schema: experiment.schema.json" : "\"$schema\": \"experiment.schema.json\""),
              std::string::npos);
    std::string name(each.name);
    std::replace(name.begin(), name.end(), '-', '_');
    EXPECT_EQ(loaded.config.name, name);
    EXPECT_FALSE(each.purpose.empty());
  }
}

/// They lie one folder below configs/, and run there, too.
TEST_F(Templates, TheFilesThemselvesLoad) {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(source_dir() / "configs" / "templates")) {
    EXPECT_GE(expand(load_config(entry.path(), {}), {.devices = 2}).size(), 2u) << entry.path();
    ++count;
  }
  EXPECT_EQ(count, experiment_templates().size()) << "each is listed";
}

TEST_F(Templates, TheTemplatesAskTheirQuestions) {
  const auto cells = [&](std::string_view name) {
    for (const ExperimentTemplate& each : experiment_templates()) {
      if (each.name == name) return expand(files.load(template_text(each)), {.devices = 2}).size();
    }
    return size_t{0};
  };
  EXPECT_EQ(cells("minimal"), 2u);
  EXPECT_EQ(cells("ngram-k-sweep"), 1u + 8 * 2);
  EXPECT_EQ(cells("draft-vs-ngram"), 1u + 2 * 3);
  EXPECT_EQ(cells("tp-vs-pp"), 3u * 2);
  EXPECT_EQ(cells("batch-crossover"), 6u * (1 + 2 * 2));
  EXPECT_EQ(cells("stated-acceptance"), 1u + 6);
  EXPECT_EQ(cells("ci-regression"), 2u * 3);
}

// Fewer than five a place are one wave: its end, with places empty, is much of what is measured.
TEST_F(Templates, TheQuickCrossoverHasFiveRequestsAPlace) {
  const auto& templates = experiment_templates();
  const auto crossover = std::find_if(templates.begin(), templates.end(),
                                      [](const ExperimentTemplate& each) { return each.name == "batch-crossover"; });
  ASSERT_NE(crossover, templates.end());
  const LoadedConfig quick = files.load(template_text(*crossover), {.set = {}, .profile = "quick"});
  int most = 0;
  for (const Cell& cell : expand(quick, {.devices = 2})) {
    EXPECT_GE(cell.config.workload.requests, kWavesOfSteadyLoad * cell.config.load.concurrency) << cell.id;
    most = std::max(most, cell.config.load.concurrency);
  }
  EXPECT_GE(most, 16) << "at a load where drafts cost";
}

}  // namespace
}  // namespace paceline
