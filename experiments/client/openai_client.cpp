#include "experiments/client/openai_client.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "engine/util/json_io.h"
#include "engine/util/printable.h"

namespace paceline {
namespace {

using Json = nlohmann::json;

constexpr size_t kMostErrorBytes = size_t{64} << 10;

constexpr std::array<std::string_view, 16> kFaultNames = {"connection_refused",
                                                          "connection_failed",
                                                          "connection_reset",
                                                          "stalled",
                                                          "too_many_requests",
                                                          "server_error",
                                                          "request_refused",
                                                          "bad_http",
                                                          "wrong_content_type",
                                                          "not_json",
                                                          "bad_answer",
                                                          "half_event",
                                                          "no_done",
                                                          "no_finish_reason",
                                                          "no_usage",
                                                          "contradicting_usage"};

constexpr std::array<std::string_view, 4> kSourceNames = {"none", "response", "timings", "metrics"};

/// The member where it is there and no null.
const Json* member(const Json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::optional<int64_t> count_of(const Json& object, const char* name) {
  const Json* const value = member(object, name);
  return value ? integer_of<int64_t>(*value, 0) : std::nullopt;
}

/// Nothing, and the reason in `why`: it is not JSON, or not such as anybody should read.
std::optional<Json> json_of(std::string_view text, std::string& why) {
  try {
    return parse_json(text, "the answer", ExitCode::device);
  } catch (const Error& error) {
    why = error.what();
    return std::nullopt;
  }
}

/// What an error body says: {"error": {"message": …}}, {"error": …}, {"message": …}, or its text.
std::string error_text(std::string_view body) {
  std::string why;
  const Json json = json_of(body, why).value_or(Json());
  const Json* const error = member(json, "error");
  const Json* message = member(error ? *error : json, "message");
  if (!message) message = error;
  return user_text(message ? bare_text(*message) : std::string(body));
}

std::optional<SpeculationStats> vllm_stats(const Json& object) {
  const Json* const metrics = member(object, "metrics");
  const Json* const stats = metrics ? member(*metrics, "speculative_decoding") : nullptr;
  if (!stats) return std::nullopt;
  SpeculationStats out{.steps = count_of(*stats, "num_spec_steps").value_or(0),
                       .drafted = count_of(*stats, "num_draft_tokens").value_or(0),
                       .accepted = count_of(*stats, "num_accepted_draft_tokens").value_or(0)};
  const Json* const histogram = member(*stats, "acceptance_histogram");
  if (!histogram || !histogram->is_array()) return out;
  for (const Json& steps : *histogram) out.steps_by_accepted.push_back(integer_of<int64_t>(steps, 0).value_or(0));
  return out;
}

std::optional<SpeculationStats> llama_stats(const Json& object) {
  const Json* const timings = member(object, "timings");
  if (!timings || !count_of(*timings, "draft_n")) return std::nullopt;
  return SpeculationStats{.drafted = *count_of(*timings, "draft_n"),
                          .accepted = count_of(*timings, "draft_n_accepted").value_or(0)};
}

/// What is wrong with stated statistics; empty: nothing.
std::string contradiction_in(const SpeculationStats& stats) {
  if (stats.accepted > stats.drafted) return fmt::format("{} drafts accepted of {}", stats.accepted, stats.drafted);
  if (stats.steps_by_accepted.empty()) return "";
  int64_t steps = 0, accepted = 0;
  for (size_t j = 0; j < stats.steps_by_accepted.size(); ++j) {
    steps += stats.steps_by_accepted[j];
    accepted += stats.steps_by_accepted[j] * int64_t(j);
  }
  if (steps == stats.steps && accepted == stats.accepted) return "";
  return fmt::format("acceptance_histogram has {} steps that accepted {}, the counts say {} and {}", steps, accepted,
                     stats.steps, stats.accepted);
}

}  // namespace

std::string_view name_of(RequestFault fault) { return kFaultNames[size_t(fault)]; }
std::string_view name_of(SpeculationSource source) { return kSourceNames[size_t(source)]; }

std::string failure_text(const RequestFailure& failure) {
  return failure.detail.empty() ? std::string(name_of(failure.fault))
                                : fmt::format("{}: {}", name_of(failure.fault), failure.detail);
}

SpeculationStats& SpeculationStats::operator+=(const SpeculationStats& more) {
  steps += more.steps;
  drafted += more.drafted;
  accepted += more.accepted;
  steps_by_accepted.resize(std::max(steps_by_accepted.size(), more.steps_by_accepted.size()));
  for (size_t j = 0; j < more.steps_by_accepted.size(); ++j) steps_by_accepted[j] += more.steps_by_accepted[j];
  return *this;
}

OpenAiRequest make_request(const Prompt& prompt, const SamplingParams& params, const RequestOptions& options) {
  nlohmann::ordered_json body = {{"model", options.model}};
  const bool as_chat = options.as_chat && prompt.is_chat();
  if (as_chat) {
    nlohmann::ordered_json& messages = body["messages"] = nlohmann::ordered_json::array();
    for (const PromptMessage& message : prompt.messages)
      messages.push_back({{"role", message.role}, {"content", message.content}});
  } else {
    body["prompt"] = prompt.plain_text();
  }
  body["max_tokens"] = params.max_tokens;
  body["temperature"] = double(params.sampler.temperature);
  body["top_p"] = double(params.sampler.top_p);
  if (params.sampler.top_k > 0) body["top_k"] = params.sampler.top_k;
  if (params.sampler.min_p > 0) body["min_p"] = double(params.sampler.min_p);
  body["seed"] = params.sampler.seed;
  if (params.ignore_eos) body["ignore_eos"] = true;
  if (!params.stop_token_ids.empty()) body["stop_token_ids"] = params.stop_token_ids;
  body["return_token_ids"] = true;
  body["stream"] = options.delivery == Delivery::streamed;
  if (options.delivery == Delivery::streamed)
    body["stream_options"] = {{"include_usage", true}, {"continuous_usage_stats", true}};
  if (options.further.is_object()) {
    for (const auto& [name, value] : options.further.items()) {
      if (value.is_null())
        body.erase(name);
      else
        body[name] = value;
    }
  }
  return {.path = as_chat ? "/v1/chat/completions" : "/v1/completions",
          .body = body.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)};
}

std::string request_bytes(const ServerUrl& url, const OpenAiRequest& request, std::string_view api_key) {
  return fmt::format(
      "POST {}{} HTTP/1.1\r\nHost: {}\r\nUser-Agent: paceline\r\nContent-Type: application/json\r\nAccept: "
      "*/*\r\n{}Content-Length: {}\r\n\r\n{}",
      url.base, request.path, url.authority(),
      api_key.empty() ? std::string() : fmt::format("Authorization: Bearer {}\r\n", api_key), request.body.size(),
      request.body);
}

AnswerReader::AnswerReader(Delivery delivery, bool as_chat, int max_tokens)
    : delivery_(delivery), as_chat_(as_chat), max_tokens_(max_tokens) {}

void AnswerReader::fail(RequestFault fault, std::string detail) {
  if (is_done_) return;
  answer_.failure = RequestFailure{fault, std::move(detail)};
  is_done_ = true;
}

bool AnswerReader::keeps_alive() const {
  return !answer_.failure && http_.state() == HttpResponseReader::State::complete && http_.keeps_alive();
}

void AnswerReader::check_header() {
  is_header_checked_ = true;
  is_error_ = http_.status() != 200;
  if (is_error_) return;  // its text follows
  const std::string* const type = http_.field("content-type");
  const std::string_view wanted = delivery_ == Delivery::streamed ? "text/event-stream" : "application/json";
  if (!type || !type->starts_with(wanted))
    fail(RequestFault::wrong_content_type,
         fmt::format("found {}, expected {}", type ? json_literal(*type) : "none", wanted));
}

void AnswerReader::feed(std::string_view bytes, double now_ms) {
  if (is_done_ || bytes.empty()) return;
  has_begun_ = true;
  const auto on_body = [&](std::string_view piece) {
    if (!is_header_checked_) check_header();
    if (is_done_) return;
    if (is_error_) {
      body_ += piece.substr(0, kMostErrorBytes - std::min(kMostErrorBytes, body_.size()));
    } else if (delivery_ == Delivery::whole) {
      body_ += piece;
    } else if (!events_.feed(piece, [&](std::string_view data) { read_event(data, now_ms); })) {
      fail(RequestFault::bad_answer, "an event that is too long");
    }
  };
  http_.feed(bytes, on_body);
  if (is_done_) return;
  if (http_.state() == HttpResponseReader::State::refused) return fail(RequestFault::bad_http, http_.refusal());
  if (http_.state() != HttpResponseReader::State::header && !is_header_checked_) check_header();
  if (!is_done_ && http_.state() == HttpResponseReader::State::complete) end_of_body(now_ms);
}

void AnswerReader::end_of_connection(double now_ms) {
  if (is_done_) return;
  const bool was_in_events = is_header_checked_ && !is_error_ && delivery_ == Delivery::streamed;
  http_.end();
  if (http_.state() == HttpResponseReader::State::complete) return end_of_body(now_ms);
  if (was_in_events && events_.has_half_event()) return fail(RequestFault::half_event, http_.refusal());
  fail(RequestFault::connection_reset,
       has_begun_ ? http_.refusal() : "the server ended the connection without an answer");
}

void AnswerReader::refuse_status() {
  const int status = http_.status();
  const RequestFault fault = status == 429   ? RequestFault::too_many_requests
                             : status >= 500 ? RequestFault::server_error
                                             : RequestFault::request_refused;
  fail(fault, fmt::format("{} {}: {}", status, http_reason(status), error_text(body_)));
}

void AnswerReader::end_of_body(double now_ms) {
  if (is_error_) return refuse_status();
  if (delivery_ == Delivery::whole) {
    std::string why;
    const std::optional<Json> object = json_of(body_, why);
    if (!object) return fail(RequestFault::not_json, why);
    read_object(*object, now_ms);
    if (is_done_) return;
  } else if (events_.has_half_event()) {
    return fail(RequestFault::half_event, "the stream ended within an event");
  } else if (!was_done_told_) {
    return fail(RequestFault::no_done, "the stream ended without [DONE]");
  }
  check_counts();
  is_done_ = true;
}

void AnswerReader::read_event(std::string_view data, double now_ms) {
  if (is_done_) return;
  if (was_done_told_) return fail(RequestFault::bad_answer, "an event behind [DONE]");
  if (data == "[DONE]") {
    was_done_told_ = true;
    return;
  }
  std::string why;
  const std::optional<Json> object = json_of(data, why);
  if (!object) return fail(RequestFault::not_json, why);
  read_object(*object, now_ms);
}

void AnswerReader::read_object(const Json& object, double now_ms) {
  if (!object.is_object()) return fail(RequestFault::bad_answer, "no object: " + short_dump(object));
  if (const Json* const error = member(object, "error"))
    return fail(RequestFault::bad_answer,
                "an error in the answer: " + error_text(object.dump(-1, ' ', true, Json::error_handler_t::replace)));
  if (const Json* const usage = member(object, "usage")) {
    if (const auto prompt = count_of(*usage, "prompt_tokens")) answer_.prompt_tokens = prompt;
    const auto completion = count_of(*usage, "completion_tokens");
    if (!completion) return fail(RequestFault::contradicting_usage, "usage without a count of completion_tokens");
    if (completion < answer_.completion_tokens)
      return fail(RequestFault::contradicting_usage,
                  fmt::format("usage fell from {} to {} tokens", *answer_.completion_tokens, *completion));
    answer_.completion_tokens = completion;
  }
  read_statistics(object);
  const Json* const choices = member(object, "choices");
  if (!choices || !choices->is_array())
    return fail(RequestFault::bad_answer, "no \"choices\" in " + short_dump(object));
  if (choices->size() > 1)
    return fail(RequestFault::bad_answer, fmt::format("{} choices, one was asked for", choices->size()));
  if (!choices->empty()) read_choice(choices->front(), now_ms);
}

void AnswerReader::read_choice(const Json& choice, double now_ms) {
  if (!choice.is_object()) return fail(RequestFault::bad_answer, "a choice that is no object");
  const Json* const holder =
      !as_chat_ ? &choice : member(choice, delivery_ == Delivery::streamed ? "delta" : "message");
  std::string text;
  for (const char* const name : {"reasoning_content", "reasoning", "content", "text"}) {
    if (!holder || (std::string_view(name) == "text") == as_chat_) continue;
    const Json* const piece = member(*holder, name);
    if (piece && !piece->is_string()) return fail(RequestFault::bad_answer, fmt::format("\"{}\" is no string", name));
    if (piece) text += piece->get_ref<const std::string&>();
  }
  std::vector<int32_t> ids;
  if (const Json* const list = member(choice, "token_ids")) {
    if (!list->is_array()) return fail(RequestFault::bad_answer, "\"token_ids\" is no list");
    for (const Json& id : *list) {
      const auto number = integer_of<int32_t>(id, 0);
      if (!number) return fail(RequestFault::bad_answer, "\"token_ids\" holds " + short_dump(id));
      ids.push_back(*number);
    }
  }
  if (const Json* const reason = member(choice, "finish_reason"); reason && reason->is_string()) {
    answer_.finish_reason = reason->get<std::string>();
    finished_ms_ = now_ms;
  }
  // Usage so far, where it comes with every event, tells how many tokens this one brought.
  std::optional<int64_t> tokens;
  if (!ids.empty())
    tokens = int64_t(ids.size());
  else if (answer_.completion_tokens)
    tokens = *answer_.completion_tokens - counted_;
  if (text.empty() && tokens.value_or(0) == 0) return;
  if (!text.empty()) {
    ++events_with_text_;
    if (!answer_.first_text_ms && delivery_ == Delivery::streamed) answer_.first_text_ms = now_ms;
  }
  counted_ += tokens.value_or(0);
  answer_.text += text;
  answer_.token_ids.insert(answer_.token_ids.end(), ids.begin(), ids.end());
  answer_.events.push_back({.at_ms = now_ms, .tokens = tokens});
  answer_.last_ms = now_ms;
}

void AnswerReader::read_statistics(const Json& object) {
  std::optional<SpeculationStats> stats = vllm_stats(object);
  SpeculationSource source = SpeculationSource::response;
  if (!stats) {
    stats = llama_stats(object);
    source = SpeculationSource::timings;
  }
  if (!stats) return;
  if (const std::string wrong = contradiction_in(*stats); !wrong.empty())
    return fail(RequestFault::contradicting_usage, wrong);
  answer_.speculation = std::move(stats);
  answer_.speculation_source = source;
}

/// What was counted against what was said, once the answer is whole.
void AnswerReader::check_counts() {
  ServedAnswer& a = answer_;
  const auto contradicts = [&](std::string how) { fail(RequestFault::contradicting_usage, std::move(how)); };
  if (a.finish_reason.empty()) return fail(RequestFault::no_finish_reason, "the answer ended without one");
  if (a.finish_reason != "stop" && a.finish_reason != "length")
    return fail(RequestFault::bad_answer, "finish_reason is " + json_literal(a.finish_reason));
  const auto num_ids = int64_t(a.token_ids.size());
  if (!a.completion_tokens && num_ids == 0)
    return fail(RequestFault::no_usage, "neither usage nor token_ids: its tokens cannot be counted");
  if (a.completion_tokens && num_ids > 0 && *a.completion_tokens != num_ids)
    return contradicts(fmt::format("usage says {} tokens, {} ids came", *a.completion_tokens, num_ids));
  const int64_t tokens = a.num_tokens();
  if (tokens == 0) return contradicts(fmt::format("no token, and {} bytes of text", a.text.size()));
  if (tokens > max_tokens_)
    return contradicts(fmt::format("{} tokens, {} were asked for at most", tokens, max_tokens_));
  if (tokens < events_with_text_)
    return contradicts(fmt::format("{} tokens, and {} events with text", tokens, events_with_text_));
  if (num_ids == 0 && counted_ > 0 && counted_ < tokens) {  // usage with some events, or behind the last one
    for (AnswerEvent& event : a.events) event.tokens.reset();
  }
  if (delivery_ == Delivery::streamed && !a.first_text_ms) a.first_text_ms = finished_ms_;
  if (a.events.empty()) a.events.push_back({.at_ms = *finished_ms_, .tokens = tokens});
  a.last_ms = std::max(a.events.back().at_ms, a.first_text_ms.value_or(0));
  if (a.events.size() == 1) a.events.front().tokens = tokens;
}

}  // namespace paceline
