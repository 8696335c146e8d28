// record_problems(): the arithmetic that ties records and counters together.

#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "experiments/analysis/metrics/summary.h"

namespace paceline {

namespace {

template <class T>
int64_t sum_of(const std::vector<T>& values) {
  return std::accumulate(values.begin(), values.end(), int64_t{0});
}

/// client: null for a request of this process.
void check_request(const RequestRecord& q, const ClientRecord* client, const std::string& where,
                   std::vector<std::string>& problems) {
  const auto add = [&](const std::string& text) {
    problems.push_back(fmt::format("{} request {}: {}", where, q.id, text));
  };
  if (q.finish_reason != "stop" && q.finish_reason != "length") {
    add(fmt::format("did not finish (finish_reason \"{}\")", q.finish_reason));
  }
  const int64_t tokens = q.num_tokens();
  if (tokens == 0) add("no output token");
  const bool is_untold = client && q.tokens_per_emission.empty();
  if (!is_untold && sum_of(q.tokens_per_emission) != tokens) {
    add(fmt::format("{} tokens in emissions but {} in the output", sum_of(q.tokens_per_emission), tokens));
  }
  if (!q.tokens_per_emission.empty() && q.itl_ms.size() + 1 != q.tokens_per_emission.size()) {
    add(fmt::format("{} gaps between {} emissions", q.itl_ms.size(), q.tokens_per_emission.size()));
  }
  if (q.drafted.size() != q.accepted.size()) {
    add(fmt::format("{} steps with a drafted count, {} with an accepted one", q.drafted.size(), q.accepted.size()));
  }
  if (!q.depth.empty() && q.depth.size() != q.drafted.size())
    return add(fmt::format("{} steps with a drafted count, {} with a depth", q.drafted.size(), q.depth.size()));
  for (size_t i = 0; i < std::min(q.drafted.size(), q.accepted.size()); ++i) {
    if (q.accepted[i] < 0 || q.accepted[i] > q.depth_at(i)) {
      add(fmt::format("step {} accepted {} of {} drafts, {} levels", i, q.accepted[i], q.drafted[i], q.depth_at(i)));
      break;
    }
  }
  const bool came_whole = client && !client->streamed && std::isnan(q.ttft_ms);
  const double ttft_ms = came_whole ? 0 : q.ttft_ms;
  if (!std::isfinite(ttft_ms) || !std::isfinite(q.e2e_ms) || ttft_ms < 0 || q.e2e_ms < ttft_ms) {
    add(fmt::format("ttft {} ms, e2e {} ms", q.ttft_ms, q.e2e_ms));
  }
}

void check_counters(const RepetitionResult& r, const std::string& where, std::vector<std::string>& problems) {
  int64_t drafts = 0, drafted = 0, levels = 0, accepted = 0, verify_steps = 0;
  for (const RequestRecord& q : r.requests) {
    for (int n : q.drafted) drafts += n > 0 ? 1 : 0;
    drafted += sum_of(q.drafted);
    levels += sum_of(q.depth.empty() ? q.drafted : q.depth);
    accepted += sum_of(q.accepted);
    verify_steps += static_cast<int64_t>(q.drafted.size());
  }
  const auto compare = [&](const char* name, int64_t counter, int64_t records) {
    if (counter != records)
      problems.push_back(fmt::format("{} {}: counter {}, records {}", where, name, counter, records));
  };
  const RunCounters& c = r.counters;
  compare("drafts", c.drafts, drafts);
  compare("drafted", c.drafted, drafted);
  compare("accepted", c.accepted, accepted);
  compare("verify_steps", c.verify_steps, verify_steps);
  compare("sum of proposed_by_position", sum_of(c.proposed_by_position), levels);
  compare("sum of accepted_by_position", sum_of(c.accepted_by_position), accepted);
}

/// What a server states of its drafts, which no request's steps tell.
void check_stated(const RunCounters& c, const std::string& where, std::vector<std::string>& problems) {
  if (c.accepted > c.drafted)
    problems.push_back(fmt::format("{}: {} drafts accepted of {}", where, c.accepted, c.drafted));
  if (!c.accepted_by_position.empty() && sum_of(c.accepted_by_position) != c.accepted)
    problems.push_back(fmt::format("{} sum of accepted_by_position: {}, accepted {}", where,
                                   sum_of(c.accepted_by_position), c.accepted));
}

void check_passes(const RepetitionResult& r, const std::string& where, std::vector<std::string>& problems) {
  if (!r.passes) return;
  const PassesByKind& p = *r.passes;
  const auto compare = [&](const char* what, int64_t counter, int64_t by_kind) {
    if (counter != by_kind)
      problems.push_back(fmt::format("{}: counter {} of {}, {} by kind of pass", where, counter, what, by_kind));
  };
  compare("target_forwards", r.counters.target_forwards, p.prefill.passes + p.decode.passes + p.mixed.passes);
  compare("steps", r.counters.steps, p.prefill.steps + p.decode.steps + p.mixed.steps);
}

void check_ranks(const RepetitionResult& r, const CellAxes& axes, const std::string& where,
                 std::vector<std::string>& problems) {
  const size_t expected = size_t(axes.tp) * size_t(axes.pp);
  if (!r.ranks.empty() && r.ranks.size() != expected)
    problems.push_back(fmt::format("{}: work of {} ranks, the cell has {}", where, r.ranks.size(), expected));
  for (size_t rank = 0; rank < r.ranks.size(); ++rank) {
    const double busy_s = r.ranks[rank].busy_s();
    if (!std::isfinite(busy_s) || busy_s < 0)
      problems.push_back(fmt::format("{}: rank {} was at work for {} s", where, rank, busy_s));
  }
}

}  // namespace

std::vector<std::string> record_problems(const CellResult& cell) {
  std::vector<std::string> problems;
  if (cell.repetitions.empty()) problems.push_back("no repetition");
  for (size_t i = 0; i < cell.repetitions.size(); ++i) {
    const RepetitionResult& r = cell.repetitions[i];
    const std::string where = fmt::format("repetition {}", i);
    if (r.requests.empty()) problems.push_back(where + ": no request");
    if (!std::isfinite(r.wall_s) || r.wall_s <= 0)
      problems.push_back(fmt::format("{}: wall time {} s", where, r.wall_s));
    for (const RequestRecord& q : r.requests) check_request(q, r.client ? &*r.client : nullptr, where, problems);
    if (r.client)
      check_stated(r.counters, where, problems);
    else
      check_counters(r, where, problems);
    check_passes(r, where, problems);
    check_ranks(r, cell.axes, where, problems);
  }
  return problems;
}

}  // namespace paceline
