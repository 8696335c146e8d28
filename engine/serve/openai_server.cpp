#include "engine/serve/openai_server.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <future>
#include <new>
#include <utility>

#include "engine/grammar/grammar_constraint.h"
#include "engine/serve/page/page.h"
#include "engine/util/machine.h"
#include "engine/util/percent.h"
#include "kernels/thread_name.h"

namespace paceline {
namespace {

using Json = nlohmann::ordered_json;

/// The HTTP thread prepares such a body itself while so few requests are open: the way to the text thread and back
/// takes longer, .2 ms of a first text, where the model's threads have the cores.
constexpr size_t kShortBodyBytes = 2048;
constexpr int64_t kFewRequests = 4;
constexpr std::string_view kModelPath = "/v1/models/";

HttpReply error_reply(const ApiError& error) {
  HttpReply reply{.status = error.status, .body = error_json(error)};
  if (error.status == 503) reply.fields.push_back({"Retry-After", "1"});
  if (error.status == 401) reply.fields.push_back({"WWW-Authenticate", "Bearer"});
  return reply;
}

/// What make() returns, or the answer that says why not. what: that it encodes.
template <typename Make>
auto or_error(std::string_view what, const Make& make) -> std::variant<decltype(make()), HttpReply> {
  try {
    return make();
  } catch (const ApiError& error) {
    return error_reply(error);
  } catch (const std::exception&) {  // of a model's file: its pattern blows up on this text
    return error_reply({.status = 500, .message = fmt::format("the {} could not be encoded", what)});
  }
}

HttpReply json_reply(const Json& body) { return {.body = body.dump()}; }

uint64_t random_seed() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

/// Tried until it can be done: events that nobody is told of would make their clients wait for ever.
template <typename Work>
void when_there_is_memory(const Work& work) {
  while (true) {
    try {
      return work();
    } catch (const std::bad_alloc&) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
}

}  // namespace

OpenAiServer::OpenAiServer(OpenAiServerOptions options, ServedModel model, EngineLoop::MakeEngine make)
    : options_(std::move(options)),
      model_(std::move(model)),
      grammars_(model_.tokenizer, options_.http.limits, options_.http.failpoints),
      started_(int64_t(std::time(nullptr))),
      http_(
          options_.http,
          [this](HttpRequest request, std::shared_ptr<HttpExchange> exchange) {
            handle(std::move(request), std::move(exchange));
          },
          [](int status, std::string_view message) {
            return error_reply({.status = status, .message = std::string(message)});
          }),
      ids_(random_seed()),
      seeds_(options_.seed.value_or(random_seed())) {
  int num_speculative_tokens = 0;
  std::vector<int32_t> eos_token_ids;
  loop_ = std::make_unique<EngineLoop>(
      [&] {
        auto engine = make();
        num_speculative_tokens = engine->num_speculative_tokens();
        eos_token_ids = engine->eos_token_ids();
        return engine;
      },
      [this](std::span<LoopEvent> events) { receive(events); }, options_.http.failpoints);
  rules_ = {.limits = options_.http.limits,
            .model_names = model_.names,
            .vocab_size = loop_->limits().vocab_size,
            .eos_token_ids = std::move(eos_token_ids)};
  style_ = {.model = model_.names.front(),
            .num_speculative_tokens = num_speculative_tokens,
            .speculation = options_.speculation};
  thread_ = std::thread([this] {
    name_this_thread("http");
    ask_for_short_slices();  // ranks and their threads may take every core
    http_.run();
  });
}

OpenAiServer::~OpenAiServer() {
  http_.stop();
  thread_.join();
}

void OpenAiServer::drain() {
  http_.post([this] { is_draining_ = true; });
  http_.drain();
}

int64_t OpenAiServer::num_connections() {
  std::promise<int64_t> count;
  http_.post([&] { count.set_value(http_.num_connections()); });
  return count.get_future().get();
}

void OpenAiServer::end_open(const std::string& why) {
  http_.post([this, why] {
    why_ended_ = why;
    const auto open = std::exchange(open_, {});
    for (const auto& [name, request] : open) {
      request->answer->fail({.status = 503, .message = why});
      cancel_rest(*request);
      open_.emplace(name, request);
      end_if_over(request);
    }
  });
}

void OpenAiServer::handle(HttpRequest request, std::shared_ptr<HttpExchange> exchange) {
  if (const auto refused = check_access(request, options_.access)) return exchange->reply(error_reply(*refused));
  using Answer = void (*)(OpenAiServer&, HttpRequest, std::shared_ptr<HttpExchange>);
  struct Route {
    std::string_view method, path;
    Answer answer;
    bool name_follows = false;  // behind the path

    bool holds(std::string_view other) const { return name_follows ? other.starts_with(path) : other == path; }
  };
  using Exchange = std::shared_ptr<HttpExchange>;
  static constexpr Route kRoutes[] = {
      {"GET", "/",
       [](OpenAiServer&, HttpRequest, Exchange e) {
         e->reply(page_reply(fmt::format("{:016x}{:016x}", random_seed(), random_seed())));
       }},
      {"POST", "/v1/chat/completions",
       [](OpenAiServer& s, HttpRequest r, Exchange e) { s.generate(ApiKind::chat, std::move(r), std::move(e)); }},
      {"POST", "/v1/completions",
       [](OpenAiServer& s, HttpRequest r, Exchange e) { s.generate(ApiKind::completion, std::move(r), std::move(e)); }},
      {"GET", "/v1/models", [](OpenAiServer& s, HttpRequest, Exchange e) { s.tell_models(*e); }},
      {"GET", kModelPath,
       [](OpenAiServer& s, HttpRequest r, Exchange e) {
         s.tell_model(percent_decoded(r.path().substr(kModelPath.size())), *e);
       },
       true},
      {"GET", "/health", [](OpenAiServer& s, HttpRequest, Exchange e) { s.tell_health(*e); }},
      {"GET", "/version",
       [](OpenAiServer& s, HttpRequest, Exchange e) {
         e->reply(json_reply({{"version", s.options_.version}}));
       }},
      {"GET", "/metrics", [](OpenAiServer& s, HttpRequest, Exchange e) { s.tell_metrics(std::move(e)); }},
      {"POST", "/tokenize",
       [](OpenAiServer& s, HttpRequest r, Exchange e) {
         s.answer_text(std::move(r), std::move(e), &OpenAiServer::tokenize);
       }},
      {"POST", "/detokenize",
       [](OpenAiServer& s, HttpRequest r, Exchange e) {
         s.answer_text(std::move(r), std::move(e), &OpenAiServer::detokenize);
       }},
      {"POST", "/reset_prefix_cache",
       [](OpenAiServer& s, HttpRequest, Exchange e) { s.reset_prefix_cache(std::move(e)); }},
  };
  const Route* other_method = nullptr;
  for (const Route& route : kRoutes) {
    if (!route.holds(request.path())) continue;
    if (route.method == request.method) return route.answer(*this, std::move(request), std::move(exchange));
    other_method = &route;
  }
  if (!other_method)
    return exchange->reply(
        error_reply({.status = 404, .message = "no such path; see docs/serving.md for those there are"}));
  HttpReply reply = error_reply({.status = 405, .message = fmt::format("this path takes {}", other_method->method)});
  reply.fields.push_back({"Allow", std::string(other_method->method)});
  exchange->reply(std::move(reply));
}

void OpenAiServer::refuse_for_now(HttpExchange& exchange, const std::string& why) {
  metrics_.note_refusal();
  exchange.reply(error_reply({.status = 503, .message = why}));
}

std::string OpenAiServer::queue_is_full(size_t num_choices) const {
  return fmt::format("the queue is full: {} answers open, {} more asked for, at most {}; try again soon",
                     choice_of_.size(), num_choices, rules_.limits.max_queue);
}

void OpenAiServer::generate(ApiKind kind, HttpRequest request, std::shared_ptr<HttpExchange> exchange) {
  if (is_draining_) return refuse_for_now(*exchange, "the server is stopping");
  if (int64_t(choice_of_.size()) >= rules_.limits.max_queue) return refuse_for_now(*exchange, queue_is_full(1));
  const bool is_short =
      request.body.size() <= kShortBodyBytes && num_open_.load(std::memory_order_relaxed) < kFewRequests;
  num_open_.fetch_add(1, std::memory_order_relaxed);
  if (!is_short) {
    return text_.post([this, kind, body = std::make_shared<std::string>(std::move(request.body)),
                       exchange = std::move(exchange)] { prepare_form_and_answer(prepare(kind, *body), exchange); });
  }
  Prepared prepared = prepare(kind, request.body);
  const auto* const made = std::get_if<PreparedRequest>(&prepared);
  if (!made || !made->request.output) return answer(std::move(prepared), exchange);
  text_.post([this, prepared = std::make_shared<Prepared>(std::move(prepared)), exchange = std::move(exchange)] {
    prepare_form_and_answer(std::move(*prepared), exchange);
  });
}

OpenAiServer::Prepared OpenAiServer::prepare(ApiKind kind, std::string_view body) const {
  return or_error("prompt", [&] {
    if (fails_at(options_.http.failpoints, Failpoint::tokenize)) throw std::bad_alloc();
    return prepare_generation(kind, body, rules_, model_, loop_->limits());
  });
}

void OpenAiServer::prepare_form_and_answer(Prepared prepared, const std::shared_ptr<HttpExchange>& exchange) {
  if (auto* const made = std::get_if<PreparedRequest>(&prepared))
    prepared = or_error("prompt", [&] {
      prepare_form(*made, rules_, grammars_);
      return std::move(*made);
    });
  http_.post([this, prepared = std::make_shared<Prepared>(std::move(prepared)), exchange] {
    answer(std::move(*prepared), exchange);
  });
}

void OpenAiServer::answer(Prepared prepared, const std::shared_ptr<HttpExchange>& exchange) {
  if (auto* const request = std::get_if<PreparedRequest>(&prepared)) return admit(std::move(*request), exchange);
  exchange->reply(std::move(std::get<HttpReply>(prepared)));
  num_open_.fetch_sub(1, std::memory_order_relaxed);
}

void OpenAiServer::admit(PreparedRequest prepared, const std::shared_ptr<HttpExchange>& exchange) {
  const auto refused = [&](const std::string& why) {
    num_open_.fetch_sub(1, std::memory_order_relaxed);
    refuse_for_now(*exchange, why);
  };
  if (exchange->is_closed()) {
    num_open_.fetch_sub(1, std::memory_order_relaxed);
    return;
  }
  if (why_ended_) return refused(*why_ended_);
  const size_t num_choices = prepared.prompts.size() * size_t(prepared.request.num_choices);
  if (int64_t(choice_of_.size() + num_choices) > rules_.limits.max_queue) return refused(queue_is_full(num_choices));
  const auto request = std::make_shared<OpenRequest>();
  for (size_t i = 0; i < num_choices; ++i) {
    const size_t prompt = i / size_t(prepared.request.num_choices);
    const size_t of_prompt = i % size_t(prepared.request.num_choices);
    SamplingParams params = prepared.params[prompt];
    if (!prepared.request.seed) params.sampler.seed = seeds_();
    params.sampler.seed += of_prompt;
    const RequestId like = of_prompt == 0 ? 0 : request->choices[i - of_prompt];
    if (prepared.grammar) params.constraint = make_grammar_constraint(prepared.grammar, prepared.grammar_ends);
    const RequestId id = loop_->submit(prepared.prompts[prompt], params, 0, like);
    choice_of_.emplace(id, ChoiceOf{request, int(i)});
    request->choices.push_back(id);
  }
  for (const auto& prompt : prepared.prompts) metrics_.note_request(int64_t(prompt.size()));
  const char* const kind = prepared.request.kind == ApiKind::chat ? "chatcmpl" : "cmpl";
  request->answer =
      std::make_unique<Answer>(fmt::format("{}-{:016x}{:016x}", kind, ids_(), ids_()), std::move(prepared.request),
                               std::move(prepared.prompts), style_, model_.tokenizer, exchange);
  request->last_tokens.assign(num_choices, request->answer->arrival());
  request->has_tokens.assign(num_choices, false);
  open_.emplace(request.get(), request);
  exchange->on_written = [this, weak = std::weak_ptr(request)] {
    const auto locked = weak.lock();
    if (!locked) return;
    locked->answer->flush();
    end_if_over(locked);
  };
  exchange->on_closed = [this, weak = std::weak_ptr(request)] {
    const auto locked = weak.lock();
    if (!locked) return;
    cancel_rest(*locked);
    end_if_over(locked);
  };
}

void OpenAiServer::cancel_rest(OpenRequest& request) {
  for (RequestId& id : request.choices) {
    const RequestId open = std::exchange(id, 0);
    if (open == 0) continue;
    loop_->cancel(open);
    metrics_.note_end(seconds_between(request.answer->arrival(), Clock::now()), FinishReason::cancelled);
  }
}

void OpenAiServer::end_if_over(const std::shared_ptr<OpenRequest>& request) {
  const HttpExchange& exchange = request->answer->exchange();
  if (!exchange.is_closed() && (!request->answer->ended() || exchange.is_writing())) return;
  if (open_.erase(request.get()) > 0) num_open_.fetch_sub(1, std::memory_order_relaxed);
}

void OpenAiServer::receive(std::span<LoopEvent> events) {
  bool is_first = false;
  when_there_is_memory([&] {
    const std::lock_guard lock(mutex_);
    is_first = arrived_.empty();
    // Where there is no memory nothing has been moved.
    arrived_.insert(arrived_.end(), std::make_move_iterator(events.begin()), std::make_move_iterator(events.end()));
  });
  if (!is_first) return;
  when_there_is_memory([&] {
    if (fails_at(options_.http.failpoints, Failpoint::wake)) throw std::bad_alloc();
    http_.post([this] { deliver(); });
  });
}

void OpenAiServer::deliver() {
  std::vector<LoopEvent> events;
  {
    const std::lock_guard lock(mutex_);
    std::swap(events, arrived_);
  }
  std::vector<std::shared_ptr<OpenRequest>> touched;
  for (LoopEvent& event : events) {
    const auto found = choice_of_.find(event.request);
    if (found == choice_of_.end()) continue;
    const ChoiceOf choice = found->second;
    if (event.emitted.finish != FinishReason::none) choice_of_.erase(found);
    take(choice, event.emitted);
    if (touched.empty() || touched.back() != choice.request) touched.push_back(choice.request);
  }
  for (const auto& request : touched) {
    request->answer->flush();
    end_if_over(request);
  }
}

void OpenAiServer::take(const ChoiceOf& choice, const Emitted& emitted) {
  if (emitted.finish == FinishReason::numerical_error && !emitted.token.empty()) {
    Emitted before = emitted;
    before.finish = FinishReason::none;
    take(choice, before);  // a stop string may end the text there
    return take(choice, {.seq = emitted.seq, .token = {}, .finish = emitted.finish});
  }
  const FinishReason finish = emitted.finish;
  OpenRequest& request = *choice.request;
  const size_t index = size_t(choice.index);
  if (request.choices[index] == 0) return;  // it had ended for the client
  if (finish != FinishReason::none) request.choices[index] = 0;
  const auto now = Clock::now();
  if (!emitted.token.empty()) {
    const double seconds = seconds_between(request.last_tokens[index], now);
    if (request.has_tokens[index])
      metrics_.note_gap(seconds);
    else
      metrics_.note_first_token(seconds);
    request.has_tokens[index] = true;
    request.last_tokens[index] = now;
  }
  if (finish == FinishReason::failed || finish == FinishReason::numerical_error || finish == FinishReason::cancelled) {
    metrics_.note_end(seconds_between(request.answer->arrival(), now), finish);
    if (finish == FinishReason::numerical_error) request.answer->flush();  // what came before it
    request.answer->fail({.status = finish == FinishReason::cancelled ? 503 : 500,
                          .message = finish == FinishReason::numerical_error
                                         ? "numerical_error: a logit is NaN or Inf, or "
                                           "the answer's form has too many readings"
                                         : "the engine has stopped"});
    return cancel_rest(request);
  }
  if (request.answer->take(choice.index, emitted) != Answer::After::ended) return;
  metrics_.note_end(seconds_between(request.answer->arrival(), now),
                    finish == FinishReason::none ? FinishReason::stop : finish);
  if (const RequestId id = std::exchange(request.choices[index], 0); id != 0) loop_->cancel(id);  // by a stop string
}

void OpenAiServer::tell_health(HttpExchange& exchange) {
  if (is_draining_) return exchange.reply(error_reply({.status = 503, .message = "the server is stopping"}));
  if (loop_->failure()) return exchange.reply(error_reply({.status = 503, .message = "the engine has failed"}));
  exchange.reply({.body = "{}"});
}

Json OpenAiServer::model_card(const std::string& name) const {
  return {{"id", name},
          {"object", "model"},
          {"created", started_},
          {"owned_by", "paceline"},
          {"root", model_.names.front()},
          {"parent", nullptr},
          {"max_model_len", loop_->limits().max_model_len}};
}

void OpenAiServer::tell_models(HttpExchange& exchange) {
  Json models = Json::array();
  for (const std::string& name : model_.names) models.push_back(model_card(name));
  exchange.reply(json_reply({{"object", "list"}, {"data", std::move(models)}}));
}

void OpenAiServer::tell_model(const std::string& name, HttpExchange& exchange) {
  const bool is_known = std::find(model_.names.begin(), model_.names.end(), name) != model_.names.end();
  exchange.reply(is_known ? json_reply(model_card(name)) : error_reply(unknown_model(name, model_.names)));
}

void OpenAiServer::tell_metrics(std::shared_ptr<HttpExchange> exchange) {
  loop_->post([this, exchange = std::move(exchange)](Engine& engine) {
    http_.post([this, exchange, snapshot = snapshot_of(engine)] {
      exchange->reply({.body = metrics_.text(style_.model, snapshot, http_.num_connections()),
                       .content_type = "text/plain; version=0.0.4; charset=utf-8"});
    });
  });
}

void OpenAiServer::reset_prefix_cache(std::shared_ptr<HttpExchange> exchange) {
  loop_->post([this, exchange = std::move(exchange)](Engine& engine) {
    engine.pool().reset_prefix_cache();
    http_.post([exchange] { exchange->reply({.body = "{}"}); });
  });
}

void OpenAiServer::answer_text(HttpRequest request, std::shared_ptr<HttpExchange> exchange,
                               std::string (OpenAiServer::*body)(std::string_view) const) {
  text_.post(
      [this, body, sent = std::make_shared<std::string>(std::move(request.body)), exchange = std::move(exchange)] {
        auto made = or_error("text", [&] {
          if (fails_at(options_.http.failpoints, Failpoint::tokenize)) throw std::bad_alloc();
          return (this->*body)(*sent);
        });
        auto* const text = std::get_if<std::string>(&made);
        HttpReply reply = text ? HttpReply{.body = std::move(*text)} : std::move(std::get<HttpReply>(made));
        http_.post([exchange, reply = std::move(reply)] { exchange->reply(reply); });
      });
}

std::string OpenAiServer::tokenize(std::string_view body) const {
  return tokenize_body(body, rules_, model_, loop_->limits().max_model_len);
}

std::string OpenAiServer::detokenize(std::string_view body) const { return detokenize_body(body, rules_, model_); }

}  // namespace paceline
