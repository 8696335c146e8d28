#pragma once
// The ranks' lanes as a trace for Perfetto (ui.perfetto.dev) and chrome://tracing.

#include <span>

#include <nlohmann/json.hpp>

#include "experiments/results/results.h"

namespace paceline {

/// Trace Event Format, JSON object form: a process a cell, a thread a rank, times in µs since the cell's window began
/// (the windows of two cells have nothing to do with each other). Work and waits are complete events; waits lie within
/// the work that they interrupt. `cells`: indices; those without lanes are left out.
nlohmann::json chrome_trace(const RunResult& run, std::span<const size_t> cells);

}  // namespace paceline
