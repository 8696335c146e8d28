#pragma once
// An engine behind OpenAI's HTTP API, and vLLM's additions to it (docs/serving.md).
//
//   clients ⇄ HTTP thread ──body──▶ text thread ──ids──▶ HTTP thread ──submit, cancel──▶ engine's thread
//                 ▲                                                                          │ once a step
//                 └───────────────────── what the step has made final ◀─────────────────────┘
//
// The HTTP thread owns connections, open answers and counters; the text thread parses bodies, renders templates and
// encodes, and compiles forms; the engine's thread waits for neither. A short body without a form does not go to the
// text thread while few requests are open.

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <unordered_map>
#include <variant>
#include <vector>

#include "engine/engine_loop.h"
#include "engine/serve/access.h"
#include "engine/serve/answer.h"
#include "engine/serve/http_server.h"
#include "engine/serve/job_thread.h"
#include "engine/serve/prepare.h"
#include "engine/serve/server_metrics.h"

namespace paceline {

struct OpenAiServerOptions {
  HttpServerOptions http;
  AccessRules access;
  SpeculationReport speculation = SpeculationReport::summary;
  std::optional<uint64_t> seed = {};  // of requests without one: the same requests in order, the same draws
  std::string version;                // what /version says
};

class OpenAiServer {
 public:
  /// Binds, then makes the engine, then serves on threads of its own. Throws what HttpServer and `make` throw.
  OpenAiServer(OpenAiServerOptions options, ServedModel model, EngineLoop::MakeEngine make);
  /// Ends everything at once.
  ~OpenAiServer();
  OpenAiServer(const OpenAiServer&) = delete;
  OpenAiServer& operator=(const OpenAiServer&) = delete;

  // From any thread.

  const std::string& address() const { return http_.address(); }
  /// Takes no new requests; those that are open go on. /health then says 503.
  void drain();
  /// Requests that have not ended.
  int64_t num_open() const { return num_open_.load(std::memory_order_relaxed); }
  /// Connections that have not ended: of a draining server those whose last bytes are on their way.
  int64_t num_connections();
  /// Ends each open request with an error event, or status 503, that says `why`; those too that come or are still on
  /// the text thread.
  void end_open(const std::string& why);
  /// Why the engine failed; its requests have ended by then, or end now.
  std::optional<Error> failure() const { return loop_->failure(); }

 private:
  struct OpenRequest {
    std::unique_ptr<Answer> answer;
    std::vector<RequestId> choices;              // the engine's names; 0: has ended
    std::vector<Clock::time_point> last_tokens;  // of each choice; before the first its arrival
    std::vector<bool> has_tokens;
  };
  struct ChoiceOf {
    std::shared_ptr<OpenRequest> request;
    int index = 0;
  };

  using Prepared = std::variant<PreparedRequest, HttpReply>;  // or why not

  /// All but a form. On the HTTP or the text thread.
  Prepared prepare(ApiKind kind, std::string_view body) const;
  /// On the text thread.
  void prepare_form_and_answer(Prepared prepared, const std::shared_ptr<HttpExchange>& exchange);

  // On the HTTP thread.
  void handle(HttpRequest request, std::shared_ptr<HttpExchange> exchange);
  void generate(ApiKind kind, HttpRequest request, std::shared_ptr<HttpExchange> exchange);
  void answer(Prepared prepared, const std::shared_ptr<HttpExchange>& exchange);
  void admit(PreparedRequest prepared, const std::shared_ptr<HttpExchange>& exchange);
  void deliver();
  void take(const ChoiceOf& choice, const Emitted& emitted);
  void cancel_rest(OpenRequest& request);
  void end_if_over(const std::shared_ptr<OpenRequest>& request);
  void tell_health(HttpExchange& exchange);
  nlohmann::ordered_json model_card(const std::string& name) const;
  void tell_models(HttpExchange& exchange);
  void tell_model(const std::string& name, HttpExchange& exchange);
  void tell_metrics(std::shared_ptr<HttpExchange> exchange);
  void reset_prefix_cache(std::shared_ptr<HttpExchange> exchange);
  /// The body on the text thread, its answer from there.
  void answer_text(HttpRequest request, std::shared_ptr<HttpExchange> exchange,
                   std::string (OpenAiServer::*body)(std::string_view) const);
  std::string tokenize(std::string_view body) const;
  std::string detokenize(std::string_view body) const;
  void refuse_for_now(HttpExchange& exchange, const std::string& why);
  std::string queue_is_full(size_t num_choices) const;  // that a request asks for, at least

  /// On the engine's thread.
  void receive(std::span<LoopEvent> events);

  const OpenAiServerOptions options_;
  const ServedModel model_;
  GrammarCache grammars_;  // the text thread's own
  RequestRules rules_;
  AnswerStyle style_;
  const int64_t started_;  // seconds since 1970
  HttpServer http_;

  std::mutex mutex_;                // over the next
  std::vector<LoopEvent> arrived_;  // from the engine, not delivered yet

  // The HTTP thread's own.
  std::unordered_map<RequestId, ChoiceOf> choice_of_;
  std::unordered_map<OpenRequest*, std::shared_ptr<OpenRequest>> open_;
  std::mt19937_64 ids_, seeds_;  // for names of answers; of requests without a seed
  ServerMetrics metrics_;
  bool is_draining_ = false;
  std::optional<std::string> why_ended_;  // end_open: what is admitted from then on is told so

  std::atomic<int64_t> num_open_{0};  // requests taken from their bodies on
  std::unique_ptr<EngineLoop> loop_;
  JobThread text_;
  std::thread thread_;  // of http_; last: it uses all above
};

}  // namespace paceline
