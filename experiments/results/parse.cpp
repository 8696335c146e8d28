#include "experiments/results/parse.h"

#include <cmath>
#include <limits>

#include "experiments/results/json_values.h"

namespace paceline {

using nlohmann::json;

namespace {

/// The value of `key`, or `absent` where it is missing or null (a number that was not finite).
template <class Value>
Value get(const json& object, const char* key, Value absent = {}) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? absent : value_of<Value>(*found);
}

std::optional<double> number(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return std::nullopt;
  return found->get<double>();
}

/// A member that is an object; an empty one where an older version did not write it.
const json& part(const json& object, const char* key) {
  static const json kNone = json::object();
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? kNone : *found;
}

std::string bytes_from(const std::vector<int>& values) {
  std::string out;
  for (const int value : values) out += static_cast<char>(value);
  return out;
}

Work work_from_json(const json& object) {
  return {.traffic = {.weight_bytes = get<uint64_t>(object, "weight_bytes"),
                      .kv_bytes = get<uint64_t>(object, "kv_bytes"),
                      .logit_bytes = get<uint64_t>(object, "logit_bytes"),
                      .flops = get<uint64_t>(object, "flops"),
                      .attention_flops = get<uint64_t>(object, "attention_flops")},
          .seconds = get<double>(object, "seconds")};
}

std::vector<StageCounters> stages_from_json(const json& list) {
  std::vector<StageCounters> stages;
  for (const json& stage : list)
    stages.push_back({.name = get<std::string>(stage, "name"),
                      .drafts = get<int64_t>(stage, "drafts"),
                      .drafted = get<int64_t>(stage, "drafted"),
                      .accepted = get<int64_t>(stage, "accepted")});
  return stages;
}

RunCounters counters_from_json(const json& object) {
  return {.steps = get<int64_t>(object, "steps"),
          .verify_steps = get<int64_t>(object, "verify_steps"),
          .target_forwards = get<int64_t>(object, "target_forwards"),
          .drafts = get<int64_t>(object, "drafts"),
          .drafted = get<int64_t>(object, "drafted"),
          .accepted = get<int64_t>(object, "accepted"),
          .proposed_by_position = get<std::vector<int64_t>>(object, "proposed_by_position"),
          .accepted_by_position = get<std::vector<int64_t>>(object, "accepted_by_position"),
          .preemptions = get<int64_t>(object, "preemptions"),
          .swapped_blocks = get<int64_t>(object, "swapped_blocks"),
          .prefix_hit_tokens = get<int64_t>(object, "prefix_hit_tokens"),
          .draft_catchup_tokens = get<int64_t>(object, "draft_catchup_tokens"),
          .kv_blocks_peak = get<int64_t>(object, "kv_blocks_peak"),
          .collectives = get<int64_t>(object, "collectives"),
          .stages = stages_from_json(part(object, "stages"))};
}

PhaseTimes phases_from_json(const json& object) {
  return {.draft_ms = get<double>(object, "draft"),
          .verify_ms = get<double>(object, "verify"),
          .sample_ms = get<double>(object, "sample"),
          .schedule_ms = get<double>(object, "schedule"),
          .communicate_ms = get<double>(object, "communicate"),
          .bubble_ms = get<double>(object, "bubble"),
          .other_ms = get<double>(object, "other")};
}

PassTimes pass_times_from_json(const json& object) {
  return {.passes = get<int64_t>(object, "passes"),
          .steps = get<int64_t>(object, "steps"),
          .phases = phases_from_json(part(object, "phase_ms"))};
}

std::optional<PassesByKind> passes_from_json(const json& object) {
  if (object.empty()) return std::nullopt;
  return PassesByKind{.prefill = pass_times_from_json(part(object, "prefill")),
                      .decode = pass_times_from_json(part(object, "decode")),
                      .mixed = pass_times_from_json(part(object, "mixed"))};
}

}  // namespace

