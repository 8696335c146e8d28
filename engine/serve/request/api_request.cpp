#include "engine/serve/request/api_request.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "engine/serve/request/request_fields.h"
#include "engine/text/utf8.h"
#include "engine/tokenizer/chat_template.h"
#include "engine/util/json_io.h"

namespace paceline {

ApiError unknown_model(const std::string& name, const std::vector<std::string>& served) {
  return {.status = 404,
          .message = fmt::format("model: found {}, served is {}", json_literal(name), fmt::join(served, ", ")),
          .param = "model",
          .code = "model_not_found"};
}

namespace {

using Json = nlohmann::ordered_json;

Json parse_body(std::string_view body, const ServeLimits& limits) {
  if (!utf8_valid(body)) reject("", "body: not UTF-8");
  try {
    return parse_ordered_json(body, "body", ExitCode::usage,
                              {.max_bytes = size_t(limits.max_body_bytes), .max_depth = int(limits.max_json_depth)});
  } catch (const Error& error) {
    reject("", error.what());
  }
}

std::vector<int32_t> ids_of(const std::string& param, const Json& list, int vocab_size) {
  std::vector<int32_t> ids;
  ids.reserve(list.size());
  for (size_t i = 0; i < list.size(); ++i)
    ids.push_back(int32_t(RequestFields::integer_in(fmt::format("{}[{}]", param, i), list[i], 0, vocab_size - 1)));
  return ids;
}

std::string text_of(const std::string& param, const Json& value) {
  if (!value.is_string()) reject_value(param, value, "a string");
  return value.get<std::string>();
}

/// A string, a list of strings, a list of ids, or a list of such lists.
std::vector<PromptText> prompts_of(RequestFields& fields, const RequestRules& rules) {
  constexpr const char* kForms = "a string, a list of strings, a list of token ids, or a list of such lists";
  const Json* const prompt = fields.find("prompt");
  if (!prompt && fields.find("messages")) reject("messages", "messages: these go to /v1/chat/completions");
  if (!prompt)
    reject("prompt", fmt::format("prompt: missing, expected {}{}", kForms, fields.found_instead_of("prompt")));
  if (prompt->is_string()) return {prompt->get<std::string>()};
  if (!prompt->is_array() || prompt->empty())
    reject("prompt", fmt::format("prompt: found {}, expected {}",
                                 prompt->is_array() ? "an empty list" : shown_value(*prompt), kForms));
  if (prompt->front().is_number()) return {ids_of("prompt", *prompt, rules.vocab_size)};
  std::vector<PromptText> prompts;
  for (size_t i = 0; i < prompt->size(); ++i) {
    const Json& one = (*prompt)[i];
    const std::string param = fmt::format("prompt[{}]", i);
    if (prompt->front().is_array() && one.is_array())
      prompts.emplace_back(ids_of(param, one, rules.vocab_size));
    else if (prompt->front().is_string() && one.is_string())
      prompts.emplace_back(one.get<std::string>());
    else
      reject_value(param, one, kForms);
  }
  return prompts;
}

/// A message's content: a text, or texts in parts.
Json content_of(const std::string& param, const Json& content) {
  if (content.is_string() || content.is_null()) return content;
  if (!content.is_array()) reject_value(param, content, "a string or a list of parts");
  Json parts = Json::array();
  for (size_t i = 0; i < content.size(); ++i) {
    RequestFields part(content[i], fmt::format("{}[{}].", param, i));
    const auto type = part.text("type");
    if (type != "text")
      reject(part.param("type"), fmt::format("{}: found {}, expected \"text\"", part.param("type"),
                                             type ? json_literal(*type) : "nothing"));
    const auto words = part.text("text");
    if (!words) reject(part.param("text"), fmt::format("{}: missing", part.param("text")));
    part.finish();
    parts.push_back({{"type", "text"}, {"text", *words}});
  }
  return parts;
}

Json message_of(const std::string& param, const Json& message) {
  RequestFields fields(message, param + ".");
  const auto role = fields.text("role");
  if (!role || std::find(kChatRoles.begin(), kChatRoles.end(), *role) == kChatRoles.end())
    reject(fields.param("role"), fmt::format("{}: found {}, expected {}", fields.param("role"),
                                             role ? json_literal(*role) : "nothing", fmt::join(kChatRoles, ", ")));
  Json read = {{"role", *role}};
  const Json* const content = fields.find("content");
  const Json* const calls = fields.find("tool_calls");
  if (!content && !calls)
    reject(fields.param("content"), fmt::format("{}: {}, expected a string or a list of parts", fields.param("content"),
                                                message.contains("content") ? "found null" : "missing"));
  if (content)
    read["content"] = content_of(fields.param("content"), *content);
  else if (message.contains("content"))
    read["content"] = nullptr;  // some templates ask for that, others for none at all
  if (calls) {
    if (!calls->is_array()) reject_value(fields.param("tool_calls"), *calls, "a list");
    read["tool_calls"] = *calls;
  }
  for (const char* name : {"name", "tool_call_id", "reasoning_content"})
    if (const auto text = fields.text(name)) read[name] = *text;
  fields.only("refusal", {});
  fields.only("audio", {});
  fields.finish();
  return read;
}

ChatPrompt chat_of(RequestFields& fields) {
  ChatPrompt chat;
  const Json* const messages = fields.find("messages");
  if (!messages && fields.find("prompt")) reject("prompt", "prompt: this goes to /v1/completions");
  if (!messages)
    reject("messages", "messages: missing, expected a list of messages" + fields.found_instead_of("messages"));
  if (!messages->is_array() || messages->empty())
    reject("messages", fmt::format("messages: found {}, expected a list of messages",
                                   messages->is_array() ? "an empty list" : shown_value(*messages)));
  for (size_t i = 0; i < messages->size(); ++i)
    chat.messages.push_back(message_of(fmt::format("messages[{}]", i), (*messages)[i]));
  if (const Json* const tools = fields.find("tools")) {
    if (!tools->is_array()) reject_value("tools", *tools, "a list");
    for (size_t i = 0; i < tools->size(); ++i)
      if (!(*tools)[i].is_object()) reject_value(fmt::format("tools[{}]", i), (*tools)[i], "an object");
    if (!tools->empty()) chat.tools = *tools;
  }
  if (const Json* const variables = fields.find("chat_template_kwargs")) {
    if (!variables->is_object()) reject_value("chat_template_kwargs", *variables, "an object");
    chat.variables = *variables;
  }
  chat.add_generation_prompt = fields.boolean("add_generation_prompt").value_or(true);
  fields.only("continue_final_message", {false});
  return chat;
}

void check_model(RequestFields& fields, const RequestRules& rules) {
  const auto model = fields.text("model");
  if (!model || std::find(rules.model_names.begin(), rules.model_names.end(), *model) != rules.model_names.end())
    return;
  throw unknown_model(*model, rules.model_names);
}

std::vector<std::string> texts_of(const char* name, const Json& value, int64_t most, int64_t most_bytes) {
  std::vector<std::string> texts;
  if (value.is_array()) {
    if (int64_t(value.size()) > most)
      reject(name, fmt::format("{}: found {} strings, expected at most {}", name, value.size(), most));
    for (size_t i = 0; i < value.size(); ++i) texts.push_back(text_of(fmt::format("{}[{}]", name, i), value[i]));
  } else {
    texts.push_back(text_of(name, value));
  }
  for (const std::string& text : texts)
    if (text.empty() || int64_t(text.size()) > most_bytes)
      reject(name, fmt::format("{}: found a string of {} bytes, expected 1 to {}", name, text.size(), most_bytes));
  return texts;
}

/// {"token id": bias}
std::vector<LogitBias> logit_bias_of(RequestFields& fields, const RequestRules& rules) {
  const Json* const bias = fields.find("logit_bias");
  if (!bias) return {};
  if (!bias->is_object()) reject_value("logit_bias", *bias, "an object from token ids to numbers");
  if (int64_t(bias->size()) > rules.limits.max_logit_bias)
    reject("logit_bias",
           fmt::format("logit_bias: found {} entries, expected at most {}", bias->size(), rules.limits.max_logit_bias));
  std::vector<LogitBias> read;
  for (const auto& [key, value] : bias->items()) {
    int32_t token = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), token);
    if (error != std::errc() || end != key.data() + key.size() || token < 0 || token >= rules.vocab_size ||
        (key.size() > 1 && key.front() == '0'))
      reject("logit_bias", fmt::format("logit_bias: found the key {}, expected a token id from 0 to {}",
                                       json_literal(key), rules.vocab_size - 1));
    const double number = value.is_number() ? value.get<double>() : std::numeric_limits<double>::quiet_NaN();
    if (!(number >= -100 && number <= 100))
      reject("logit_bias", fmt::format("logit_bias: found {} for token {}, expected a number from -100 to 100",
                                       shown_value(value), token));
    read.push_back({.token = token, .bias = float(number)});
  }
  return read;
}

