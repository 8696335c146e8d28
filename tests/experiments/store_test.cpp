// A run's folder on disk: whole, and never half a file.

#include "experiments/results/files/store.h"

#include <filesystem>
#include <fstream>
#include <signal.h>
#include <sstream>
#include <sys/resource.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "experiments/report/documents.h"
#include "experiments/results/files/files.h"
#include "kernels/error.h"
#include "tests/experiments/recorded_run.h"
#include "tests/experiments/synthetic_run.h"
#include "tests/support/checkpoint_writer.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using test::read_file;

TEST(Store, WritesTheWholeFolderAndLatest) {
  const test::TempDir root;
  RunResult run = test::synthetic_run();
  RunFolder folder(root.path(), run, json::object());
  EXPECT_TRUE(fs::exists(folder.path() / "manifest.json"));
  test::record_all(folder, run);
  folder.finish(run, run_documents(run));
  for (const char* file : {"manifest.json", "config.resolved.json", "environment.json", "summary.json", "summary.csv",
                           "summary.md", "report.html", "cells/001_tp1_pp1_ngram_k1_c1/cell.json"}) {
    EXPECT_TRUE(fs::exists(root.path() / "latest" / file)) << file;
  }
  EXPECT_EQ(fs::read_symlink(root.path() / "latest"), folder.path().filename());
  EXPECT_EQ(folder.path().filename(), "2026-11-21T093012Z_ngram_tp2_7f3a");
  std::istringstream requests(read_file(folder.path() / "cells/001_tp1_pp1_ngram_k1_c1/requests.jsonl"));
  std::string line;
  size_t lines = 0;
  while (std::getline(requests, line)) {
    const json row = json::parse(line);
    EXPECT_EQ(row["output"].size(), 48u);
    ++lines;
  }
  EXPECT_EQ(lines, 36u);
  for (const auto& entry : fs::recursive_directory_iterator(root.path())) {
    EXPECT_EQ(entry.path().string().find(".tmp"), std::string::npos) << entry.path();
  }
  // A second run in the same second gets its own folder, and latest moves on.
  RunResult again = test::synthetic_run();
  RunFolder second(root.path(), again, json::object());
  EXPECT_NE(second.path(), folder.path());
  second.finish(again, run_documents(again));
  EXPECT_EQ(fs::read_symlink(root.path() / "latest"), second.path().filename());
}

TEST(Store, DiskErrorsAreStoreErrorsAndLeaveTheOldFile) {
  const test::TempDir root;
  const fs::path file = root.path() / "summary.json";
  write_file_atomic(file, "old");
  // A file-size limit stands in for a full disk.
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old_handler = signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 100;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  ExitCode code = ExitCode::ok;
  try {
    write_file_atomic(file, std::string(5000, 'x'));
  } catch (const Error& e) {
    code = e.code();
  }
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, old_handler);
  EXPECT_EQ(code, ExitCode::store);
  EXPECT_EQ(read_file(file), "old");
  EXPECT_EQ(std::distance(fs::directory_iterator(root.path()), fs::directory_iterator()), 1);
}

TEST(Store, AMissingFolderIsNamedWithTheFileThatWasAskedFor) {
  const test::TempDir root;
  const fs::path file = root.path() / "none" / "x.html";
  try {
    write_file_atomic(file, "x");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::store);
    const std::string text = e.what();
    EXPECT_TRUE(text.starts_with(file.string() + ": open failed: there is no folder " +
                                 (root.path() / "none").string() + ": make it, or choose another place"))
        << text;
    EXPECT_EQ(text.find(".tmp"), std::string::npos) << text;
  }
}

TEST(Store, RefusesImpossiblePlaces) {
  const test::TempDir root;
  std::ofstream(root.path() / "file") << "x";
  RunResult run = test::synthetic_run();
  try {
    RunFolder folder(root.path() / "file" / "results", run, json::object());
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::store);
  }
  fs::create_directory(root.path() / "latest");  // a user's folder
  RunFolder folder(root.path(), run, json::object());
  EXPECT_THROW(folder.finish(run, run_documents(run)), Error);
  EXPECT_TRUE(fs::is_directory(root.path() / "latest"));
}

TEST(Store, NamesAreSafe) {
  EXPECT_EQ(folder_name("../a b/c"), "_a_b_c");
  EXPECT_EQ(folder_name("..."), "run");
  EXPECT_EQ(folder_name("ngram_tp2"), "ngram_tp2");
  EXPECT_NE(dump_json(json{{"bad", "\xFF"}}).find("\xEF\xBF\xBD"), std::string::npos);
}

}  // namespace
}  // namespace paceline
