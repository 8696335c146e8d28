#pragma once
// The run's result as text: the table of its cells, the end of a run, and summary.md.

#include <string>

#include <nlohmann/json.hpp>

#include "experiments/analysis/claims/view.h"
#include "experiments/report/text/table.h"

namespace paceline {

/// One row a cell, failed and skipped ones too; columns that tell nothing of this run are left out.
Table cell_table(const VerdictView& view);

/// Rows beside what others measured; without rows where the run has none.
Table published_table(const RunResult& run, const RunSummary& summary);

/// Why a cell has no result. A skipped one could not run, one that was left out was to run and the run's end came
/// first.
enum class MissingKind { failed, left_out, skipped };

/// The cells of the run without a result of this kind by their reason, in plan order.
nlohmann::ordered_map<std::string, std::vector<const CellResult*>> missing_cells(const RunResult& run,
                                                                                 MissingKind kind);

enum class TextColor { off, on };

/// Table of the cells, the verdict, the places of the files. Four cells or more that were skipped, or left out by the
/// run's end, for one reason are one line below the table. Where `show_command` is given, only the verdict's most
/// important sentences, and with their number the command that shows all. columns: of the terminal; the table loses its
/// least important columns, never the verdict, which at last stands below its row, until it fits or none of these is
/// left, and a line names them; sentences are broken between words. 0: all stays as it is.
std::string end_of_run_text(const RunResult& run, const RunSummary& summary, TextColor color,
                            const std::string& show_command = {}, int columns = 0);

/// summary.md: all verdict sentences and a pipe table of all cells, ready to paste.
std::string summary_markdown(const RunResult& run, const RunSummary& summary);

/// The GPUs on which cells ran, "cuda:1 NVIDIA H200 0000:1b:00.0, cuda:3 … (CUDA_VISIBLE_DEVICES 4,5,6,7)"; empty when
/// there were none.
std::string gpus_text(const RunResult& run);

/// The column of device_busy in every text (docs/metrics.md).
inline constexpr const char* kDeviceBusy = "dev busy";

/// The command that repeats the run, quoted for a shell, behind the variables that the configuration took.
std::string reproduce_command(const RunInfo& info);

/// "2.14×", "–" without a value.
std::string ratio_text(const std::optional<double>& ratio);

/// interval_text(), "–" without a value.
std::string speedup_text(const std::optional<RatioInterval>& speedup);

/// `value` with `digits` decimals, "–" without a value.
std::string number_text(const std::optional<double>& value, int digits);

/// A few words on the cell: "baseline", "faster, lossless", "slower: drafting takes 71 % of a decode pass",
/// "oversubscribed (not ranked), lossless", "skipped: needs 4 devices", "NOT LOSSLESS".
std::string cell_verdict(const VerdictView& view, const CellSummary& s);

/// Columns that `text` takes in a terminal, for the characters that our texts use (no wide ones).
int display_width(const std::string& text);

}  // namespace paceline
