#pragma once
// What a run shows while it works. One object is the only writer to the terminal; every method may be called from any
// thread and writes whole lines, so that log lines and the live region never tear each other.

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace spdlog::sinks {
class sink;
}

namespace paceline {

enum class ProgressMode {
  automatic,  // live on a terminal, plain otherwise and with CI or NO_COLOR set or TERM=dumb
  live,       // a repainting region of two lines at the bottom, at most 8 times a second
  plain,      // one line a finished cell, and one now and then while none ends
  jsonl,      // a JSON object for everything that happens, one a line, for programs
  quiet,      // messages only
};

/// Parses "auto", "live", "plain", "jsonl", "quiet". Throws Error(usage) that lists them.
ProgressMode parse_progress_mode(const std::string& text);

/// Where the output goes. Tests replace it.
struct ProgressTerminal {
  std::function<void(std::string_view)> write;               // one call, one write
  std::function<int()> columns;                              // width now; asked at every repaint (the user may resize)
  std::function<std::chrono::steady_clock::duration()> now;  // monotonic
  bool is_tty = false;
  bool wants_plain = false;  // CI, NO_COLOR, TERM=dumb
};
/// The process's standard error; the same in front of its standard output, where lines for programs go.
ProgressTerminal standard_error_terminal();
ProgressTerminal standard_output_terminal();

/// A repetition in progress. Repetitions of several cells are interleaved; each is one unit of work.
struct ProgressUpdate {
  double fraction = 0;                 // of this repetition, 0..1
  std::optional<double> tok_s;         // since the repetition began
  std::optional<double> recent_tok_s;  // since the update before
  std::optional<double> acceptance_length;
  std::optional<double> ttft_ms;   // median of the latest finished requests
  std::optional<double> kv_share;  // of the KV blocks, in use
};

/// A cell that is over.
struct ProgressCell {
  std::string label;
  std::string status;  // done, failed, skipped
  std::string reason;  // of failed and skipped; of done ones without all repetitions, how many they have
  std::string log;     // file, of failed ones
  std::optional<double> tok_s, speedup, acceptance_length, acceptance_rate;
  std::string certificate;
};

class Progress {
 public:
  virtual ~Progress() = default;
  /// total_repetitions: over all cells that will run; the bar and the time left count these.
  virtual void begin(const std::string& name, int total_cells, int total_repetitions) = 0;
  /// A phase without measurable share, e.g. "loading target-7m on tp2 pp1"; shown until the next call.
  virtual void phase(const std::string& text) = 0;
  virtual void repetition_started(const std::string& cell_label, int repetition, int num_repetitions) = 0;
  virtual void update(const ProgressUpdate& update) = 0;
  virtual void repetition_finished() = 0;
  virtual void cell_finished(const ProgressCell& cell) = 0;
  /// One or more whole lines, above the live region.
  virtual void message(const std::string& text) = 0;
  /// The run is over; only for programs, people read the table.
  virtual void finished(const std::string& status, const std::string& folder, int exit_code) = 0;
  /// Removes the live region; later messages still work. The destructor calls it.
  virtual void end() = 0;
};

/// Removes the region of a live view from a terminal whose cursor it left in front of it. Not from the first column on:
/// there, on the top row, terminals take it for clearing the screen and keep what stood on it in their history.
inline constexpr const char* kClearBelow = "\r \x1b[J\r";

std::unique_ptr<Progress> make_progress(ProgressMode mode, ProgressTerminal terminal);

/// A sink for spdlog that hands each formatted line to progress.message(), so that log lines scroll above the live
/// region whole. `progress` must outlive the sink's use.
std::shared_ptr<spdlog::sinks::sink> make_progress_log_sink(Progress& progress);

/// "0:31", "12:05", "1:02:03"
std::string duration_text(double seconds);

}  // namespace paceline
