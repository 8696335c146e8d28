// The live view in a real terminal: tmux runs the program, and its screen is what a user would see.

#include <csignal>
#include <unistd.h>

#include "experiments/report/text/text.h"
#include "tests/cli/runexp.h"

namespace paceline::test {
namespace {

using nlohmann::json;

/// A tmux server of its own with one window of 30 rows; what runs in it starts on the top one.
class Terminal {
 public:
  explicit Terminal(const std::string& command, int columns = 100)
      : socket_(fmt::format("paceline-test-{}-{}", ::getpid(), ++counter_)) {
    tmux({"new-session", "-d", "-x", std::to_string(columns), "-y", "30", "env", "-u", "CI", "-u", "NO_COLOR", "sh",
          "-c", "trap : INT; " + command + "; echo \"[exit code $?]\"; sleep 30"});
  }
  ~Terminal() { tmux({"kill-server"}); }

  std::vector<std::string> screen() const {
    std::vector<std::string> lines = lines_of(tmux({"capture-pane", "-p"}).out);
    while (!lines.empty() && lines.back().empty()) lines.pop_back();
    return lines;
  }
  /// All that was written, with the lines that went off the screen; what the terminal wrapped is one line.
  std::vector<std::string> written() const { return lines_of(tmux({"capture-pane", "-p", "-J", "-S", "-"}).out); }
  /// How many lines went off the screen.
  int history() const { return std::stoi(tmux({"display-message", "-p", "#{history_size}"}).out); }
  void resize(int columns) { tmux({"resize-window", "-x", std::to_string(columns), "-y", "30"}); }
  void type(const std::string& keys) { tmux({"send-keys", keys}); }

  /// The screen as soon as a line of it holds `text`; empty when that takes too long.
  std::vector<std::string> wait_for(const std::string& text, double seconds = 20) const {
    for (int i = 0; i < int(seconds * time_factor() * 20); ++i) {
      const std::vector<std::string> lines = screen();
      for (const std::string& line : lines) {
        if (holds(line, text)) return lines;
      }
      ::usleep(50'000);
    }
    return {};
  }

 private:
  ProcessResult tmux(std::vector<std::string> args) const {
    args.insert(args.begin(), {"/usr/bin/tmux", "-L", socket_, "-f", "/dev/null"});
    return run_process(
        args, {.folder = kSource, .environment = {"TERM=xterm-256color"}, .timeout_s = 20, .streams = Streams::pipes});
  }
  static inline int counter_ = 0;
  std::string socket_;
};

std::string joined(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines) out += line + "\n";
  return out;
}

int lines_with(const std::vector<std::string>& lines, const std::string& text) {
  return int(std::count_if(lines.begin(), lines.end(), [&](const std::string& line) { return holds(line, text); }));
}

class LiveView : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::access("/usr/bin/tmux", X_OK) != 0) GTEST_SKIP() << "no tmux";
  }
  std::string command(const std::string& more) const {
    return fmt::format("cd '{}' && '{}' '{}' --results '{}' --axis proposer=none,ngram {}", kSource.string(),
                       runexp_argv({}).front(), workspace_.config().string(), workspace_.results().string(), more);
  }
  const Workspace workspace_;
};

TEST_F(LiveView, IsTwoLinesBelowWhatScrollsAndGoesAway) {
  const Terminal terminal(command(fmt::format(
      "--set workload.requests={} --set sampling.max_tokens=64 --set measure.repetitions=3", int(60 / time_factor()))));
  std::vector<std::string> lines = terminal.wait_for("tok/s");
  ASSERT_FALSE(lines.empty()) << joined(terminal.screen());
  SCOPED_TRACE(joined(lines));
  EXPECT_EQ(lines_with(lines, "cells  "), 1) << "the region is there once";
  EXPECT_EQ(lines_with(lines, " ▸ "), 1);
  EXPECT_TRUE(holds(lines.back(), " ▸ "));
  EXPECT_TRUE(holds(lines.back(), "rep "));
  lines = terminal.wait_for("[exit code 0]", 60);
  ASSERT_FALSE(lines.empty()) << joined(terminal.screen());
  EXPECT_EQ(lines_with(lines, " ▸ "), 0) << "nothing of the region is left";
  EXPECT_EQ(lines_with(lines, "done    tp1_pp1_none_c1"), 1);
  EXPECT_EQ(lines_with(lines, "done    tp1_pp1_ngram_k3_c1"), 1);
}

