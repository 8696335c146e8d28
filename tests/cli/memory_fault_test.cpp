// Memory that is refused anywhere in a run ends in an error or a failed cell, never in a record that cannot be read.

#include <random>

#include "experiments/results/files/read.h"
#include "experiments/results/files/run_names.h"
#include "tests/cli/runexp.h"

namespace paceline::test {
namespace {

namespace fs = std::filesystem;

TEST(MemoryFault, ARefusedAllocationLeavesNoTornRecord) {
  if (time_factor() > 1) GTEST_SKIP() << "sanitizers have an operator new of their own";
  const fs::path library = binary_dir() / "libfailing_new.so";
  ASSERT_TRUE(fs::exists(library)) << library << " is not built";
  constexpr unsigned kSeed = 6;
  std::mt19937 random(kSeed);
  // A run makes some 160,000 allocations; the first 400 are those of the C++ library before main().
  std::uniform_real_distribution<double> exponent(std::log(400.0), std::log(160'000.0));
  int errors = 0, with_record = 0, failed_cells = 0;
  for (int point = 0; point < 24; ++point) {
    const long number = long(std::exp(exponent(random)));
    const Workspace workspace;
    const ProcessResult result =
        runexp({"run", workspace.config().string(), "--results", workspace.results().string(), "--ui", "quiet"},
               {.folder = {},
                .environment = {"LD_PRELOAD=" + library.string(), "PACELINE_FAIL_NEW=" + std::to_string(number)},
                .timeout_s = 60});
    SCOPED_TRACE("allocation " + std::to_string(number) + "\n" + described(result));
    EXPECT_EQ(result.signal, 0);
    EXPECT_TRUE(result.exit_code == 0 || result.exit_code == 1 || result.exit_code == 4);
    EXPECT_FALSE(result.timed_out);
    if (result.exit_code == 4) {
      ++errors;
      EXPECT_TRUE(holds(result.err, "runexp: error: ")) << "the end is said";
      // Once there is a folder, what ends one process is met by the next.
      EXPECT_TRUE(list_runs(workspace.results()).empty() || holds(result.err, "again and again"));
    }
    if (result.exit_code == 1) {
      ++failed_cells;
      EXPECT_TRUE(fs::exists(workspace.results() / "latest" / "report.html"));
      for (const nlohmann::json& cell : workspace.cells())
        EXPECT_TRUE(cell.at("status") == "done" || holds(cell.at("reason"), "out of memory")) << cell;
    }
    for (const std::string& id : list_runs(workspace.results())) {
      ++with_record;
      EXPECT_NO_THROW(read_record(workspace.results() / id));
    }
  }
  EXPECT_GT(errors, 5);
  EXPECT_GT(with_record, 2);
  EXPECT_GT(failed_cells, 0);
}

}  // namespace
}  // namespace paceline::test
