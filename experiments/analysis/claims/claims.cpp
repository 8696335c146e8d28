#include <algorithm>

#include "experiments/analysis/claims/claim.h"
#include "experiments/analysis/verdict_view.h"

namespace paceline {
namespace {

std::optional<Claim> claim_over(const VerdictView& view, ClaimKind kind, const CellSummary& s,
                                const CellSummary* over) {
  if (!over || s.open_loop) return std::nullopt;
  const std::optional<RatioInterval> ratio = over == view.baseline_of(s) ? s.speedup : view.rate_over(s, *over);
  if (!ratio) return std::nullopt;
  const CellResult &cell = view.cell(s), &other = view.cell(*over);
  return Claim{.kind = kind,
               .cell = &s,
               .over = over,
               .ratio = *ratio,
               .decode = decode_ratio(cell, other, pairing_of(cell, other)),
               .outcome = outcome_of(*ratio),
               .far_apart_s = view.far_apart_s(s, *over)};
}

int num_ranks(const CellResult& cell) { return cell.axes.tp * cell.axes.pp; }

/// Null where none ran.
const CellSummary* twin_on_one_rank(const VerdictView& view, const CellSummary& s) {
  if (num_ranks(view.cell(s)) == 1) return nullptr;
  const auto& cells = view.summary().cells;
  const auto found = std::find_if(cells.begin(), cells.end(), [&](const CellSummary& other) {
    return num_ranks(view.cell(other)) == 1 && view.cell(other).status == CellStatus::done && view.are_twins(other, s);
  });
  return found == cells.end() ? nullptr : &*found;
}

}  // namespace

const char* to_string(ClaimKind kind) {
  switch (kind) {
    case ClaimKind::over_plain: return "over_plain";
    case ClaimKind::over_one_rank: return "over_one_rank";
  }
  return "over_plain";
}

std::vector<Claim> make_claims(const VerdictView& view) {
  std::vector<Claim> claims;
  const auto add = [&](ClaimKind kind, const CellSummary& s, const CellSummary* over) {
    if (const std::optional<Claim> claim = claim_over(view, kind, s, over)) claims.push_back(*claim);
  };
  for (const CellSummary& s : view.summary().cells)
    if (view.speculates(s)) add(ClaimKind::over_plain, s, view.reference_of(s));
  for (const CellSummary& s : view.summary().cells) add(ClaimKind::over_one_rank, s, twin_on_one_rank(view, s));
  return claims;
}

}  // namespace paceline
