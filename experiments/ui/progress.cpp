#include "experiments/ui/progress.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <mutex>
#include <sys/ioctl.h>
#include <unistd.h>

#include <fmt/format.h>

#include "kernels/error.h"

namespace paceline {

namespace {

using Duration = std::chrono::steady_clock::duration;

constexpr Duration kRepaintInterval = std::chrono::milliseconds(125);
constexpr int kBarColumns = 20;
constexpr int kMinColumns = 20;
constexpr const char* kClearLine = "\r\x1b[2K";
constexpr const char* kUpAndClearLine = "\x1b[1A\r\x1b[2K";

double seconds(Duration d) { return std::chrono::duration<double>(d).count(); }

void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;  // a closed pipe must not stop a run
    text.remove_prefix(static_cast<size_t>(n));
  }
}

/// Text of at most `columns` characters; every character of ours is one column wide.
std::string cut(const std::string& text, int columns) {
  std::string out;
  int width = 0;
  for (char c : text) {
    const bool starts = (static_cast<unsigned char>(c) & 0xC0) != 0x80;
    if (starts && ++width > columns) break;
    out += c;
  }
  return out;
}

std::string bar_text(double fraction, int columns) {
  const int full = static_cast<int>(std::lround(std::clamp(fraction, 0.0, 1.0) * columns));
  std::string out;
  for (int i = 0; i < columns; ++i) out += i < full ? "█" : "░";
  return out;
}

std::string speed_text(const std::optional<double>& tok_s, const std::optional<double>& acceptance_length) {
  std::string out;
  if (tok_s) out += fmt::format("  {:.1f} tok/s", *tok_s);
  if (acceptance_length) out += fmt::format("  AL {:.2f}", *acceptance_length);
  return out;
}

std::string cell_line(const ProgressCell& cell) {
  if (cell.status != "done") return fmt::format("{:<8}{}: {}", cell.status, cell.label, cell.reason);
  std::string out = fmt::format("{:<8}{}{}", cell.status, cell.label, speed_text(cell.tok_s, {}));
  if (cell.speedup) out += fmt::format("  {:.2f}×", *cell.speedup);
  if (cell.acceptance_length) out += fmt::format("  AL {:.2f}", *cell.acceptance_length);
  if (cell.acceptance_rate) out += fmt::format("  accept {:.2f}", *cell.acceptance_rate);
  if (!cell.certificate.empty()) out += "  certificate " + cell.certificate;
  return out;
}

/// Counts what is done; the subclasses show it. Lines reach the terminal whole: one mutex, one write a change.
class BaseProgress : public Progress {
 public:
  explicit BaseProgress(ProgressTerminal terminal) : terminal_(std::move(terminal)) {}

  void begin(const std::string& name, int total_cells, int total_repetitions) override {
    const std::lock_guard lock(mutex_);
    name_ = name;
    total_cells_ = total_cells;
    total_repetitions_ = total_repetitions;
    done_cells_ = done_repetitions_ = 0;
    started_ = terminal_.now();
    active_ = true;
    changed(Urgency::now);
  }
  void phase(const std::string& text) override {
    const std::lock_guard lock(mutex_);
    current_ = text;
    update_ = {};
    changed(Urgency::now);
  }
  void repetition_started(const std::string& label, int repetition, int num_repetitions) override {
    const std::lock_guard lock(mutex_);
    current_ = fmt::format("{}  rep {}/{}", label, repetition + 1, num_repetitions);
    update_ = {};
    changed(Urgency::soon);
  }
  void update(const ProgressUpdate& update) override {
    const std::lock_guard lock(mutex_);
    update_ = update;
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
    ++done_cells_;
    if (shows_cells()) {
      print(fmt::format("[{:>{}}/{}] {}", done_cells_, fmt::formatted_size("{}", total_cells_), total_cells_,
                        cell_line(cell)));
    }
  }
  void message(const std::string& text) override {
    const std::lock_guard lock(mutex_);
    print(text);
  }

 protected:
  enum class Urgency { soon, now };

  // All with mutex_ held.
  virtual bool shows_cells() const = 0;
  virtual void changed(Urgency urgency) = 0;
  virtual void print(std::string text) = 0;

  double fraction() const {
    if (total_repetitions_ <= 0) return total_cells_ > 0 ? static_cast<double>(done_cells_) / total_cells_ : 0;
    const double done = done_repetitions_ + std::clamp(update_.fraction, 0.0, 1.0);
    return std::clamp(done / total_repetitions_, 0.0, 1.0);
  }

