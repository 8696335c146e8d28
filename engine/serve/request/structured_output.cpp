#include "engine/serve/request/structured_output.h"

#include <utility>

#include <fmt/format.h>

#include "engine/util/json_io.h"
#include "engine/util/printable.h"
#include "kernels/error.h"

namespace paceline {
namespace {

using Json = nlohmann::ordered_json;
using Form = StructuredOutput::Form;

/// A schema, or as vLLM takes it, the text of one.
Json schema_of(const std::string& param, const Json& value, const ServeLimits& limits) {
  if (!value.is_string()) return value;
  try {
    return parse_ordered_json(value.get_ref<const std::string&>(), param, ExitCode::usage,
                              {.max_bytes = size_t(limits.max_body_bytes), .max_depth = int(limits.max_json_depth)});
  } catch (const Error& error) {
    reject(param, message_text(error.what()));
  }
}

std::string source_of(const std::string& param, const Json& value) {
  if (!value.is_string()) reject_value(param, value, "a string");
  return value.get<std::string>();
}

std::vector<std::string> choices_of(const std::string& param, const Json& value) {
  if (!value.is_array() || value.empty()) reject_value(param, value, "a list of strings that is not empty");
  std::vector<std::string> choices;
  for (size_t i = 0; i < value.size(); ++i) choices.push_back(source_of(fmt::format("{}[{}]", param, i), value[i]));
  return choices;
}

StructuredOutput output_of(Form form, const std::string& param, const Json& value, const ServeLimits& limits) {
  StructuredOutput output{.form = form, .param = param, .text = {}, .choices = {}};
  if (form == Form::json_schema) output.schema = schema_of(param, value, limits);
  if (form == Form::choice) output.choices = choices_of(param, value);
  if (form == Form::regex || form == Form::grammar) output.text = source_of(param, value);
  return output;
}

struct FormName {
  const char* name;
  Form form;
};

std::optional<StructuredOutput> response_format_of(RequestFields& fields) {
  const Json* const format = fields.find("response_format");
  if (!format) return std::nullopt;
  RequestFields of_format(*format, "response_format.");
  const std::string type_param = of_format.param("type");
  const auto type = of_format.text("type");
  if (type != "text" && type != "json_object" && type != "json_schema")
    reject(type_param, fmt::format("{}: found {}, expected text, json_object or json_schema", type_param,
                                   type ? json_literal(*type) : "nothing"));
  if (type != "json_schema") {
    of_format.finish();
    return type == "text" ? std::nullopt
                          : std::optional(StructuredOutput{
                                .form = Form::json_object, .param = "response_format", .text = {}, .choices = {}});
  }
  const std::string param = of_format.param("json_schema");
  const Json* const json_schema = of_format.find("json_schema");
  if (!json_schema) reject(param, fmt::format("{}: missing", param));
  of_format.finish();
  RequestFields named(*json_schema, param + ".");
  named.text("name");         // for the client's own use
  named.text("description");  // for a model that is told of it
  named.boolean("strict");    // a schema is kept to whichever
  const Json* const schema = named.find("schema");
  if (!schema) reject(named.param("schema"), fmt::format("{}: missing", named.param("schema")));
  named.finish();
  return StructuredOutput{
      .form = Form::json_schema, .param = named.param("schema"), .schema = *schema, .text = {}, .choices = {}};
}

/// Of vLLM's fields each that is there.
void add_forms(std::vector<StructuredOutput>& found, RequestFields& fields, std::initializer_list<FormName> names,
               const ServeLimits& limits) {
  for (const FormName& one : names)
    if (const Json* const value = fields.find(one.name))
      found.push_back(output_of(one.form, fields.param(one.name), *value, limits));
}

}  // namespace

std::optional<StructuredOutput> structured_output_of(RequestFields& fields, const ServeLimits& limits) {
  std::vector<StructuredOutput> found;
  if (auto format = response_format_of(fields)) found.push_back(std::move(*format));
  if (const Json* const outputs = fields.find("structured_outputs")) {
    RequestFields of_outputs(*outputs, "structured_outputs.");
    const size_t before = found.size();
    add_forms(
        found, of_outputs,
        {{"json", Form::json_schema}, {"regex", Form::regex}, {"choice", Form::choice}, {"grammar", Form::grammar}},
        limits);
    if (of_outputs.boolean("json_object").value_or(false))
      found.push_back({.form = Form::json_object, .param = of_outputs.param("json_object"), .text = {}, .choices = {}});
    for (const char* name : {"disable_fallback", "disable_any_whitespace", "disable_additional_properties"})
      of_outputs.only(name, {false});
    of_outputs.finish();
    if (found.size() == before)
      reject("structured_outputs",
             "structured_outputs: found nothing, expected one of json, regex, choice, grammar, json_object");
  }
  add_forms(found, fields,
            {{"guided_json", Form::json_schema},
             {"guided_regex", Form::regex},
             {"guided_choice", Form::choice},
             {"guided_grammar", Form::grammar}},
            limits);
  if (found.size() > 1)
    reject(found[1].param, fmt::format("{}: found beside {}, expected one form", found[1].param, found[0].param));
  if (found.empty()) return std::nullopt;
  return std::move(found.front());
}

}  // namespace paceline
