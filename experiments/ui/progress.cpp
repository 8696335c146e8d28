#include "experiments/ui/progress.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <mutex>
#include <sys/ioctl.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>

#include "engine/util/utf8_chars.h"
#include "experiments/report/text/text_lines.h"
#include "experiments/ui/progress_events.h"
#include "kernels/error.h"

namespace paceline {

namespace {

void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;  // a closed pipe must not stop a run
    text.remove_prefix(static_cast<size_t>(n));
  }
}

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

using Duration = std::chrono::steady_clock::duration;

constexpr Duration kRepaintInterval = std::chrono::milliseconds(125);
constexpr Duration kLongestSilence = std::chrono::seconds(10);  // of the plain view
constexpr int kBarColumns = 20;
constexpr int kSmallBarColumns = 8;
constexpr int kMinColumns = 20;
constexpr size_t kSparkPoints = 12;
constexpr const char* kToFirstLine = "\x1b[1A\r";

double seconds(Duration d) { return std::chrono::duration<double>(d).count(); }

/// Text of at most `columns` characters; every character of ours is one column wide.
std::string cut(const std::string& text, int columns) {
  return std::string(utf8_first(text, static_cast<size_t>(std::max(columns, 0))));
}

std::string bar_text(double fraction, int columns) {
  const int full = static_cast<int>(std::lround(std::clamp(fraction, 0.0, 1.0) * columns));
  std::string out;
  for (int i = 0; i < columns; ++i) out += i < full ? "█" : "░";
  return out;
}

/// One block a value, between the smallest and the largest of them.
std::string spark_text(const std::vector<double>& values) {
  constexpr std::array<const char*, 8> kBlocks = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  std::string out;
  for (const double value : values) {
    const double share = *high > *low ? (value - *low) / (*high - *low) : 0.5;
    out += kBlocks[static_cast<size_t>(std::clamp(share, 0.0, 1.0) * 7)];
  }
  return out;
}

/// "done    tp1_pp1_ngram_k5_c1  148.3 tok/s  AL 2.81": a cell that is over.
std::string cell_line(const ProgressCell& cell) {
  if (cell.status != "done")
    return fmt::format("{:<8}{}: {}{}{}", cell.status, cell.label, cell.reason,
                       cell.log.empty() ? "" : "; log: ", cell.log);
  std::string out =
      fmt::format("{:<8}{}{}{}", cell.status, cell.label, cell.reason.empty() ? "" : fmt::format(" ({})", cell.reason),
                  cell.tok_s ? fmt::format("  {:.1f} tok/s", *cell.tok_s) : std::string());
  if (cell.speedup) out += fmt::format("  {:.2f}×", *cell.speedup);
  if (cell.acceptance_length) out += fmt::format("  AL {:.2f}", *cell.acceptance_length);
  if (cell.acceptance_rate) out += fmt::format("  accept {:.2f}", *cell.acceptance_rate);
  if (!cell.certificate.empty()) out += "  certificate " + cell.certificate;
  return out;
}

/// A line for each cell that is over, or none. Counts what is done; lines reach the terminal whole: one mutex, one
/// write a change.
class PlainProgress : public Progress {
 public:
  PlainProgress(ProgressTerminal terminal, bool shows_cells)
      : terminal_(std::move(terminal)), shows_cells_(shows_cells) {}

