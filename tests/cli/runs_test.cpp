// The runs of a results folder: list, show, report, tag, note, rm, and the names that find them.

#include "experiments/results/files/files.h"
#include "experiments/results/files/run_names.h"
#include "tests/cli/runexp.h"
#include "tests/support/expect_error.h"

namespace paceline::test {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

/// Three runs of one cell; their ids end in different seconds.
class Runs : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    workspace_ = new Workspace;
    for (int i = 0; i < 3; ++i) {
      const ProcessResult result =
          runexp({workspace_->config().string(), "--results", root().string(), "--ui", "quiet", "--only",
                  "proposer==\"none\"", "--set", fmt::format("sampling.seed={}", i)});
      EXPECT_EQ(result.exit_code, 0) << described(result);
    }
  }
  static void TearDownTestSuite() { delete workspace_; }
  static fs::path root() { return workspace_->results(); }
  static std::string id(size_t index) { return list_runs(root()).at(index); }
  static ProcessResult with_root(std::vector<std::string> args) {
    args.insert(args.end(), {"--results", root().string()});
    return runexp(args);
  }

  static Workspace* workspace_;
};
Workspace* Runs::workspace_ = nullptr;

TEST_F(Runs, NamesFindThem) {
  ASSERT_EQ(list_runs(root()).size(), 3u);
  EXPECT_EQ(find_run(root(), "last"), root() / id(2));
  EXPECT_EQ(find_run(root(), "latest"), root() / id(2));
  EXPECT_EQ(find_run(root(), "last~2"), root() / id(0));
  EXPECT_EQ(find_run(root(), id(1)), root() / id(1));
  const std::string hash = id(1).substr(id(1).rfind('_') + 1);
  EXPECT_EQ(find_run(root(), hash), root() / id(1));
  EXPECT_EQ(fs::canonical(find_run(root(), (root() / "latest").string())), fs::canonical(root() / id(2)));
  expect_error(ExitCode::usage, {"last~3", "3 runs"}, [] { find_run(root(), "last~3"); });
  expect_error(ExitCode::usage, {"last~x"}, [] { find_run(root(), "last~x"); });
  expect_error(ExitCode::usage, {"fits 3 runs", "write more"}, [] { find_run(root(), "2026"); });
  expect_error(ExitCode::usage, {"abcdefgh", "expected last"}, [] { find_run(root(), "abcdefgh"); });
  expect_error(ExitCode::usage, {"holds no runs", "--results"}, [] { find_run(root() / "none", "last"); });
  expect_error(ExitCode::usage, {"is not a run folder"}, [] { find_run(root(), root().string() + "/"); });
}

TEST_F(Runs, AreListedNewestFirst) {
  const ProcessResult text = with_root({"list"});
  ASSERT_EQ(text.exit_code, 0) << described(text);
  const std::vector<std::string> lines = lines_of(text.out);
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_TRUE(lines[1].starts_with("last "));
  EXPECT_TRUE(holds(lines[1], id(2).substr(0, 17)));
  EXPECT_TRUE(holds(lines[3], "last~2"));
  const json list = json::parse(with_root({"list", "--json"}).out);
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(list[0].at("id"), id(2));
  EXPECT_EQ(list[0].at("status"), "done");
  EXPECT_EQ(list[0].at("done"), 1);
}

