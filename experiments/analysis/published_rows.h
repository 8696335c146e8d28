#pragma once
// Rows whose speedup others have measured (sweep.include's "published"), beside what this run measured.

#include <optional>
#include <string>
#include <vector>

#include "experiments/analysis/metrics/summary.h"

namespace paceline {

struct PublishedRow {
  std::string label;  // of the row, and of the one that both ratios refer to
  std::string over;
  std::optional<double> output_tok_s;
  std::optional<double> tpot_ms;   // median
  std::optional<double> measured;  // ratio of output_tok_s; none: one of the two did not run
  double published = 0;
  std::string source;  // as PublishedSpeedup::source
  std::string why;     // what the ratio is made of: tokens and time of a target pass, and what else takes long
};

/// In plan order; empty when no row has a published speedup.
std::vector<PublishedRow> published_rows(const RunResult& run, const RunSummary& summary);

/// Who measured what is published: "published: A (row, other row); B"; says so where a row does not name it.
std::string published_sources(const std::vector<PublishedRow>& rows);

}  // namespace paceline
