#include "engine/model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include <fmt/format.h>

namespace paceline {
namespace {

/// Llama 3.1: long wavelengths are stretched by `factor`, short ones kept, those between blended linearly in
/// original_max_position / wavelength.
double llama3_inv_freq(const RopeSpec& rope, double inv_freq) {
  const double turns = rope.original_max_position * inv_freq / (2.0 * std::numbers::pi);
  if (turns < rope.low_freq_factor) return inv_freq / rope.factor;
  if (turns > rope.high_freq_factor) return inv_freq;
  const double keep = (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
  return (1.0 - keep) * inv_freq / rope.factor + keep * inv_freq;
}

/// YaRN (Peng et al. 2023, section 3.2): pairs that turn more than beta_fast times within the original length keep
/// their frequency, those of fewer than beta_slow turns are stretched, those between blended linearly in their index.
double yarn_inv_freq(const RopeSpec& rope, double inv_freq, size_t pair) {
  const auto pair_of_turns = [&](double turns) {
    return rope.rotary_dim * std::log(rope.original_max_position / (turns * 2.0 * std::numbers::pi)) /
           (2.0 * std::log(rope.theta));
  };
  double low = pair_of_turns(rope.beta_fast), high = pair_of_turns(rope.beta_slow);
  if (rope.truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0);
  high = std::min(high, double(rope.rotary_dim - 1));
  if (low == high) high += 0.001;
  const double stretched = std::clamp((double(pair) - low) / (high - low), 0.0, 1.0);
  return inv_freq / rope.factor * stretched + inv_freq * (1.0 - stretched);
}

double effective_theta(const RopeSpec& rope, int max_len) {
  if (rope.scaling != RopeScaling::dynamic) return rope.theta;
  const double original = rope.original_max_position;
  const double length = std::max<double>(max_len, original);
  const double dims = rope.rotary_dim;
  return rope.theta * std::pow(rope.factor * length / original - (rope.factor - 1.0), dims / (dims - 2.0));
}

}  // namespace

std::vector<double> rope_inv_freq(const RopeSpec& rope, int max_len) {
  const double theta = effective_theta(rope, max_len);
  std::vector<double> inv_freq(size_t(rope.rotary_dim / 2));
  for (size_t pair = 0; pair < inv_freq.size(); ++pair) {
    const double plain = 1.0 / std::pow(theta, 2.0 * double(pair) / rope.rotary_dim);
    switch (rope.scaling) {
      case RopeScaling::none:
      case RopeScaling::dynamic: inv_freq[pair] = plain; break;
      case RopeScaling::linear: inv_freq[pair] = plain / rope.factor; break;
      case RopeScaling::llama3: inv_freq[pair] = llama3_inv_freq(rope, plain); break;
      case RopeScaling::yarn: inv_freq[pair] = yarn_inv_freq(rope, plain, pair); break;
      case RopeScaling::longrope:
        inv_freq[pair] = plain / (max_len > rope.original_max_position ? rope.long_factor : rope.short_factor)[pair];
        break;
    }
  }
  return inv_freq;
}

std::string rope_difference(const ModelSpec& spec, int max_len) {
  const int original = spec.rope.original_max_position;
  if (max_len <= original) return "";
  const char* const what = spec.rope.scaling == RopeScaling::longrope  ? "longrope takes the factors of long texts"
                           : spec.rope.scaling == RopeScaling::dynamic ? "dynamic rope is scaled"
                                                                       : nullptr;
  if (!what) return "";
  return fmt::format(
      "{} from the first token on, as max_model_len {} is more than {}; Hugging Face does so only for texts longer "
      "than "
      "that. To get its tokens for shorter ones, set engine.scheduler.max_model_len to {}",
      what, max_len, original, original);
}

int64_t longest_sequence(const ModelSpec& spec) {
  if (spec.rope.scaling != RopeScaling::dynamic) return spec.max_position;
  return int64_t(double(spec.max_position) * spec.rope.factor);
}

}  // namespace paceline
