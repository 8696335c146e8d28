#include "experiments/analysis/claims/rates.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "engine/util/json_io.h"
#include "experiments/analysis/claims/view.h"

namespace paceline {
namespace {

constexpr std::string_view kRate = "load.rate_per_s";

Kept kept_of(const VerdictView& view, const CellSummary& s) {
  if (view.cell(s).status == CellStatus::failed) return Kept::failed;
  if (!s.rankable || !s.goodput) return Kept::unranked;
  const double attainment = view.run().slo.attainment;
  const Interval& share = s.goodput->share_interval;
  if (share.high < attainment) return Kept::missed;
  if (s.is_saturated()) return Kept::saturated;
  return share.low >= attainment && s.repetitions > 1 ? Kept::kept : Kept::undecided;
}

std::string rate_text(const KeptRates::Point& point) { return fmt::format("{:g}/s", point.rate_per_s); }

/// "93 %"; empty: nothing was measured.
std::string share_text(const KeptRates& rates, const KeptRates::Point& point) {
  return point.cell->goodput ? percent_text(point.cell->goodput->share, rates.attainment) : "";
}

}  // namespace

const char* to_string(Kept kept) {
  switch (kept) {
    case Kept::kept: return "kept";
    case Kept::missed: return "missed";
    case Kept::undecided: return "not decided";
    case Kept::saturated: return "saturated";
    case Kept::unranked: return "not ranked";
    case Kept::failed: return "failed";
  }
  return "not decided";
}

size_t KeptRates::num_kept() const {
  return size_t(std::ranges::find_if(points, [](const Point& point) { return point.kept != Kept::kept; }) -
                points.begin());
}

std::vector<RateSweep> make_rate_sweeps(const VerdictView& view) {
  nlohmann::ordered_map<std::string, RateSweep> sweeps;  // by what the cells of each have in common
  for (const CellSummary& s : view.summary().cells) {
    const CellResult& cell = view.cell(s);
    const nlohmann::json* const rate = find_value(cell.requested, kRate);
    const bool has_rate = cell.load.starts_with("poisson") || cell.load.starts_with("gamma");
    if (cell.status == CellStatus::skipped || !has_rate || !rate || !rate->is_number()) continue;
    const std::string_view left_out[] = {kRate};
    RateSweep& sweep = sweeps[asked_without(cell, left_out)];
    if (sweep.points.empty()) sweep.name = view.label(s);
    sweep.points.push_back({.rate_per_s = rate->get<double>(), .cell = &s});
  }
  std::vector<RateSweep> out;
  for (auto& [asked, sweep] : sweeps) {
    std::ranges::stable_sort(sweep.points, {}, &RateSweep::Point::rate_per_s);
    if (sweep.points.size() > 1) out.push_back(std::move(sweep));
  }
  return out;
}

std::vector<KeptRates> make_kept_rates(const VerdictView& view) {
  std::vector<KeptRates> out;
  if (view.run().slo.empty()) return out;
  for (const RateSweep& sweep : view.rate_sweeps()) {
    KeptRates rates{.name = sweep.name, .attainment = view.run().slo.attainment, .points = {}};
    for (const auto& [rate_per_s, cell] : sweep.points)
      rates.points.push_back({.rate_per_s = rate_per_s, .cell = cell, .kept = kept_of(view, *cell)});
    if (std::ranges::any_of(sweep.points,
                            [](const auto& point) { return point.cell->rankable && point.cell->goodput; }))
      out.push_back(std::move(rates));
  }
  return out;
}

std::string kept_text(const KeptRates& rates) {
  const size_t kept = rates.num_kept();
  const std::string up_to = kept == 0 ? "none" : rate_text(rates.points[kept - 1]);
  if (kept == rates.points.size()) return up_to + ", the highest sent";
  const KeptRates::Point& next = rates.points[kept];
  const std::string share = share_text(rates, next);
  return fmt::format("{}, {} {}{}", up_to, rate_text(next), to_string(next.kept),
                     share.empty() ? "" : " (" + share + ")");
}

std::string shares_text(const KeptRates& rates) {
  std::vector<std::string> shares;
  for (const KeptRates::Point& point : rates.points) {
    std::string text = rate_text(point);
    if (const std::string share = share_text(rates, point); !share.empty()) text += " " + share;
    if (point.kept != Kept::kept) text += fmt::format(" ({})", to_string(point.kept));
    shares.push_back(std::move(text));
  }
  return fmt::format("{}", fmt::join(shares, ", "));
}

}  // namespace paceline
