// Output that cannot be written: a full disk, a file that may not grow.

#include "tests/cli/runexp.h"

namespace paceline::test {
namespace {

TEST(Output, AFullDiskBehindStdoutIsAnError) {
  const ProcessResult result =
      run_process({"/bin/sh", "-c", "exec \"$0\" explain exit-codes > /dev/full", kRunexp.string()});
  EXPECT_EQ(result.exit_code, 6) << described(result);
  EXPECT_TRUE(holds(result.err, "standard output: No space left on device")) << result.err;
  const ProcessResult tokens = run_process(
      {"/bin/sh", "-c", "exec \"$0\" tokenize --tokenizer builtin:target-7m --file builtin:reading_qa > /dev/full",
       kRunexp.string()},
      {.folder = kSource});
  EXPECT_EQ(tokens.exit_code, 6) << described(tokens);
  EXPECT_TRUE(holds(tokens.err, "standard output: ")) << tokens.err;
}

/// A run of the small experiment, under a shell that says what comes before and behind the command.
ProcessResult run_in_shell(const Workspace& workspace, const std::string& before, const std::string& behind) {
  return run_process(
      {"/bin/sh", "-c", before + "exec \"$0\" \"$1\" --results \"$2\" " + behind, kRunexp.string(),
       workspace.config().string(), workspace.results().string()},
      {.folder = kSource, .environment = {}, .timeout_s = 60 * time_factor(), .streams = Streams::pipes});
}

TEST(Output, ATableThatCouldNotBeWrittenIsAnError) {
  const Workspace workspace;
  const ProcessResult result = run_in_shell(workspace, "", "> /dev/full");
  EXPECT_EQ(result.exit_code, 6) << described(result);
  EXPECT_TRUE(holds(result.err, "standard output: ")) << result.err;
}

TEST(Output, AFileThatMayNotGrowIsAnErrorAsAFullDiskIs) {
  for (const char* const limit : {"ulimit -f 0; ", "ulimit -f 5; "}) {
    const Workspace workspace;
    const ProcessResult result = run_in_shell(workspace, limit, "");
    EXPECT_EQ(result.exit_code, 6) << described(result);
    EXPECT_TRUE(holds(result.err, "write failed: File too large")) << result.err;
  }
}

}  // namespace
}  // namespace paceline::test
