#pragma once
// The lines of --ui jsonl: one table for who writes them and who documents them.

#include <memory>
#include <string>
#include <vector>

#include "experiments/ui/progress.h"

namespace paceline {

struct ProgressField {
  const char* name;
  const char* meaning;
};

struct ProgressEvent {
  const char* name;  // the line's "event"
  const char* when;
  std::vector<ProgressField> fields;  // all that the line has, in the order of the documentation
};

/// Fields of every line beside its own.
const std::vector<ProgressField>& common_progress_fields();
const std::vector<ProgressEvent>& progress_events();

/// Progress for programs: such lines.
std::unique_ptr<Progress> make_json_progress(ProgressTerminal terminal);

/// The section's table in docs/experiments.md, and `runexp explain jsonl`.
std::string progress_events_markdown();

}  // namespace paceline