  void begin(const std::string& name, int total_cells, int total_repetitions) override {
    const std::lock_guard lock(mutex_);
    name_ = name;
    total_cells_ = total_cells;
    total_repetitions_ = total_repetitions;
    done_cells_ = done_repetitions_ = 0;
    started_ = last_line_ = terminal_.now();
    active_ = true;
    changed(Urgency::now);
  }
  void phase(const std::string& text) override { start(text, "", Urgency::now); }
  void repetition_started(const std::string& label, int repetition, int num_repetitions) override {
    start(label, fmt::format("rep {}/{}", repetition + 1, num_repetitions), Urgency::soon);
  }
  void update(const ProgressUpdate& update) override {
    const std::lock_guard lock(mutex_);
    update_ = update;
    if (update.recent_tok_s) recent_.push_back(*update.recent_tok_s);
    if (recent_.size() > kSparkPoints) recent_.erase(recent_.begin());
    changed(Urgency::soon);
  }
  void repetition_finished() override {
    const std::lock_guard lock(mutex_);
    ++done_repetitions_;
    update_.fraction = 0;
    changed(Urgency::soon);
  }
  void cell_finished(const ProgressCell& cell) override {
    const std::lock_guard lock(mutex_);
    if (skipped_.num > 0 && (cell.status != "skipped" || cell.reason != skipped_.first.reason)) print_skipped();
    ++done_cells_;
    if (!shows_cells_) return;
    if (cell.status != "skipped") return print(place() + cell_line(cell));
    if (skipped_.num++ == 0) skipped_.first = cell;
    skipped_.last = cell.label;
  }
  void finished(const std::string&, const std::string&, int) override {}
  void message(const std::string& text) override {
    const std::lock_guard lock(mutex_);
    print_skipped();
    print(text);
  }
  void end() override {
    const std::lock_guard lock(mutex_);
    print_skipped();
    active_ = false;
  }

 protected:
  enum class Urgency { soon, now };

  // All with mutex_ held.
  /// Repetitions of all cells are interleaved, so the first cell may end when nearly all is done.
  virtual void changed(Urgency) {
    if (!active_ || !shows_cells_ || current_.empty() || terminal_.now() - last_line_ < kLongestSilence) return;
    print(fmt::format("{}{:<8}{}  {} of {} repetitions, {:.0f} s", place(), "running", current_, done_repetitions_,
                      total_repetitions_, std::chrono::duration<double>(terminal_.now() - started_).count()));
  }
  virtual void print(const std::string& text) {
    last_line_ = terminal_.now();
    terminal_.write(with_newline(text));
  }

  /// One line for all the cells that were skipped one after the other for one reason.
  void print_skipped() {
    const Skipped all = std::exchange(skipped_, {});
    if (all.num == 1) print(place() + cell_line(all.first));
    if (all.num > 1)
      print(fmt::format("{}{:<8}{} … {} ({} cells): {}", place(), all.first.status, all.first.label, all.last, all.num,
                        all.first.reason));
  }

  static std::string with_newline(const std::string& text) { return text.ends_with('\n') ? text : text + "\n"; }

  std::mutex mutex_;
  ProgressTerminal terminal_;
  std::string name_, current_, repetition_;
  int total_cells_ = 0, total_repetitions_ = 0, done_cells_ = 0, done_repetitions_ = 0;
  ProgressUpdate update_;
  std::vector<double> recent_;  // tokens per second between updates, the newest last
  Duration started_{}, last_line_{};
  bool active_ = false;

 private:
  struct Skipped {
    int num = 0;
    ProgressCell first;
    std::string last;  // its label
  };

  void start(const std::string& what, const std::string& repetition, Urgency urgency) {
    const std::lock_guard lock(mutex_);
    print_skipped();
    current_ = what;
    repetition_ = repetition;
    update_ = {};
    recent_.clear();
    changed(urgency);
  }

  /// "[ 3/28] ".
  std::string place() const {
    return fmt::format("[{:>{}}/{}] ", done_cells_, fmt::formatted_size("{}", total_cells_), total_cells_);
  }

  bool shows_cells_;
  Skipped skipped_;  // not yet printed
};

/// The live view: two lines at the bottom of the terminal that are painted anew, everything else scrolls above them.
class LiveProgress : public PlainProgress {
 public:
  explicit LiveProgress(ProgressTerminal terminal) : PlainProgress(std::move(terminal), true) {}
  ~LiveProgress() override { LiveProgress::end(); }
  void end() override {
    PlainProgress::end();
    const std::lock_guard lock(mutex_);
    if (is_painted_) terminal_.write(erase());
  }

