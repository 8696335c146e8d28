#include "engine/serve/answer.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "engine/text/utf8.h"
#include "engine/util/utf8_chars.h"

namespace paceline {
namespace {

using Json = nlohmann::ordered_json;

std::string text_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

const char* finish_word(FinishReason reason) { return reason == FinishReason::length ? "length" : "stop"; }

}  // namespace

Answer::Answer(std::string id, GenerationRequest request, std::vector<std::vector<int32_t>> prompts,
               const AnswerStyle& style, std::shared_ptr<const Tokenizer> tokenizer,
               std::shared_ptr<HttpExchange> exchange)
    : request_(std::move(request)),
      prompts_(std::move(prompts)),
      style_(style),
      tokenizer_(std::move(tokenizer)),
      exchange_(std::move(exchange)),
      id_(std::move(id)),
      created_(int64_t(std::time(nullptr))) {
  event_head_ = "data: " + text_of(head());
  event_head_.back() = ',';  // in place of the closing brace
  event_head_ += "\"choices\":[{\"index\":";
  const StopStrings stop{.texts = request_.stop, .include = request_.include_stop};
  const size_t count = prompts_.size() * size_t(request_.num_choices);
  choices_.reserve(count);
  for (size_t i = 0; i < count; ++i)
    choices_.push_back({.text = ChoiceText(tokenizer_, {.skip_special = request_.skip_special_tokens}, stop),
                        .pending = {},
                        .token_ids = {},
                        .draft_flags = {},
                        .logprob_ids = {},
                        .logprobs = {}});
  accepted_counts_.resize(size_t(style_.num_speculative_tokens) + 1);
}

Answer::After Answer::take(int index, const Emitted& emitted) {
  Choice& choice = choices_[size_t(index)];
  note_speculation(emitted);
  ChoiceText::After after = ChoiceText::After::goes_on;
  for (size_t i = 0; i < emitted.token.size() && after == ChoiceText::After::goes_on; ++i) {
    ++choice.num_tokens;
    if (request_.return_token_ids) choice.token_ids.push_back(emitted.token[i]);
    if (i < emitted.logprobs.size()) {
      choice.logprob_ids.push_back(emitted.token[i]);
      choice.logprobs.push_back(emitted.logprobs[i]);
    }
    const bool is_stop_token = emitted.finish == FinishReason::stop && i + 1 == emitted.token.size();
    const size_t begin = choice.pending.size();
    if (!is_stop_token || request_.include_stop) after = choice.text.push(emitted.token[i], choice.pending);
    if (request_.return_draft_flags)
      choice.draft_flags.push_back(
          {.text = choice.pending.substr(begin), .is_kept_draft = int(i) < emitted.num_accepted});
  }
  if (after == ChoiceText::After::goes_on && emitted.finish != FinishReason::none) {
    const size_t begin = choice.pending.size();
    after = choice.text.flush(choice.pending);
    if (!choice.draft_flags.empty()) choice.draft_flags.back().text.append(choice.pending, begin);
  }
  if (after == ChoiceText::After::stopped)
    choice.finish = finish_word(FinishReason::stop);
  else if (emitted.finish != FinishReason::none)
    choice.finish = finish_word(emitted.finish);
  else
    return After::goes_on;
  ++num_ended_;
  return After::ended;
}

void Answer::flush() {
  if (ended_ || exchange_->is_closed()) return;
  const bool all_ended = num_ended_ == num_choices();
  if (!request_.stream) {
    if (!all_ended) return;
    ended_ = true;
    return exchange_->reply({.body = whole_body()});
  }
  if (exchange_->is_writing()) return;
  std::string out;
  append_events(out);
  if (all_ended) {
    if (request_.include_usage) {
      Json last = head();
      last["choices"] = Json::array();
      last["usage"] = usage_json(usage());
      if (reports_speculation()) last["metrics"] = speculation_json();
      out += "data: " + text_of(last) + "\n\n";
    }
    out += "data: [DONE]\n\n";
  }
  if (out.empty()) return;
  if (has_begun_)
    exchange_->send(std::move(out));
  else
    exchange_->begin({.body = std::move(out),
                      .content_type = "text/event-stream; charset=utf-8",
                      .fields = {{"Cache-Control", "no-cache"}}});
  has_begun_ = true;
  if (!all_ended) return;
  ended_ = true;
  exchange_->end();
}

void Answer::fail(const ApiError& error) {
  if (ended_) return;
  ended_ = true;
  if (!has_begun_) return exchange_->reply({.status = error.status, .body = error_json(error)});
  exchange_->send("data: " + error_json(error) + "\n\ndata: [DONE]\n\n");
  exchange_->end();
}

Usage Answer::usage_of(int choice) const {
  const size_t prompt = size_t(choice / request_.num_choices);
  return {.prompt_tokens = int64_t(prompts_[prompt].size()), .completion_tokens = choices_[size_t(choice)].num_tokens};
}

Usage Answer::usage() const {
  Usage usage;
  for (const auto& prompt : prompts_) usage.prompt_tokens += int64_t(prompt.size());
  for (const Choice& choice : choices_) usage.completion_tokens += choice.num_tokens;
  return usage;
}

void Answer::note_speculation(const Emitted& emitted) {
  if (emitted.num_drafted == 0 || accepted_counts_.size() < 2) return;
  num_drafted_ += emitted.num_drafted;
  if (size_t(emitted.num_accepted) >= accepted_counts_.size())
    accepted_counts_.resize(size_t(emitted.num_accepted) + 1);
  ++accepted_counts_[size_t(emitted.num_accepted)];
  if (style_.speculation == SpeculationReport::detailed) per_step_accepted_.push_back(emitted.num_accepted);
}

void Answer::append_events(std::string& out) {
  for (int i = 0; i < num_choices(); ++i) {
    Choice& choice = choices_[size_t(i)];
    if (choice.pending.empty() && choice.token_ids.empty() && choice.draft_flags.empty() && choice.logprobs.empty() &&
        (!choice.finish || choice.finish_sent))
      continue;
    append_event(out, i, choice);
  }
}

void Answer::append_event(std::string& out, int index, Choice& choice) {
  const bool is_chat = request_.kind == ApiKind::chat;
  const size_t prompt = size_t(index) / size_t(request_.num_choices);
  out += event_head_;
  fmt::format_to(std::back_inserter(out), "{}", index);
  if (is_chat) {
    out += choice.has_begun ? ",\"delta\":{\"content\":" : ",\"delta\":{\"role\":\"assistant\",\"content\":";
    out += text_of(choice.pending);
    out += '}';
  } else {
    out += ",\"text\":";
    out += text_of(choice.pending);
  }
  out += ",\"logprobs\":";
  out += choice.logprobs.empty() ? "null" : text_of(take_logprobs(choice));
  out += ",\"finish_reason\":";
  if (choice.finish)
    fmt::format_to(std::back_inserter(out), "\"{}\"", choice.finish);
  else
    out += "null";
  if (request_.return_token_ids) {
    fmt::format_to(std::back_inserter(out), ",\"token_ids\":[{}]", fmt::join(choice.token_ids, ","));
    if (!is_chat && !choice.has_begun)
      fmt::format_to(std::back_inserter(out), ",\"prompt_token_ids\":[{}]", fmt::join(prompts_[prompt], ","));
  }
  if (request_.return_draft_flags) out += ",\"draft_flags\":" + text_of(draft_flags_json(choice));
  out += "}]";
  if (request_.return_token_ids && is_chat && !choice.has_begun)
    fmt::format_to(std::back_inserter(out), ",\"prompt_token_ids\":[{}]", fmt::join(prompts_[prompt], ","));
  if (request_.continuous_usage) out += ",\"usage\":" + text_of(usage_json(usage_of(index)));
  const bool is_last =
      num_ended_ == num_choices() &&
      std::all_of(choices_.begin() + index + 1, choices_.end(), [](const Choice& other) { return other.finish_sent; });
  if (is_last && !request_.include_usage && reports_speculation()) out += ",\"metrics\":" + text_of(speculation_json());
  out += "}\n\n";
  choice.has_begun = true;
  choice.finish_sent = choice.finish != nullptr;
  choice.pending.clear();
  choice.token_ids.clear();
  choice.draft_flags.clear();
}

std::string Answer::whole_body() {
  Json body = head();
  body["object"] = request_.kind == ApiKind::chat ? "chat.completion" : "text_completion";
  Json& choices = body["choices"] = Json::array();
  for (size_t i = 0; i < choices_.size(); ++i) {
    Choice& choice = choices_[i];
    Json one = {{"index", i}};
    if (request_.kind == ApiKind::chat)
      one["message"] = {{"role", "assistant"}, {"content", choice.pending}};
    else
      one["text"] = choice.pending;
    one["logprobs"] = take_logprobs(choice);
    one["finish_reason"] = choice.finish;
    if (request_.return_token_ids) {
      one["token_ids"] = choice.token_ids;
      if (request_.kind == ApiKind::completion) one["prompt_token_ids"] = prompts_[i / size_t(request_.num_choices)];
    }
    if (request_.return_draft_flags) one["draft_flags"] = draft_flags_json(choice);
    choices.push_back(std::move(one));
  }
  if (request_.return_token_ids && request_.kind == ApiKind::chat) body["prompt_token_ids"] = prompts_.front();
  body["usage"] = usage_json(usage());
  if (reports_speculation()) body["metrics"] = speculation_json();
  return text_of(body);
}

Json Answer::draft_flags_json(const Choice& choice) {
  Json flags = Json::array();
  for (const DraftFlag& flag : choice.draft_flags)
    flags.push_back({{"text", flag.text}, {"kept_draft", flag.is_kept_draft}});
  return flags;
}

Json Answer::take_logprobs(Choice& choice) const {
  const std::vector<int32_t> ids = std::exchange(choice.logprob_ids, {});
  const std::vector<TokenLogprobs> logprobs = std::exchange(choice.logprobs, {});
  if (!request_.sampling.logprobs.any()) return nullptr;
  constexpr double kLeast = -9999;  // in place of -Inf, which JSON lacks; vLLM's
  const auto value = [](float logprob) { return logprob < kLeast ? kLeast : double(logprob); };
  const auto text = [&](int32_t id) { return tokenizer_->decode(std::span(&id, 1)); };
  if (request_.kind == ApiKind::chat) {
    const auto entry = [&](int32_t id, float logprob) -> Json {
      const std::string_view bytes = tokenizer_->token_bytes(id);
      return {{"token", text(id)},
              {"logprob", value(logprob)},
              {"bytes", std::vector<uint8_t>(bytes.begin(), bytes.end())}};
    };
    Json content = Json::array();
    for (size_t i = 0; i < ids.size(); ++i) {
      Json one = entry(ids[i], logprobs[i].logprob);
      Json& top = one["top_logprobs"] = Json::array();
      for (const TopLogprob& other : logprobs[i].top) top.push_back(entry(other.token, other.logprob));
      content.push_back(std::move(one));
    }
    return {{"content", std::move(content)}};
  }
  // Names differ where texts would not: of a part of a character OpenAI's, "bytes:\\xf0\\x9f".
  const auto is_text = [&](int32_t id) { return utf8_valid(tokenizer_->token_bytes(id)); };
  const auto name = [&](int32_t id) {
    if (is_text(id)) return text(id);
    std::string bytes = "bytes:";
    for (const char c : tokenizer_->token_bytes(id)) bytes += fmt::format("\\x{:02x}", uint8_t(c));
    return bytes;
  };
  Json offsets = Json::array(), values = Json::array(), tokens = Json::array(), tops = Json::array();
  for (size_t i = 0; i < ids.size(); ++i) {
    const std::string shown = is_text(ids[i]) ? text(ids[i]) : std::string(tokenizer_->token_bytes(ids[i]));
    const bool goes_on = !shown.empty() && is_utf8_continuation(shown.front()) && choice.text_offset > 0;
    offsets.push_back(choice.text_offset - goes_on);
    choice.text_offset += int64_t(utf8_length(shown));
    const std::string token = name(ids[i]);
    tokens.push_back(token);
    values.push_back(value(logprobs[i].logprob));
    Json top = Json::object();
    for (const TopLogprob& other : logprobs[i].top) top[name(other.token)] = value(other.logprob);
    top[token] = value(logprobs[i].logprob);
    tops.push_back(std::move(top));
  }
  return {{"text_offset", std::move(offsets)},
          {"token_logprobs", std::move(values)},
          {"tokens", std::move(tokens)},
          {"top_logprobs", std::move(tops)}};
}

Json Answer::head() const {
  return {{"id", id_},
          {"object", request_.kind == ApiKind::chat ? "chat.completion.chunk" : "text_completion"},
          {"created", created_},
          {"model", style_.model}};
}

Json Answer::usage_json(const Usage& usage) const {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens}};
}

bool Answer::reports_speculation() const {
  return style_.speculation != SpeculationReport::off && style_.num_speculative_tokens > 0;
}

Json Answer::speculation_json() const {
  int64_t steps = 0, accepted = 0;
  for (size_t kept = 0; kept < accepted_counts_.size(); ++kept) {
    steps += accepted_counts_[kept];
    accepted += int64_t(kept) * accepted_counts_[kept];
  }
  const auto share = [](int64_t part, int64_t whole) {
    return whole > 0 ? Json(double(part) / double(whole)) : Json(nullptr);
  };
  Json stats = {{"mean_acceptance_length", steps > 0 ? Json(1 + double(accepted) / double(steps)) : Json(nullptr)},
                {"draft_acceptance_rate", share(accepted, num_drafted_)},
                {"acceptance_histogram", accepted_counts_},
                {"num_spec_steps", steps},
                {"num_accepted_draft_tokens", accepted},
                {"num_draft_tokens", num_drafted_},
                {"num_spec_tokens", style_.num_speculative_tokens}};
  if (style_.speculation == SpeculationReport::detailed) stats["per_step_accepted"] = per_step_accepted_;
  return {{"speculative_decoding", std::move(stats)}};
}

}  // namespace paceline
