#include "experiments/results/files/journal.h"

#include <chrono>
#include <fstream>
#include <sys/stat.h>

#include <gtest/gtest.h>

#include "experiments/analysis/read_run.h"
#include "experiments/report/documents.h"
#include "experiments/results/files/files.h"
#include "experiments/results/files/read.h"
#include "experiments/results/files/store.h"
#include "experiments/results/results.h"
#include "tests/experiments/recorded_run.h"
#include "tests/experiments/synthetic_run.h"
#include "tests/support/checkpoint_writer.h"
#include "tests/support/expect_error.h"

namespace paceline {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

void append(const fs::path& file, const std::string& text) {
  std::ofstream(file, std::ios::binary | std::ios::app) << text;
}

/// 40 records of different lengths.
std::vector<std::string> forty_lines() {
  std::vector<std::string> lines;
  for (int i = 0; i < 40; ++i)
    lines.push_back(journal_line({{"number", i}, {"text", std::string(size_t(i) * 3, 'x')}}));
  return lines;
}

TEST(Crc32c, IsCastagnolis) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);            // the check value of every catalogue of CRCs
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);  // RFC 3720, B.4
}

TEST(Journal, CutAtEveryByteGivesAPrefix) {
  const std::vector<std::string> lines = forty_lines();
  std::string text;
  std::vector<size_t> ends = {0};
  for (const std::string& line : lines) {
    text += line;
    ends.push_back(text.size());
  }
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    const JournalContent content = parse_journal(std::string_view(text).substr(0, cut), "journal.log");
    const size_t whole = size_t(std::upper_bound(ends.begin(), ends.end(), cut) - ends.begin()) - 1;
    ASSERT_EQ(content.records.size(), whole) << "cut at byte " << cut;
    ASSERT_EQ(content.whole_bytes, int64_t(ends[whole]));
    ASSERT_EQ(content.torn_bytes, int64_t(cut - ends[whole]));
    for (size_t i = 0; i < whole; ++i) ASSERT_EQ(content.records[i].at("number"), int(i));
  }
}

TEST(Journal, DamageBeforeTheEndIsAnErrorWithItsLine) {
  const std::vector<std::string> lines = forty_lines();
  std::string text;
  for (const std::string& line : lines) text += line;
  size_t at = 0, number = 0;
  for (const std::string& line : lines) {
    ++number;
    if (number == lines.size()) break;  // the last one may be torn
    for (const size_t offset : {size_t{0}, size_t{8}, line.size() / 2, line.size() - 2}) {
      std::string damaged = text;
      damaged[at + offset] ^= 1;
      test::expect_error(ExitCode::store, {fmt::format("journal.log:{}:", number), "damaged"},
                         [&] { parse_journal(damaged, "journal.log"); });
    }
    at += line.size();
  }
}

TEST(Journal, NumbersThatAreNoIntegersAreRefused) {
  using nlohmann::json;
  const json request = {{"id", "a"}, {"dataset_index", 3}, {"output", {1, 2}}, {"prompt_tokens", 7}};
  EXPECT_EQ(request_from_json(request).prompt_tokens, 7);
  for (const json& wrong : {json(7.7e112), json(7.5), json(int64_t{1} << 40), json("7"), json(true)}) {
    json other = request;
    other["prompt_tokens"] = wrong;
    EXPECT_THROW(request_from_json(other), json::exception) << wrong;
    other = request;
    other["output"] = {1, wrong};
    EXPECT_THROW(request_from_json(other), json::exception) << wrong;
  }
}

TEST(AppendOnlyFile, CutsWhatWasNotAcknowledgedAndEndsAfterAFault) {
  const test::TempDir dir;
  const fs::path file = dir.path() / "a.jsonl";
  {
    AppendOnlyFile out(file, 0);
    out.append("one\n");
    EXPECT_EQ(out.size(), 4);
  }
  append(file, "half a li");
  {
    AppendOnlyFile out(file, 4);
    out.append("two\n", Durability::process);
  }
  EXPECT_EQ(test::read_file(file), "one\ntwo\n");
  test::expect_error(ExitCode::store, {"a.jsonl", "8 bytes", "100"}, [&] { AppendOnlyFile(file, 100); });
}

class RecordedFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    run_.config_resolved["measure"] = {{"verify_lossless", false}};
    run_.info.variables = {{"PACELINE_MODELS", "/models"}};
    RunFolder folder(root_.path(), run_, json::object({{"name", "x"}}));
    test::record_all(folder, run_);
    folder.finish(run_, run_documents(run_));
  }
  fs::path folder() const { return run_.folder; }
  fs::path journal() const { return folder() / "journal.log"; }

  const test::TempDir root_;
  RunResult run_ = test::synthetic_run();
};

TEST_F(RecordedFolder, ComesBackAsItWas) {
  const RunResult again = read_run(folder());
  EXPECT_EQ(again.info.id, run_.info.id);
  EXPECT_EQ(again.info.argv, run_.info.argv);
  EXPECT_EQ(again.info.variables, (std::map<std::string, std::string>{{"PACELINE_MODELS", "/models"}}));
  EXPECT_EQ(again.info.status, "done");
  EXPECT_EQ(again.environment, run_.environment);
  EXPECT_EQ(again.wall_s, run_.wall_s);
  ASSERT_EQ(again.cells.size(), run_.cells.size());
  for (size_t i = 0; i < run_.cells.size(); ++i) {
    CellResult expected = run_.cells[i];
    expected.certificate = {};  // made anew where the configuration asks for it
    CellResult found = again.cells[i];
    found.certificate = {};
    if (expected.status != CellStatus::done) {  // it was never loaded
      expected.effective = found.effective = {};
      expected.ceilings = found.ceilings = {};
    }
    EXPECT_EQ(cell_to_json(found), cell_to_json(expected)) << expected.id;
    ASSERT_EQ(found.repetitions.size(), expected.repetitions.size());
    for (size_t r = 0; r < expected.repetitions.size(); ++r) {
      for (size_t q = 0; q < expected.repetitions[r].requests.size(); ++q)
        EXPECT_EQ(request_to_json(found.repetitions[r].requests[q], 0),
                  request_to_json(expected.repetitions[r].requests[q], 0));
    }
  }
}

TEST_F(RecordedFolder, TellsWhenEachRepetitionWasMeasured) {
  const RunResult again = read_run(folder());
  int64_t turn = 0;
  for (const CellResult& cell : again.cells) {
    if (cell.status != CellStatus::done) continue;
    for (const RepetitionResult& r : cell.repetitions) {
      EXPECT_EQ(r.turn, turn++);
      EXPECT_FALSE(r.ended_at_s) << "this run did not say";
    }
  }
  RepetitionResult timed;
  timed.ended_at_s = 1795253412.25;
  EXPECT_EQ(repetition_from_json(repetition_to_json(timed)).ended_at_s, timed.ended_at_s);
}

TEST_F(RecordedFolder, CountsStandInTheManifestAndComeBack) {
  CellResult cut = run_.cells[0];
  cut.repetitions.resize(1);
  run_.cells[0] = cut;
  run_.cells[1].status = CellStatus::skipped;
  run_.cells[1].not_run = true;
  run_.cells[1].repetitions.clear();
  RunFolder second(root_.path(), run_, json::object());
  test::record_all(second, run_);
  second.finish(run_, run_documents(run_));
  const CellCounts counts = count_cells(run_.cells), again = count_cells(read_run(second.path()).cells);
  EXPECT_EQ(counts.done, 25);
  EXPECT_EQ(counts.partial, 1);
  EXPECT_EQ(counts.not_run, 1);
  EXPECT_EQ(counts.planned(), 27);
  for (const auto member : {&CellCounts::done, &CellCounts::partial, &CellCounts::failed, &CellCounts::skipped})
    EXPECT_EQ(counts.*member, again.*member);
  const json manifest = json::parse(test::read_file(second.path() / "manifest.json"));
  EXPECT_EQ(manifest["num_done"], 25);
  EXPECT_EQ(manifest["num_partial"], 1);
  EXPECT_EQ(manifest["num_not_run"], 1);
}

TEST_F(RecordedFolder, CellsNotReachedAreSaidToBeSo) {
  const JournalContent content = parse_journal(test::read_file(journal()), journal());
  write_file_atomic(journal(), journal_line(content.records.front()));  // the plan
  for (const CellResult& cell : read_run(folder()).cells) {
    EXPECT_EQ(cell.status, CellStatus::skipped);
    EXPECT_FALSE(cell.reason.empty());
    EXPECT_EQ(cell.not_run, cell.reason != "excluded by sweep.exclude[0]");
  }
}