  static std::string with_newline(std::string text) {
    if (text.empty() || text.back() != '\n') text += '\n';
    return text;
  }

  std::mutex mutex_;
  ProgressTerminal terminal_;
  std::string name_, current_;
  int total_cells_ = 0, total_repetitions_ = 0, done_cells_ = 0, done_repetitions_ = 0;
  ProgressUpdate update_;
  Duration started_{};
  bool active_ = false;
};

class PlainProgress : public BaseProgress {
 public:
  PlainProgress(ProgressTerminal terminal, bool shows_cells)
      : BaseProgress(std::move(terminal)), shows_cells_(shows_cells) {}
  void end() override {}

 protected:
  bool shows_cells() const override { return shows_cells_; }
  void changed(Urgency) override {}
  void print(std::string text) override { terminal_.write(with_newline(std::move(text))); }

 private:
  bool shows_cells_;
};

class LiveProgress : public BaseProgress {
 public:
  using BaseProgress::BaseProgress;
  ~LiveProgress() override { end_now(); }
  void end() override { end_now(); }

 protected:
  bool shows_cells() const override { return true; }

  void changed(Urgency urgency) override {
    if (!active_) return;
    const Duration now = terminal_.now();
    if (urgency == Urgency::soon && painted_lines_ > 0 && now - last_paint_ < kRepaintInterval) return;
    last_paint_ = now;
    std::string out = erase();  // in its own statement: both change painted_lines_
    out += region();
    terminal_.write(out);
  }

  void print(std::string text) override {
    std::string out = erase();
    out += with_newline(std::move(text));
    if (active_) out += region();
    terminal_.write(out);
  }

 private:
  void end_now() {
    const std::lock_guard lock(mutex_);
    if (painted_lines_ > 0) terminal_.write(erase());
    active_ = false;
  }

  /// Escape codes that remove the region and leave the cursor at its first column.
  std::string erase() {
    std::string out;
    if (painted_lines_ > 0) out = kClearLine;
    for (int i = 1; i < painted_lines_; ++i) out += kUpAndClearLine;
    painted_lines_ = 0;
    return out;
  }

  /// The region's text; no line reaches the last column, so that the terminal never wraps one.
  std::string region() {
    const int columns = std::max(kMinColumns, terminal_.columns()) - 1;
    const double elapsed = seconds(terminal_.now() - started_), share = fraction();
    std::string head = fmt::format(" {}  [{}] {}/{} cells  {}", name_, bar_text(share, kBarColumns), done_cells_,
                                   total_cells_, duration_text(elapsed));
    if (share > 0.01 && share < 1) head += fmt::format(" < {} left", duration_text(elapsed * (1 - share) / share));
    const std::string tail =
        current_.empty() ? std::string(" ")
                         : fmt::format(" ▸ {}{}", current_, speed_text(update_.tok_s, update_.acceptance_length));
    painted_lines_ = 2;
    return cut(head, columns) + "\n" + cut(tail, columns);
  }

  int painted_lines_ = 0;
  Duration last_paint_{};
};

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

}  // namespace

ProgressMode parse_progress_mode(const std::string& text) {
  if (text == "auto") return ProgressMode::automatic;
  if (text == "live") return ProgressMode::live;
  if (text == "plain") return ProgressMode::plain;
  if (text == "quiet") return ProgressMode::quiet;
  fail(ExitCode::usage, "--ui: \"{}\" is unknown: use auto, live, plain or quiet", text);
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

std::unique_ptr<Progress> make_progress(ProgressMode mode, ProgressTerminal terminal) {
  if (mode == ProgressMode::automatic) {
    mode = terminal.is_tty && !terminal.wants_plain ? ProgressMode::live : ProgressMode::plain;
  }
  if (mode == ProgressMode::live) return std::make_unique<LiveProgress>(std::move(terminal));
  return std::make_unique<PlainProgress>(std::move(terminal), mode != ProgressMode::quiet);
}

std::string duration_text(double value) {
  if (!std::isfinite(value) || value < 0) return "?";
  const auto total = static_cast<int64_t>(std::llround(value));
  const int64_t hours = total / 3600, minutes = total / 60 % 60, secs = total % 60;
  return hours > 0 ? fmt::format("{}:{:02}:{:02}", hours, minutes, secs) : fmt::format("{}:{:02}", minutes, secs);
}

}  // namespace paceline