TEST_F(LiveView, SurvivesAResize) {
  Terminal terminal(command("--set workload.requests=40 --set sampling.max_tokens=64 --set measure.repetitions=2000"));
  ASSERT_FALSE(terminal.wait_for("tok/s").empty()) << joined(terminal.screen());
  for (const int columns : {60, 140, 40, 100}) {
    terminal.resize(columns);
    ::usleep(600'000);
    const std::vector<std::string> lines = terminal.screen();
    SCOPED_TRACE(fmt::format("{} columns\n{}", columns, joined(lines)));
    EXPECT_EQ(lines_with(lines, " ▸ "), 1) << "no rest of the old region";
    EXPECT_EQ(lines_with(lines, " reps, 0/2 cells"), 1);
  }
  terminal.type("C-c");
  const std::vector<std::string> lines = terminal.wait_for("[exit code 130]", 20);
  EXPECT_FALSE(lines.empty()) << joined(terminal.screen());
  EXPECT_EQ(lines_with(lines, " ▸ "), 0);
}

TEST_F(LiveView, LeavesNoFramesInTheHistory) {
  const Terminal terminal(
      command("--set workload.requests=40 --set sampling.max_tokens=64 --set measure.repetitions=2000"));
  ASSERT_FALSE(terminal.wait_for("tok/s").empty()) << joined(terminal.screen());
  ::usleep(1'000'000);
  EXPECT_EQ(terminal.history(), 0) << joined(terminal.written());
}

TEST_F(LiveView, NothingIsWiderThanANarrowTerminal) {
  const Terminal terminal(
      command("--set workload.requests=2 --set measure.repetitions=3 && '" + runexp_argv({}).front() + "' plan '" +
              workspace_.config().string() + "' --axis proposer=none,ngram"),
      60);
  ASSERT_FALSE(terminal.wait_for("[exit code 0]", 60).empty()) << joined(terminal.screen());
  const std::vector<std::string> lines = terminal.written();
  EXPECT_EQ(lines_with(lines, "2 to run in 1 load, "), 1) << joined(lines);
  EXPECT_EQ(lines_with(lines, "Hidden at this width"), 1) << joined(lines);
  for (const std::string& line : lines) {
    const size_t word = line.find_first_not_of(' ');
    const bool is_one_word = word != std::string::npos && line.find(' ', word) == std::string::npos;  // a path
    EXPECT_TRUE(display_width(line) <= 60 || is_one_word) << line << "\n" << joined(lines);
  }
}

TEST_F(LiveView, OfADeadProcessIsTakenAway) {
  const Terminal terminal(
      command("--set workload.requests=40 --set sampling.max_tokens=64 --set measure.repetitions=2000"));
  ASSERT_FALSE(terminal.wait_for("tok/s").empty()) << joined(terminal.screen());
  std::string child;
  for (const auto& entry : std::filesystem::directory_iterator(workspace_.results()))
    if (!entry.is_symlink()) child = read_file(entry.path() / "lock");
  ASSERT_EQ(::kill(std::stoi(child), SIGKILL), 0);
  ASSERT_FALSE(terminal.wait_for("killed by signal 9").empty()) << joined(terminal.screen());
  const std::vector<std::string> lines = terminal.wait_for("tok/s");
  SCOPED_TRACE(joined(lines));
  EXPECT_EQ(lines_with(lines, " reps, 0/2 cells"), 1);
  EXPECT_EQ(lines_with(lines, " ▸ "), 1);
}

TEST(JsonLines, AreOneObjectALineOnStandardOutput) {
  const Workspace workspace;
  const ProcessResult result =
      runexp({workspace.config().string(), "--results", workspace.results().string(), "--ui", "jsonl"});
  ASSERT_EQ(result.exit_code, 0) << described(result);
  EXPECT_EQ(result.err, "");
  std::vector<std::string> events;
  for (const std::string& line : lines_of(result.out)) {
    const json record = json::parse(line);
    events.push_back(record.at("event"));
    EXPECT_GE(record.at("s").get<double>(), 0);
    if (events.back() == "end") {
      EXPECT_EQ(record.at("exit_code"), 0);
      EXPECT_EQ(record.at("status"), "done");
      EXPECT_TRUE(
          std::filesystem::exists(std::filesystem::path(record.at("folder").get<std::string>()) / "report.html"));
    }
  }
  EXPECT_EQ(events.front(), "begin");
  EXPECT_EQ(events.back(), "end");
  EXPECT_EQ(std::count(events.begin(), events.end(), "cell"), 2);
}

}  // namespace
}  // namespace paceline::test
