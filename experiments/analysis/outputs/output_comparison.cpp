#include "experiments/analysis/outputs/output_comparison.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "experiments/config/keys/key_help.h"

namespace paceline {
namespace {

/// Sums follow one tree at tp 1, 2, 4 and 8; at others a placement has bits of its own.
bool has_own_bits(int tp) { return tp != 1 && tp != 2 && tp != 4 && tp != 8; }

}  // namespace

std::map<RequestKey, const RequestRecord*> requests_by_key(const RepetitionResult& repetition) {
  std::map<RequestKey, const RequestRecord*> requests;
  for (const RequestRecord& request : repetition.requests) requests[key_of(request)] = &request;
  return requests;
}

std::string described(const Parting& parting) {
  const int32_t token = parting.token(), expected = parting.reference_token();
  return fmt::format("repetition {}, request {}: output token {} is {}, expected {}", parting.repetition,
                     parting.request->id, parting.position, token == Parting::kEnded ? "absent" : std::to_string(token),
                     expected == Parting::kEnded ? "none" : std::to_string(expected));
}

std::optional<size_t> repetition_to_match(const CellResult& cell, const CellResult& reference, size_t repetition) {
  const size_t match = draws_anew(cell) ? repetition : 0;
  return match < reference.repetitions.size() ? std::optional(match) : std::nullopt;
}

Comparison compare_outputs(const CellResult& cell, const CellResult& reference) {
  Comparison out;
  std::optional<size_t> last;
  std::map<RequestKey, const RequestRecord*> expected;
  for (size_t rep = 0; rep < cell.repetitions.size(); ++rep) {
    const std::optional<size_t> match = repetition_to_match(cell, reference, rep);
    if (!match) continue;
    if (match != last) expected = requests_by_key(reference.repetitions[*match]);
    last = match;
    const auto& requests = cell.repetitions[rep].requests;
    if (requests.size() != expected.size())
      out.complaint =
          fmt::format("repetition {}: {} requests, the reference has {}", rep, requests.size(), expected.size());
    for (const RequestRecord& request : requests) {
      const auto found = expected.find(key_of(request));
      if (found == expected.end()) {
        out.complaint = fmt::format("repetition {}: request {} is not in the reference", rep, request.id);
        continue;
      }
      ++out.requests;
      const std::vector<int32_t>& want = found->second->output;
      const size_t length = std::max(want.size(), request.output.size());
      out.tokens += int64_t(length);
      const auto differs = std::mismatch(request.output.begin(), request.output.end(), want.begin(), want.end());
      const auto position = size_t(differs.first - request.output.begin());
      out.tokens_until_parting += int64_t(std::min(position + 1, length));
      if (position < length)
        out.partings.push_back({.repetition = rep,
                                .reference_repetition = *match,
                                .request = &request,
                                .reference = found->second,
                                .position = position});
      if (rep == 0) out.agreeing.push_back({&request, position});
    }
  }
  return out;
}

References::References(const RunResult& run) {
  for (const CellResult& cell : run.cells) {
    if (!usable(cell) || cell.axes.drafts() || is_foreign(cell)) continue;
    firsts_.try_emplace(kind_of(cell), &cell);
    by_placement_.try_emplace({kind_of(cell), cell.axes.tp, cell.axes.pp}, &cell);
  }
}

const CellResult* References::of(const CellResult& cell) const {
  const auto first = firsts_.find(kind_of(cell));
  if (first == firsts_.end()) return nullptr;
  if (first->second == &cell) return &cell;
  const auto placement = by_placement_.find({kind_of(cell), cell.axes.tp, cell.axes.pp});
  if (placement == by_placement_.end()) return first->second;
  if (placement->second != &cell || has_own_bits(cell.axes.tp)) return placement->second;
  return first->second;
}

bool References::usable(const CellResult& cell) { return cell.status == CellStatus::done && !cell.repetitions.empty(); }

References::Kind References::kind_of(const CellResult& cell) {
  const std::string backend = cell.effective.is_object() ? cell.effective.value("backend", "") : "";
  return {cell.model, backend, nlohmann::json(settings_that_change(KeyEffect::text, cell.requested)).dump(),
          has_fast_numerics(cell)};
}

std::vector<SampleOutput> sample_outputs(const RunResult& run, size_t count) {
  const References references(run);
  nlohmann::ordered_map<const CellResult*, std::vector<SampleOutput>> by_reference;
  for (const CellResult& cell : run.cells) {
    if (!References::usable(cell) || is_foreign(cell)) continue;
    const CellResult* const reference = references.of(cell);
    if (reference == nullptr) continue;
    const auto [known, is_new] = by_reference.emplace(reference, std::vector<SampleOutput>{});
    if (is_new)
      for (const RequestRecord& request : reference->repetitions.front().requests)
        known->second.push_back({.reference_cell = reference, .reference = &request, .differences = {}});
    for (SampleOutput& sample : known->second) {
      ++sample.cells;
      sample.repetitions += static_cast<int>(cell.repetitions.size());
    }
    for (const Parting& parting : compare_outputs(cell, *reference).partings) {
      const auto sample = std::ranges::find(known->second, key_of(*parting.reference),
                                            [](const SampleOutput& each) { return key_of(*each.reference); });
      if (sample != known->second.end()) sample->differences.push_back({&cell, parting});
    }
  }
  std::vector<SampleOutput> out;
  for (auto& [reference, samples] : by_reference) {
    std::stable_sort(samples.begin(), samples.end(), [](const SampleOutput& a, const SampleOutput& b) {
      return std::pair(a.differences.empty(), a.reference->dataset_index) <
             std::pair(b.differences.empty(), b.reference->dataset_index);
    });
    samples.resize(std::min(samples.size(), count));
    std::move(samples.begin(), samples.end(), std::back_inserter(out));
  }
  return out;
}

}  // namespace paceline
