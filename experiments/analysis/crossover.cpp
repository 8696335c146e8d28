#include "experiments/analysis/crossover.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

namespace paceline {
namespace {

/// "c=1", "c=1 and c=4", "c=1, c=4 and c=16", "all 6 loads from c=1 to c=32"
std::string points_text(const std::vector<size_t>& points, std::span<const std::string> names, const char* noun) {
  constexpr size_t kMostNamed = 4;
  const bool follow_each_other = points.back() - points.front() + 1 == points.size();
  if (points.size() > kMostNamed && follow_each_other)
    return fmt::format("all {} {} from {} to {}", points.size(), noun, names[points.front()], names[points.back()]);
  std::string text;
  for (size_t i = 0; i < points.size(); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : i + 1 == points.size() ? " and " : ", ", names[points[i]]);
  return text;
}

/// What is shown of a proposer at one concurrency, over its values of k.
struct AtConcurrency {
  RatioInterval best;  // of the highest lower bound
  bool any_faster = false, all_slower = true;

  Outcome outcome() const {
    return any_faster ? Outcome::faster : all_slower ? Outcome::slower : Outcome::inconclusive;
  }

  void add(const Claim& gain, bool is_first) {
    any_faster |= gain.shown == Outcome::faster;
    all_slower &= gain.shown == Outcome::slower;
    if (is_first || begins_higher(gain.ratio, best)) best = gain.ratio;
  }
};

struct OfConcurrencies {
  std::string name;  // "tp1 pp2 ngram"
  bool has_several_k = false;
  std::optional<int> k;
  std::map<int, AtConcurrency> by_concurrency;
};

std::string name_without_k(const CellResult& cell) {
  CellAxes axes = cell.axes;
  axes.concurrency = 0;
  axes.num_speculative_tokens.reset();
  return axes_label(axes);
}

/// Over plain decoding of the same placement and concurrency; of closed loops.
const Claim* gain_at_concurrency(const VerdictView& view, const CellSummary& s) {
  const CellResult& cell = view.cell(s);
  if (!s.rankable || cell.load != "closed") return nullptr;
  const Claim* const gain = view.claim(ClaimKind::over_plain, s);
  return gain && view.is_over_plain_at_its_place(*gain) ? gain : nullptr;
}

}  // namespace

std::optional<std::pair<size_t, size_t>> Crossover::bracket() const {
  if (faster.empty() || slower.empty()) return std::nullopt;
  if (faster.back() < slower.front()) return std::pair(faster.back(), slower.front());
  if (slower.back() < faster.front()) return std::pair(slower.back(), faster.front());
  return std::nullopt;
}

Crossover crossover_of(std::span<const Outcome> outcomes) {
  Crossover out;
  for (size_t i = 0; i < outcomes.size(); ++i) {
    std::vector<size_t>& points = outcomes[i] == Outcome::faster   ? out.faster
                                  : outcomes[i] == Outcome::slower ? out.slower
                                                                   : out.undecided;
    points.push_back(i);
  }
  return out;
}

std::string crossover_text(const Crossover& crossover, std::span<const std::string> names,
                           const CrossoverWords& words) {
  std::vector<std::string> claims;
  const auto add = [&](const char* claim, const std::vector<size_t>& points) {
    if (!points.empty()) claims.push_back(fmt::format("{} {}", claim, points_text(points, names, words.points)));
  };
  const bool begins_slower =
      !crossover.slower.empty() && (crossover.faster.empty() || crossover.slower.front() < crossover.faster.front());
  if (begins_slower) add(words.slower, crossover.slower);
  add(words.faster, crossover.faster);
  if (!begins_slower) add(words.slower, crossover.slower);
  std::string text = fmt::format("{}", fmt::join(claims, ", "));
  if (!crossover.undecided.empty())
    text += fmt::format("{}{} {}", text.empty() ? "is " : "; ", words.undecided,
                        points_text(crossover.undecided, names, words.points));
  return text;
}

std::vector<std::string> concurrency_crossovers(const VerdictView& view) {
  std::vector<OfConcurrencies> sets;
  for (const CellSummary& s : view.summary().cells) {
    const Claim* const gain = gain_at_concurrency(view, s);
    if (!gain) continue;
    const CellResult& cell = view.cell(s);
    const std::string name = name_without_k(cell);
    auto known = std::find_if(sets.begin(), sets.end(), [&](const OfConcurrencies& set) { return set.name == name; });
    if (known == sets.end()) {
      known = sets.insert(sets.end(),
                          OfConcurrencies{.name = name, .k = cell.axes.num_speculative_tokens, .by_concurrency = {}});
    }
    known->has_several_k |= known->k != cell.axes.num_speculative_tokens;
    const auto [at, is_new] = known->by_concurrency.try_emplace(cell.axes.concurrency);
    at->second.add(*gain, is_new);
  }
  std::vector<std::string> out;
  for (const OfConcurrencies& set : sets) {
    if (set.by_concurrency.size() < 2) continue;
    std::vector<Outcome> outcomes;
    std::vector<std::string> names;
    for (const auto& [concurrency, at] : set.by_concurrency) {
      outcomes.push_back(at.outcome());
      names.push_back(fmt::format("c={} ({:.2f}×)", concurrency, at.best.ratio));
    }
    out.push_back(fmt::format("{}{} {}", set.name, set.has_several_k ? ", at its best k," : "",
                              crossover_text(crossover_of(outcomes), names)));
  }
  return out;
}

}  // namespace paceline
