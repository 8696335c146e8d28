#include "experiments/results/results.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "engine/text/utf8.h"
#include "engine/util/fnv1a.h"

namespace paceline {

using nlohmann::json;

namespace {

json pass_times_to_json(const PassTimes& times) {
  return {
      {"passes", times.passes}, {"steps", times.steps}, {"phase_ms", phases_to_json(times.phases, OtherTime::none)}};
}

json passes_to_json(const std::optional<PassesByKind>& passes) {
  if (!passes) return nullptr;
  return {{"prefill", pass_times_to_json(passes->prefill)},
          {"decode", pass_times_to_json(passes->decode)},
          {"mixed", pass_times_to_json(passes->mixed)}};
}

json numbers(const std::vector<double>& values) {
  json out = json::array();
  for (double v : values) out.push_back(json_number(v));
  return out;
}

json flips_to_json(const std::optional<FlipCount>& flips) {
  if (!flips) return nullptr;
  return {{"found", flips->found},
          {"explained", flips->explained},
          {"positions", flips->positions},
          {"noise", json_number(flips->noise)}};
}

json forecast_to_json(const std::optional<StepForecast>& forecast) {
  if (!forecast) return nullptr;
  return {{"step_ms", json_number(forecast->step_ms)},
          {"target_bytes", json_number(forecast->target_bytes)},
          {"draft_bytes", json_number(forecast->draft_bytes)},
          {"read_bytes_s", json_number(forecast->read_bytes_s)}};
}

/// A token may be a part of a character, which JSON's text cannot hold.
json token_to_json(const SampleTexts::Token& token) {
  json out = {{"id", token.id}, {"text", token.bytes}};
  if (!utf8_valid(token.bytes)) {
    json bytes = json::array();
    for (const char c : token.bytes) bytes.push_back(static_cast<unsigned char>(c));
    out["bytes"] = bytes;
  }
  return out;
}

void add_by_position(std::vector<int64_t>& sum, const std::vector<int64_t>& more) {
  if (sum.size() < more.size()) sum.resize(more.size());
  for (size_t i = 0; i < more.size(); ++i) sum[i] += more[i];
}

}  // namespace

PhaseTimes PhaseTimes::operator+(const PhaseTimes& more) const {
  return {.draft_ms = draft_ms + more.draft_ms,
          .verify_ms = verify_ms + more.verify_ms,
          .sample_ms = sample_ms + more.sample_ms,
          .schedule_ms = schedule_ms + more.schedule_ms,
          .communicate_ms = communicate_ms + more.communicate_ms,
          .bubble_ms = bubble_ms + more.bubble_ms,
          .other_ms = other_ms + more.other_ms};
}

PhaseTimes PhaseTimes::operator*(double factor) const {
  return {.draft_ms = draft_ms * factor,
          .verify_ms = verify_ms * factor,
          .sample_ms = sample_ms * factor,
          .schedule_ms = schedule_ms * factor,
          .communicate_ms = communicate_ms * factor,
          .bubble_ms = bubble_ms * factor,
          .other_ms = other_ms * factor};
}

const char* to_string(CellStatus status) {
  switch (status) {
    case CellStatus::done: return "done";
    case CellStatus::failed: return "failed";
    case CellStatus::skipped: return "skipped";
  }
  return "failed";
}

const char* to_string(CertificateStatus status) {
  switch (status) {
    case CertificateStatus::pass: return "pass";
    case CertificateStatus::fail: return "fail";
    case CertificateStatus::baseline: return "baseline";
    case CertificateStatus::unverified: return "unverified";
  }
  return "unverified";
}

json json_number(double value) { return std::isfinite(value) ? json(value) : json(nullptr); }
json json_number(const std::optional<double>& value) { return value ? json_number(*value) : json(nullptr); }

json logit_checks_to_json(const LogitEvidence& logits) {
  json out = json::array();
  for (const LogitCheck& check : logits.checks) {
    const bool flip = check.token >= 0;
    out.push_back({{"dataset_index", check.dataset_index},
                   {"id", check.request},
                   {"position", check.position},
                   {"token", flip ? json(check.token) : json(nullptr)},
                   {"reference_token", flip ? json(check.reference_token) : json(nullptr)},
                   {"gap", json_number(check.gap)},
                   {"noise", json_number(check.noise)},
                   {"largest", json_number(check.largest)}});
  }
  return out;
}

json phases_to_json(const PhaseTimes& phases, OtherTime other) {
  json out = {{"draft", json_number(phases.draft_ms)},
              {"verify", json_number(phases.verify_ms)},
              {"sample", json_number(phases.sample_ms)},
              {"schedule", json_number(phases.schedule_ms)},
              {"communicate", json_number(phases.communicate_ms)},
              {"bubble", json_number(phases.bubble_ms)}};
  if (other == OtherTime::shown) out["other"] = json_number(phases.other_ms);
  return out;
}

json counters_to_json(const RunCounters& c) {
  json counters{{"steps", c.steps},
                {"verify_steps", c.verify_steps},
                {"target_forwards", c.target_forwards},
                {"drafts", c.drafts},
                {"drafted", c.drafted},
                {"accepted", c.accepted},
                {"proposed_by_position", c.proposed_by_position},
                {"accepted_by_position", c.accepted_by_position},
                {"preemptions", c.preemptions},
                {"prefix_hit_tokens", c.prefix_hit_tokens},
                {"draft_catchup_tokens", c.draft_catchup_tokens},
                {"kv_blocks_peak", c.kv_blocks_peak},
                {"collectives", c.collectives}};
  if (c.swapped_blocks > 0) counters["swapped_blocks"] = c.swapped_blocks;
  for (const StageCounters& stage : c.stages)
    counters["stages"].push_back(
        {{"name", stage.name}, {"drafts", stage.drafts}, {"drafted", stage.drafted}, {"accepted", stage.accepted}});
  return counters;
}

json timeline_to_json(const RepetitionResult& repetition) {
  if (repetition.timeline.empty()) return nullptr;
  json time = json::array(), requests = json::array(), kv_blocks = json::array(), tokens = json::array(),
       bubble = json::array();
  for (const TimelinePoint& point : repetition.timeline) {
    time.push_back(json_number(point.time_ms));
    requests.push_back(point.requests);
    kv_blocks.push_back(point.kv_blocks);
    tokens.push_back(point.output_tokens);
    bubble.push_back(json_number(point.bubble_ms));
  }
  return {{"time_ms", time},
          {"requests", requests},
          {"kv_blocks", kv_blocks},
          {"output_tokens", tokens},
          {"bubble_ms", bubble}};
}

json repetition_to_json(const RepetitionResult& r) {
  int64_t tokens = 0;
  for (const RequestRecord& q : r.requests) tokens += static_cast<int64_t>(q.output.size());
  return {{"wall_s", json_number(r.wall_s)},
          {"idle_s", json_number(r.idle_s)},
          {"requests", r.requests.size()},
          {"output_tokens", tokens},
          {"output_hash", output_hash(r)},
          {"phase_ms", phases_to_json(r.phases, OtherTime::shown)},
          {"passes", passes_to_json(r.passes)},
          {"counters", counters_to_json(r.counters)},
          {"ranks", ranks_to_json(r.ranks)},
          {"cpu_s", r.cpu ? json_number(r.cpu->used_s) : json(nullptr)},
          {"cpu_wait_s", r.cpu ? json_number(r.cpu->waited_s) : json(nullptr)},
          {"disturbance", disturbance_to_json(r.disturbance)},
          {"ended_at_s", json_number(r.ended_at_s)}};
}

json cell_plan_to_json(const CellResult& cell) {
  return {{"index", cell.index},
          {"id", cell.id},
          {"identity", cell.identity},
          {"axes",
           {{"tp", cell.axes.tp},
            {"pp", cell.axes.pp},
            {"proposer", cell.axes.proposer},
            {"num_speculative_tokens",
             cell.axes.num_speculative_tokens ? json(*cell.axes.num_speculative_tokens) : json(nullptr)},
            {"concurrency", cell.axes.concurrency},
            {"variant", cell.axes.variant}}},
          {"model", cell.model},
          {"baseline_id", cell.baseline_id.empty() ? json(nullptr) : json(cell.baseline_id)},
          {"published", cell.published ? json{{"over", cell.published->over},
                                              {"speedup", cell.published->speedup},
                                              {"source", cell.published->source}}
                                       : json(nullptr)},
          {"load", cell.load},
          {"forecast", forecast_to_json(cell.forecast)},
          {"requested", cell.requested},
          {"forced", cell.forced},
          {"random_weights", cell.random_weights}};
}

json cell_load_to_json(const CellResult& cell) {
  return {{"effective", cell.effective},
          {"oversubscribed", cell.oversubscribed},
          {"load_s", json_number(cell.load_s)},
          {"memory",
           {{"weights_bytes", cell.memory.weights_bytes},
            {"kv_bytes", cell.memory.kv_bytes},
            {"workspace_bytes", cell.memory.workspace_bytes},
            {"rss_peak_bytes", cell.memory.rss_peak_bytes}}},
          {"ceilings", ceilings_to_json(cell.ceilings)}};
}

json cell_to_json(const CellResult& cell) {
  json repetitions = json::array();
  for (const RepetitionResult& r : cell.repetitions) repetitions.push_back(repetition_to_json(r));
  json out = {{"schema", "paceline.cell"},
              {"schema_version", 1},
              {"status", to_string(cell.status)},
              {"reason", cell.reason.empty() ? json(nullptr) : json(cell.reason)},
              {"certificate",
               {{"status", to_string(cell.certificate.status)},
                {"method", cell.certificate.method},
                {"tokens_checked", cell.certificate.tokens_checked},
                {"mismatches", cell.certificate.mismatches},
                {"flips", flips_to_json(cell.certificate.flips)},
                {"detail", cell.certificate.detail}}},
              {"logit_checks", logit_checks_to_json(cell.logits)},
              {"repetitions", repetitions},
              {"timeline", timeline_to_json(cell.repetitions.empty() ? RepetitionResult() : cell.repetitions.front())}};
  out.update(cell_plan_to_json(cell));
  out.update(cell_load_to_json(cell));
  return out;
}

int repetitions_asked(const CellResult& cell) {
  if (!cell.requested.is_object()) return 0;
  const json measure = cell.requested.value("measure", json::object());
  return measure.is_object() ? measure.value("repetitions", 0) : 0;
}

CellCounts count_cells(const std::vector<CellResult>& cells) {
  CellCounts counts;
  for (const CellResult& cell : cells) {
    switch (cell.status) {
      case CellStatus::done:
        if (cell.repetitions.empty()) {  // planned, and not reached yet
          ++counts.skipped;
          ++counts.not_run;
          break;
        }
        ++counts.done;
        counts.partial += int(cell.repetitions.size()) < repetitions_asked(cell) ? 1 : 0;
        break;
      case CellStatus::failed: ++counts.failed; break;
      case CellStatus::skipped:
        ++counts.skipped;
        counts.not_run += cell.not_run ? 1 : 0;
        break;
    }
  }
  return counts;
}

bool has_fast_numerics(const CellResult& cell) {
  return cell.effective.is_object() && cell.effective.value("numerics", "strict") == "fast";
}

std::vector<int> threads_per_rank_of(const RunResult& run) {
  std::set<int> threads;
  for (const CellResult& cell : run.cells) {
    const json said = cell.effective.is_object() ? cell.effective.value("threads_per_rank", json()) : json();
    if (said.is_number_integer()) threads.insert(said.get<int>());
  }
  return {threads.begin(), threads.end()};
}

json request_to_json(const RequestRecord& q, int repetition) {
  json out{{"repetition", repetition},
           {"id", q.id},
           {"dataset_index", q.dataset_index},
           {"category", q.category},
           {"prompt_tokens", q.prompt_tokens},
           {"output", q.output},
           {"ttft_ms", json_number(q.ttft_ms)},
           {"e2e_ms", json_number(q.e2e_ms)},
           {"itl_ms", numbers(q.itl_ms)},
           {"tokens_per_emission", q.tokens_per_emission},
           {"drafted", q.drafted},
           {"accepted", q.accepted},
           {"finish_reason", q.finish_reason},
           {"degenerate", q.degenerate}};
  if (!q.depth.empty()) out["depth"] = q.depth;
  if (q.arrival_ms) {
    out["arrival_ms"] = json_number(q.arrival_ms);
    out["send_delay_ms"] = json_number(q.send_delay_ms);
  }
  return out;
}

json samples_to_json(const RunResult& run) {
  json models = json::array();
  for (const SampleTexts& texts : run.sample_texts) {
    json prompts = json::array(), tokens = json::array();
    for (const SampleTexts::Prompt& p : texts.prompts)
      prompts.push_back({{"dataset_index", p.dataset_index}, {"id", p.id}, {"text", p.text}});
    for (const SampleTexts::Token& t : texts.tokens) tokens.push_back(token_to_json(t));
    models.push_back({{"model", texts.model}, {"prompts", prompts}, {"tokens", tokens}});
  }
  return {{"schema", "paceline.samples"}, {"schema_version", 1}, {"models", models}};
}

RunCounters pooled_counters(const CellResult& cell) {
  RunCounters sum;
  for (const RepetitionResult& r : cell.repetitions) {
    const RunCounters& c = r.counters;
    sum.steps += c.steps;
    sum.verify_steps += c.verify_steps;
    sum.target_forwards += c.target_forwards;
    sum.drafts += c.drafts;
    sum.drafted += c.drafted;
    sum.accepted += c.accepted;
    add_by_position(sum.proposed_by_position, c.proposed_by_position);
    add_by_position(sum.accepted_by_position, c.accepted_by_position);
    sum.preemptions += c.preemptions;
    sum.swapped_blocks += c.swapped_blocks;
    sum.prefix_hit_tokens += c.prefix_hit_tokens;
    sum.draft_catchup_tokens += c.draft_catchup_tokens;
    sum.kv_blocks_peak = std::max(sum.kv_blocks_peak, c.kv_blocks_peak);
    sum.collectives += c.collectives;
    for (const StageCounters& stage : c.stages) {
      const auto known = std::find_if(sum.stages.begin(), sum.stages.end(),
                                      [&](const StageCounters& one) { return one.name == stage.name; });
      StageCounters& of =
          known == sum.stages.end() ? sum.stages.emplace_back(StageCounters{.name = stage.name}) : *known;
      of.drafts += stage.drafts;
      of.drafted += stage.drafted;
      of.accepted += stage.accepted;
    }
  }
  return sum;
}

std::optional<FlipCount> pooled_flips(const RunResult& run) {
  std::optional<FlipCount> pooled;
  for (const CellResult& cell : run.cells) {
    if (cell.status != CellStatus::done || !cell.certificate.flips) continue;
    const FlipCount& flips = *cell.certificate.flips;
    if (!pooled) pooled.emplace();
    pooled->found += flips.found;
    pooled->explained += flips.explained;
    pooled->positions += flips.positions;
    const bool keep = pooled->noise && (std::isnan(*pooled->noise) || pooled->noise > flips.noise);
    if (flips.noise && !keep) pooled->noise = flips.noise;
  }
  return pooled;
}

json workload_to_json(const WorkloadFacts& workload) {
  return {{"format", workload.format.empty() ? json(nullptr) : json(workload.format)},
          {"prompts", workload.prompts},
          {"filtered", workload.filtered},
          {"bad_records", workload.bad_records},
          {"first_bad_record", workload.first_bad.empty() ? json(nullptr) : json(workload.first_bad)}};
}

std::string output_hash(const RepetitionResult& repetition) {
  std::vector<const RequestRecord*> order;
  for (const RequestRecord& q : repetition.requests) order.push_back(&q);
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return std::tie(a->dataset_index, a->id) < std::tie(b->dataset_index, b->id);
  });
  Fnv1a hash;
  for (const RequestRecord* q : order) {
    const std::array<int64_t, 2> head = {q->dataset_index, static_cast<int64_t>(q->output.size())};
    hash.add(head.data(), sizeof(head));
    hash.add(q->output.data(), q->output.size() * sizeof(int32_t));
  }
  return hash.hex();
}

}  // namespace paceline