TEST_F(Runs, TheListShowsTheFastestOfTheGainsThatAreShown) {
  const Workspace other;
  const fs::path folder = other.results() / id(0);
  fs::create_directories(other.results());
  fs::copy(root() / id(0), folder, fs::copy_options::recursive);
  json summary = json::parse(read_file(folder / "summary.json"));
  const auto cell = [](const char* id, double tok_s, double speedup, json interval, const char* outcome) {
    return json{{"id", id},
                {"rankable", true},
                {"output_tok_s", tok_s},
                {"speedup", speedup},
                {"speedup_ci95", std::move(interval)},
                {"outcome", outcome}};
  };
  summary["valid"] = true;
  // The most tokens a second is a plain cell of a larger load; the largest estimate shows nothing; the gain that is
  // larger for sure is over a slower placement.
  summary["cells"] = {
      cell("plain_c16", 900, 1, nullptr, "baseline"), cell("draft_k2_c1", 200, 1.4, {1.22, 1.6}, "faster"),
      cell("tp2_draft_k2_c1", 120, 2.1, {1.9, 2.3}, "faster"), cell("ngram_k5_c1", 210, 1.9, {0.4, 9}, "inconclusive")};
  write_file(folder / "summary.json", summary.dump());
  const auto list = [&](const char* more) { return runexp({"list", more, "--results", other.results().string()}).out; };
  const json listed = json::parse(list("--json")).at(0);
  EXPECT_EQ(listed.at("best_speedup"), 1.4);
  EXPECT_EQ(listed.at("best_speedup_cell"), "draft_k2_c1");
  EXPECT_EQ(listed.at("best_speedup_shown"), true);
  const std::string text = runexp({"list", "--results", other.results().string()}).out;
  EXPECT_TRUE(holds(text, " 1.40×") && holds(text, "  [draft_k2_c1]\n")) << text;
  // One of many comparisons: the interval alone shows nothing.
  summary["claims"] = {{{"kind", "over_baseline"}, {"cell", "draft_k2_c1"}, {"shown", "inconclusive"}}};
  write_file(folder / "summary.json", summary.dump());
  EXPECT_EQ(json::parse(list("--json")).at(0).at("best_speedup_cell"), "tp2_draft_k2_c1");
  summary["valid"] = false;
  write_file(folder / "summary.json", summary.dump());
  EXPECT_EQ(json::parse(list("--json")).at(0).at("best_speedup_shown"), false);
  write_file(folder / "summary.json", R"({"cells": [1, 2]})");
  EXPECT_TRUE(
      holds(json::parse(list("--json")).at(0).at("note").get<std::string>(), "is of the wrong kind; runexp show"));
  write_file(folder / "summary.json", summary.dump());
  // A cell without all its repetitions is not done.
  json manifest = json::parse(read_file(folder / "manifest.json"));
  manifest["num_partial"] = manifest.at("num_done");
  write_file(folder / "manifest.json", manifest.dump());
  const std::string partial = runexp({"list", "--results", other.results().string()}).out;
  EXPECT_TRUE(holds(partial, fmt::format(" 0/{} ", manifest.at("cells").size()))) << partial;
}

TEST_F(Runs, AreListedWithAMarkWhereTheBuildHadChanges) {
  const Workspace other;
  const auto git_of = [&](bool dirty, bool in_manifest) {
    const fs::path folder = other.results() / id(0);
    fs::remove_all(folder);
    fs::create_directories(other.results());
    fs::copy(root() / id(0), folder, fs::copy_options::recursive);
    for (const char* const name : {"manifest.json", "environment.json"}) {
      json facts = json::parse(read_file(folder / name));
      facts["git_commit"] = "abcdefghij";
      facts["git_dirty"] = dirty;
      if (name == std::string("manifest.json") && !in_manifest) facts.erase("git_dirty");
      write_file(folder / name, facts.dump());
    }
    return json::parse(runexp({"list", "--json", "--results", other.results().string()}).out).at(0).at("git_commit");
  };
  for (const bool in_manifest : {true, false}) {
    EXPECT_EQ(git_of(true, in_manifest), "abcdefg+");
    EXPECT_EQ(git_of(false, in_manifest), "abcdefg");
  }
}

TEST_F(Runs, OneThatWorksIsNamedWhenAnotherBegins) {
  const Workspace other;
  const std::vector<std::string> args = {"run",    other.config().string(), "--results", other.results().string(),
                                         "--only", "proposer==\"none\""};
  const ProcessResult first = runexp(args);
  EXPECT_FALSE(holds(first.err, "disturb each other")) << first.err;
  const RunLock lock(other.results() / list_runs(other.results()).at(0));
  const ProcessResult second = runexp(args);
  EXPECT_EQ(second.exit_code, 0) << described(second);
  EXPECT_TRUE(holds(second.err, "warning: ")) << second.err;
  EXPECT_TRUE(holds(second.err, list_runs(other.results()).at(0) + ": a process is working on this run, too"))
      << second.err;
}

