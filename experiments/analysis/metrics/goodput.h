#pragma once
// Requests that meet report.slo.

#include <optional>
#include <string>
#include <vector>

#include "experiments/results/results.h"

namespace paceline {

struct Goodput {
  double share = 0;
  std::optional<double> rate_per_s;

  template <class Visit>
  static void fields(Visit&& visit) {
    visit("share", &Goodput::share, "requests that meet every limit that is given / all requests");
    visit("rate_per_s", &Goodput::rate_per_s, "requests that do, over the wall time of all repetitions");
  }
};

/// Over all repetitions. A request with a single token has no TPOT and is judged by its TTFT. None: no limit is given,
/// or there is no request.
std::optional<Goodput> goodput_of(const CellResult& cell, const ServiceLevel& slo);

/// [repetition] requests that meet the limits, per second of its wall time. REQUIRES a limit.
std::vector<double> good_rates(const CellResult& cell, const ServiceLevel& slo);

/// "ttft ≤ 200 ms, tpot ≤ 20 ms"
std::string slo_text(const ServiceLevel& slo);

}  // namespace paceline
