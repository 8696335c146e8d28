#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "experiments/analysis/verdict/parts.h"
#include "experiments/analysis/verdict/sentence.h"

namespace paceline {
namespace {

using Texts = std::vector<std::string>;

/// The highest rate at which any cell keeps report.slo, and what is reached without speculation.
std::string highest_rate_text(const VerdictView& view, const KeptRates& best, const KeptRates* plain) {
  const ServiceLevel& slo = view.run().slo;
  const std::vector<KeptRates>& all = view.kept_rates();
  if (best.num_kept() == 0) {
    double lowest = best.points.front().rate_per_s;
    bool is_any_kept = false;  // behind one that is not
    for (const KeptRates& rates : all) {
      lowest = std::min(lowest, rates.points.front().rate_per_s);
      is_any_kept |= std::ranges::count(rates.points, Kept::kept, &KeptRates::Point::kept) > 0;
    }
    return Sentence(fmt::format("No cell is shown to meet {} for {} of requests", slo_text(slo), attainment_text(slo)))
        .add(is_any_kept ? " from its lowest rate on" : fmt::format(" at any rate from {:g}/s on", lowest))
        .text();
  }
  const KeptRates::Point& last = best.points[best.num_kept() - 1];
  const auto ties = [&](const KeptRates& rates) { return rates.rate_per_s() == last.rate_per_s; };
  const int64_t others = std::ranges::count_if(all, ties) - 1;
  Sentence sentence(fmt::format("{} of requests meet {} up to {:g}/s: {}{}", attainment_text(slo), slo_text(slo),
                                last.rate_per_s, view.marked_label(*last.cell),
                                others > 0 ? fmt::format(" and {} more", others) : ""));
  if (plain && plain->rate_per_s() < last.rate_per_s) sentence.add("; without speculation " + kept_text(*plain));
  const bool is_highest = std::ranges::all_of(
      all, [&](const KeptRates& rates) { return rates.points.back().rate_per_s <= last.rate_per_s; });
  if (is_highest) sentence.add("; none higher was sent");
  return sentence.text();
}

}  // namespace

Texts latency_texts(const VerdictView& view) {
  Texts texts, without;
  for (const LoadGroup& group : view.groups()) {
    const auto is_ranked = [](const CellSummary* s) { return s->rankable && s->open_loop; };
    if (std::ranges::none_of(group.cells, is_ranked)) continue;
    const Pick* const pick = view.pick(PickKind::latency, group);
    if (!pick) {
      without.push_back(fmt::format("No cell keeps up with what is sent{}.", view.where(group)));
      continue;
    }
    Sentence sentence(fmt::format("Lowest latency, {}: {}", group.load, view.marked_label(pick->best())));
    const std::string ties = ties_text(*pick);
    sentence.add_before(fmt::format(", {:.1f} ms end to end (median)", pick->value), ties);
    texts.push_back(sentence.add(ties).text());
  }
  texts.insert(texts.end(), without.begin(), without.end());
  return texts;
}

Texts kept_rates_texts(const VerdictView& view) {
  constexpr size_t kMostNamed = 12;
  const std::vector<KeptRates>& all = view.kept_rates();
  if (all.empty()) return {};
  const KeptRates* plain = nullptr;
  Texts each;
  for (const KeptRates& rates : all) {
    if (each.size() < kMostNamed) each.push_back(rates.name + " " + kept_text(rates));
    const bool speculates = view.speculates(*rates.points.front().cell);
    if (!speculates && (!plain || rates.rate_per_s() > plain->rate_per_s())) plain = &rates;
  }
  if (all.size() > kMostNamed) each.push_back(fmt::format("{} more", all.size() - kMostNamed));
  const ServiceLevel& slo = view.run().slo;
  return {highest_rate_text(view, *std::ranges::max_element(all, {}, &KeptRates::rate_per_s), plain),
          fmt::format("Highest rate at which {} of requests meet {}, each by itself: {}.", attainment_text(slo),
                      slo_text(slo), fmt::join(each, "; "))};
}

Texts goodput_texts(const VerdictView& view) {
  Texts texts;
  for (const Pick& pick : view.picks()) {
    if (pick.kind != PickKind::goodput) continue;
    const std::string limits = slo_text(view.run().slo), where = view.where(*pick.group);
    if (pick.best().goodput->share == 0) {
      texts.push_back(fmt::format("No request meets {}{}.", limits, where));
      continue;
    }
    const std::string ties = ties_text(pick);  // before what tables have: a winner that ties is none
    const std::string who = where + ": " + view.marked_label(pick.best());
    const std::string with_limits = fmt::format("Most good requests ({}){}", limits, who);
    const bool is_short = num_words(with_limits + ties) <= kMostHeadlineWords;
    Sentence sentence(is_short ? with_limits : "Most good requests" + who);
    if (pick.best().goodput->rate_per_s) sentence.add_before(fmt::format(", {:.3g} per second", pick.value), ties);
    sentence.add_before(fmt::format(", {} of all", percent_text(pick.best().goodput->share)), ties);
    texts.push_back(sentence.add(ties).text());
  }
  return texts;
}

Texts saturation_texts(const VerdictView& view) {
  std::vector<const CellSummary*> cells;
  for (const CellSummary& s : view.summary().cells)
    if (s.is_saturated()) cells.push_back(&s);
  if (cells.empty()) return {};
  const std::string load = view.cell(*cells.front()).load;
  const bool is_one = std::ranges::all_of(cells, [&](const CellSummary* s) { return view.cell(*s).load == load; });
  return {Sentence(fmt::format("Saturated{}: {}", is_one ? ", " + load : "", view.labels(cells)))
              .add("; latencies depend on the length of the run; lower the rate")
              .text()};
}

}  // namespace paceline
