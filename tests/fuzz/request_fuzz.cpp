// Bodies of requests of OpenAI's API. The input's first byte chooses the path.

#include <nlohmann/json.hpp>

#include "engine/serve/request/api_request.h"
#include "tests/fuzz/fuzz_input.h"

namespace {

using namespace paceline;

/// Small, so that inputs reach them.
RequestRules small_rules() {
  RequestRules rules{.model_names = {"m"}, .vocab_size = 100};
  rules.eos_token_ids = {1};
  rules.limits.max_choices = 4;
  rules.limits.max_stop_strings = 3;
  rules.limits.max_stop_bytes = 8;
  rules.limits.max_logit_bias = 3;
  rules.limits.max_bad_words = 3;
  return rules;
}

void require(bool holds) {
  if (!holds) __builtin_trap();
}

void read(char path, std::string_view body, const RequestRules& rules) {
  if (path == 't') {
    parse_tokenize_request(body, rules);
  } else if (path == 'd') {
    for (const int32_t id : parse_detokenize_request(body, rules)) require(id >= 0 && id < rules.vocab_size);
  } else {
    const GenerationRequest request =
        parse_generation_request(path == 'c' ? ApiKind::chat : ApiKind::completion, body, rules);
    require(request.num_choices >= 1 && request.num_choices <= rules.limits.max_choices);
    require(int64_t(request.stop.size()) <= rules.limits.max_stop_strings);
    if (!request.output) return;
    require(!request.output->param.empty());
    require((request.output->form == StructuredOutput::Form::choice) == !request.output->choices.empty());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const RequestRules rules = small_rules();
  if (size == 0) return 0;
  try {
    read(char(data[0]), fuzz::text_of(data + 1, size - 1), rules);
  } catch (const ApiError& error) {
    require(error.status == 400 || error.status == 404);
    require(error.message.find('\n') == std::string::npos);
    require(nlohmann::json::accept(error_json(error)));
  }
  return 0;
}
