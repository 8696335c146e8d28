#include "experiments/analysis/metrics/goodput.h"

#include <algorithm>

#include <fmt/format.h>

#include "experiments/analysis/metrics/summary.h"

namespace paceline {
namespace {

bool meets(const RequestRecord& request, const ServiceLevel& slo) {
  if (slo.ttft_ms && !(request.ttft_ms <= *slo.ttft_ms)) return false;
  const std::optional<double> tpot = tpot_ms(request);
  return !slo.tpot_ms || !tpot || *tpot <= *slo.tpot_ms;
}

}  // namespace

std::optional<Goodput> goodput_of(const CellResult& cell, const ServiceLevel& slo) {
  if (slo.empty()) return std::nullopt;
  int64_t good = 0, all = 0;
  double wall_s = 0;
  for (const RepetitionResult& r : cell.repetitions) {
    for (const RequestRecord& q : r.requests) good += meets(q, slo) ? 1 : 0;
    all += int64_t(r.requests.size());
    wall_s += r.wall_s;
  }
  if (all == 0) return std::nullopt;
  Goodput out{.share = double(good) / double(all), .rate_per_s = {}};
  if (wall_s > 0) out.rate_per_s = double(good) / wall_s;
  return out;
}

std::vector<double> good_rates(const CellResult& cell, const ServiceLevel& slo) {
  std::vector<double> rates;
  for (const RepetitionResult& r : cell.repetitions) {
    const auto good = std::count_if(r.requests.begin(), r.requests.end(),
                                    [&](const RequestRecord& request) { return meets(request, slo); });
    rates.push_back(r.wall_s > 0 ? double(good) / r.wall_s : 0);
  }
  return rates;
}

std::string slo_text(const ServiceLevel& slo) {
  std::string text;
  if (slo.ttft_ms) text = fmt::format("ttft ≤ {:g} ms", *slo.ttft_ms);
  if (slo.tpot_ms) text += fmt::format("{}tpot ≤ {:g} ms", text.empty() ? "" : ", ", *slo.tpot_ms);
  return text;
}

}  // namespace paceline
