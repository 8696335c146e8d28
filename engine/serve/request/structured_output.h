#pragma once
// The form that a request wants its answer in, as its fields say: OpenAI's response_format, vLLM's structured_outputs
// and the older guided_json, guided_regex, guided_choice and guided_grammar.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/serve/limits.h"
#include "engine/serve/request/request_fields.h"

namespace paceline {

struct StructuredOutput {
  enum class Form : uint8_t { json_schema, json_object, regex, choice, grammar };

  Form form = Form::json_object;
  std::string param;                        // the field that says so: "response_format.json_schema.schema"
  nlohmann::ordered_json schema = nullptr;  // of a json_schema
  std::string text;                         // of a regex or a grammar
  std::vector<std::string> choices;         // of a choice; at least one
};

/// Reads all these fields; nothing where none of them asks for a form. Throws ApiError, also where several do.
std::optional<StructuredOutput> structured_output_of(RequestFields& fields, const ServeLimits& limits);

}  // namespace paceline
