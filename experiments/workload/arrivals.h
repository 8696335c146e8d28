#pragma once
// When the requests of an open loop are sent: drawn before a repetition begins, so that they do not depend on the
// engine, and the same for every cell of a repetition, so that cells stay paired.
//
// Formulas. Exponential gaps by inversion, -ln(1 - u) / rate. Gamma gaps by Marsaglia and Tsang, "A simple method for
// generating gamma variables", ACM TOMS 26(3), 2000: for shape a >= 1 with d = a - 1/3, c = 1 / sqrt(9 d) and x from
// the normal law, v = (1 + c x)^3 is kept when v > 0 and ln u < x^2 / 2 + d - d v + d ln v, and d v has the law
// Gamma(a, 1); for a < 1 it is Gamma(a + 1, 1) times u^(1/a) (section 6). Normal values by Box and Muller, "A note on
// the generation of random normal deviates", Ann. Math. Statist. 29(2), 1958. Uniform values are counter-based
// (kernels/math/philox.h): a gap is a function of (seed, repetition, index), with the same bits on every machine.

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "experiments/config/config.h"

namespace paceline {

/// One request of an open loop.
struct Arrival {
  double t_s = 0;                 // when it is to be sent, since the first one; never falls
  std::optional<int> max_tokens;  // a trace's output_tokens: longest output of this request
};

/// A renewal process: independent gaps of one law. shape 1 is a Poisson process; the gaps' coefficient of variation is
/// 1 / sqrt(shape).
struct ArrivalProcess {
  double rate_per_s = 1;
  double shape = 1;
  uint64_t seed = 1;
};

/// Gap number `index` of a repetition, in seconds; its mean is 1 / rate_per_s. Cells that differ in their rate have
/// gaps that differ by that factor only. REQUIRES rate_per_s > 0, shape > 0.
double arrival_gap_s(const ArrivalProcess& process, uint32_t repetition, uint32_t index);

/// num_arrivals times of which the first is 0.
std::vector<Arrival> draw_arrivals(const ArrivalProcess& process, int64_t num_arrivals, uint32_t repetition);

/// Reads a trace: JSON Lines {"t_s", "prompt_tokens"?, "output_tokens"?}, or {"timestamp", "input_length"?,
/// "output_length"?} with the time in milliseconds, as Mooncake's traces have it. Times are moved so that the first is
/// 0. Prompt lengths are checked and not used: the prompts are those of the data set. Throws Error(model_file) naming
/// file, line and field; a time that falls is an error.
std::vector<Arrival> read_arrival_trace(const std::filesystem::path& file);

bool is_open_loop(LoadMode mode);

/// "closed", "offline", "poisson 4/s", "gamma 4/s burstiness 0.5", "trace monday".
std::string load_text(const LoadConfig& load);

/// The arrivals of all cells of a run. Traces are read once.
class ArrivalPlan {
 public:
  /// Reads the cell's trace, if it has one. Throws Error(model_file), also when the trace is shorter than num_requests.
  void prepare(const LoadConfig& load, int64_t num_requests);

  /// Of the repetition; empty for loads that are no open loop. REQUIRES prepare(load, num_requests).
  std::vector<Arrival> arrivals(const LoadConfig& load, int64_t num_requests, int repetition) const;

 private:
  std::map<std::filesystem::path, std::vector<Arrival>> traces_;
};

}  // namespace paceline
