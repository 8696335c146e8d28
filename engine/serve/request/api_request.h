#pragma once
// The bodies of requests of OpenAI's API and of vLLM's additions to it, read strictly: a field that is unknown, or asks
// for something that the engine cannot do, is an error and never ignored. A field that is null counts as absent, and
// one that asks for nothing (presence_penalty 0) is taken. Pure functions.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/sampling.h"
#include "engine/serve/api_error.h"
#include "engine/serve/limits.h"
#include "engine/serve/request/structured_output.h"

namespace paceline {

/// 404: none of those served is called so.
ApiError unknown_model(const std::string& name, const std::vector<std::string>& served);

/// What a request is checked against.
struct RequestRules {
  ServeLimits limits = {};
  std::vector<std::string> model_names = {};  // one of them, where a request names its model
  int vocab_size = 0;                         // ids are below it
  std::vector<int32_t> eos_token_ids = {};
};

/// A prompt as the client wrote it: text, or token ids.
using PromptText = std::variant<std::string, std::vector<int32_t>>;

/// Messages and what goes to the chat template with them.
struct ChatPrompt {
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();  // content: a string or null
  nlohmann::ordered_json tools = nullptr;
  nlohmann::ordered_json variables = nullptr;  // chat_template_kwargs
  bool add_generation_prompt = true;
};

enum class ApiKind : uint8_t { completion, chat };

/// /v1/completions or /v1/chat/completions.
struct GenerationRequest {
  ApiKind kind = ApiKind::completion;
  std::vector<PromptText> prompts;     // of a completion
  ChatPrompt chat;                     // of a chat
  bool add_special_tokens = true;      // around a text; of a chat by default not, as its template writes them
  SamplingParams sampling;             // max_tokens: void, see below
  std::optional<int> max_tokens;       // none: 16 for a completion, what the context leaves for a chat
  std::optional<uint64_t> seed;        // none: drawn
  int num_choices = 1;                 // n
  std::vector<std::string> stop;       // none of them empty
  bool include_stop = false;           // include_stop_str_in_output
  std::vector<std::string> bad_words;  // as texts; SamplingParams has them as tokens
  bool skip_special_tokens = true;     // in the text
  bool stream = false;
  bool include_usage = false;     // stream_options
  bool continuous_usage = false;  // stream_options.continuous_usage_stats
  bool return_token_ids = false;
  std::optional<StructuredOutput> output;  // none: any text
  bool return_draft_flags = false;         // of each token its text, and whether it is a draft that was kept
};

/// Throws ApiError (400, or 404 for a model that is not served).
GenerationRequest parse_generation_request(ApiKind kind, std::string_view body, const RequestRules& rules);

/// /tokenize
struct TokenizeRequest {
  std::variant<std::string, ChatPrompt> prompt;
  bool add_special_tokens = true;
  bool return_token_texts = false;  // return_token_strs
};
TokenizeRequest parse_tokenize_request(std::string_view body, const RequestRules& rules);

/// The ids of a /detokenize.
std::vector<int32_t> parse_detokenize_request(std::string_view body, const RequestRules& rules);

}  // namespace paceline
