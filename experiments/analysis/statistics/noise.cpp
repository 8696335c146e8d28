#include "experiments/analysis/statistics/noise.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

namespace paceline {
namespace {

void find_disturbances(const Disturbance& disturbance, std::optional<double> full_clock_ghz,
                       std::vector<WorstNoise>& findings) {
  const double cores_s = disturbance.wall_s * disturbance.cores;
  const auto took = [&](const std::optional<double>& seconds, double of_s, double limit, const char* text) {
    if (!seconds || of_s <= 0 || *seconds < kLeastCpu_s || *seconds <= limit * of_s) return;
    const double share = *seconds / of_s;
    findings.push_back({share / limit, fmt::format(fmt::runtime(text), 100 * share)});
  };
  took(disturbance.foreign_cpu_s, cores_s, kForeignShare, "other processes used {:.0f} % of the cores");
  took(disturbance.stolen_s, cores_s, kStolenShare, "other virtual machines took {:.0f} % of the cores");
  took(disturbance.throttled_s, cores_s, kThrottledShare,
       "the cgroup's CPU quota held threads back for {:.0f} % of the cores' time");
  if (disturbance.thermal_events.value_or(0) > 0)
    findings.push_back(
        {1, fmt::format("cores were slowed down {} times as they were too hot", *disturbance.thermal_events)});
  if (const auto now = disturbance.clock_ghz; now && full_clock_ghz && *now < kClockShare * *full_clock_ghz)
    findings.push_back(
        {kClockShare * *full_clock_ghz / *now,
         fmt::format("the cores ran at {:.2f} GHz, at {:.2f} GHz in another repetition", *now, *full_clock_ghz)});
}

/// Empty where there is none.
WorstNoise worst_of(const std::vector<WorstNoise>& findings) {
  const auto worst = std::max_element(findings.begin(), findings.end(), [](const WorstNoise& a, const WorstNoise& b) {
    return a.times_limit < b.times_limit;
  });
  return worst == findings.end() ? WorstNoise{} : *worst;
}

WorstNoise worst_noise(const RepetitionResult& repetition, std::optional<double> full_clock_ghz) {
  std::vector<WorstNoise> findings;
  if (repetition.disturbance) find_disturbances(*repetition.disturbance, full_clock_ghz, findings);
  if (repetition.client && repetition.client->late_p99_ms > kLateClient_ms)
    findings.push_back({repetition.client->late_p99_ms / kLateClient_ms,
                        fmt::format("the client was up to {:.1f} ms late (p99)", repetition.client->late_p99_ms)});
  return worst_of(findings);
}

/// Of the cell's fastest repetition.
std::optional<double> full_clock_ghz_of(const CellResult& cell) {
  std::optional<double> full_clock_ghz;
  for (const RepetitionResult& r : cell.repetitions)
    if (r.disturbance && r.disturbance->clock_ghz)
      full_clock_ghz = std::max(full_clock_ghz.value_or(0), *r.disturbance->clock_ghz);
  return full_clock_ghz;
}

}  // namespace

std::string noise_of(const Disturbance& disturbance, std::optional<double> full_clock_ghz) {
  std::vector<WorstNoise> findings;
  find_disturbances(disturbance, full_clock_ghz, findings);
  return worst_of(findings).text;
}

std::string noise_of(const RepetitionResult& repetition, std::optional<double> full_clock_ghz) {
  return worst_noise(repetition, full_clock_ghz).text;
}

WorstNoise worst_noise_of(const CellResult& cell) {
  const std::optional<double> full_clock_ghz = full_clock_ghz_of(cell);
  WorstNoise worst;
  for (const RepetitionResult& r : cell.repetitions) {
    WorstNoise noise = worst_noise(r, full_clock_ghz);
    if (noise.times_limit > worst.times_limit) worst = std::move(noise);
  }
  return worst;
}

std::string noise_of(const CellResult& cell) {
  const std::optional<double> full_clock_ghz = full_clock_ghz_of(cell);
  std::string first;
  int others = 0;
  for (size_t r = 0; r < cell.repetitions.size(); ++r) {
    const std::string noise = noise_of(cell.repetitions[r], full_clock_ghz);
    if (noise.empty()) continue;
    if (first.empty())
      first = fmt::format("{} in repetition {} of {}", noise, r + 1, cell.repetitions.size());
    else
      ++others;
  }
  return others == 0 ? first : fmt::format("{} (and in {} more)", first, others);
}

bool was_watched(const CellResult& cell) {
  return std::any_of(cell.repetitions.begin(), cell.repetitions.end(), [](const RepetitionResult& r) {
    const std::optional<Disturbance>& d = r.disturbance;
    return d && (d->foreign_cpu_s || d->stolen_s || d->throttled_s || d->thermal_events || d->clock_ghz);
  });
}

}  // namespace paceline
