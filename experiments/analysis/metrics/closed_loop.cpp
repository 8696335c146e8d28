#include "experiments/analysis/metrics/closed_loop.h"

#include <algorithm>

#include "engine/util/json_io.h"
#include "experiments/results/reachable_concurrency.h"

namespace paceline {
namespace {

using nlohmann::json;

std::optional<int64_t> fact(const json& facts, const char* name) {
  if (!facts.is_object()) return std::nullopt;
  const auto found = facts.find(name);
  return found != facts.end() && found->is_number_integer() ? std::optional(found->get<int64_t>()) : std::nullopt;
}

bool is_static(const CellResult& cell) {
  const json* const batching = find_value(cell.requested, "engine.scheduler.batching");
  return batching && *batching == "static";
}

/// Whether at the fullest the longest prompt would still have found its blocks.
bool had_free_blocks(const CellResult& cell) {
  const std::optional<int64_t> blocks = fact(cell.effective, "kv_blocks"), size = fact(cell.effective, "block_size");
  if (!blocks || !size || *size < 1) return true;
  return std::all_of(cell.repetitions.begin(), cell.repetitions.end(), [&](const RepetitionResult& repetition) {
    int64_t longest = 0;
    for (const RequestRecord& request : repetition.requests)
      longest = std::max<int64_t>(longest, request.prompt_tokens);
    return repetition.counters.kv_blocks_peak + (longest + *size - 1) / *size <= *blocks;
  });
}

}  // namespace

std::optional<ClosedLoop> closed_loop_of(const CellResult& cell) {
  if (cell.load != "closed" || cell.repetitions.empty()) return std::nullopt;
  const auto requests = int64_t(cell.repetitions.front().requests.size());
  ClosedLoop loop{.asked = cell.axes.concurrency,
                  .in_flight = std::min<int64_t>(cell.axes.concurrency, requests),
                  .requests = requests};
  loop.in_batch = reachable_concurrency({.requests = requests,
                                         .concurrency = cell.axes.concurrency,
                                         .max_num_seqs = fact(cell.effective, "max_num_seqs").value_or(requests)});
  if (is_static(cell) && loop.in_flight > 1)
    loop.waits_for = WaitsFor::batch;
  else if (loop.in_batch < loop.in_flight)
    loop.waits_for = WaitsFor::place;
  else if (loop.in_flight > 1 && !had_free_blocks(cell))
    loop.waits_for = WaitsFor::blocks;
  else if (loop.in_flight > 1 && 2 * loop.in_flight >= requests)
    loop.waits_for = WaitsFor::start;
  return loop;
}

}  // namespace paceline
