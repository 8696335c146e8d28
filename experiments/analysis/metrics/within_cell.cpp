#include "experiments/analysis/metrics/within_cell.h"

#include <algorithm>
#include <limits>
#include <map>

#include "experiments/analysis/metrics/cell_ratio.h"
#include "experiments/analysis/metrics/summary.h"
#include "experiments/analysis/statistics/significance.h"
#include "kernels/error.h"

namespace paceline {
namespace {

/// Sums over the requests of a category.
struct Sums {
  int64_t requests = 0, tokens = 0, steps = 0, drafts = 0, accepted = 0;
  std::vector<std::vector<double>> tpot_ms;              // [repetition][request with two tokens or more]
  std::map<RequestKey, std::vector<double>> of_request;  // [repetition], likewise
};

std::map<std::string, Sums> sums_of(const CellResult& cell) {
  std::map<std::string, Sums> sums;
  for (size_t r = 0; r < cell.repetitions.size(); ++r) {
    for (const RequestRecord& q : cell.repetitions[r].requests) {
      Sums& s = sums[q.category];
      s.tpot_ms.resize(cell.repetitions.size());
      s.requests += 1;
      s.tokens += q.num_tokens();
      if (!cell.repetitions[r].client) s.steps += int64_t(q.tokens_per_emission.size());  // else chunks of an answer
      for (const int n : q.drafted) s.drafts += n > 0 ? 1 : 0;
      for (const int n : q.accepted) s.accepted += n;
      if (const std::optional<double> tpot = tpot_ms(q)) {
        s.tpot_ms[r].push_back(*tpot);
        s.of_request[key_of(q)].push_back(*tpot);
      }
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

/// Mean TPOT of the baseline over that of the cell, over the requests that both have, by their spread.
std::optional<RatioInterval> ratio_over_requests(const Sums& baseline, const Sums& cell) {
  std::vector<RequestSums> requests;
  for (const auto& [key, tpot] : cell.of_request)
    if (const auto base = baseline.of_request.find(key); base != baseline.of_request.end())
      requests.push_back({.first_numerator = *mean(tpot),
                          .first_denominator = 1,
                          .other_numerator = *mean(base->second),
                          .other_denominator = 1});
  return bootstrap_ratio(requests);
}

/// Of a category: its interval holds that of repetitions and that of requests; none where one of them is not known.
std::optional<RatioInterval> category_ratio(const Sums& baseline, const Sums& cell, Pairing pairing) {
  std::optional<RatioInterval> ratio =
      ratio_of_repetitions(mean_per_repetition(baseline), mean_per_repetition(cell), pairing);
  if (!ratio || !ratio->low || !ratio->high) return ratio;
  const std::optional<RatioInterval> requests = ratio_over_requests(baseline, cell);
  if (!requests || !requests->low || !requests->high) return RatioInterval{.ratio = ratio->ratio};
  ratio->low = std::min(*ratio->low, ratio->ratio * *requests->low / requests->ratio);
  ratio->high = std::max(*ratio->high, ratio->ratio * *requests->high / requests->ratio);
  ratio->p_value = std::max(ratio->p_value.value_or(1), requests->p_value.value_or(1));
  return ratio;
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
    summary.mean_acceptance_length = acceptance_length(s.accepted, s.drafts);
    if (s.steps > 0) summary.tokens_per_target_forward = double(s.tokens) / double(s.steps);
    std::vector<double> all;
    for (const std::vector<double>& tpot : s.tpot_ms) all.insert(all.end(), tpot.begin(), tpot.end());
    summary.mean_tpot_ms = mean(all);
    if (const auto base = of_baseline.find(category); base != of_baseline.end())
      summary.decode_speedup = category_ratio(base->second, s, pairing);
    out.push_back(std::move(summary));
  }
  return out;
}

std::optional<double> acceptance_length(int64_t accepted, int64_t drafts) {
  if (drafts == 0) return std::nullopt;
  return 1 + static_cast<double>(accepted) / static_cast<double>(drafts);
}

std::optional<double> acceptance_length(const RequestRecord& request) {
  int64_t drafts = 0, accepted = 0;
  for (size_t step = 0; step < std::min(request.drafted.size(), request.accepted.size()); ++step) {
    if (request.drafted[step] == 0) continue;
    ++drafts;
    accepted += request.accepted[step];
  }
  return acceptance_length(accepted, drafts);
}

std::vector<OutputRange> acceptance_along_output(const RepetitionResult& repetition, int64_t max_ranges) {
  PACELINE_CHECK(max_ranges > 0, "max_ranges {}", max_ranges);
  int64_t longest = 0;
  for (const RequestRecord& request : repetition.requests)
    longest = std::max(longest, static_cast<int64_t>(request.output.size()));
  const int64_t size = (longest + max_ranges - 1) / max_ranges;
  std::vector<OutputRange> ranges;
  for (int64_t from = 0; from < longest; from += size) ranges.push_back({.from = from, .to = from + size});
  for (const RequestRecord& request : repetition.requests) {
    int64_t position = 1;  // the pass that ended the prompt gave a token
    for (size_t step = 0; step < std::min(request.drafted.size(), request.accepted.size()); ++step) {
      const int64_t place = size > 0 ? position / size : 0;
      if (request.drafted[step] > 0 && place < static_cast<int64_t>(ranges.size())) {
        OutputRange& range = ranges[static_cast<size_t>(place)];
        ++range.drafts;
        range.accepted += request.accepted[step];
      }
      position += request.accepted[step] + 1;
    }
  }
  return ranges;
}

std::string warm_prefixes_text(const CellResult& cell) {
  for (const RepetitionResult& r : cell.repetitions)
    if (r.client && r.client->prefix_cache != "off" && r.client->prefix_cache != "reset") return r.client->prefix_cache;
  return "";
}

}  // namespace paceline
