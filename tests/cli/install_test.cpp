// What `cmake --install` and cpack put somewhere runs there, from any folder.

#include "tests/cli/runexp.h"

namespace paceline::test {
namespace {

namespace fs = std::filesystem;

/// Checks a tree with bin/runexp and share/ below `prefix`.
void expect_runs_from(const fs::path& prefix) {
  for (const char* file : {"share/paceline/configs/experiment.schema.json", "share/paceline/configs/ngram_tp2.json",
                           "share/bash-completion/completions/runexp", "share/zsh/site-functions/_runexp",
                           "share/fish/vendor_completions.d/runexp.fish"})
    EXPECT_GT(fs::file_size(prefix / file), 300u) << file;
  const TempDir elsewhere;
  const ProcessOptions options{
      .folder = elsewhere.path(), .environment = {}, .timeout_s = 120, .streams = Streams::pipes};
  const std::string program = (prefix / "bin/runexp").string();
  const ProcessResult models = run_process({program, "models"}, options);
  EXPECT_TRUE(holds(models.out, "target-7m")) << described(models);
  // An experiment of one's own, on what is built in.
  const std::string configs = (prefix / "share/paceline/configs").string();
  write_file(
      elsewhere / "own.json",
      "{\"extends\": [\"" + configs + "/base/defaults.json\", \"" + configs +
          "/workloads/reading_qa.json\"], \"name\": \"own\",\n"
          " \"workload\": {\"requests\": 1}, \"sampling\": {\"max_tokens\": 4}, \"measure\": {\"repetitions\": 1}}");
  const ProcessResult own = run_process({program, "own.json", "--ui", "quiet"}, options);
  EXPECT_EQ(own.exit_code, 0) << described(own);
  EXPECT_TRUE(fs::exists(elsewhere / "results/latest/report.html"));
  const ProcessResult plan =
      run_process({program, "plan", (prefix / "share/paceline/configs/ngram_tp2.json").string()}, options);
  EXPECT_EQ(plan.exit_code, 0) << described(plan);
}

TEST(Install, RunsWhereItWasPut) {
  if (time_factor() > 1) GTEST_SKIP() << "in release builds only";
  const TempDir prefix;
  const ProcessResult installed =
      run_process({"/usr/bin/env", "cmake", "--install", binary_dir().string(), "--prefix", prefix.path().string()},
                  {.folder = kSource, .environment = {}, .timeout_s = 120, .streams = Streams::pipes});
  ASSERT_EQ(installed.exit_code, 0) << described(installed);
  expect_runs_from(prefix.path());
}

TEST(Install, APackageHoldsTheSame) {
  if (time_factor() > 1) GTEST_SKIP() << "in release builds only";
  const TempDir folder;
  const ProcessOptions options{.folder = folder.path(), .environment = {}, .timeout_s = 120, .streams = Streams::pipes};
  const ProcessResult packed =
      run_process({"/usr/bin/env", "cpack", "--config", (binary_dir() / "CPackConfig.cmake").string(), "-B",
                   folder.path().string()},
                  options);
  ASSERT_EQ(packed.exit_code, 0) << described(packed);
  fs::path package;
  for (const auto& entry : fs::directory_iterator(folder.path()))
    if (entry.path().extension() == ".deb") package = entry.path();
  ASSERT_FALSE(package.empty()) << described(packed);
  const ProcessResult unpacked =
      run_process({"/usr/bin/env", "dpkg-deb", "-x", package.string(), (folder / "root").string()}, options);
  ASSERT_EQ(unpacked.exit_code, 0) << described(unpacked);
  expect_runs_from(folder / "root/usr");
}

}  // namespace
}  // namespace paceline::test
