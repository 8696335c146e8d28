#include "experiments/analysis/metrics/categories.h"

#include <limits>
#include <map>

#include "experiments/analysis/metrics/cell_ratio.h"
#include "experiments/analysis/metrics/summary.h"

namespace paceline {
namespace {

/// Sums over the requests of a category.
struct Sums {
  int64_t requests = 0, tokens = 0, steps = 0, drafts = 0, accepted = 0;
  std::vector<std::vector<double>> tpot_ms;  // [repetition][request with two tokens or more]
};

std::map<std::string, Sums> sums_of(const CellResult& cell) {
  std::map<std::string, Sums> sums;
  for (size_t r = 0; r < cell.repetitions.size(); ++r) {
    for (const RequestRecord& q : cell.repetitions[r].requests) {
      Sums& s = sums[q.category];
      s.tpot_ms.resize(cell.repetitions.size());
      s.requests += 1;
      s.tokens += int64_t(q.output.size());
      s.steps += int64_t(q.tokens_per_emission.size());
      for (const int n : q.drafted) s.drafts += n > 0 ? 1 : 0;
      for (const int n : q.accepted) s.accepted += n;
      if (const std::optional<double> tpot = tpot_ms(q)) s.tpot_ms[r].push_back(*tpot);
    }
  }
  return sums;
}

std::vector<double> mean_per_repetition(const Sums& sums) {
  std::vector<double> means;
  for (const std::vector<double>& tpot : sums.tpot_ms)
    means.push_back(mean(tpot).value_or(std::numeric_limits<double>::quiet_NaN()));
  return means;
}

}  // namespace

std::vector<CategorySummary> summarize_categories(const CellResult& cell, const CellResult* baseline) {
  const std::map<std::string, Sums> sums = sums_of(cell);
  if (sums.size() < 2) return {};
  const std::map<std::string, Sums> of_baseline = baseline ? sums_of(*baseline) : std::map<std::string, Sums>();
  const Pairing pairing = baseline ? pairing_of(cell, *baseline) : Pairing::by_repetition;
  std::vector<CategorySummary> out;
  for (const auto& [category, s] : sums) {
    CategorySummary summary{.category = category, .num_requests = s.requests, .output_tokens = s.tokens};
    if (s.drafts > 0) summary.mean_acceptance_length = 1 + double(s.accepted) / double(s.drafts);
    if (s.steps > 0) summary.tokens_per_target_forward = double(s.tokens) / double(s.steps);
    std::vector<double> all;
    for (const std::vector<double>& tpot : s.tpot_ms) all.insert(all.end(), tpot.begin(), tpot.end());
    summary.mean_tpot_ms = mean(all);
    if (const auto base = of_baseline.find(category); base != of_baseline.end())
      summary.decode_speedup = ratio_of_repetitions(mean_per_repetition(base->second), mean_per_repetition(s), pairing);
    out.push_back(std::move(summary));
  }
  return out;
}

}  // namespace paceline
