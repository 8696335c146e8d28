// Progress for programs: one JSON object a line (progress_events.h).

#include <nlohmann/json.hpp>

#include "experiments/results/results.h"
#include "experiments/ui/base_progress.h"

namespace paceline {

namespace {

using nlohmann::json;

class JsonProgress : public Progress {
 public:
  explicit JsonProgress(ProgressTerminal terminal) : terminal_(std::move(terminal)), started_(terminal_.now()) {}

  void begin(const std::string& name, int total_cells, int total_repetitions) override {
    started_ = terminal_.now();
    say({{"event", "begin"}, {"name", name}, {"cells", total_cells}, {"repetitions", total_repetitions}});
  }
  void phase(const std::string& text) override { say({{"event", "phase"}, {"text", text}}); }
  void repetition_started(const std::string& label, int repetition, int num_repetitions) override {
    say({{"event", "repetition"}, {"cell", label}, {"repetition", repetition}, {"of", num_repetitions}});
  }
  void update(const ProgressUpdate& update) override {
    say({{"event", "update"},
         {"fraction", json_number(update.fraction)},
         {"tok_s", json_number(update.tok_s)},
         {"recent_tok_s", json_number(update.recent_tok_s)},
         {"acceptance_length", json_number(update.acceptance_length)},
         {"ttft_p50_ms", json_number(update.ttft_ms)},
         {"kv_share", json_number(update.kv_share)}});
  }
  void repetition_finished() override { say({{"event", "repetition_finished"}}); }
  void cell_finished(const ProgressCell& cell) override {
    say({{"event", "cell"},
         {"cell", cell.label},
         {"status", cell.status},
         {"reason", cell.reason.empty() ? json(nullptr) : json(cell.reason)},
         {"log", cell.log.empty() ? json(nullptr) : json(cell.log)},
         {"tok_s", json_number(cell.tok_s)},
         {"acceptance_length", json_number(cell.acceptance_length)},
         {"acceptance_rate", json_number(cell.acceptance_rate)}});
  }
  void message(const std::string& text) override {
    say({{"event", "message"}, {"text", text.substr(0, text.find_last_not_of('\n') + 1)}});
  }
  void finished(const std::string& status, const std::string& folder, int exit_code) override {
    say({{"event", "end"}, {"status", status}, {"folder", folder}, {"exit_code", exit_code}});
  }
  void end() override {}

 private:
  void say(json record) {
    const std::lock_guard lock(mutex_);
    record["s"] = std::chrono::duration<double>(terminal_.now() - started_).count();
    terminal_.write(record.dump(-1, ' ', false, json::error_handler_t::replace) + "\n");
  }

  std::mutex mutex_;
  ProgressTerminal terminal_;
  std::chrono::steady_clock::duration started_;
};

}  // namespace

std::unique_ptr<Progress> make_json_progress(ProgressTerminal terminal) {
  return std::make_unique<JsonProgress>(std::move(terminal));
}

}  // namespace paceline
