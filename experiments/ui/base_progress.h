#pragma once
// What every way of showing progress counts.

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "experiments/ui/progress.h"

namespace paceline {

inline constexpr size_t kSparkPoints = 12;

/// "done    tp1_pp1_ngram_k5_c1  148.3 tok/s  AL 2.81": a cell that is over.
std::string cell_line(const ProgressCell& cell);

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
    print_skipped();
    current_ = text;
    repetition_.clear();
    forget_updates();
    changed(Urgency::now);
  }
  void repetition_started(const std::string& label, int repetition, int num_repetitions) override {
    const std::lock_guard lock(mutex_);
    print_skipped();
    current_ = label;
    repetition_ = fmt::format("rep {}/{}", repetition + 1, num_repetitions);
    forget_updates();
    changed(Urgency::soon);
  }
  void update(const ProgressUpdate& update) override {
    const std::lock_guard lock(mutex_);
    update_ = update;
    if (update.recent_tok_s) {
      recent_.push_back(*update.recent_tok_s);
      if (recent_.size() > kSparkPoints) recent_.erase(recent_.begin());
    }
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
    if (!shows_cells()) return;
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

  /// One line for all the cells that were skipped one after the other for one reason. mutex_ is held.
  void print_skipped() {
    const Skipped all = std::exchange(skipped_, {});
    if (all.num == 1) print(place() + cell_line(all.first));
    if (all.num > 1)
      print(fmt::format("{}{:<8}{} … {} ({} cells): {}", place(), all.first.status, all.first.label, all.last, all.num,
                        all.first.reason));
  }

  void forget_updates() {
    update_ = {};
    recent_.clear();
  }

  /// "[ 3/28] ".
  std::string place() const {
    return fmt::format("[{:>{}}/{}] ", done_cells_, fmt::formatted_size("{}", total_cells_), total_cells_);
  }

  static std::string with_newline(std::string text) {
    if (text.empty() || text.back() != '\n') text += '\n';
    return text;
  }

  struct Skipped {
    int num = 0;
    ProgressCell first;
    std::string last;  // its label
  };

  std::mutex mutex_;
  ProgressTerminal terminal_;
  std::string name_, current_, repetition_;
  int total_cells_ = 0, total_repetitions_ = 0, done_cells_ = 0, done_repetitions_ = 0;
  Skipped skipped_;  // not yet printed
  ProgressUpdate update_;
  std::vector<double> recent_;  // tokens per second between updates, the newest last
  std::chrono::steady_clock::duration started_{};
  bool active_ = false;
};

std::unique_ptr<Progress> make_live_progress(ProgressTerminal terminal);
std::unique_ptr<Progress> make_json_progress(ProgressTerminal terminal);

}  // namespace paceline
