#include "experiments/analysis/claims/validity.h"

#include <fmt/format.h>

#include "engine/util/counted.h"
#include "experiments/analysis/claims/view.h"
#include "experiments/analysis/statistics/noise.h"

namespace paceline {

DisturbedCells disturbed_cells(const VerdictView& view) {
  DisturbedCells out;
  double times_limit = 0;
  for (const CellSummary& s : view.summary().cells) {
    if (view.cell(s).status != CellStatus::done) continue;
    ++out.done;
    if (s.noise.empty()) continue;
    ++out.disturbed;
    WorstNoise noise = worst_noise_of(view.cell(s));
    if (out.worst && noise.times_limit <= times_limit) continue;
    times_limit = noise.times_limit;
    out.by = std::move(noise.text);
    out.worst = &s;
  }
  return out;
}

Validity validity_of(const VerdictView& view) {
  std::vector<const CellSummary*> lossy;
  int64_t without_baseline = 0;
  for (const CellSummary& s : view.summary().cells) {
    const CellResult& cell = view.cell(s);
    if (cell.status != CellStatus::done) continue;
    if (cell.certificate.status == CertificateStatus::fail) lossy.push_back(&s);
    const CellSummary* const base = view.baseline_of(s);
    without_baseline += base && view.cell(*base).status != CellStatus::done ? 1 : 0;
  }
  Validity out;
  if (lossy.size() == 1) out.reasons.push_back(view.label(*lossy.front()) + " is not lossless");
  if (lossy.size() > 1) out.reasons.push_back(fmt::format("{} cells are not lossless", lossy.size()));
  if (without_baseline > 0)
    out.reasons.push_back(counted(without_baseline, "cell lacks its baseline", "cells lack their baseline"));
  if (const DisturbedCells cells = disturbed_cells(view); cells.worst)
    out.reasons.push_back(fmt::format("{} of {} {} disturbed ({}{}: {})", cells.disturbed, counted(cells.done, "cell"),
                                      cells.disturbed == 1 ? "was" : "were", cells.disturbed == 1 ? "" : "at worst ",
                                      view.cell(*cells.worst).id, cells.by));
  return out;
}

}  // namespace paceline
