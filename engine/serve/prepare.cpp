#include "engine/serve/prepare.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "engine/util/printable.h"
#include "kernels/error.h"

namespace paceline {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kDefaultMaxTokens = 16;  // of a completion, OpenAI's

/// A conversation's text, or the words with which the template refuses it.
std::string text_or_refusal(const ChatTemplate& chat_template, const Json& messages, const RenderOptions& options) {
  try {
    return chat_template.render(messages, options);
  } catch (const Error& error) {
    return error.what();
  }
}

/// Throws for tools, and calls in messages, without which the template makes the same `text`: it does not read them. Of
/// calls that is asked for the first message with content beside them, and for the first without.
void refuse_unread(const ChatPrompt& chat, const RenderOptions& options, const std::string& text,
                   const ChatTemplate& chat_template) {
  const auto refuse = [](const std::string& param) {
    throw ApiError{.message = fmt::format("{}: this model's chat template does not read them", param), .param = param};
  };
  if (!chat.tools.is_null()) {
    RenderOptions without = options;
    without.tools = nullptr;
    if (text_or_refusal(chat_template, chat.messages, without) == text) refuse("tools");
  }
  bool is_asked[] = {false, false};
  for (size_t i = 0; i < chat.messages.size(); ++i) {
    const Json& message = chat.messages[i];
    const auto calls = message.find("tool_calls");
    if (calls == message.end() || calls->empty()) continue;
    const bool has_content = message.contains("content") && !message["content"].is_null();
    if (std::exchange(is_asked[has_content], true)) continue;
    Json without = chat.messages;
    without[i].erase("tool_calls");
    if (text_or_refusal(chat_template, without, options) == text) refuse(fmt::format("messages[{}].tool_calls", i));
  }
}

std::vector<int32_t> encode_chat(const ChatPrompt& chat, bool add_special, const ServedModel& model) {
  if (!model.chat_template)
    throw ApiError{.message = "messages: this model has no chat template; send its text to /v1/completions",
                   .param = "messages",
                   .code = "no_chat_template"};
  const RenderOptions options{.add_generation_prompt = chat.add_generation_prompt,
                              .tools = chat.tools,
                              .variables = chat.variables,
                              .now = std::time(nullptr)};  // one, as texts are compared
  std::string text;
  try {
    text = model.chat_template->render(chat.messages, options);
  } catch (const Error& error) {  // it refuses the messages, or cannot do with them
    throw ApiError{.message = "messages: the chat template says: " + message_text(error.what()), .param = "messages"};
  }
  refuse_unread(chat, options, text, *model.chat_template);
  return model.tokenizer->encode(text, {.parse_special = true, .add_special = add_special});
}

std::vector<int32_t> encode_prompt(PromptText& prompt, bool add_special, const ServedModel& model) {
  if (auto* const ids = std::get_if<std::vector<int32_t>>(&prompt)) return std::move(*ids);
  // who renders a template himself writes its tokens
  return model.tokenizer->encode(std::get<std::string>(prompt), {.parse_special = true, .add_special = add_special});
}

/// The output that the request may have; throws where it does not fit.
int output_of(const std::vector<int32_t>& prompt, const GenerationRequest& request, const RequestLimits& limits,
              const std::string& param) {
  const int64_t length = int64_t(prompt.size());
  const bool is_chat = request.kind == ApiKind::chat;
  if (prompt.empty()) throw ApiError{.message = param + ": found 0 tokens, expected at least 1", .param = param};
  const int64_t room = limits.max_model_len - length;
  const int64_t wanted = request.max_tokens ? *request.max_tokens
                         : is_chat          ? room
                                            : std::min<int64_t>(kDefaultMaxTokens, room);
  if (room < 1 || wanted > room)
    throw ApiError{
        .message =
            request.max_tokens && room >= 1
                ? fmt::format("max_tokens: {} beside a prompt of {} tokens; this model's context is {} "
                              "tokens, which leaves {}",
                              wanted, length, limits.max_model_len, room)
                : fmt::format(
                      "{}: found {} tokens, this model's context is {}, of which one at least is left for output",
                      param, length, limits.max_model_len),
        .param = request.max_tokens && room >= 1 ? "max_tokens" : param,
        .code = "context_length_exceeded"};
  return int(wanted);
}

/// A word as tokens: at the beginning of a text or behind a blank, which most tokenizers make part of the token.
std::vector<std::vector<int32_t>> bad_word_tokens(const std::vector<std::string>& words, const Tokenizer& tokenizer) {
  std::vector<std::vector<int32_t>> tokens;
  for (const std::string& word : words) {
    for (const std::string& text : {word, " " + word}) {
      std::vector<int32_t> ids = tokenizer.encode(text);
      if (!ids.empty() && std::find(tokens.begin(), tokens.end(), ids) == tokens.end())
        tokens.push_back(std::move(ids));
    }
  }
  return tokens;
}

std::string compact(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace

PreparedRequest prepare_generation(ApiKind kind, std::string_view body, const RequestRules& rules,
                                   const ServedModel& model, const RequestLimits& limits) {
  PreparedRequest prepared;
  GenerationRequest& request = prepared.request = parse_generation_request(kind, body, rules);
  const int64_t num_prompts = kind == ApiKind::chat ? 1 : int64_t(request.prompts.size());
  if (num_prompts * request.num_choices > rules.limits.max_queue)
    throw ApiError{
        .message = fmt::format("prompt: found {} prompts with n {}; expected at most {} answers in one request",
                               num_prompts, request.num_choices, rules.limits.max_queue),
        .param = "prompt"};
  if (kind == ApiKind::chat)
    prepared.prompts.push_back(encode_chat(request.chat, request.add_special_tokens, model));
  else
    for (PromptText& prompt : request.prompts)
      prepared.prompts.push_back(encode_prompt(prompt, request.add_special_tokens, model));
  request.sampling.bad_words = bad_word_tokens(request.bad_words, *model.tokenizer);
  for (size_t i = 0; i < prepared.prompts.size(); ++i) {
    const std::string param = kind == ApiKind::chat          ? "messages"
                              : prepared.prompts.size() == 1 ? "prompt"
                                                             : fmt::format("prompt[{}]", i);
    SamplingParams params = request.sampling;
    params.max_tokens = output_of(prepared.prompts[i], request, limits, param);
    if (params.min_tokens > params.max_tokens)
      throw ApiError{.message = fmt::format("min_tokens: found {}, expected at most max_tokens, which is {}",
                                            params.min_tokens, params.max_tokens),
                     .param = "min_tokens"};
    if (request.seed) params.sampler.seed = *request.seed;
    try {
      limits.output_room(prepared.prompts[i], params);
    } catch (const Error& error) {
      throw ApiError{.message = message_text(error.what()), .param = param};
    }
    prepared.params.push_back(std::move(params));
  }
  return prepared;
}

void prepare_form(PreparedRequest& prepared, const RequestRules& rules, GrammarCache& grammars) {
  const GenerationRequest& request = prepared.request;
  if (!request.output) return;
  prepared.grammar = grammars.find(*request.output);
  prepared.grammar_ends = rules.eos_token_ids;
  prepared.grammar_ends.insert(prepared.grammar_ends.end(), request.sampling.stop_token_ids.begin(),
                               request.sampling.stop_token_ids.end());
}

std::string tokenize_body(std::string_view body, const RequestRules& rules, const ServedModel& model,
                          int max_model_len) {
  TokenizeRequest request = parse_tokenize_request(body, rules);
  std::vector<int32_t> tokens;
  if (const auto* const chat = std::get_if<ChatPrompt>(&request.prompt))
    tokens = encode_chat(*chat, request.add_special_tokens, model);
  else
    tokens = model.tokenizer->encode(std::get<std::string>(request.prompt),
                                     {.parse_special = true, .add_special = request.add_special_tokens});
  Json answer = {{"count", tokens.size()}, {"max_model_len", max_model_len}, {"tokens", tokens}};
  Json& texts = answer["token_strs"] = nullptr;
  if (request.return_token_texts) {
    texts = Json::array();
    for (const int32_t token : tokens) texts.push_back(std::string(model.tokenizer->id_to_token(token)));
  }
  return compact(answer);
}

std::string detokenize_body(std::string_view body, const RequestRules& rules, const ServedModel& model) {
  const std::vector<int32_t> tokens = parse_detokenize_request(body, rules);
  return compact({{"prompt", model.tokenizer->decode(tokens)}});
}

}  // namespace paceline