TEST_F(RecordedFolder, CellsThatALaterPlanLeavesOutKeepTheirRecord) {
  json plan = parse_journal(test::read_file(journal()), journal()).records.front();
  plan["cells"].erase(0);
  append(journal(), journal_line(plan));
  const RecordedRun recorded = read_record(folder());
  EXPECT_EQ(recorded.run.cells.size(), run_.cells.size() - 1);
  ASSERT_EQ(recorded.others.size(), 1u);
  EXPECT_EQ(recorded.others[0].id, run_.cells[0].id);
  EXPECT_EQ(recorded.others[0].repetitions.size(), run_.cells[0].repetitions.size());
  EXPECT_EQ(recorded.of_others[0].request_bytes,
            int64_t(fs::file_size(folder() / "cells" / run_.cells[0].folder / "requests.jsonl")));
}

TEST_F(RecordedFolder, AJournalWithoutARecordIsDamage) {
  fs::resize_file(journal(), 0);
  test::expect_error(ExitCode::store, {"journal.log", "holds no record", "manifest.json"}, [&] { read_run(folder()); });
  append(journal(), "0123");  // half of the first
  test::expect_error(ExitCode::store, {"journal.log", "holds no record"}, [&] { read_run(folder()); });
}

TEST_F(RecordedFolder, FilesOfAnotherFormAreNamed) {
  for (const char* const name : {"manifest.json", "environment.json", "config.resolved.json"}) {
    const std::string before = test::read_file(folder() / name);
    for (const char* const text : {"null", "[]", "3"}) {
      write_file_atomic(folder() / name, text);
      test::expect_error(ExitCode::store, {name, "expected an object", text}, [&] { read_run(folder()); });
    }
    write_file_atomic(folder() / name, before);
  }
  write_file_atomic(folder() / "samples.json", "");
  EXPECT_TRUE(read_run(folder()).sample_texts.empty()) << "a picture that can be made anew";
  const std::string manifest = test::read_file(folder() / "manifest.json");
  write_file_atomic(folder() / "manifest.json", "{}");
  test::expect_error(ExitCode::store,
                     {"manifest.json: is no manifest of a run: expected \"schema\": \"paceline.manifest\""},
                     [&] { read_run(folder()); });
  write_file_atomic(folder() / "manifest.json", manifest);
  for (const char* const record : {"null", "[]", "{}"}) {
    const std::string before = test::read_file(journal());
    append(journal(), journal_line(json::parse(record)));
    test::expect_error(ExitCode::store, {"journal.log:", "is no record of this program"}, [&] { read_run(folder()); });
    write_file_atomic(journal(), before);
  }
}

TEST_F(RecordedFolder, FilesOfAnotherKindAreNamedAndNotWaitedFor) {
  const std::string requests = "cells/" + run_.cells[0].folder + "/requests.jsonl";
  for (const std::string& name : {std::string("journal.log"), std::string("manifest.json"),
                                  std::string("environment.json"), std::string("config.resolved.json"), requests}) {
    const fs::path file = folder() / name, aside = folder() / "aside";
    fs::rename(file, aside);
    fs::create_directory(file);
    test::expect_error(ExitCode::store, {name, "is a folder"}, [&] { read_run(folder()); });
    fs::remove(file);
    ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
    test::expect_error(ExitCode::store, {name, "is a FIFO"}, [&] { read_run(folder()); });
    fs::remove(file);
    fs::rename(aside, file);
  }
}

TEST_F(RecordedFolder, ARetryForgetsWhatWasBefore) {
  const CellResult& cell = run_.cells[0];
  append(journal(), journal_line({{"event", "retry"}, {"cell", cell.identity}}));
  EXPECT_TRUE(read_run(folder()).cells[0].repetitions.empty());
  EXPECT_EQ(read_run(folder()).cells[0].status, CellStatus::skipped);
}