std::vector<std::string> stops_of(RequestFields& fields, const ServeLimits& limits) {
  const Json* const stop = fields.find("stop");
  if (!stop) return {};
  if (!stop->is_array() && !stop->is_string()) reject_value("stop", *stop, "a string or a list of strings");
  return texts_of("stop", *stop, limits.max_stop_strings, limits.max_stop_bytes);
}

SamplingParams sampling_of(RequestFields& fields, const RequestRules& rules) {
  constexpr double kMostTemperature = 100;
  SamplingParams params;
  params.sampler.temperature = float(fields.number("temperature", 0, kMostTemperature).value_or(1));
  params.sampler.top_p = float(fields.number("top_p", 0, 1, true).value_or(1));
  // -1 and 0 are off.
  params.sampler.top_k =
      int32_t(std::max<int64_t>(0, fields.integer("top_k", -1, std::numeric_limits<int32_t>::max()).value_or(0)));
  params.sampler.min_p = float(fields.number("min_p", 0, 1).value_or(0));
  params.repetition_penalty = float(fields.number("repetition_penalty", 0, 100, true).value_or(1));
  params.presence_penalty = float(fields.number("presence_penalty", -2, 2).value_or(0));
  params.frequency_penalty = float(fields.number("frequency_penalty", -2, 2).value_or(0));
  params.logit_bias = logit_bias_of(fields, rules);
  params.min_tokens = int(fields.integer("min_tokens", 0, std::numeric_limits<int32_t>::max()).value_or(0));
  params.ignore_eos = fields.boolean("ignore_eos").value_or(false);
  if (const Json* const ids = fields.find("stop_token_ids")) {
    constexpr size_t kMostIds = 256;
    if (!ids->is_array() || ids->size() > kMostIds)
      reject("stop_token_ids", fmt::format("stop_token_ids: expected a list of at most {} token ids", kMostIds));
    params.stop_token_ids = ids_of("stop_token_ids", *ids, rules.vocab_size);
  }
  return params;
}

