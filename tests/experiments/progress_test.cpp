#include "experiments/ui/progress.h"

#include <map>
#include <regex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <spdlog/logger.h>

#include "engine/util/utf8_chars.h"
#include "experiments/ui/progress_events.h"
#include "kernels/error.h"

namespace paceline {
namespace {

using std::chrono::milliseconds;

/// A terminal that interprets what the live mode uses: newline, carriage return, erase below, cursor up.
struct FakeTerminal {
  std::string raw;
  std::vector<std::string> writes;
  int columns = 80;
  std::chrono::steady_clock::duration now{};

  ProgressTerminal terminal(bool is_tty, bool wants_plain = false) {
    return {.write =
                [this](std::string_view text) {
                  raw += text;
                  writes.emplace_back(text);
                },
            .columns = [this] { return columns; },
            .now = [this] { return now; },
            .is_tty = is_tty,
            .wants_plain = wants_plain};
  }

  std::vector<std::string> screen() const {
    std::vector<std::string> lines(1);
    size_t row = 0;
    for (size_t i = 0; i < raw.size(); ++i) {
      if (raw.compare(i, 3, "\x1b[J") == 0) {
        lines.resize(row + 1);
        lines[row].clear();
        i += 2;
      } else if (raw.compare(i, 4, "\x1b[1A") == 0) {
        if (row > 0) --row;
        i += 3;
      } else if (raw[i] == '\n') {
        ++row;
        if (row == lines.size()) lines.emplace_back();
      } else if (raw[i] != '\r') {
        lines[row] += raw[i];
      }
    }
    return lines;
  }
};

int width(const std::string& text) {
  int columns = 0;
  for (char c : text) columns += !is_utf8_continuation(c);
  return columns;
}

TEST(PlainProgress, OneLineACellWithoutEscapes) {
  FakeTerminal fake;
  const auto progress = make_progress(ProgressMode::automatic, fake.terminal(false));
  progress->begin("ngram_tp2", 12, 36);
  progress->phase("loading");
  for (int i = 0; i < 100; ++i) progress->update({.fraction = i / 100.0, .tok_s = 100, .acceptance_length = 2});
  progress->repetition_finished();
  progress->cell_finished({.label = "tp2 pp1 ngram k=5",
                           .status = "done",
                           .reason = "",
                           .tok_s = 148.3,
                           .speedup = 2.14,
                           .acceptance_length = 2.81,
                           .acceptance_rate = 0.36,
                           .certificate = "pass"});
  progress->cell_finished({.label = "tp2 pp2 draft k=5", .status = "skipped", .reason = "needs 4 devices"});
  progress->message("WARN draft is slow");
  progress->end();
  EXPECT_EQ(fake.raw,
            "[ 1/12] done    tp2 pp1 ngram k=5  148.3 tok/s  2.14×  AL 2.81  accept 0.36  certificate pass\n"
            "[ 2/12] skipped tp2 pp2 draft k=5: needs 4 devices\n"
            "WARN draft is slow\n");
}

TEST(PlainProgress, SaysHowFarItIsWhereNoCellEnds) {
  FakeTerminal fake;
  const auto progress = make_progress(ProgressMode::plain, fake.terminal(false));
  const auto work_for = [&](int seconds) {
    for (int i = 0; i < seconds; ++i) {
      fake.now += std::chrono::seconds(1);
      progress->update({.fraction = 0.5});
    }
  };
  progress->begin("ngram_tp2", 12, 36);
  progress->repetition_started("a", 0, 3);
  work_for(9);
  EXPECT_EQ(fake.raw, "");
  work_for(3);
  progress->repetition_finished();
  progress->repetition_started("b", 0, 3);
  work_for(8);
  progress->cell_finished({.label = "b", .status = "done", .reason = ""});
  work_for(9);
  progress->end();
  work_for(20);
  EXPECT_EQ(fake.raw,
            "[ 0/12] running a  0 of 36 repetitions, 10 s\n"
            "[ 0/12] running b  1 of 36 repetitions, 20 s\n"
            "[ 1/12] done    b\n");
}

TEST(PlainProgress, CellsSkippedForOneReasonAreOneLine) {
  FakeTerminal fake;
  const auto progress = make_progress(ProgressMode::plain, fake.terminal(false));
  progress->begin("ngram_tp2", 12, 36);
  const auto skip = [&](const std::string& label, const std::string& reason) {
    progress->cell_finished({.label = label, .status = "skipped", .reason = reason});
  };
  for (const char* const label : {"a", "b", "c"}) skip(label, "needs 4 devices");
  skip("d", "k is too large");
  progress->phase("loading");
  skip("e", "k is too large");
  skip("f", "k is too large");
  progress->cell_finished({.label = "g", .status = "done", .reason = ""});
  skip("h", "needs 4 devices");
  skip("i", "needs 4 devices");
  progress->end();
  EXPECT_EQ(fake.raw,
            "[ 3/12] skipped a … c (3 cells): needs 4 devices\n"
            "[ 4/12] skipped d: k is too large\n"
            "[ 6/12] skipped e … f (2 cells): k is too large\n"
            "[ 7/12] done    g\n"
            "[ 9/12] skipped h … i (2 cells): needs 4 devices\n");
}

TEST(ProgressMode, AutomaticChoice) {
  const auto is_live = [](bool tty, bool wants_plain) {
    FakeTerminal fake;
    make_progress(ProgressMode::automatic, fake.terminal(tty, wants_plain))->begin("x", 1, 1);
    return !fake.raw.empty();
  };
  EXPECT_TRUE(is_live(true, false));
  EXPECT_FALSE(is_live(false, false));
  EXPECT_FALSE(is_live(true, true));
  EXPECT_EQ(parse_progress_mode("plain"), ProgressMode::plain);
  EXPECT_THROW(parse_progress_mode("fancy"), Error);
}

TEST(QuietProgress, MessagesOnly) {
  FakeTerminal fake;
  const auto progress = make_progress(ProgressMode::quiet, fake.terminal(true));
  progress->begin("x", 1, 1);
  progress->cell_finished({.label = "a", .status = "done", .reason = ""});
  progress->message("m");
  EXPECT_EQ(fake.raw, "m\n");
}

TEST(LiveProgress, LinesScrollAboveTheRegionWholeAndItGoesAway) {
  FakeTerminal fake;
  const auto progress = make_progress(ProgressMode::live, fake.terminal(true));
  progress->begin("ngram_tp2", 28, 84);
  progress->repetition_started("tp2 pp1 ngram k=5", 0, 3);
  fake.now += milliseconds(500);
  progress->update({.fraction = 0.5, .tok_s = 148, .acceptance_length = 2.8});
  progress->message("first line\nsecond line");
  fake.now += milliseconds(500);
  progress->update({.fraction = 0.9, .tok_s = 150, .acceptance_length = 2.9});
  auto lines = fake.screen();
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[0], "first line");
  EXPECT_EQ(lines[1], "second line");
  EXPECT_NE(lines[2].find("] 0/84 reps, 0/28 cells  "), std::string::npos) << lines[2];
  EXPECT_NE(lines[3].find("tp2 pp1 ngram k=5  rep 1/3  ███████░  150 tok/s  AL 2.90"), std::string::npos) << lines[3];
  progress->end();
  progress->message("after");
  lines = fake.screen();
  EXPECT_EQ(lines[2], "after");
  EXPECT_EQ(lines[3], "");
}

TEST(LiveProgress, RepaintsAtMostEightTimesASecond) {
  FakeTerminal fake;
  const auto progress = make_progress(ProgressMode::live, fake.terminal(true));
  progress->begin("x", 1, 1);
  fake.writes.clear();
  for (int i = 0; i < 1000; ++i) {  // one second
    fake.now += milliseconds(1);
    progress->update({.fraction = i / 1000.0, .tok_s = 1.0 * i, .acceptance_length = {}});
  }
  EXPECT_GE(fake.writes.size(), 7u);
  EXPECT_LE(fake.writes.size(), 8u);
}

TEST(LiveProgress, NeverWrapsAndFollowsAResize) {
  FakeTerminal fake;
  const auto progress = make_progress(ProgressMode::live, fake.terminal(true));
  progress->begin("a rather long experiment name that needs room", 28, 84);
  for (int columns : {120, 60, 24}) {
    fake.columns = columns;
    fake.now += milliseconds(200);
    fake.raw.clear();
    std::string long_id(100, 'x');
    progress->repetition_started(long_id += "é", 0, 3);
    progress->message("a sentence of several words that is broken between them");
    EXPECT_NE(fake.raw.find(columns == 24 ? "\n    words that is\n" : "a sentence of several words"),
              std::string::npos);
    for (const std::string& line : fake.screen()) EXPECT_LT(width(line), columns);
  }
}

TEST(LiveProgress, WhereItIsNarrowWholePartsGo) {
  FakeTerminal fake;
  const auto progress = make_progress(ProgressMode::live, fake.terminal(true));
  progress->begin("tp_pp_speculative", 7, 21);
  progress->repetition_finished();
  const auto head = [&](int columns) {
    fake.columns = columns;
    fake.now += milliseconds(200);
    fake.raw.clear();
    progress->phase("warming up");
    return fake.screen()[0];
  };
  EXPECT_NE(head(120).find("tp_pp_speculative  ["), std::string::npos);
  EXPECT_TRUE(head(60).starts_with(" tp_pp_speculative  1/21 reps, 0/7 cells  ")) << head(60);
  EXPECT_TRUE(head(50).starts_with(" 1/21 reps, 0/7 cells  ")) << head(50);
  EXPECT_TRUE(head(44).ends_with(" left")) << head(44);
  EXPECT_TRUE(std::regex_match(head(36), std::regex(" 1/21 reps, 0/7 cells  0:0[0-9]"))) << head(36);
  EXPECT_TRUE(std::regex_match(head(24), std::regex(" 1/21 reps  0:0[0-9]"))) << head(24);

  progress->repetition_started("tp1 pp1 ngram k=5", 0, 3);
  for (const auto& [columns, end] : {std::pair(100, "  AL 2.90  ttft p50 12 ms"),
                                     {60, "  150 tok/s  AL 2.90"},
                                     {51, "  150 tok/s"},
                                     {30, "  rep 1/3"}}) {
    fake.columns = columns;
    fake.now += milliseconds(200);
    fake.raw.clear();
    progress->update(
        {.fraction = 0.5, .tok_s = 150, .recent_tok_s = {}, .acceptance_length = 2.9, .ttft_ms = 12, .kv_share = {}});
    EXPECT_TRUE(fake.screen()[1].ends_with(end)) << fake.screen()[1];
  }
}

TEST(LiveProgress, ShowsShareAndTimeLeft) {
  FakeTerminal fake;
  const auto progress = make_progress(ProgressMode::live, fake.terminal(true));
  progress->begin("x", 2, 4);
  progress->repetition_finished();
  fake.now += std::chrono::seconds(30);
  progress->update({.fraction = 0, .tok_s = {}, .acceptance_length = {}});  // 1 of 4 after 30 s: 90 s left
  EXPECT_NE(fake.screen()[0].find("0:30 < 1:30 left"), std::string::npos) << fake.screen()[0];
  EXPECT_EQ(duration_text(3723), "1:02:03");
}

TEST(LiveProgress, LogLinesFromManyThreadsAreNeverTorn) {
  FakeTerminal fake;
  const auto progress = make_progress(ProgressMode::live, fake.terminal(true));
  spdlog::logger logger("test", make_progress_log_sink(*progress));
  progress->begin("x", 1, 1);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        logger.info("thread {} line {} end", t, i);
        progress->update({.fraction = 0.5, .tok_s = 3.0, .acceptance_length = {}});
      }
    });
  }
  for (std::thread& t : threads) t.join();
  progress->end();
  size_t whole = 0;
  for (const std::string& line : fake.screen()) {
    if (line.empty()) continue;
    EXPECT_NE(line.find(" info thread "), std::string::npos) << line;
    EXPECT_TRUE(line.ends_with(" end")) << line;
    ++whole;
  }
  EXPECT_EQ(whole, 200u);
}

