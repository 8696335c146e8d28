#include "experiments/run/forecast.h"

#include <algorithm>
#include <vector>

#include "kernels/cpu/ceilings.h"
#include "kernels/cpu/cores.h"

namespace paceline {

double quick_read_rate(size_t bytes) {
  constexpr size_t kMost = size_t{64} << 20, kLeast = size_t{1} << 20;
  ThreadPool pool(usable_cores());
  const std::vector<char> memory(std::clamp(bytes, kLeast, kMost), 1);
  const ceilings::Region region{memory.data(), memory.size()};
  return ceilings::best_read_rate(pool, std::span(&region, 1));
}

SecondsRange forecast(const ExperimentConfig& config, double target_bytes, double draft_bytes, double rate) {
  const bool speculates = config.speculation.proposer != "none";
  const double k = speculates ? config.speculation.num_speculative_tokens : 0;
  const double requests = config.workload.requests;
  const bool closed = config.load.mode == LoadMode::closed;
  const double at_once = closed ? std::min<double>(requests, config.load.concurrency) : requests;
  const double passes = config.measure.repetitions + std::min(1.0, config.measure.warmup_requests / requests);
  const double step_s = (target_bytes + (config.speculation.proposer == "draft" ? k * draft_bytes : 0)) / rate;
  const double most_steps = config.sampling.max_tokens;
  const double all = passes * requests / at_once * step_s;
  return {.low = all * most_steps / (k + 1), .high = all * most_steps};
}

}  // namespace paceline
