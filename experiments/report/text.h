#pragma once
// The run's result as text: the table and verdict at the end of a run, and summary.md.

#include <string>

#include "experiments/analysis/summary.h"

namespace paceline {

enum class TextColor { off, on };

/// Table of all cells, the verdict's three most important sentences, the places of the files.
std::string end_of_run_text(const RunResult& run, const RunSummary& summary, TextColor color);

/// summary.md: all verdict sentences and a pipe table of all cells, ready to paste.
std::string summary_markdown(const RunResult& run, const RunSummary& summary);

/// The GPUs on which cells ran, "cuda:1 NVIDIA H200 0000:1b:00.0, cuda:3 … (CUDA_VISIBLE_DEVICES 4,5,6,7)"; empty when
/// there were none.
std::string gpus_text(const RunResult& run);

/// Busy shares of the ranks' devices, "0.66/0.31"; of more than four "0.18–0.54"; "–" without any.
std::string busy_text(const std::vector<double>& busy);

/// The command that repeats the run, quoted for a shell.
std::string reproduce_command(const RunInfo& info);

/// "2.14×", "–" without a value.
std::string ratio_text(const std::optional<double>& ratio);

/// "2.14×", "2.14× ±0.05" when there is an interval (half its width), "–" without a value.
std::string speedup_text(const std::optional<RatioInterval>& speedup);

/// `value` with `digits` decimals, "–" without a value.
std::string number_text(const std::optional<double>& value, int digits);

/// One word or phrase on the cell: "baseline", "faster, lossless", "slower: drafting takes 71 % of a step",
/// "skipped: needs 4 devices", "NOT LOSSLESS".
std::string cell_verdict(const CellResult& cell, const CellSummary& summary);

/// Columns that `text` takes in a terminal, for the characters that our texts use (no wide ones).
int display_width(const std::string& text);

}  // namespace paceline
