#include "experiments/analysis/claims/view.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/util/json_io.h"
#include "experiments/config/keys/key_help.h"

namespace paceline {
namespace {

using nlohmann::json;

constexpr std::string_view kPlacement[] = {"engine.parallel.tp", "engine.parallel.pp", "engine.devices"};
constexpr std::string_view kSpeculation[] = {"speculation"};

using Settings = std::map<std::string, json>;

/// What the requests of a cell ask for; the sections of the engine give the same work another speed.
Settings work_of(const CellResult& cell) {
  Settings work = settings_that_change(KeyEffect::text, cell.requested);
  std::erase_if(work, [](const auto& setting) { return setting.first.starts_with("engine."); });
  return work;
}

/// [cell] "temperature=0.8, max_tokens=16": the settings in which the cells' work differs.
std::vector<std::string> names_of_work(const std::vector<CellResult>& cells) {
  std::vector<Settings> work;
  std::set<std::string> differing;
  for (const CellResult& cell : cells) {
    work.push_back(work_of(cell));
    for (const auto& [path, value] : work.back()) {
      const auto first = work.front().find(path);
      if (first == work.front().end() || first->second != value) differing.insert(path);
    }
  }
  std::vector<std::string> names(cells.size());
  for (size_t i = 0; i < cells.size(); ++i) {
    for (const std::string& path : differing) {
      const auto value = work[i].find(path);
      if (value == work[i].end()) continue;
      names[i] += fmt::format("{}{}={}", names[i].empty() ? "" : ", ", last_part(path), bare_text(value->second));
    }
  }
  return names;
}

}  // namespace

VerdictView::VerdictView(const RunResult& run, const RunSummary& summary) : run_(run), summary_(summary) {
  for (const CellResult& cell : run.cells) {
    twin_of_.push_back(asked_without(cell, kPlacement));
    plain_twin_of_.push_back(asked_without(cell, kSpeculation));
  }
  const std::vector<std::string> work = names_of_work(run.cells);
  for (const CellSummary& s : summary.cells) {
    const CellResult& of = cell(s);
    const auto known = std::find_if(groups_.begin(), groups_.end(), [&](const LoadGroup& group) {
      return group.load == of.load && group.concurrency == of.axes.concurrency && group.work == work[s.cell];
    });
    LoadGroup& group =
        known != groups_.end()
            ? *known
            : groups_.emplace_back(
                  LoadGroup{.load = of.load, .concurrency = of.axes.concurrency, .work = work[s.cell], .cells = {}});
    group.cells.push_back(&s);
  }
  marks_noise_ = first_that_ran([](const CellSummary& s) { return s.noise.empty(); });
  claims_ = make_claims(*this);
  picks_ = make_picks(*this);
  crossovers_ = make_crossovers(*this);
  rate_sweeps_ = make_rate_sweeps(*this);
  kept_rates_ = make_kept_rates(*this);
  frontiers_ = make_frontiers(*this);
}

std::string VerdictView::label(const CellSummary& s) const {
  CellAxes axes = cell(s).axes;
  axes.concurrency = 0;
  const std::string& load = cell(s).load;
  if (axes.variant == load)
    axes.variant.clear();
  else if (axes.variant.starts_with(load + " "))  // "poisson 4/s temperature=0.8"
    axes.variant.erase(0, load.size() + 1);
  return axes_label(axes);
}

std::string VerdictView::marked_label(const CellSummary& s) const { return label(s) + noise_mark(s); }

std::string VerdictView::where(const LoadGroup& group) const {
  if (groups_.size() < 2) return "";
  const std::string at =
      group.load == "closed" ? fmt::format(" at concurrency {}", group.concurrency) : ", " + group.load;
  return group.work.empty() ? at : at + ", " + group.work;
}

std::string VerdictView::labels(const std::vector<const CellSummary*>& cells) const {
  constexpr size_t kMostNamed = 3;
  const size_t num_named = cells.size() <= kMostNamed + 1 ? cells.size() : kMostNamed;  // "and 1 more" saves nothing
  std::vector<std::string> names;
  for (const CellSummary* const s : std::span(cells).first(num_named)) names.push_back(marked_label(*s));
  if (cells.size() == num_named) return listed_text(names);
  return fmt::format("{} and {} more", fmt::join(names, ", "), cells.size() - num_named);
}

const CellSummary* VerdictView::baseline_of(const CellSummary& s) const {
  const auto found = std::find_if(summary_.cells.begin(), summary_.cells.end(),
                                  [&](const CellSummary& b) { return cell(b).id == cell(s).baseline_id; });
  return found == summary_.cells.end() ? nullptr : &*found;
}

bool VerdictView::is_plain_twin(const CellSummary& plain, const CellSummary& s) const {
  return &plain != &s && !speculates(plain) && plain_twin_of_[plain.cell] == plain_twin_of_[s.cell];
}

const CellSummary* VerdictView::reference_of(const CellSummary& s) const {
  const CellSummary* base = baseline_of(s);
  if (base && !ran(*base)) base = nullptr;
  if (base && is_plain_twin(*base, s)) return base;
  const CellSummary* const twin = first_that_ran([&](const CellSummary& other) { return is_plain_twin(other, s); });
  return twin ? twin : base;
}

std::string VerdictView::reference_text(const CellSummary& s, const CellSummary& reference) const {
  if (!speculates(s) || !is_plain_twin(reference, s)) return marked_label(reference);
  if (noise_mark(reference).empty()) return "no speculation";
  return &reference == baseline_of(s) ? "its disturbed baseline" : "its disturbed twin without speculation";
}

bool VerdictView::is_over_plain_at_its_place(const Claim& claim) const {
  const CellAxes &axes = cell(*claim.cell).axes, &over = cell(*claim.over).axes;
  return !over.drafts() && axes.tp == over.tp && axes.pp == over.pp && axes.concurrency == over.concurrency;
}

const Claim* VerdictView::claim(const ClaimKind& kind, const CellSummary& s) const {
  const auto found = std::find_if(claims_.begin(), claims_.end(),
                                  [&](const Claim& claim) { return claim.kind == &kind && claim.cell == &s; });
  return found == claims_.end() ? nullptr : &*found;
}

const Pick* VerdictView::pick(PickKind kind, const LoadGroup& group) const {
  const auto found = std::find_if(picks_.begin(), picks_.end(),
                                  [&](const Pick& pick) { return pick.kind == kind && pick.group == &group; });
  return found == picks_.end() ? nullptr : &*found;
}

std::optional<RatioInterval> VerdictView::rate_over(const CellSummary& s, const CellSummary& other) const {
  return ratio_of_repetitions(s.output_tok_s_per_repetition, other.output_tok_s_per_repetition,
                              pairing_of(cell(s), cell(other)));
}

std::string VerdictView::not_shown_text(const Claim& claim) const {
  if (claim.shown != Outcome::inconclusive) return "";
  if (claim.outcome != Outcome::inconclusive) {
    return claim.is_small() ? fmt::format("below the threshold of {}", percent_text(kLeastEffect))
                            : fmt::format("not significant after correction for the run's {} comparisons", claim.among);
  }
  if (claim.ratio.low && claim.ratio.high) return "";
  const int ran = claim.cell->repetitions, asked = repetitions_asked(cell(*claim.cell));
  if (ran < asked) return fmt::format("{} of {} repetitions ran, too few for an interval: resume the run", ran, asked);
  return "one repetition has no interval; run with measure.repetitions >= 3";
}

std::string listed_text(const std::vector<std::string>& names) {
  if (names.size() < 2) return names.empty() ? "" : names.front();
  return fmt::format("{} and {}", fmt::join(names.begin(), names.end() - 1, ", "), names.back());
}

std::string rough_time_text(double seconds) {
  constexpr double kMinute = 60, kHour = 3600, kDay = 86400;
  if (seconds < kMinute) return "less than 1 min";
  if (seconds < 2 * kHour) return fmt::format("{:.0f} min", seconds / kMinute);
  if (seconds < 2 * kDay) return fmt::format("{:.0f} h", seconds / kHour);
  return fmt::format("{:.0f} days", seconds / kDay);
}

std::string baseline_time_text(double apart_s) {
  return fmt::format("measured {} apart, not paired", rough_time_text(std::fabs(apart_s)));
}

std::optional<double> VerdictView::far_apart_s(const CellSummary& s, const CellSummary& other) const {
  const std::optional<double> apart_s = measured_earlier_s(cell(other), cell(s));
  const bool told = is_far_apart(apart_s, pairing_of(cell(s), cell(other)), std::min(s.repetitions, other.repetitions));
  return told ? apart_s : std::nullopt;
}

}  // namespace paceline
