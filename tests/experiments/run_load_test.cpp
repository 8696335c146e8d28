// What the cells of one load leave to be done.

#include "experiments/run/run_load.h"

#include <gtest/gtest.h>

#include "experiments/run/plan/planned_cell.h"
#include "tests/experiments/config_files.h"
#include "tests/support/paths.h"

namespace paceline {
namespace {

/// Two loads of one cell, three repetitions, as on GPUs in fast numerics; the first cell is the reference of both.
class CellsToCheck : public testing::Test {
 protected:
  CellsToCheck() {
    for (size_t i = 0; i < sweep_.cells.size(); ++i) {
      sweep_.run.cells.push_back(planned_result(sweep_.cells[i], int(i), sweep_.cells));
      sweep_.run.cells[i].effective = {{"numerics", "fast"}, {"rule", "greedy"}};
    }
  }
  void measure(size_t cell, size_t repetitions) { sweep_.run.cells[cell].repetitions.resize(repetitions); }

  const std::string configs_ = (source_dir() / "configs").string();
  const ConfigFiles files_;
  const LoadedConfig loaded_ =
      files_.load("{\"extends\": [\"" + configs_ + "/base/defaults.json\", \"" + configs_ +
                  "/workloads/reading_qa.json\"], \"engine\": {\"backend\": \"cpu\"}, \"measure\": "
                  "{\"repetitions\": 3}, \"sweep\": {\"axes\": {\"engine.parallel.tp\": [1, 2]}}}");
  const std::unique_ptr<Progress> progress_ = make_progress(ProgressMode::quiet, standard_error_terminal());
  const RunOptions options_;
  SweepUnderWay sweep_{.loaded = loaded_,
                       .progress = *progress_,
                       .options = options_,
                       .cells = expand(loaded_, {}),
                       .run = {},
                       .folder = nullptr,
                       .log = nullptr,
                       .prompts = {},
                       .arrivals = {},
                       .encoded = {},
                       .gpu_ceilings = {}};
};

TEST_F(CellsToCheck, OfAnotherLoadHaveAllTheirRepetitions) {
  using Cells = std::vector<size_t>;
  ASSERT_EQ(sweep_.cells.size(), 2u);
  measure(0, 3);
  measure(1, 2);
  EXPECT_EQ(cells_to_check(sweep_, {0}), Cells{0}) << "the other is visited once more";
  sweep_.run.cells[0].logits.reference = sweep_.run.cells[0].id;
  measure(1, 3);
  EXPECT_EQ(cells_to_check(sweep_, {1}), Cells{1});
  EXPECT_EQ(cells_to_check(sweep_, {0}), Cells{1}) << "by its reference";
  measure(1, 2);
  sweep_.stop = true;
  EXPECT_EQ(cells_to_check(sweep_, {0}), Cells{1}) << "it is not visited any more";
}

}  // namespace
}  // namespace paceline
