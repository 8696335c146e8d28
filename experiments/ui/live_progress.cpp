// The live view: two lines at the bottom of the terminal that are painted anew, everything else scrolls above them.

#include <array>
#include <cmath>

#include "experiments/report/text/text_lines.h"
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
    out += fitted(with_newline(std::move(text)));
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

}  // namespace

std::unique_ptr<Progress> make_live_progress(ProgressTerminal terminal) {
  return std::make_unique<LiveProgress>(std::move(terminal));
}

}  // namespace paceline
