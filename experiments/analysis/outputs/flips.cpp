#include "experiments/analysis/outputs/flips.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>

#include "experiments/workload/request_sampling.h"
#include "kernels/math/race.h"

namespace paceline {
namespace {

/// Of which one is NaN, that one.
double larger(double a, double b) { return std::isnan(a) || a > b ? a : b; }

/// Computes checks one after another.
class Checker {
 public:
  Checker(const FlipWork& work, TargetLogits& logits) : work_(work), logits_(logits) {
    for (size_t i = 0; i < work.prompts.size(); ++i) index_of_[{work.prompts[i].dataset_index, work.prompts[i].id}] = i;
  }

  /// At output position `position` of a request; parting: where that is a flip's, else null. None where the prefix is
  /// unknown or too long.
  std::optional<LogitCheck> check(const RequestRecord& request, size_t position, const Parting* parting) {
    const auto index = index_of_.find(key_of(request));
    if (index == index_of_.end()) return std::nullopt;
    std::vector<int32_t> prefix = work_.prompts[index->second].tokens;
    prefix.insert(prefix.end(), request.output.begin(), request.output.begin() + std::ptrdiff_t(position));
    if (prefix.empty() || prefix.size() > size_t(std::max(0, logits_.longest_prefix()))) return std::nullopt;
    const TwoLogits logits = logits_.compute(prefix);
    LogitCheck out{.dataset_index = request.dataset_index,
                   .request = request.id,
                   .position = int64_t(position),
                   .gap = std::nullopt,
                   .noise = parting ? noise_of(logits, std::array{parting->token(), parting->reference_token()})
                                    : noise_of(logits)};
    for (const float logit : logits.few) out.largest = larger(std::abs(double(logit)), out.largest);
    if (!parting) return out;
    out.repetition = int64_t(parting->reference_repetition);
    out.token = parting->token();
    out.reference_token = parting->reference_token();
    const SamplingParams of_first =
        sampling_of_repetition(work_.sampling, int(parting->reference_repetition), work_.prompts.size());
    const DrawParams params = sampling_of_request(of_first, index->second).sampler;
    const auto a = draw_bonus(params, int(prefix.size()), out.token);
    const auto b = draw_bonus(params, int(prefix.size()), out.reference_token);
    if (a && b) out.gap = gap_between(logits, {out.token, *a}, {out.reference_token, *b});
    return out;
  }

 private:
  const FlipWork& work_;
  TargetLogits& logits_;
  std::map<RequestKey, size_t> index_of_;
};

/// A position of a request's output.
struct Place {
  const RequestRecord* request = nullptr;
  size_t position = 0;
};

/// At most kAgreeingPositions, evenly over all tokens of the first repetition that agree.
std::vector<Place> agreeing_places(const Comparison& comparison) {
  std::vector<Place> all, chosen;
  for (const AgreeingTokens& text : comparison.agreeing)
    for (size_t position = 0; position < text.count; ++position) all.push_back({text.request, position});
  const size_t count = std::min(kAgreeingPositions, all.size());
  for (size_t i = 0; i < count; ++i) chosen.push_back(all[(2 * i + 1) * all.size() / (2 * count)]);
  return chosen;
}

}  // namespace

double gap_between(const TwoLogits& logits, const Contender& a, const Contender& b) {
  const auto gap = [&](const std::vector<float>& row) {
    return std::abs(double(row.at(size_t(a.token))) + a.bonus - double(row.at(size_t(b.token))) - b.bonus);
  };
  return larger(gap(logits.many), gap(logits.few));
}

double noise_of(const TwoLogits& logits, std::span<const int32_t> drawn) {
  PACELINE_CHECK(logits.many.size() == logits.few.size(), "{} and {} logits", logits.many.size(), logits.few.size());
  const auto difference = [&](size_t i) { return std::abs(double(logits.many[i]) - double(logits.few[i])); };
  std::vector<size_t> order(logits.few.size());
  for (size_t i = 0; i < order.size(); ++i) {
    if (std::isnan(difference(i))) return difference(i);
    order[i] = i;
  }
  const size_t count = std::min(kContenders, order.size());
  std::ranges::partial_sort(order, order.begin() + std::ptrdiff_t(count), std::greater<>(),
                            [&](size_t i) { return logits.few[i]; });
  double noise = 0;
  for (size_t i = 0; i < count; ++i) noise = std::max(noise, difference(order[i]));
  for (const int32_t token : drawn) noise = std::max(noise, difference(size_t(token)));
  return noise;
}

double noise_of(std::span<const LogitCheck> checks) {
  double noise = 0;
  for (const LogitCheck& check : checks) noise = larger(check.noise, noise);
  return noise;
}

double explaining_noise(std::span<const LogitCheck> checks) {
  const bool is_rounding =
      std::ranges::all_of(checks, [](const LogitCheck& one) { return one.noise <= kMostNoise * one.largest; });
  return is_rounding ? noise_of(checks) : 0;
}

bool explains(double noise, const LogitCheck& flip) { return flip.gap && noise > 0 && *flip.gap <= 2 * noise; }

const LogitCheck* find_check(const LogitEvidence& evidence, const Parting& parting) {
  const auto found = std::find_if(evidence.checks.begin(), evidence.checks.end(), [&](const LogitCheck& check) {
    return check.dataset_index == parting.request->dataset_index && check.request == parting.request->id &&
           check.repetition == int64_t(parting.reference_repetition) && check.position == int64_t(parting.position) &&
           check.token == parting.token() && check.reference_token == parting.reference_token();
  });
  return found == evidence.checks.end() ? nullptr : &*found;
}

std::optional<double> draw_bonus(const DrawParams& params, int position, int32_t token) {
  if (params.greedy()) return 0.0;
  if (params.top_k > 0 || params.top_p < 1 || params.min_p > 0) return std::nullopt;
  const math::NoiseKey key{.seed = params.seed, .purpose = NoisePurpose::target, .origin = position};
  return double(params.temperature) * math::gumbel(key, token);
}

LogitEvidence check_flips(const CellResult& cell, const CellResult& reference, const FlipWork& work,
                          TargetLogits& logits) {
  const Comparison comparison = compare_outputs(cell, reference);
  LogitEvidence evidence{.reference = reference.id, .checks = {}};
  Checker checker(work, logits);
  const auto add = [&](const RequestRecord& request, size_t position, const Parting* parting) {
    if (work.stop_now && work.stop_now()) return;
    if (auto check = checker.check(request, position, parting)) evidence.checks.push_back(std::move(*check));
  };
  for (const Parting& parting : comparison.partings) {
    const bool both_go_on = parting.token() != Parting::kEnded && parting.reference_token() != Parting::kEnded;
    if (both_go_on && !find_check(evidence, parting)) add(*parting.request, parting.position, &parting);
  }
  for (const Place& place : agreeing_places(comparison)) add(*place.request, place.position, nullptr);
  return evidence;
}

}  // namespace paceline
