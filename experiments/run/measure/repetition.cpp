#include "experiments/run/measure/repetition.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <unordered_map>

#include "experiments/analysis/statistics/statistics.h"
#include "experiments/run/measure/recorders.h"
#include "experiments/workload/request_sampling.h"

namespace paceline {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kLatest = 256;  // requests that the TTFT shown meanwhile is the median of

double ms_between(Clock::time_point start, Clock::time_point end) {
  return std::chrono::duration<double, std::milli>(end - start).count();
}

Clock::duration duration_of(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

/// A request on its way: its record so far and the times that the record is made of.
struct Live {
  RequestRecord record;
  Clock::time_point submitted, last_emission;  // submitted: in an open loop, when it should have been
};

void record_emission(Live& live, const Emitted& emitted, Clock::time_point now) {
  RequestRecord& record = live.record;
  if (record.tokens_per_emission.empty()) {
    record.ttft_ms = ms_between(live.submitted, now);
  } else {
    record.itl_ms.push_back(ms_between(live.last_emission, now));
    record.drafted.push_back(emitted.num_drafted);
    record.accepted.push_back(emitted.num_accepted);
    record.depth.push_back(emitted.depth);
  }
  live.last_emission = now;
  record.e2e_ms = ms_between(live.submitted, now);
  record.tokens_per_emission.push_back(int(emitted.token.size()));
  record.output.insert(record.output.end(), emitted.token.begin(), emitted.token.end());
  if (emitted.finish == FinishReason::none) return;
  record.finish_reason = finish_reason_name(emitted.finish);
  if (record.depth == record.drafted) record.depth.clear();
  std::span<const int32_t> text(record.output);
  if (emitted.finish == FinishReason::stop) text = text.first(text.size() - 1);
  record.degenerate = is_degenerate(text);
}

RunCounters run_counters(const Engine& engine, BlockPool& pool, int64_t num_requests) {
  const EngineCounters& counters = engine.counters();
  RunCounters out{.steps = counters.verdicts,
                  .verify_steps = counters.verdicts - num_requests,
                  .target_forwards = counters.steps,
                  .drafts = counters.drafts,
                  .drafted = counters.drafted,
                  .accepted = counters.accepted};
  for (int i = 0; i < kMaxDraftLen && counters.proposed_at[size_t(i)] > 0; ++i) {
    out.proposed_by_position.push_back(counters.proposed_at[size_t(i)]);
    out.accepted_by_position.push_back(counters.accepted_at[size_t(i)]);
  }
  out.preemptions = counters.preemptions;
  out.swapped_blocks = counters.swapped_blocks;
  out.dead_rows = counters.dead_rows;
  out.prefix_hit_tokens = pool.prefix_hit_tokens();
  const ProposerStats proposer = engine.proposer_stats();
  out.draft_catchup_tokens = proposer.catchup_tokens;
  for (const StageStats& stage : proposer.stages)
    out.stages.push_back(
        {.name = stage.name, .drafts = stage.proposals, .drafted = stage.drafted, .accepted = stage.accepted});
  out.kv_blocks_peak = pool.peak_used();
  return out;
}

PhaseTimes phase_times(const PhaseSeconds& phases) {
  return {.draft_ms = phases.draft * 1e3,
          .verify_ms = phases.verify * 1e3,
          .sample_ms = phases.sample * 1e3,
          .schedule_ms = phases.schedule * 1e3,
          .communicate_ms = phases.communicate * 1e3,
          .bubble_ms = phases.bubble * 1e3};
}

PassesByKind passes_by_kind(const Engine& engine) {
  const auto of = [&](PassKind kind) {
    const PassTotals& totals = engine.passes()[size_t(kind)];
    return PassTimes{.passes = totals.passes, .steps = totals.verdicts, .phases = phase_times(totals.seconds)};
  };
  return {.prefill = of(PassKind::prefill), .decode = of(PassKind::decode), .mixed = of(PassKind::mixed)};
}

/// Sleeps until the engine gets its next request, in slices, so that the user can stop it. Gives the seconds slept.
double sleep_until(Clock::time_point when, Clock::time_point deadline, const RepetitionOptions& options) {
  constexpr auto kSlice = std::chrono::milliseconds(20);
  const auto begin = Clock::now();
  auto now = begin;
  while (now < when && now <= deadline) {
    if (options.stop_now && options.stop_now()) fail(ExitCode::interrupted, "stopped by the user");
    std::this_thread::sleep_until(std::min(when, now + kSlice));
    now = Clock::now();
  }
  return ms_between(begin, now) / 1e3;
}

}  // namespace

RepetitionResult run_repetition(EngineLoad& load, const ExperimentConfig& cell, std::span<const EncodedPrompt> prompts,
                                const RepetitionOptions& options) {
  const std::unique_ptr<Engine> engine = load.make_engine(cell, options.record_drafts);
  RepetitionResult result;
  std::unordered_map<SeqId, Live> live;
  size_t next = 0;
  int64_t emitted_tokens = 0, reported_tokens = 0;
  const uint64_t collectives_before = load.target().comm_stats().collectives;
  const WorkSoFar work_before = work_so_far(load.team());
  const MachineCounters machine_before = read_machine_counters(options.counters);
  std::optional<RankRecorder> recorder;
  if (options.record_ranks == RankRecording::on) recorder.emplace(load.team());
  const auto start = Clock::now();
  const auto deadline = start + duration_of(options.timeout_s);
  const std::vector<Arrival>& arrivals = options.arrivals;
  const bool open_loop = !arrivals.empty();
  PACELINE_CHECK(!open_loop || arrivals.size() >= prompts.size(), "{} arrivals for {} prompts", arrivals.size(),
                 prompts.size());
  const size_t concurrency = options.concurrency > 0 ? size_t(options.concurrency) : prompts.size();
  const auto intended = [&](size_t request) { return start + duration_of(arrivals[request].t_s); };
  auto last_report = start;
  Timeline timeline;
  while (next < prompts.size() || !live.empty()) {
    if (open_loop && live.empty()) result.idle_s += sleep_until(intended(next), deadline, options);
    while (next < prompts.size() && (open_loop ? intended(next) <= Clock::now() : live.size() < concurrency)) {
      const EncodedPrompt& prompt = prompts[next];
      Live request;
      const auto sent = Clock::now();
      request.submitted = open_loop ? intended(next) : sent;
      request.record = {.id = prompt.id,
                        .dataset_index = prompt.dataset_index,
                        .category = prompt.category,
                        .prompt_tokens = int(prompt.tokens.size())};
      if (open_loop) {
        request.record.arrival_ms = ms_between(start, request.submitted);
        request.record.send_delay_ms = ms_between(request.submitted, sent);
      }
      const SeqId id = engine->submit(prompt.tokens,
                                      sampling_of_prompt(options.sampling, next, prompt.max_tokens,
                                                         open_loop ? arrivals[next].max_tokens : std::nullopt),
                                      int64_t(next) + 1);
      live.emplace(id, std::move(request));
      ++next;
    }
    const std::vector<Emitted> emitted = live.empty() ? std::vector<Emitted>() : engine->step();
    const auto now = Clock::now();
    for (const Emitted& one : emitted) {
      Live& request = live.at(one.seq);
      record_emission(request, one, now);
      emitted_tokens += int64_t(one.token.size());
      if (one.finish != FinishReason::none) {
        result.requests.push_back(std::move(request.record));
        live.erase(one.seq);
      }
    }
    if (recorder && 2 * result.requests.size() >= prompts.size()) recorder->stop();
    const BlockPool& pool = engine->pool();
    timeline.add({.time_ms = ms_between(start, now),
                  .requests = int(live.size()),
                  .kv_blocks = pool.num_blocks() - pool.num_free(),
                  .output_tokens = emitted_tokens,
                  .bubble_ms = engine->phases().bubble * 1e3});
    if (options.stop_now && options.stop_now()) fail(ExitCode::interrupted, "stopped by the user");
    if (now > deadline)
      fail(ExitCode::device, "the pass took longer than {} s (sweep.cell_timeout_s): {} of {} requests done",
           options.timeout_s, result.requests.size(), prompts.size());
    if (options.on_progress && ms_between(last_report, now) > 100) {
      const EngineCounters& counters = engine->counters();
      std::optional<double> acceptance;
      if (cell.speculation.drafts())
        acceptance = counters.drafts > 0 ? 1.0 + double(counters.accepted) / double(counters.drafts) : 1.0;
      std::vector<double> ttft_ms;
      const size_t count = std::min(result.requests.size(), kLatest);  // a long run must not sort thousands each time
      for (const RequestRecord& request : std::span(result.requests).last(count)) ttft_ms.push_back(request.ttft_ms);
      options.on_progress(
          {.fraction = double(result.requests.size()) / double(prompts.size()),
           .tok_s = double(emitted_tokens) * 1e3 / ms_between(start, now),
           .recent_tok_s = double(emitted_tokens - reported_tokens) * 1e3 / ms_between(last_report, now),
           .acceptance_length = acceptance,
           .ttft_ms = quantile(ttft_ms, 0.5),
           .kv_share = 1.0 - double(pool.num_free()) / double(pool.num_blocks())});
      last_report = now;
      reported_tokens = emitted_tokens;
    }
  }
  const auto end = Clock::now();
  result.wall_s = ms_between(start, end) / 1e3;
  result.disturbance = disturbance_between(machine_before, read_machine_counters(options.counters));
  WorkSoFar work = work_so_far(load.team()) - work_before;
  result.cpu_s = work.cpu_s;
  result.cpu_wait_s = work.cpu_wait_s;
  result.ranks = std::move(work.ranks);
  result.phases = phase_times(engine->phases());
  result.passes = passes_by_kind(*engine);
  result.phases.other_ms = std::max(0.0, (result.wall_s - result.idle_s) * 1e3 - result.phases.total_ms());
  result.timeline = timeline.take();
  if (recorder) result.lanes = recorder->take();
  result.counters = run_counters(*engine, engine->pool(), int64_t(result.requests.size()));
  result.counters.collectives = int64_t(load.target().comm_stats().collectives - collectives_before);
  std::sort(result.requests.begin(), result.requests.end(), [](const RequestRecord& a, const RequestRecord& b) {
    return std::pair(a.dataset_index, a.id) < std::pair(b.dataset_index, b.id);
  });
  return result;
}

}  // namespace paceline
