#include "experiments/ui/progress_events.h"

#include <fmt/format.h>

namespace paceline {

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
