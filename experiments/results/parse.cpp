#include "experiments/results/parse.h"

#include "experiments/results/json_values.h"

namespace paceline {

using nlohmann::json;

namespace {

std::string bytes_from(const std::vector<int>& values) {
  std::string out;
  for (const int value : values) out += static_cast<char>(value);
  return out;
}

}  // namespace

RequestRecord request_from_json(const json& object) { return from_fields<RequestRecord>(object); }

RepetitionResult repetition_from_json(const json& object) {
  RepetitionResult out = from_fields<RepetitionResult>(object);
  if (object.contains("cpu_s") && object["cpu_s"].is_number())
    out.cpu = {.used_s = object["cpu_s"].get<double>(), .waited_s = object.value("cpu_wait_s", 0.0)};
  return out;
}

std::vector<SampleTexts> samples_from_json(const json& object) {
  std::vector<SampleTexts> out;
  for (const json& model : object.at("models")) {
    SampleTexts texts{.model = model.at("model").get<std::string>(), .prompts = {}, .tokens = {}};
    for (const json& prompt : model.at("prompts"))
      texts.prompts.push_back({.dataset_index = value_of<int64_t>(prompt.at("dataset_index")),
                               .id = prompt.at("id").get<std::string>(),
                               .text = prompt.at("text").get<std::string>()});
    for (const json& token : model.at("tokens"))
      texts.tokens.push_back({.id = value_of<int32_t>(token.at("id")),
                              .bytes = token.contains("bytes")
                                           ? bytes_from(value_of<std::vector<int>>(token.at("bytes")))
                                           : token.at("text").get<std::string>()});
    out.push_back(std::move(texts));
  }
  return out;
}

std::vector<TimelinePoint> timeline_from_json(const json& object) {
  return object.is_object() ? columns_from_json<TimelinePoint>(object) : std::vector<TimelinePoint>();
}

void read_cell_plan(const json& object, CellResult& cell) {
  read_fields(
      object, [](auto&& visit) { CellResult::plan_fields(visit); }, cell);
}

void read_cell_load(const json& object, CellResult& cell) {
  read_fields(
      object, [](auto&& visit) { CellResult::load_fields(visit); }, cell);
}

std::vector<LogitCheck> logit_checks_from_json(const json& list) {
  std::vector<LogitCheck> out;
  read_field(list, out);
  return out;
}

}  // namespace paceline
