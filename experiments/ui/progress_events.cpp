#include "experiments/ui/progress_events.h"

#include <mutex>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "experiments/results/results.h"

namespace paceline {

namespace {

using nlohmann::json;

class JsonProgress : public Progress {
 public:
  explicit JsonProgress(ProgressTerminal terminal) : terminal_(std::move(terminal)), started_(terminal_.now()) {}

  void begin(const std::string& name, int total_cells, int total_repetitions) override {
    started_ = terminal_.now();
    say("begin", {{"name", name}, {"cells", total_cells}, {"repetitions", total_repetitions}});
  }
  void phase(const std::string& text) override { say("phase", {{"text", text}}); }
  void repetition_started(const std::string& label, int repetition, int num_repetitions) override {
    say("repetition", {{"cell", label}, {"repetition", repetition}, {"of", num_repetitions}});
  }
  void update(const ProgressUpdate& update) override {
    say("update", {{"fraction", json_number(update.fraction)},
                   {"tok_s", json_number(update.tok_s)},
                   {"recent_tok_s", json_number(update.recent_tok_s)},
                   {"acceptance_length", json_number(update.acceptance_length)},
                   {"ttft_p50_ms", json_number(update.ttft_ms)},
                   {"kv_share", json_number(update.kv_share)}});
  }
  void repetition_finished() override { say("repetition_finished", json::object()); }
  void cell_finished(const ProgressCell& cell) override {
    say("cell", {{"cell", cell.label},
                 {"status", cell.status},
                 {"reason", cell.reason.empty() ? json(nullptr) : json(cell.reason)},
                 {"log", cell.log.empty() ? json(nullptr) : json(cell.log)},
                 {"tok_s", json_number(cell.tok_s)},
                 {"acceptance_length", json_number(cell.acceptance_length)},
                 {"acceptance_rate", json_number(cell.acceptance_rate)}});
  }
  void message(const std::string& text) override {
    say("message", {{"text", text.substr(0, text.find_last_not_of('\n') + 1)}});
  }
  void finished(const std::string& status, const std::string& folder, int exit_code) override {
    say("end", {{"status", status}, {"folder", folder}, {"exit_code", exit_code}});
  }
  void end() override {}

 private:
  void say(const char* event, json record) {
    const std::lock_guard lock(mutex_);
    record["event"] = event;
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

const std::vector<ProgressField>& common_progress_fields() {
  static const std::vector<ProgressField> kFields = {
      {"event", "one of the names below"}, {"s", "seconds since the process's `begin`, by the monotonic clock"}};
  return kFields;
}

const std::vector<ProgressEvent>& progress_events() {
  static const std::vector<ProgressEvent> kEvents = {
      {"begin",
       "the sweep is planned; comes again when another process goes on after a crash",
       {{"name", "of the experiment"},
        {"cells", "number of cells, skipped ones too"},
        {"repetitions", "of all cells, that this process has to measure"}}},
      {"phase", "work of unknown length begins", {{"text", "\"loading …\", \"warming up …\""}}},
      {"repetition",
       "a cell's repetition begins",
       {{"cell", "its id"}, {"repetition", "from 0"}, {"of", "repetitions of the cell"}}},
      {"update",
       "within a repetition, ten times a second at most",
       {{"fraction", "of the repetition's requests that are done"},
        {"tok_s", "output tokens per second since the repetition began"},
        {"recent_tok_s", "likewise, since the last update"},
        {"acceptance_length", "so far, null where nobody drafts"},
        {"ttft_p50_ms", "of the latest 256 finished requests, null before the first"},
        {"kv_share", "of the KV blocks, in use"}}},
      {"repetition_finished", "the repetition is recorded", {}},
      {"cell",
       "a cell is over",
       {{"cell", "its id"},
        {"status", "\"done\", \"failed\", \"skipped\""},
        {"reason", "of failed, skipped and unfinished ones, else null"},
        {"log", "file with what happened, of failed ones, else null"},
        {"tok_s", "geometric mean over repetitions"},
        {"acceptance_length", "null where nobody drafts"},
        {"acceptance_rate", "likewise"}}},
      {"message", "a line for people: warnings, interrupts", {{"text", "without the line's end"}}},
      {"end",
       "the run is over; an error that ends the program comes without it",
       {{"status", "as in manifest.json"}, {"folder", "with the results"}, {"exit_code", "of the program"}}},
  };
  return kEvents;
}

std::string progress_events_markdown() {
  const auto fields = [](const std::vector<ProgressField>& of) {
    std::string text;
    for (const ProgressField& field : of)
      text += fmt::format("{}`{}` {}", text.empty() ? "" : "; ", field.name, field.meaning);
    return text.empty() ? std::string("–") : text;
  };
  std::string out =
      fmt::format("Every line: {}.\n\n| `event` | when | fields |\n|---|---|---|\n", fields(common_progress_fields()));
  for (const ProgressEvent& event : progress_events())
    out += fmt::format("| `{}` | {} | {} |\n", event.name, event.when, fields(event.fields));
  return out;
}

}  // namespace paceline