TEST(JsonProgress, EveryLineHasTheFieldsOfTheTable) {
  FakeTerminal fake;
  fake.now = std::chrono::hours(100);  // since the machine began
  const auto progress = make_progress(ProgressMode::jsonl, fake.terminal(false));
  progress->message("before it begins");
  progress->begin("x", 2, 6);
  progress->phase("loading");
  progress->repetition_started("a", 0, 3);
  progress->update({.fraction = 0.5, .tok_s = {}, .recent_tok_s = {}, .acceptance_length = {}, .ttft_ms = {}});
  progress->repetition_finished();
  fake.now += milliseconds(1500);
  progress->cell_finished({.label = "a", .status = "done"});
  progress->finished("done", "results/x", 0);
  std::map<std::string, std::set<std::string>> seen;
  for (const std::string& line : fake.writes) {
    const auto record = nlohmann::json::parse(line);
    for (const auto& [key, value] : record.items()) seen[record.at("event")].insert(key);
    EXPECT_LE(record.at("s").get<double>(), 1.5) << line;
  }
  std::map<std::string, std::set<std::string>> documented;
  for (const ProgressEvent& event : progress_events()) {
    auto& fields = documented[event.name];
    for (const ProgressField& field : common_progress_fields()) fields.insert(field.name);
    for (const ProgressField& field : event.fields) fields.insert(field.name);
  }
  EXPECT_EQ(seen, documented);
}

}  // namespace
}  // namespace paceline