/// A number for a completion, a switch and a number for a chat.
LogprobParams logprobs_of(RequestFields& fields, ApiKind kind, const ServeLimits& limits) {
  LogprobParams logprobs;
  if (kind == ApiKind::completion) {
    logprobs.num_top = int(fields.integer("logprobs", 0, limits.max_logprobs).value_or(LogprobParams::kNone));
    return logprobs;
  }
  const bool wanted = fields.boolean("logprobs").value_or(false);
  const auto top = fields.integer("top_logprobs", 0, limits.max_logprobs);
  if (top.value_or(0) > 0 && !wanted)
    reject("top_logprobs", fmt::format("top_logprobs: {} without logprobs; send \"logprobs\": true, too", *top));
  if (wanted) logprobs.num_top = int(top.value_or(0));
  return logprobs;
}

/// What asks for nothing is taken from whoever sends every field that there is.
void refuse_what_is_missing(RequestFields& fields, int num_choices) {
  fields.only("best_of", {num_choices});
  fields.only("prompt_logprobs", {});
  fields.only("use_beam_search", {false});
  fields.only("length_penalty", {1});
  fields.only("truncate_prompt_tokens", {});
  fields.only("spaces_between_special_tokens", {true});
  fields.only("priority", {0});
}

void refuse_what_is_missing_of_kind(RequestFields& fields, ApiKind kind) {
  fields.only("echo", {false});
  if (kind == ApiKind::completion) {
    fields.only("suffix", {""});
    return;
  }
  fields.only("tool_choice", {"auto", "none"});  // the answer is text whichever
  fields.only("parallel_tool_calls", {true});
  fields.only("modalities", {Json::array({"text"})});
  fields.only("audio", {});
  fields.only("prediction", {});
  fields.only("store", {false});
  fields.only("service_tier", {"auto", "default"});
}

std::optional<int> max_tokens_of(RequestFields& fields, ApiKind kind) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  auto most = fields.integer("max_tokens", 1, kMost);
  if (kind == ApiKind::chat) {
    const auto newer = fields.integer("max_completion_tokens", 1, kMost);
    if (most && newer && *most != *newer)
      reject("max_tokens",
             fmt::format("max_tokens: {} beside max_completion_tokens {}; send one of them", *most, *newer));
    if (newer) most = newer;
  }
  return most ? std::optional(int(*most)) : std::nullopt;
}