TEST_F(Runs, OlderManifestsWithoutCountsAreListedToo) {
  const Workspace other;
  fs::copy(root(), other.results(), fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  for (const std::string& run : list_runs(other.results())) {
    const fs::path file = other.results() / run / "manifest.json";
    json manifest = json::parse(read_file(file));
    for (const char* const key : {"num_done", "num_partial", "num_failed", "num_skipped", "num_not_run"})
      EXPECT_EQ(manifest.erase(key), 1u) << key;
    write_file(file, manifest.dump());
  }
  const json list = json::parse(runexp({"list", "--json", "--results", other.results().string()}).out);
  ASSERT_EQ(list.size(), 3u);
  for (const json& run : list) EXPECT_EQ(run.at("done"), 1);
}

TEST_F(Runs, AreTracedRankByRank) {
  const ProcessResult result = with_root({"trace", "last~1"});
  ASSERT_EQ(result.exit_code, 0) << described(result);
  const json trace = json::parse(result.out);
  EXPECT_EQ(trace.at("otherData").at("run"), id(1));
  std::set<std::string> names;
  for (const json& event : trace.at("traceEvents")) {
    names.insert(event.at("name").get<std::string>());
    if (event.at("ph") == "M") continue;
    EXPECT_EQ(event.at("ph"), "X");
    EXPECT_TRUE(event.at("ts").is_number() && event.at("dur").is_number());
    EXPECT_EQ(event.at("tid"), 0) << "one rank, one track";
  }
  for (const char* const name : {"process_name", "thread_name", "pass 2", "sample 2", "wait: scheduler"})
    EXPECT_TRUE(names.contains(name)) << name;
  EXPECT_EQ(with_root({"trace", "last~1", "tp1_pp1_none_c1"}).out, result.out);
  EXPECT_EQ(with_root({"trace", "last~1", "tp1_pp1_n"}).out, result.out);
  expect_failure(with_root({"trace", "last", "tp1_pp1_non_c1"}), 2, {"did you mean \"tp1_pp1_none_c1\"?"});
  for (const auto& entry : fs::recursive_directory_iterator(root() / id(0)))
    if (entry.path().filename() == "ranks.json") fs::remove(entry.path());
  expect_failure(with_root({"trace", "last~2"}), 2, {"no cell has a record of its ranks"});
}

TEST_F(Runs, CalibrateAPlan) {
  const std::vector<std::string> only = {"plan", workspace_->config().string(), "--only", "proposer==\"none\""};
  const ProcessResult calibrated = with_root(only);
  ASSERT_EQ(calibrated.exit_code, 0) << described(calibrated);
  const auto num_noisy = [&](int i) {
    int noisy = 0;
    const json summary = json::parse(read_file(root() / id(size_t(i)) / "summary.json"));
    for (const json& cell : summary.at("cells")) noisy += cell.at("noisy").get<bool>() ? 1 : 0;
    return noisy;
  };
  int newest = 2;  // of those that nothing disturbed, else of all
  while (newest >= 0 && num_noisy(newest) > 0) --newest;
  const bool is_quiet = newest >= 0;
  if (!is_quiet) newest = 2;
  EXPECT_TRUE(holds(calibrated.out, "from the times of run " + id(size_t(newest)) + " (")) << calibrated.out;
  EXPECT_EQ(holds(calibrated.out, "caution: that run was disturbed in 1 of 1 cell"), !is_quiet) << calibrated.out;
  const ProcessResult larger = with_root({only[0], only[1], only[2], only[3], "--set", "workload.requests=5"});
  EXPECT_TRUE(holds(larger.out, "caution: that run had 2 requests, this sweep has 5")) << larger.out;
  EXPECT_FALSE(holds(calibrated.out, "that run had")) << calibrated.out;
  const ProcessResult alone = runexp({"plan", workspace_->config().string(), "--results", (root() / "none").string()});
  EXPECT_TRUE(holds(alone.out, "Lower bound: all cells take at least")) << described(alone);
  EXPECT_TRUE(holds(alone.out, "No estimate: ")) << alone.out;
  const ProcessResult offline = with_root({only[0], only[1], only[2], only[3], "--set", "load.mode=offline"});
  EXPECT_TRUE(holds(offline.out, "No estimate: ")) << "batches are another multiple: " << offline.out;
  const ProcessResult more = with_root({"plan", workspace_->config().string()});
  EXPECT_TRUE(holds(more.out, "No estimate: ")) << "the runs did not speculate: " << more.out;
}

TEST_F(Runs, AreShownWholeAndByCell) {
  const ProcessResult run = with_root({"show", "last~1"});
  ASSERT_EQ(run.exit_code, 0) << described(run);
  EXPECT_TRUE(run.out.starts_with(id(1)));
  EXPECT_TRUE(holds(run.out, "1 cell: 1 done, 0 failed, 0 skipped in")) << run.out;
  const json summary = json::parse(read_file(root() / id(1) / "summary.json"));
  for (const json& sentence : summary.at("verdict"))
    EXPECT_TRUE(holds(run.out, sentence.at("text").get<std::string>())) << sentence;
  const ProcessResult cell = with_root({"show", "last", "tp1_pp1_none_c1"});
  ASSERT_EQ(cell.exit_code, 0) << described(cell);
  for (const char* const part : {"certificate", "counters", "effective", "hash", "tok/s"})
    EXPECT_TRUE(holds(cell.out, part)) << part;
  EXPECT_EQ(with_root({"show", "last", "tp1_pp1_n"}).out, cell.out) << "the beginning of one id";
  expect_failure(with_root({"show", "last", "tp1_pp1_non_c1"}), 2, {"did you mean \"tp1_pp1_none_c1\"?"});
  EXPECT_TRUE(holds(run.out, "\n  Columns: tp: tensor-parallel ranks. ")) << run.out;
}

TEST_F(Runs, AreShownAsJson) {
  const ProcessResult run = with_root({"show", "last", "--json"});
  ASSERT_EQ(run.exit_code, 0) << described(run);
  const json all = json::parse(run.out);
  EXPECT_EQ(all, json::parse(read_file(root() / id(2) / "summary.json")));
  const ProcessResult cell = with_root({"show", "last", "tp1_pp1_none_c1", "--json"});
  ASSERT_EQ(cell.exit_code, 0) << described(cell);
  EXPECT_EQ(json::parse(cell.out), all.at("cells").at(0));
}

// A cell that did not run has no certificate, no rates and no passes of 0 ms.
TEST(Show, OfACellThatDidNotRunOnlyWhatThereIs) {
  const Workspace workspace;
  const std::string root = workspace.results().string();
  const ProcessResult run = runexp({workspace.config().string(), "--results", root, "--ui", "quiet", "--set",
                                    R"(sweep.constraints=["k <= 1"])", "--set", "sampling.max_tokens=8"});
  ASSERT_EQ(run.exit_code, 0) << described(run);
  size_t skipped = 0;
  for (const json& cell : workspace.cells()) {
    const ProcessResult shown = runexp({"show", "last", cell.at("id").get<std::string>(), "--results", root});
    ASSERT_EQ(shown.exit_code, 0) << described(shown);
    const bool ran = cell.at("status") == "done";
    skipped += ran ? 0 : 1;
    for (const char* const part : {"certificate", "disturbed", "tok/s", "speedup", "ttft", "pass", "counters"})
      EXPECT_EQ(holds(shown.out, fmt::format("\n  {:<13} ", part)), ran) << part << "\n" << shown.out;
    EXPECT_FALSE(holds(shown.out, "(;")) << shown.out;
    EXPECT_FALSE(holds(shown.out, "= draft 0.000, verify 0.000")) << shown.out;
    EXPECT_TRUE(holds(shown.out, "  hash           ")) << shown.out;
  }
  EXPECT_GT(skipped, 0u);
}

// With a baseline of one rank, the break-even of two ranks is still over two ranks without speculation.
TEST(Show, BreakEvenIsOverTheSamePlacement) {
  const Workspace workspace;
  const std::string root = workspace.results().string();
  const ProcessResult run =
      runexp({workspace.config().string(), "--results", root, "--ui", "quiet", "--axis", "tp=1,2", "--set",
              R"(sweep.baseline={"tp": 1, "proposer": "none"})", "--set", "sampling.max_tokens=24"});
  ASSERT_EQ(run.exit_code, 0) << described(run);
  for (const json& cell : workspace.cells()) {
    if (cell.at("axes").at("proposer") == "none") continue;
    const ProcessResult shown = runexp({"show", "last", cell.at("id").get<std::string>(), "--results", root});
    const std::string over =
        fmt::format(" for decoding alone, over tp{} pp1 none\n", cell.at("axes").at("tp").get<int>());
    EXPECT_TRUE(holds(shown.out, "\n  break-even AL  ")) << described(shown);
    const bool has_other_baseline = cell.at("axes").at("tp") == 2;  // of one rank: else the speedup says it
    EXPECT_EQ(holds(shown.out, "\n  over plain    "), has_other_baseline) << described(shown);
    EXPECT_TRUE(holds(shown.out, over)) << over << shown.out;
  }
}

TEST_F(Runs, ReportsAreWrittenAnew) {
  const fs::path file = workspace_->folder() / "again.html";
  ASSERT_EQ(with_root({"report", "last", "-o", file.string()}).exit_code, 0);
  const std::string own = read_file(root() / id(2) / "report.html");
  std::string elsewhere = read_file(file);
  // Its links lead from its own folder to the run's.
  const std::string way = "href=\"" + fs::relative(root() / id(2), workspace_->folder()).string() + "/";
  EXPECT_TRUE(holds(elsewhere, way + "summary.json\"")) << way;
  for (size_t at = 0; (at = elsewhere.find(way, at)) != std::string::npos;)
    elsewhere.replace(at, way.size(), "href=\"");
  EXPECT_EQ(elsewhere, own);
  const fs::path beside = root() / id(2) / "again.html", nowhere = workspace_->folder() / "none" / "x.html";
  ASSERT_EQ(with_root({"report", "last", "-o", beside.string()}).exit_code, 0);
  EXPECT_EQ(read_file(beside), own);
  fs::remove(beside);
  expect_failure(with_root({"report", "last", "-o", nowhere.string()}), 6,
                 {nowhere.string() + ": open failed: there is no folder " + nowhere.parent_path().string()});
}

TEST_F(Runs, TagsNameOneRun) {
  ASSERT_EQ(with_root({"tag", "last~2", "before", "v1"}).exit_code, 0);
  EXPECT_EQ(find_run(root(), "@before"), root() / id(0));
  expect_failure(with_root({"tag", "last", "before"}), 2, {id(0), "a tag names one run"});
  expect_failure(with_root({"tag", "last", "a b"}), 2, {"expected at most 60 letters"});
  for (const char* const word : {"last", "latest", "last~1"})
    expect_failure(with_root({"tag", "last", word}), 2, {word, "means the run that began last"});
  EXPECT_EQ(with_root({"note", "@v1", "the old scheduler"}).out, id(0) + ": the old scheduler\n");
  EXPECT_TRUE(holds(with_root({"list"}).out, "@before @v1  the old scheduler"));
  expect_failure(with_root({"note", "@v1", "two\nlines"}), 2, {"expected one line"});
  ASSERT_EQ(with_root({"tag", "--remove", "@before", "before"}).exit_code, 0);
  expect_failure(with_root({"show", "@before"}), 2, {"\"@before\": no run in", "has this tag; there are @v1"});
  expect_failure(with_root({"show", "@v2"}), 2, {"has this tag (did you mean \"@v1\"?); there are @v1"});
  EXPECT_EQ(with_root({"note", "@v1", ""}).out, id(0) + ": no note\n");
  ASSERT_EQ(with_root({"tag", "--remove", "@v1", "v1"}).exit_code, 0);
  expect_failure(with_root({"show", "@v1"}), 2, {"has this tag; none has one (runexp tag)"});
}

TEST_F(Runs, AreRemovedButThoseWithATagStay) {
  const Workspace other;
  fs::copy(root(), other.results(), fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  for (const std::string& run : list_runs(root()))  // their order, where they began in one second
    fs::last_write_time(other.results() / run / "environment.json",
                        fs::last_write_time(root() / run / "environment.json"));
  const auto rm = [&](std::vector<std::string> args) {
    args.insert(args.begin(), "rm");
    args.insert(args.end(), {"--results", other.results().string()});
    return runexp(args);
  };
  const std::vector<std::string> ids = list_runs(other.results());
  expect_failure(rm({}), 2, {"--keep N"});
  ASSERT_EQ(runexp({"tag", ids[0], "kept", "--results", other.results().string()}).exit_code, 0);
  EXPECT_TRUE(holds(rm({"--keep", "1", "--dry-run"}).out, "would remove " + ids[1]));
  EXPECT_EQ(list_runs(other.results()).size(), 3u);
  ASSERT_EQ(rm({"--keep", "1"}).exit_code, 0);
  EXPECT_EQ(list_runs(other.results()), (std::vector<std::string>{ids[0], ids[2]}));
  ASSERT_EQ(rm({"last"}).exit_code, 0);
  EXPECT_EQ(fs::read_symlink(other.results() / "latest"), ids[0]) << "latest must not point to nothing";
  ASSERT_EQ(rm({"@kept"}).exit_code, 0);
  EXPECT_TRUE(list_runs(other.results()).empty());
  EXPECT_FALSE(fs::is_symlink(other.results() / "latest"));
}

}  // namespace
}  // namespace paceline::test
