#include "experiments/run/host/served_repetition.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "engine/serve/http_message.h"
#include "experiments/analysis/statistics/statistics.h"
#include "experiments/client/http_call.h"
#include "experiments/client/load_driver.h"
#include "experiments/client/server_metrics.h"
#include "experiments/run/measure/measure_devices.h"
#include "experiments/workload/request_sampling.h"

namespace paceline {
namespace {

constexpr double kMetricsTimeout_s = 10;

std::vector<DrivenRequest> driven_requests(const ExperimentConfig& cell, std::span<const Prompt> prompts,
                                           const ServedPass& pass) {
  const RequestOptions options{.model = pass.model,
                               .delivery = cell.server.stream ? Delivery::streamed : Delivery::whole,
                               .as_chat = cell.workload.chat_template,
                               .further = nlohmann::json(cell.server.request)};
  const SamplingParams of_cell = sampling_of_repetition(cell.sampling, pass.repetition, prompts.size());
  std::vector<DrivenRequest> requests;
  for (size_t i = 0; i < prompts.size(); ++i) {
    const std::optional<int> trace_limit = pass.arrivals.empty() ? std::nullopt : pass.arrivals[i].max_tokens;
    const SamplingParams params = sampling_of_prompt(of_cell, i, prompts[i].max_tokens, trace_limit);
    requests.push_back({.bytes = request_bytes(pass.url, make_request(prompts[i], params, options), pass.api_key),
                        .as_chat = options.as_chat && prompts[i].is_chat(),
                        .max_tokens = params.max_tokens,
                        .send_at_s = pass.arrivals.empty() ? 0 : pass.arrivals[i].t_s});
  }
  return requests;
}

RequestRecord record_of(const Prompt& prompt, DrivenAnswer& driven, bool is_open_loop, bool keeps_text) {
  ServedAnswer& answer = driven.answer;
  RequestRecord record{
      .id = prompt.id,
      .dataset_index = prompt.index,
      .category = prompt.category,
      .prompt_tokens = int(std::min<int64_t>(answer.prompt_tokens.value_or(0), std::numeric_limits<int>::max())),
      .output = std::move(answer.token_ids),
      .e2e_ms = answer.last_ms - driven.intended_ms,
      .finish_reason = answer.finish_reason};
  if (answer.first_text_ms) record.ttft_ms = *answer.first_text_ms - driven.intended_ms;
  if (is_open_loop) {
    record.arrival_ms = driven.intended_ms;
    record.send_delay_ms = driven.sent_ms - driven.intended_ms;
  }
  if (record.output.empty()) record.stated_tokens = answer.completion_tokens;
  if (keeps_text) record.text = std::move(answer.text);
  bool is_told = true;
  int64_t tokens = 0;
  for (size_t i = 0; i < answer.events.size(); ++i) {
    const AnswerEvent& event = answer.events[i];
    if (i > 0) record.itl_ms.push_back(event.at_ms - answer.events[i - 1].at_ms);
    is_told = is_told && event.tokens;
    record.tokens_per_emission.push_back(int(event.tokens.value_or(0)));
    tokens += event.tokens.value_or(0);
  }
  if (!is_told || tokens != record.num_tokens()) record.tokens_per_emission.clear();
  std::span<const int32_t> text(record.output);
  if (record.finish_reason == "stop" && !text.empty()) text = text.first(text.size() - 1);
  record.degenerate = is_degenerate(text);
  return record;
}

/// As the answers state it, where all of them do.
std::pair<SpeculationSource, SpeculationStats> stated_by(std::span<const DrivenAnswer> answers) {
  SpeculationStats sum;
  SpeculationSource source = SpeculationSource::none;
  for (const DrivenAnswer& one : answers) {
    if (!one.answer.speculation) return {SpeculationSource::none, {}};
    if (source != SpeculationSource::none && source != one.answer.speculation_source)
      return {SpeculationSource::none, {}};
    source = one.answer.speculation_source;
    sum += *one.answer.speculation;
  }
  return {source, sum};
}

/// Verify steps are a server's own; those with drafts are what it states.
RunCounters counters_of(const SpeculationStats& stats) {
  RunCounters out{.drafts = stats.steps, .drafted = stats.drafted, .accepted = stats.accepted};
  int64_t more = stats.steps;
  for (size_t j = 0; j + 1 < stats.steps_by_accepted.size(); ++j) {
    more -= stats.steps_by_accepted[j];
    out.accepted_by_position.push_back(more);
  }
  return out;
}

std::optional<DraftCounters> counters_now(const ServedPass& pass) {
  const HttpCallResult answer = http_call(pass.url, "GET", "/metrics", kMetricsTimeout_s, pass.api_key);
  return answer.is_ok() ? draft_counters(answer.body) : std::nullopt;
}

MachineCounters machine_now(const ServedPass& pass) {
  MachineCounters now = read_machine_counters();
  if (pass.server_cpu_s) now.own_cpu_s += pass.server_cpu_s();
  return now;
}

double late_p99_ms(const DriveResult& driven) {
  return std::max(quantile(driven.send_late_ms, 0.99).value_or(0), quantile(driven.read_late_ms, 0.99).value_or(0));
}

ProgressUpdate progress_of(std::span<const DrivenAnswer> answers, double now_ms) {
  int64_t over = 0, tokens = 0;
  std::vector<double> ttft_ms;
  for (const DrivenAnswer& one : answers) {
    if (!one.is_over) continue;
    ++over;
    tokens += one.answer.num_tokens();
    if (one.answer.first_text_ms) ttft_ms.push_back(*one.answer.first_text_ms - one.intended_ms);
  }
  const double tok_s = now_ms > 0 ? double(tokens) * 1e3 / now_ms : 0;
  return {.fraction = double(over) / double(answers.size()),
          .tok_s = tok_s,
          .recent_tok_s = tok_s,
          .acceptance_length = {},
          .ttft_ms = quantile(ttft_ms, 0.5),
          .kv_share = {}};
}

void fail_with_requests(std::span<const DrivenAnswer> answers, std::span<const Prompt> prompts,
                        const ServedPass& pass) {
  size_t failed = 0;
  std::string first;
  for (size_t i = 0; i < answers.size(); ++i) {
    if (!answers[i].answer.failure) continue;
    const std::string line = fmt::format("request {}: {}", prompts[i].id, failure_text(*answers[i].answer.failure));
    if (pass.on_failure) pass.on_failure(line);
    if (failed++ == 0) first = line;
  }
  if (failed > 0)
    fail(ExitCode::device, "{} of {} requests to {} failed: {}", failed, answers.size(), pass.url.text(), first);
}

}  // namespace

RepetitionResult served_repetition(const ExperimentConfig& cell, std::span<const Prompt> prompts,
                                   const ServedPass& pass, const std::string& prefix_cache) {
  RepetitionResult result;
  if (prompts.empty()) return result;
  const bool is_open_loop = !pass.arrivals.empty();
  PACELINE_CHECK(!is_open_loop || pass.arrivals.size() >= prompts.size(), "{} arrivals for {} prompts",
                 pass.arrivals.size(), prompts.size());
  const std::vector<DrivenRequest> requests = driven_requests(cell, prompts, pass);
  const std::optional<DraftCounters> before = counters_now(pass);
  const MachineCounters machine_before = machine_now(pass);
  DriveOptions options{.url = pass.url,
                       .delivery = cell.server.stream ? Delivery::streamed : Delivery::whole,
                       .order = is_open_loop ? SendOrder::open : SendOrder::closed,
                       .concurrency = cell.load.mode == LoadMode::closed ? size_t(cell.load.concurrency) : 0,
                       .stall_timeout_s = cell.server.stall_timeout_s,
                       .timeout_s = cell.sweep.cell_timeout_s,
                       .stop_now = pass.stop_now};
  if (pass.on_progress)
    options.on_progress = [&](std::span<const DrivenAnswer> so_far, double now_ms) {
      pass.on_progress(progress_of(so_far, now_ms));
    };
  DriveResult driven = drive(requests, options);
  result.disturbance = disturbance_between(machine_before, machine_now(pass));
  // Nobody knows which of the other processes here is the server.
  if (!pass.server_cpu_s && is_loopback(pass.url.host)) result.disturbance->foreign_cpu_s.reset();
  fail_with_requests(driven.answers, prompts, pass);

  auto [source, stats] = stated_by(driven.answers);
  if (source == SpeculationSource::none && before) {
    const std::optional<DraftCounters> after = counters_now(pass);
    const std::optional<SpeculationStats> between = after ? stats_between(*before, *after) : std::nullopt;
    if (between && between->drafted > 0) {
      source = SpeculationSource::metrics;
      stats = *between;
    }
  }
  result.counters = counters_of(stats);
  result.idle_s = driven.idle_s;
  result.client = ClientRecord{.late_p99_ms = late_p99_ms(driven),
                               .sent_again = driven.sent_again,
                               .streamed = cell.server.stream,
                               .prefix_cache = prefix_cache,
                               .acceptance_from = std::string(name_of(source))};
  double last_ms = 0;
  for (size_t i = 0; i < prompts.size(); ++i) {
    last_ms = std::max(last_ms, driven.answers[i].answer.last_ms);
    result.requests.push_back(record_of(prompts[i], driven.answers[i], is_open_loop, cell.is_foreign()));
  }
  result.wall_s = last_ms / 1e3;
  std::sort(result.requests.begin(), result.requests.end(), [](const RequestRecord& a, const RequestRecord& b) {
    return std::pair(a.dataset_index, a.id) < std::pair(b.dataset_index, b.id);
  });
  return result;
}

}  // namespace paceline
