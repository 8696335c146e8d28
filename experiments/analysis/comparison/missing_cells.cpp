#include "experiments/analysis/comparison/missing_cells.h"

#include <algorithm>
#include <optional>

namespace paceline {

namespace {

std::optional<MissingKind> kind_of(const CellResult& cell) {
  if (cell.status == CellStatus::failed) return MissingKind::failed;
  if (cell.status == CellStatus::skipped) return cell.not_run ? MissingKind::left_out : MissingKind::skipped;
  return {};
}

}  // namespace

std::vector<MissingCells> missing_cells(const RunResult& run, MissingKind kind) {
  std::vector<MissingCells> groups;
  for (const CellResult& cell : run.cells) {
    if (kind_of(cell) != kind) continue;
    const std::string reason = cell.reason.empty() ? "no reason was recorded" : cell.reason;
    auto known =
        std::find_if(groups.begin(), groups.end(), [&](const MissingCells& group) { return group.reason == reason; });
    if (known == groups.end()) known = groups.insert(groups.end(), {reason, {}});
    known->cells.push_back(&cell);
  }
  return groups;
}

}  // namespace paceline
