#include "experiments/ui/progress.h"

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <sys/ioctl.h>
#include <unistd.h>

#include "experiments/ui/base_progress.h"
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

class PlainProgress : public BaseProgress {
 public:
  PlainProgress(ProgressTerminal terminal, bool shows_cells)
      : BaseProgress(std::move(terminal)), shows_cells_(shows_cells) {}
  void end() override {
    const std::lock_guard lock(mutex_);
    print_skipped();
  }

 protected:
  bool shows_cells() const override { return shows_cells_; }
  void changed(Urgency) override {}
  void print(std::string text) override { terminal_.write(with_newline(std::move(text))); }

 private:
  bool shows_cells_;
};

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

}  // namespace

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
  if (mode == ProgressMode::live) return make_live_progress(std::move(terminal));
  if (mode == ProgressMode::jsonl) return make_json_progress(std::move(terminal));
  return std::make_unique<PlainProgress>(std::move(terminal), mode != ProgressMode::quiet);
}

std::string duration_text(double value) {
  if (!std::isfinite(value) || value < 0) return "?";
  const auto total = static_cast<int64_t>(std::llround(value));
  const int64_t hours = total / 3600, minutes = total / 60 % 60, secs = total % 60;
  return hours > 0 ? fmt::format("{}:{:02}:{:02}", hours, minutes, secs) : fmt::format("{}:{:02}", minutes, secs);
}

}  // namespace paceline