TEST_F(RecordedFolder, ProcessesThatEndedWithinACellAreCounted) {
  const std::string identity = run_.cells[0].identity;
  const std::string started = journal_line({{"event", "started"}, {"cells", {identity}}});
  json plan = parse_journal(test::read_file(journal()), journal()).records.front();
  plan["restart"] = true;
  EXPECT_EQ(read_record(folder()).cells[0].crashes, 0);
  append(journal(), started);
  EXPECT_EQ(read_record(folder()).cells[0].crashes, 1);
  EXPECT_TRUE(read_record(folder()).cells[0].was_under_way);
  append(journal(), journal_line(plan) + started);
  EXPECT_EQ(read_record(folder()).cells[0].crashes, 2);
  EXPECT_EQ(read_record(folder()).cells[1].crashes, 0);
  EXPECT_FALSE(read_record(folder()).cells[1].was_under_way);
  append(journal(), journal_line(plan));
  EXPECT_FALSE(read_record(folder()).cells[0].was_under_way) << "the last process did not work on it";
  append(journal(), journal_line({{"event", "failed"}, {"cell", identity}, {"reason", "killed"}}));
  EXPECT_EQ(read_run(folder()).cells[0].status, CellStatus::failed);
  EXPECT_EQ(read_run(folder()).cells[0].reason, "killed");
  plan["restart"] = false;  // somebody gave the command anew: what was counted is over
  append(journal(), journal_line(plan));
  EXPECT_EQ(read_record(folder()).cells[0].crashes, 0);
}

// A run takes as long as all of its processes together, those too that died before they had finished anything.
TEST_F(RecordedFolder, TheTimeOfProcessesThatDiedCounts) {
  json first = parse_journal(test::read_file(journal()), journal()).records.front();
  json plan = first, started = {{"event", "started"}, {"cells", {run_.cells[0].identity}}, {"elapsed_s", 0.25}};
  const double now = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  EXPECT_NEAR(first.at("machine_clock_s").get<double>(), now, 600) << "the clock of this boot";
  first["machine_clock_s"] = now - 2;  // it died at once
  plan["restart"] = true;
  plan["machine_clock_s"] = now - 2;
  write_file_atomic(journal(), journal_line(first));
  append(journal(), journal_line(plan) + journal_line(started));
  EXPECT_DOUBLE_EQ(read_run(folder()).wall_s, 0.25) << "as far as its records tell";
  {
    RunResult again = run_;
    const RecordedRun recorded = read_record(folder());
    const RunFolder next(recorded, std::make_shared<RunLock>(folder()), again, json::object(), Restart::yes);
    EXPECT_GE(next.wall_before_s(), 2) << "until it was started anew";
    EXPECT_LT(next.wall_before_s(), 600);
  }
  EXPECT_GE(read_run(folder()).wall_s, 2) << "the next plan tells when it had died";
  const double before = read_run(folder()).wall_s;
  plan["restart"] = false;  // long afterwards
  plan["machine_clock_s"] = now + 5000;
  append(journal(), journal_line(plan));
  EXPECT_EQ(read_run(folder()).wall_s, before) << "nobody worked in between";
}

TEST_F(RecordedFolder, ChangedRequestsAreNotTaken) {
  const fs::path file = folder() / "cells" / run_.cells[0].folder / "requests.jsonl";
  std::string text = test::read_file(file);
  text[text.find("\"output\":[") + 10] ^= 1;
  write_file_atomic(file, text);
  test::expect_error(ExitCode::store, {"requests.jsonl", "repetition 0"}, [&] { read_run(folder()); });
}

TEST_F(RecordedFolder, NewerVersionsAreNamed) {
  json manifest = json::parse(test::read_file(folder() / "manifest.json"));
  manifest["schema_version"] = 2;
  write_file_atomic(folder() / "manifest.json", dump_json(manifest));
  test::expect_error(ExitCode::store, {"manifest.json", "version 2", "up to 1"}, [&] { read_run(folder()); });
  manifest["schema_version"] = 1;
  write_file_atomic(folder() / "manifest.json", dump_json(manifest));
  append(journal(), journal_line({{"event", "plan"}, {"schema_version", 9}}));
  test::expect_error(ExitCode::store, {"journal.log:", "version 9", "up to 1"}, [&] { read_run(folder()); });
}

TEST_F(RecordedFolder, OneProcessAtATime) {
  EXPECT_FALSE(RunLock::is_held(folder()));
  {
    const RunLock lock(folder());
    EXPECT_TRUE(RunLock::is_held(folder()));
    test::expect_error(ExitCode::store, {fmt::format("process {}", ::getpid())}, [&] { RunLock second(folder()); });
  }
  EXPECT_FALSE(RunLock::is_held(folder()));
}

}  // namespace
}  // namespace paceline