 protected:
  void changed(Urgency urgency) override {
    if (!active_) return;
    const Duration now = terminal_.now();
    if (urgency == Urgency::soon && is_painted_ && now - last_paint_ < kRepaintInterval) return;
    last_paint_ = now;
    std::string out = erase();  // in its own statement: both change is_painted_
    out += region();
    terminal_.write(out);
  }

  void print(const std::string& text) override {
    std::string out = erase();
    out += fitted(with_newline(text));
    if (active_) out += region();
    terminal_.write(out);
  }

 private:
  /// Escape codes that remove the region. The cursor waits in front of it, so that this needs not know into how many
  /// rows a terminal that became narrower has wrapped it; and so that another process can take away what a dead one
  /// left.
  std::string erase() {
    if (!is_painted_) return {};
    is_painted_ = false;
    return kClearBelow;
  }

  /// Lines broken between words; `text` ends with a newline.
  std::string fitted(const std::string& text) const {
    constexpr int kHang = 4;
    const int columns = std::max(kMinColumns, terminal_.columns()) - 1;
    std::string out;
    for (size_t at = 0, end; at < text.size(); at = end + 1) {
      end = text.find('\n', at);
      out += wrapped_text(text.substr(at, end - at), columns, kHang);
    }
    return out;
  }

  /// The region's text; no line reaches the last column, so that the terminal never wraps one.
  std::string region() {
    const int columns = std::max(kMinColumns, terminal_.columns()) - 1;
    is_painted_ = true;
    return cut(head(columns), columns) + "\n" + current_line(columns) + kToFirstLine;
  }

  double fraction() const {
    if (total_repetitions_ <= 0) return total_cells_ > 0 ? static_cast<double>(done_cells_) / total_cells_ : 0;
    return std::clamp((done_repetitions_ + std::clamp(update_.fraction, 0.0, 1.0)) / total_repetitions_, 0.0, 1.0);
  }

  /// How far the run is. Where it is narrow, the bar is short, and then whole parts go: the bar, the name, the time
  /// left, the cells. Cells interleave, so that most of them end together: repetitions tell how far the run is.
  std::string head(int columns) const {
    const double elapsed = seconds(terminal_.now() - started_), share = fraction();
    const std::string cells = fmt::format("{}/{} cells", done_cells_, total_cells_), time = duration_text(elapsed);
    const std::string reps =
        total_repetitions_ > 0 ? fmt::format("{}/{} reps", done_repetitions_, total_repetitions_) : "";
    const std::string counts = fmt::format("{}{}{}  {}", reps, reps.empty() ? "" : ", ", cells, time);
    const std::string left =
        share > 0.01 && share < 1 ? fmt::format(" < {} left", duration_text(elapsed * (1 - share) / share)) : "";
    const std::array forms = {fmt::format(" {}  [{}] {}{}", name_, bar_text(share, kBarColumns), counts, left),
                              fmt::format(" {}  [{}] {}{}", name_, bar_text(share, kSmallBarColumns), counts, left),
                              fmt::format(" {}  {}{}", name_, counts, left),
                              fmt::format(" {}{}", counts, left),
                              fmt::format(" {}", counts),
                              fmt::format(" {}  {}", reps.empty() ? cells : reps, time)};
    const auto fits = [columns](const std::string& form) { return cut(form, columns) == form; };
    const auto first = std::find_if(forms.begin(), forms.end(), fits);
    return first == forms.end() ? forms.back() : *first;
  }

