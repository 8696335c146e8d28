// The live view: two lines at the bottom of the terminal that are painted anew, everything else scrolls above them.

#include <array>
#include <cmath>

#include "experiments/ui/base_progress.h"

namespace paceline {

namespace {

using Duration = std::chrono::steady_clock::duration;

constexpr Duration kRepaintInterval = std::chrono::milliseconds(125);
constexpr int kBarColumns = 20;
constexpr int kSmallBarColumns = 8;
constexpr int kMinColumns = 20;
constexpr const char* kToFirstLine = "\x1b[1A\r";

double seconds(Duration d) { return std::chrono::duration<double>(d).count(); }

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
    if (urgency == Urgency::soon && is_painted_ && now - last_paint_ < kRepaintInterval) return;
    last_paint_ = now;
    std::string out = erase();  // in its own statement: both change is_painted_
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
    print_skipped();
    if (is_painted_) terminal_.write(erase());
    active_ = false;
  }

  /// Escape codes that remove the region. The cursor waits in front of it, so that this needs not know into how many
  /// rows a terminal that became narrower has wrapped it; and so that another process can take away what a dead one
  /// left.
  std::string erase() {
    if (!is_painted_) return {};
    is_painted_ = false;
    return kClearBelow;
  }

  /// The region's text; no line reaches the last column, so that the terminal never wraps one.
  std::string region() {
    const int columns = std::max(kMinColumns, terminal_.columns()) - 1;
    const double elapsed = seconds(terminal_.now() - started_), share = fraction();
    // Cells interleave, so that most of them end together: repetitions tell how far the run is.
    std::string counts = fmt::format("{}/{} cells  {}", done_cells_, total_cells_, duration_text(elapsed));
    if (total_repetitions_ > 0) counts = fmt::format("{}/{} reps, {}", done_repetitions_, total_repetitions_, counts);
    if (share > 0.01 && share < 1) counts += fmt::format(" < {} left", duration_text(elapsed * (1 - share) / share));
    // Where it is narrow, the bar is short, and then whole parts go: the bar, then the name.
    std::string head = fmt::format(" {}  [{}] {}", name_, bar_text(share, kBarColumns), counts);
    if (cut(head, columns) != head)
      head = fmt::format(" {}  [{}] {}", name_, bar_text(share, kSmallBarColumns), counts);
    if (cut(head, columns) != head) head = fmt::format(" {}  {}", name_, counts);
    if (cut(head, columns) != head) head = fmt::format(" {}", counts);
    is_painted_ = true;
    return cut(head, columns) + "\n" + cut(current_line(), columns) + kToFirstLine;
  }

  std::string current_line() const {
    if (current_.empty()) return " ";
    std::string out = fmt::format(" ▸ {}", current_);
    if (repetition_.empty()) return out;
    out += fmt::format("  {}  {}", repetition_, bar_text(update_.fraction, kSmallBarColumns));
    if (update_.tok_s) out += fmt::format("  {:.0f} tok/s", *update_.tok_s);
    if (recent_.size() > 1) out += " " + spark_text(recent_);
    if (update_.acceptance_length) out += fmt::format("  AL {:.2f}", *update_.acceptance_length);
    if (update_.ttft_ms) out += fmt::format("  ttft p50 {:.0f} ms", *update_.ttft_ms);
    if (update_.kv_share) out += fmt::format("  kv {:.0f} %", 100 * *update_.kv_share);
    return out;
  }

  bool is_painted_ = false;  // the region is on the screen
  Duration last_paint_{};
};

}  // namespace

std::unique_ptr<Progress> make_live_progress(ProgressTerminal terminal) {
  return std::make_unique<LiveProgress>(std::move(terminal));
}

}  // namespace paceline
