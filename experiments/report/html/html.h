#pragma once
// The run's report as one HTML file: no network, readable without script, light, dark and print.

#include <filesystem>
#include <string>
#include <string_view>

#include "experiments/analysis/metrics/summary.h"

namespace paceline {

/// The whole document. Cells that are not rankable appear in every table and, faded, in the charts, and in no verdict
/// but the one that counts them. Under 1 MB for 60 cells.
/// `data` is the run's folder as seen from that of the page, "." where it is the same: files there are linked, none is
/// loaded. Empty: the page stands alone.
std::string report_html(const RunResult& run, const RunSummary& summary, const std::filesystem::path& data = {});

/// `bytes` as a gzip file (RFC 1952), for what a page carries within itself; the same for the same bytes, as it holds
/// no time.
std::string gzip(std::string_view bytes);

}  // namespace paceline