/// A form leaves tokens out itself, and needs one that ends the text.
void check_beside_form(const GenerationRequest& request, const RequestRules& rules) {
  const std::string& form = request.output->param;
  if (request.sampling.min_tokens > 0)
    reject("min_tokens",
           fmt::format("min_tokens: found beside {}, expected without: the text may be over earlier", form));
  if (!request.bad_words.empty())
    reject("bad_words", fmt::format("bad_words: found beside {}, expected without: no token may be left", form));
  if (rules.eos_token_ids.empty() && request.sampling.stop_token_ids.empty())
    reject("stop_token_ids", fmt::format("stop_token_ids: missing beside {}, and this model has no eos token", form));
}

void read_stream_options(RequestFields& fields, GenerationRequest& request) {
  const Json* const options = fields.find("stream_options");
  if (!options) return;
  if (!request.stream)
    reject("stream_options", "stream_options: found without stream; send \"stream\": true, or leave it out");
  RequestFields of_stream(*options, "stream_options.");
  request.include_usage = of_stream.boolean("include_usage").value_or(false);
  request.continuous_usage = of_stream.boolean("continuous_usage_stats").value_or(false);
  of_stream.finish();
}

}  // namespace

GenerationRequest parse_generation_request(ApiKind kind, std::string_view body, const RequestRules& rules) {
  const Json json = parse_body(body, rules.limits);
  RequestFields fields(json, "");
  GenerationRequest request;
  request.kind = kind;
  check_model(fields, rules);
  if (kind == ApiKind::completion)
    request.prompts = prompts_of(fields, rules);
  else
    request.chat = chat_of(fields);
  request.add_special_tokens = fields.boolean("add_special_tokens").value_or(kind == ApiKind::completion);
  request.sampling = sampling_of(fields, rules);
  request.max_tokens = max_tokens_of(fields, kind);
  if (const auto seed =
          fields.integer("seed", std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()))
    request.seed = uint64_t(*seed);
  request.num_choices = int(fields.integer("n", 1, rules.limits.max_choices).value_or(1));
  request.sampling.logprobs = logprobs_of(fields, kind, rules.limits);
  request.stop = stops_of(fields, rules.limits);
  if (const Json* const words = fields.find("bad_words")) {
    if (!words->is_array()) reject_value("bad_words", *words, "a list of strings");
    request.bad_words = texts_of("bad_words", *words, rules.limits.max_bad_words, rules.limits.max_stop_bytes);
  }
  request.include_stop = fields.boolean("include_stop_str_in_output").value_or(false);
  request.skip_special_tokens = fields.boolean("skip_special_tokens").value_or(true);
  request.stream = fields.boolean("stream").value_or(false);
  read_stream_options(fields, request);
  request.return_token_ids = fields.boolean("return_token_ids").value_or(false);
  request.output = structured_output_of(fields, rules.limits);
  if (request.output) check_beside_form(request, rules);
  request.return_draft_flags = fields.boolean("return_draft_flags").value_or(false);
  fields.text("user");  // who asks, and what the client notes for itself, changes nothing
  if (const Json* const metadata = fields.find("metadata"); metadata && !metadata->is_object())
    reject_value("metadata", *metadata, "an object");
  refuse_what_is_missing(fields, request.num_choices);
  refuse_what_is_missing_of_kind(fields, kind);
  fields.finish();
  return request;
}

TokenizeRequest parse_tokenize_request(std::string_view body, const RequestRules& rules) {
  const Json json = parse_body(body, rules.limits);
  RequestFields fields(json, "");
  TokenizeRequest request;
  check_model(fields, rules);
  const bool is_chat = json.contains("messages");
  if (is_chat) {
    request.prompt = chat_of(fields);
  } else {
    const auto prompt = fields.text("prompt");
    if (!prompt) reject("prompt", "prompt: missing, expected a string" + fields.found_instead_of("prompt"));
    request.prompt = *prompt;
  }
  request.add_special_tokens = fields.boolean("add_special_tokens").value_or(!is_chat);
  request.return_token_texts = fields.boolean("return_token_strs").value_or(false);
  fields.finish();
  return request;
}

std::vector<int32_t> parse_detokenize_request(std::string_view body, const RequestRules& rules) {
  const Json json = parse_body(body, rules.limits);
  RequestFields fields(json, "");
  check_model(fields, rules);
  const Json* const tokens = fields.find("tokens");
  if (!tokens || !tokens->is_array()) reject("tokens", "tokens: expected a list of token ids");
  fields.finish();
  return ids_of("tokens", *tokens, rules.vocab_size);
}

std::string error_json(const ApiError& error) {
  const auto or_null = [](const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); };
  return Json{{"error",
               {{"message", error.message},
                {"type", error.status < 500 ? "invalid_request_error" : "server_error"},
                {"param", or_null(error.param)},
                {"code", or_null(error.code)}}}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace paceline
