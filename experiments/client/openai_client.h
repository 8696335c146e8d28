#pragma once
// One request to a server that speaks OpenAI's API, and what its answer says: bodies of requests out of prompts, and
// bytes to a ServedAnswer, streamed or whole. No sockets, no clock: the caller says when bytes came.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/sampling.h"
#include "experiments/client/http_response_reader.h"
#include "experiments/client/sse_reader.h"
#include "experiments/config/server_url.h"
#include "experiments/workload/dataset.h"

namespace paceline {

/// How a request can fail. It is then a failed request with this name, never a number.
enum class RequestFault : uint8_t {
  connection_refused,
  connection_failed,  // no such host, no route
  connection_reset,   // or ended before the answer was whole
  stalled,            // not a byte for as long as the client waits
  too_many_requests,  // 429
  server_error,       // 5xx
  request_refused,    // another status than 200
  bad_http,           // no HTTP/1.1, or more than a client holds
  wrong_content_type,
  not_json,
  bad_answer,  // JSON of another form, or an error in place of an event
  half_event,  // the stream ended within an event
  no_done,     // it ended without [DONE]
  no_finish_reason,
  no_usage,             // neither usage nor ids: its tokens cannot be counted
  contradicting_usage,  // usage against ids, text or what was asked for
};
/// "connection_reset"
std::string_view name_of(RequestFault fault);

struct RequestFailure {
  RequestFault fault = RequestFault::bad_answer;
  std::string detail;  // one line; perhaps empty
};
/// "contradicting_usage: usage says 4 tokens, 5 ids came"
std::string failure_text(const RequestFailure& failure);

/// What a server states about the drafts of one request, or of all of them.
struct SpeculationStats {
  int64_t steps = 0;  // verify steps with drafts; 0: not stated
  int64_t drafted = 0, accepted = 0;
  std::vector<int64_t> steps_by_accepted = {};  // [j]: steps that accepted j drafts; empty: not stated

  SpeculationStats& operator+=(const SpeculationStats& more);
};

/// Where SpeculationStats come from.
enum class SpeculationSource : uint8_t {
  none,      // nothing is stated
  response,  // vLLM's object `metrics.speculative_decoding` in the answer
  timings,   // llama.cpp's `timings.draft_n`
  metrics,   // the difference of counters of /metrics
};
std::string_view name_of(SpeculationSource source);

/// A moment at which text or tokens came. Times as given to AnswerReader.
struct AnswerEvent {
  double at_ms = 0;
  std::optional<int64_t> tokens;  // none: the server does not say how many
};

struct ServedAnswer {
  std::optional<RequestFailure> failure;                    // what follows is then what came before it
  std::string text;                                         // reasoning first, where the server tells it apart
  std::vector<int32_t> token_ids;                           // empty: the server gives none
  std::optional<int64_t> prompt_tokens, completion_tokens;  // of usage
  std::string finish_reason;                                // "stop", "length"
  std::optional<SpeculationStats> speculation;
  SpeculationSource speculation_source = SpeculationSource::none;
  std::vector<AnswerEvent> events;
  std::optional<double> first_text_ms;  // streamed: the first event with text, not headers and not a role
  double last_ms = 0;                   // of the last event

  /// By ids, else by usage.
  int64_t num_tokens() const { return token_ids.empty() ? completion_tokens.value_or(0) : int64_t(token_ids.size()); }
};

enum class Delivery : uint8_t { streamed, whole };

/// What a client puts into each of its requests.
struct RequestOptions {
  std::string model;
  Delivery delivery = Delivery::streamed;
  bool as_chat = true;     // chat prompts go to /v1/chat/completions; else their plain text to /v1/completions
  nlohmann::json further;  // an object laid over the request: more fields; null takes one away
};

struct OpenAiRequest {
  std::string path;  // "/v1/chat/completions"
  std::string body;
};

OpenAiRequest make_request(const Prompt& prompt, const SamplingParams& params, const RequestOptions& options);

/// The whole request as bytes. api_key: empty for none.
std::string request_bytes(const ServerUrl& url, const OpenAiRequest& request, std::string_view api_key);

/// Reads the answer to one request.
class AnswerReader {
 public:
  /// max_tokens: what the request asked for at most.
  AnswerReader(Delivery delivery, bool as_chat, int max_tokens);

  /// Bytes that came at `now_ms`. They are dropped once done().
  void feed(std::string_view bytes, double now_ms);
  /// The server ended the connection.
  void end_of_connection(double now_ms);
  /// What the socket or the clock says.
  void fail(RequestFault fault, std::string detail);

  bool done() const { return is_done_; }
  /// The connection can carry another request. REQUIRES: done.
  bool keeps_alive() const;
  /// Bytes of an answer came.
  bool has_begun() const { return has_begun_; }
  /// REQUIRES: done.
  ServedAnswer take() { return std::move(answer_); }

 private:
  void check_header();
  void read_event(std::string_view data, double now_ms);
  void read_object(const nlohmann::json& object, double now_ms);
  void read_choice(const nlohmann::json& choice, double now_ms);
  void read_statistics(const nlohmann::json& object);
  void end_of_body(double now_ms);
  void refuse_status();
  void check_counts();

  Delivery delivery_;
  bool as_chat_;
  int max_tokens_;
  HttpResponseReader http_;
  SseReader events_;
  std::string body_;  // of a whole answer, or of one with another status
  ServedAnswer answer_;
  bool is_header_checked_ = false, is_error_ = false, is_done_ = false, has_begun_ = false, was_done_told_ = false;
  int64_t events_with_text_ = 0, counted_ = 0;  // counted_: by continuous usage
  std::optional<double> finished_ms_;
};

}  // namespace paceline