RequestRecord request_from_json(const json& object) {
  return {.id = object.at("id").get<std::string>(),
          .dataset_index = value_of<int64_t>(object.at("dataset_index")),
          .category = get<std::string>(object, "category"),
          .prompt_tokens = get<int>(object, "prompt_tokens"),
          .output = value_of<std::vector<int32_t>>(object.at("output")),
          .ttft_ms = get<double>(object, "ttft_ms"),
          .e2e_ms = get<double>(object, "e2e_ms"),
          .arrival_ms = number(object, "arrival_ms"),
          .send_delay_ms = get<double>(object, "send_delay_ms"),
          .itl_ms = get<std::vector<double>>(object, "itl_ms"),
          .tokens_per_emission = get<std::vector<int>>(object, "tokens_per_emission"),
          .drafted = get<std::vector<int>>(object, "drafted"),
          .accepted = get<std::vector<int>>(object, "accepted"),
          .depth = get<std::vector<int>>(object, "depth"),
          .finish_reason = get<std::string>(object, "finish_reason"),
          .degenerate = get<bool>(object, "degenerate")};
}

RepetitionResult repetition_from_json(const json& object) {
  RepetitionResult out;
  out.wall_s = get<double>(object, "wall_s");
  out.idle_s = get<double>(object, "idle_s");
  out.phases = phases_from_json(part(object, "phase_ms"));
  out.passes = passes_from_json(part(object, "passes"));
  out.counters = counters_from_json(part(object, "counters"));
  for (const json& rank : part(object, "ranks"))
    out.ranks.push_back({.verify = work_from_json(part(rank, "verify")),
                         .draft = work_from_json(part(rank, "draft")),
                         .sample = work_from_json(part(rank, "sample")),
                         .comm_bytes = get<int64_t>(rank, "comm_bytes"),
                         .comm_wait_s = get<double>(rank, "comm_wait_s")});
  if (object.contains("cpu_s") && object["cpu_s"].is_number())
    out.cpu = {.used_s = get<double>(object, "cpu_s"), .waited_s = get<double>(object, "cpu_wait_s")};
  if (const auto found = object.find("disturbance"); found != object.end())
    out.disturbance = disturbance_from_json(*found);
  out.ended_at_s = number(object, "ended_at_s");
  return out;
}

std::vector<SampleTexts> samples_from_json(const json& object) {
  std::vector<SampleTexts> out;
  for (const json& model : object.at("models")) {
    SampleTexts texts{.model = model.at("model").get<std::string>(), .prompts = {}, .tokens = {}};
    for (const json& prompt : model.at("prompts"))
      texts.prompts.push_back({.dataset_index = value_of<int64_t>(prompt.at("dataset_index")),
                               .id = prompt.at("id").get<std::string>(),
                               .text = prompt.at("text").get<std::string>()});
    for (const json& token : model.at("tokens"))
      texts.tokens.push_back({.id = value_of<int32_t>(token.at("id")),
                              .bytes = token.contains("bytes")
                                           ? bytes_from(value_of<std::vector<int>>(token.at("bytes")))
                                           : token.at("text").get<std::string>()});
    out.push_back(std::move(texts));
  }
  return out;
}

std::vector<TimelinePoint> timeline_from_json(const json& object) {
  std::vector<TimelinePoint> out;
  if (!object.is_object()) return out;
  for (size_t i = 0; i < object.at("time_ms").size(); ++i)
    out.push_back({.time_ms = object.at("time_ms").at(i).get<double>(),
                   .requests = value_of<int>(object.at("requests").at(i)),
                   .kv_blocks = value_of<int>(object.at("kv_blocks").at(i)),
                   .output_tokens = value_of<int64_t>(object.at("output_tokens").at(i)),
                   .bubble_ms = object.at("bubble_ms").at(i).get<double>()});
  return out;
}

