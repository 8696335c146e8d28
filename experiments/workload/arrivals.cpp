#include "experiments/workload/arrivals.h"

#include <cmath>

#include "engine/util/mapped_file.h"
#include "experiments/workload/records.h"
#include "kernels/math/philox.h"

namespace paceline {

using nlohmann::json;

namespace {

constexpr uint32_t kArrivals = 0x61727276;  // keeps these draws apart from those of tokens (NoisePurpose)
constexpr uint32_t kBoost = 0xFFFFFFFF;     // block of the factor u^(1/a); attempts count from 0
constexpr double kTwoPi = 6.283185307179586;

/// The uniform values of one gap, two a block.
struct GapNoise {
  uint64_t seed;
  uint32_t repetition, index;

  std::pair<double, double> uniforms(uint32_t block) const {
    const math::PhiloxWords words = math::philox4x32({{index, repetition, kArrivals, block}}, seed);
    return {math::uniform64(words.word[0], words.word[1]), math::uniform64(words.word[2], words.word[3])};
  }
};

/// Gamma(shape, 1) for shape >= 1.
double gamma_at_least_one(double shape, const GapNoise& noise) {
  const double d = shape - 1.0 / 3.0, c = 1.0 / std::sqrt(9.0 * d);
  for (uint32_t block = 0;; block += 2) {
    const auto [u1, u2] = noise.uniforms(block);
    const auto [sine, cosine] = math::sin_cos(kTwoPi * u2);
    const double x = std::sqrt(-2.0 * math::log(u1)) * cosine;
    const double root = 1.0 + c * x, v = root * root * root;
    if (v <= 0) continue;
    if (math::log(noise.uniforms(block + 1).first) < x * x / 2 + d - d * v + d * math::log(v)) return d * v;
  }
}

double gamma(double shape, const GapNoise& noise) {
  if (shape >= 1) return gamma_at_least_one(shape, noise);
  return gamma_at_least_one(shape + 1, noise) * math::exp(math::log(noise.uniforms(kBoost).first) / shape);
}

/// A field that counts tokens; nothing where it is absent.
std::optional<int> tokens_field(const json& row, const char* key, const Place& place) {
  return row.contains(key) ? std::optional(checked_tokens(row[key], key, place)) : std::nullopt;
}

constexpr double kMostSeconds = 9e9;  // what a clock of nanoseconds holds

/// Of a row with `t_s`, or with `timestamp` in milliseconds.
Arrival read_arrival(const json& row, const Place& place) {
  const bool in_ms = !row.contains("t_s") && row.contains("timestamp");
  const char* const key = in_ms ? "timestamp" : "t_s";
  const auto time = row.find(key);
  if (time == row.end())
    place.fail("field \"t_s\" is missing: expected the time in seconds (or \"timestamp\" in milliseconds)");
  if (!time->is_number()) place.fail("field \"{}\" is of type {}: expected a number", key, time->type_name());
  const double value = time->get<double>(), most = in_ms ? kMostSeconds * 1e3 : kMostSeconds;
  if (!std::isfinite(value) || value < 0 || value >= most)
    place.fail("field \"{}\" is {}: expected a number of at least 0 and below {:g}", key, time->dump(), most);
  tokens_field(row, in_ms ? "input_length" : "prompt_tokens", place);
  return {.t_s = in_ms ? value / 1e3 : value,
          .max_tokens = tokens_field(row, in_ms ? "output_length" : "output_tokens", place)};
}

ArrivalProcess process_of(const LoadConfig& load) {
  PACELINE_CHECK(load.rate_per_s, "a load without a rate");
  return {.rate_per_s = *load.rate_per_s,
          .shape = load.mode == LoadMode::gamma ? load.burstiness : 1.0,
          .seed = uint64_t(load.arrival_seed)};
}

}  // namespace

double arrival_gap_s(const ArrivalProcess& process, uint32_t repetition, uint32_t index) {
  PACELINE_CHECK(process.rate_per_s > 0 && process.shape > 0, "rate {}, shape {}", process.rate_per_s, process.shape);
  const GapNoise noise{.seed = process.seed, .repetition = repetition, .index = index};
  const double unit =
      process.shape == 1 ? math::exponential(noise.uniforms(0).first) : gamma(process.shape, noise) / process.shape;
  return unit / process.rate_per_s;
}

std::vector<Arrival> draw_arrivals(const ArrivalProcess& process, int64_t num_arrivals, uint32_t repetition) {
  std::vector<Arrival> arrivals;
  double t_s = 0;
  for (int64_t i = 0; i < num_arrivals; ++i) {
    arrivals.push_back({.t_s = t_s, .max_tokens = {}});
    t_s += arrival_gap_s(process, repetition, uint32_t(i));
  }
  return arrivals;
}

std::vector<Arrival> read_arrival_trace(const std::filesystem::path& file) {
  const MappedFile mapped(file);
  std::string_view text(reinterpret_cast<const char*>(mapped.bytes().data()), mapped.bytes().size());
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  std::vector<Arrival> arrivals;
  LineReader lines(text);
  int64_t last_line = 0;
  while (const auto line = lines.next()) {
    if (is_blank(*line)) continue;
    const Place place{.file = file.string(), .line = lines.line()};
    Arrival arrival = read_arrival(parse_record(*line, place), place);
    if (!arrivals.empty() && arrival.t_s < arrivals.back().t_s)
      place.fail("the time {} s is before the {} s of line {}: sort the trace by time", arrival.t_s,
                 arrivals.back().t_s, last_line);
    last_line = lines.line();
    arrivals.push_back(arrival);
  }
  if (arrivals.empty())
    fail(ExitCode::model_file, "{}: holds no arrival: expected one object with \"t_s\" a line", file.string());
  const double first = arrivals.front().t_s;
  for (Arrival& arrival : arrivals) arrival.t_s -= first;
  return arrivals;
}

bool is_open_loop(LoadMode mode) { return mode != LoadMode::closed && mode != LoadMode::offline; }

std::string load_text(const LoadConfig& load) {
  std::string text(names_of(load.mode)[size_t(load.mode)]);
  if (load.mode == LoadMode::trace && load.trace)
    text += fmt::format(" {}", std::filesystem::path(*load.trace).stem().string());
  if ((load.mode == LoadMode::poisson || load.mode == LoadMode::gamma) && load.rate_per_s)
    text += fmt::format(" {:g}/s", *load.rate_per_s);
  if (load.mode == LoadMode::gamma) text += fmt::format(" burstiness {:g}", load.burstiness);
  return text;
}

void ArrivalPlan::prepare(const LoadConfig& load, int64_t num_requests) {
  if (load.mode != LoadMode::trace) return;
  PACELINE_CHECK(load.trace, "a trace load without a trace");
  const std::filesystem::path file = *load.trace;
  if (!traces_.contains(file)) traces_.emplace(file, read_arrival_trace(file));
  const size_t length = traces_.at(file).size();
  if (int64_t(length) < num_requests)
    fail(ExitCode::model_file, "{}: has {} arrivals, but workload.requests is {}: lower that or take a longer trace",
         file.string(), length, num_requests);
}

std::vector<Arrival> ArrivalPlan::arrivals(const LoadConfig& load, int64_t num_requests, int repetition) const {
  if (!is_open_loop(load.mode)) return {};
  if (load.mode != LoadMode::trace) return draw_arrivals(process_of(load), num_requests, uint32_t(repetition));
  const std::vector<Arrival>& trace = traces_.at(*load.trace);
  return {trace.begin(), trace.begin() + num_requests};
}

}  // namespace paceline
