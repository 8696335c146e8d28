#pragma once
// Log lines through the progress display, so that they scroll above its live region whole.

#include <memory>

#include <spdlog/sinks/sink.h>

#include "experiments/ui/progress.h"

namespace paceline {

/// A sink for spdlog that hands each formatted line to progress.message(). `progress` must outlive the sink's use.
std::shared_ptr<spdlog::sinks::sink> make_progress_log_sink(Progress& progress);

}  // namespace paceline