WorkloadFacts workload_from_json(const json& object) {
  return {.format = get<std::string>(object, "format"),
          .prompts = get<int64_t>(object, "prompts"),
          .filtered = get<int64_t>(object, "filtered"),
          .bad_records = get<int64_t>(object, "bad_records"),
          .first_bad = get<std::string>(object, "first_bad_record")};
}

void read_cell_plan(const json& object, CellResult& cell) {
  cell.index = value_of<int>(object.at("index"));
  cell.id = object.at("id").get<std::string>();
  cell.identity = object.at("identity").get<std::string>();
  const json& axes = object.at("axes");
  cell.axes = {.tp = value_of<int>(axes.at("tp")),
               .pp = value_of<int>(axes.at("pp")),
               .proposer = axes.at("proposer").get<std::string>(),
               .num_speculative_tokens = {},
               .concurrency = value_of<int>(axes.at("concurrency")),
               .variant = get<std::string>(axes, "variant")};
  if (const json& k = axes.at("num_speculative_tokens"); !k.is_null())
    cell.axes.num_speculative_tokens = value_of<int>(k);
  cell.model = get<std::string>(object, "model");
  cell.baseline_id = get<std::string>(object, "baseline_id");
  cell.published.reset();
  if (const json& published = part(object, "published"); !published.empty())
    cell.published = {.over = get<std::string>(published, "over"),
                      .speedup = get<double>(published, "speedup"),
                      .source = get<std::string>(published, "source", "")};
  cell.load = get<std::string>(object, "load", "closed");
  cell.forecast.reset();
  if (const json& forecast = part(object, "forecast"); !forecast.empty())
    cell.forecast = {.target_bytes = get<double>(forecast, "target_bytes"),
                     .draft_bytes = get<double>(forecast, "draft_bytes"),
                     .read_bytes_s = get<double>(forecast, "read_bytes_s"),
                     .step_ms = get<double>(forecast, "step_ms")};
  cell.requested = object.at("requested");
  cell.forced = get<bool>(object, "forced");
  cell.random_weights = get<bool>(object, "random_weights");
}

void read_cell_load(const json& object, CellResult& cell) {
  cell.effective = object.at("effective");
  cell.oversubscribed = get<bool>(object, "oversubscribed");
  cell.load_s = get<double>(object, "load_s");
  const json& memory = part(object, "memory");
  cell.memory = {.weights_bytes = get<int64_t>(memory, "weights_bytes"),
                 .kv_bytes = get<int64_t>(memory, "kv_bytes"),
                 .workspace_bytes = get<int64_t>(memory, "workspace_bytes"),
                 .rss_peak_bytes = get<int64_t>(memory, "rss_peak_bytes")};
  const json& ceilings = part(object, "ceilings");
  cell.ceilings = {.read_bytes_s = number(ceilings, "read_bytes_s"),
                   .draft_read_bytes_s = number(ceilings, "draft_read_bytes_s"),
                   .copy_bytes_s = number(ceilings, "copy_bytes_s"),
                   .matrix_flops_s = number(ceilings, "matrix_flops_s"),
                   .matrix = get<std::string>(ceilings, "matrix"),
                   .link_bytes_s = number(ceilings, "link_bytes_s")};
}

std::vector<LogitCheck> logit_checks_from_json(const json& list) {
  // A noise that is not finite is written as null: it explains nothing, so it must not come back as 0.
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  std::vector<LogitCheck> out;
  for (const json& check : list)
    out.push_back({.dataset_index = value_of<int64_t>(check.at("dataset_index")),
                   .request = check.at("id").get<std::string>(),
                   .position = value_of<int64_t>(check.at("position")),
                   .token = get<int32_t>(check, "token", -1),
                   .reference_token = get<int32_t>(check, "reference_token", -1),
                   .gap = number(check, "gap"),
                   .noise = get<double>(check, "noise", kUnknown),
                   .largest = get<double>(check, "largest", kUnknown)});
  return out;
}

}  // namespace paceline