  /// What runs now, of which whole parts are left out where they do not fit.
  std::string current_line(int columns) const {
    if (current_.empty()) return " ";
    std::string line = cut(fmt::format(" ▸ {}", current_), columns);
    if (repetition_.empty()) return line;
    std::vector<std::string> parts = {"  " + repetition_, "  " + bar_text(update_.fraction, kSmallBarColumns)};
    if (update_.tok_s) parts.push_back(fmt::format("  {:.0f} tok/s", *update_.tok_s));
    if (recent_.size() > 1) parts.push_back(" " + spark_text(recent_));
    if (update_.acceptance_length) parts.push_back(fmt::format("  AL {:.2f}", *update_.acceptance_length));
    if (update_.ttft_ms) parts.push_back(fmt::format("  ttft p50 {:.0f} ms", *update_.ttft_ms));
    if (update_.kv_share) parts.push_back(fmt::format("  kv {:.0f} %", 100 * *update_.kv_share));
    for (const std::string& part : parts) {
      if (cut(line + part, columns) != line + part) break;
      line += part;
    }
    return line;
  }

  bool is_painted_ = false;  // the region is on the screen
  Duration last_paint_{};
};

class ProgressLogSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit ProgressLogSink(Progress& progress) : progress_(progress) {
    set_formatter_(std::make_unique<spdlog::pattern_formatter>("%H:%M:%S %l %v"));
  }

 protected:
  void sink_it_(const spdlog::details::log_msg& record) override {
    spdlog::memory_buf_t line;
    formatter_->format(record, line);
    progress_.message(std::string(line.data(), line.size()));
  }
  void flush_() override {}

 private:
  Progress& progress_;
};

}  // namespace

ProgressMode parse_progress_mode(const std::string& text) {
  if (text == "auto") return ProgressMode::automatic;
  if (text == "live") return ProgressMode::live;
  if (text == "plain") return ProgressMode::plain;
  if (text == "quiet") return ProgressMode::quiet;
  if (text == "jsonl") return ProgressMode::jsonl;
  fail(ExitCode::usage, "--ui: \"{}\" is unknown: use auto, live, plain, jsonl or quiet", text);
}

ProgressTerminal standard_error_terminal() {
  const char* term = std::getenv("TERM");
  return {.write = [](std::string_view text) { write_all(STDERR_FILENO, text); },
          .columns =
              [] {
                winsize size{};
                constexpr int kUsual = 80;
                return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? static_cast<int>(size.ws_col)
                                                                                         : kUsual;
              },
          .now = [] { return std::chrono::steady_clock::now().time_since_epoch(); },
          .is_tty = ::isatty(STDERR_FILENO) == 1,
          .wants_plain = is_set("CI") || is_set("NO_COLOR") || term == nullptr || std::string_view(term) == "dumb"};
}

ProgressTerminal standard_output_terminal() {
  ProgressTerminal terminal = standard_error_terminal();
  terminal.write = [](std::string_view text) { write_all(STDOUT_FILENO, text); };
  terminal.is_tty = ::isatty(STDOUT_FILENO) == 1;
  return terminal;
}

std::unique_ptr<Progress> make_progress(ProgressMode mode, ProgressTerminal terminal) {
  if (mode == ProgressMode::automatic) {
    mode = terminal.is_tty && !terminal.wants_plain ? ProgressMode::live : ProgressMode::plain;
  }
  if (mode == ProgressMode::live) return std::make_unique<LiveProgress>(std::move(terminal));
  if (mode == ProgressMode::jsonl) return make_json_progress(std::move(terminal));
  return std::make_unique<PlainProgress>(std::move(terminal), mode != ProgressMode::quiet);
}

std::shared_ptr<spdlog::sinks::sink> make_progress_log_sink(Progress& progress) {
  return std::make_shared<ProgressLogSink>(progress);
}

std::string duration_text(double value) {
  if (!std::isfinite(value) || value < 0) return "?";
  const auto total = static_cast<int64_t>(std::llround(value));
  const int64_t hours = total / 3600, minutes = total / 60 % 60, secs = total % 60;
  return hours > 0 ? fmt::format("{}:{:02}:{:02}", hours, minutes, secs) : fmt::format("{}:{:02}", minutes, secs);
}

}  // namespace paceline
