#include <algorithm>

#include <fmt/format.h>

#include "experiments/analysis/verdict/parts.h"
#include "experiments/analysis/verdict/sentence.h"

namespace paceline {
namespace {

using Texts = std::vector<std::string>;

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
