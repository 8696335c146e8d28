#pragma once
// From a request's body to what the engine takes: text rendered and encoded, limits checked. Slow where a prompt is
// long or a form is new: a thread of its own does it.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/request_limits.h"
#include "engine/serve/grammar_cache.h"
#include "engine/serve/request/api_request.h"
#include "engine/tokenizer/chat_template.h"
#include "engine/tokenizer/tokenizer.h"

namespace paceline {

/// What is served; the same as long as the server lives.
struct ServedModel {
  std::vector<std::string> names;  // by which requests may name it; the first is its id
  std::shared_ptr<const Tokenizer> tokenizer;
  std::optional<ChatTemplate> chat_template;
};

struct PreparedRequest {
  GenerationRequest request;
  std::vector<std::vector<int32_t>> prompts;  // ids; at least one
  std::vector<SamplingParams> params;         // of each prompt's first choice; seed: void without request.seed
  std::shared_ptr<CompiledGrammar> grammar;   // of all choices; null: any text, or not made yet
  std::vector<int32_t> grammar_ends;          // tokens that may follow the whole text
};

/// All but a form. Throws ApiError: what the parser throws, and 400 for a prompt that is empty, does not fit the
/// context with the output that it asks for, or can never fit the KV pool, for more sequences than max_queue, and for
/// tools and tool_calls that the chat template does not read.
PreparedRequest prepare_generation(ApiKind kind, std::string_view body, const RequestRules& rules,
                                   const ServedModel& model, const RequestLimits& limits);
/// The form that the request asks for, if any. Throws ApiError for one that `grammars` does not take.
void prepare_form(PreparedRequest& prepared, const RequestRules& rules, GrammarCache& grammars);

/// The bodies of the answers of /tokenize and /detokenize. Throw ApiError.
std::string tokenize_body(std::string_view body, const RequestRules& rules, const ServedModel& model,
                          int max_model_len);
std::string detokenize_body(std::string_view body, const RequestRules& rules, const ServedModel& model);

}  // namespace paceline
