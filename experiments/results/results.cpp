#include "experiments/results/results.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "engine/text/utf8.h"
#include "engine/util/json_io.h"
#include "kernels/fnv1a.h"
#include "kernels/sampling_types.h"

namespace paceline {

using nlohmann::json;

namespace {

/// A token may be a part of a character, which JSON's text cannot hold.
json token_to_json(const SampleTexts::Token& token) {
  json out = {{"id", token.id}, {"text", token.bytes}};
  if (!utf8_valid(token.bytes)) {
    json bytes = json::array();
    for (const char c : token.bytes) bytes.push_back(static_cast<unsigned char>(c));
    out["bytes"] = bytes;
  }
  return out;
}

std::string bytes_of(const json& token) {
  const auto bytes = token.find("bytes");
  if (bytes == token.end()) return token.at("text").get<std::string>();
  std::string out;
  for (const int value : value_of<std::vector<int>>(*bytes)) out += static_cast<char>(value);
  return out;
}

constexpr const char* kLanesSchema = "paceline.ranks";
constexpr int kLanesVersion = 1;
constexpr std::array<const char*, kNumActivityKinds> kKinds = {"pass", "draft", "sample", "wait_stage", "wait_peers"};

/// Kinds of a later version are left out: the others still hold.
RankLane lane_from_json(const json& object) {
  RankLane lane = from_fields<RankLane>(object);
  lane.activities = columns_from_json<LaneActivity>(object);
  std::erase_if(lane.activities, [](const LaneActivity& activity) { return int(activity.kind) >= kNumActivityKinds; });
  return lane;
}

constexpr auto kPlanFields = [](auto&& visit) { CellResult::plan_fields(visit); };
constexpr auto kLoadFields = [](auto&& visit) { CellResult::load_fields(visit); };

void add(int64_t& sum, int64_t more) { sum += more; }
void add(std::vector<int64_t>& sum, const std::vector<int64_t>& more) {
  if (sum.size() < more.size()) sum.resize(more.size());
  for (size_t i = 0; i < more.size(); ++i) sum[i] += more[i];
}
void add(std::vector<StageCounters>& sum, const std::vector<StageCounters>& more) {
  for (const StageCounters& stage : more) {
    auto known = std::find_if(sum.begin(), sum.end(), [&](const StageCounters& one) { return one.name == stage.name; });
    if (known == sum.end()) known = sum.insert(sum.end(), {.name = stage.name});
    known->drafts += stage.drafts;
    known->drafted += stage.drafted;
    known->accepted += stage.accepted;
  }
}

}  // namespace

PhaseTimes PhaseTimes::operator+(const PhaseTimes& more) const {
  PhaseTimes sum = *this;
  fields([&](const char*, auto member, auto...) { sum.*member += more.*member; });
  return sum;
}

PhaseTimes PhaseTimes::operator*(double factor) const {
  PhaseTimes product = *this;
  fields([&](const char*, auto member, auto...) { product.*member *= factor; });
  return product;
}

double PhaseTimes::total_ms() const {
  double total = 0;
  fields([&](const char*, auto member, auto...) { total += this->*member; });
  return total;
}

RunCounters& RunCounters::operator+=(const RunCounters& more) {
  const int64_t peak = std::max(kv_blocks_peak, more.kv_blocks_peak);
  fields([&](const char*, auto member, auto...) { add(this->*member, more.*member); });
  kv_blocks_peak = peak;
  return *this;
}

const char* to_string(CellStatus status) { return std::array{"done", "failed", "skipped"}[size_t(status)]; }

json json_number(double value) { return std::isfinite(value) ? json(value) : json(nullptr); }
json json_number(const std::optional<double>& value) { return value ? json_number(*value) : json(nullptr); }

json counters_to_json(const RunCounters& counters) { return fields_to_json(counters); }

json logit_checks_to_json(const LogitEvidence& logits) { return field_to_json(logits.checks); }
std::vector<LogitCheck> logit_checks_from_json(const json& list) {
  std::vector<LogitCheck> out;
  read_field(list, out);
  return out;
}

json repetition_to_json(const RepetitionResult& repetition) { return fields_to_json(repetition); }
RepetitionResult repetition_from_json(const json& object) { return from_fields<RepetitionResult>(object); }

json timeline_to_json(const RepetitionResult& repetition) {
  return repetition.timeline.empty() ? json(nullptr) : columns_to_json(repetition.timeline);
}
std::vector<TimelinePoint> timeline_from_json(const json& object) {
  return object.is_object() ? columns_from_json<TimelinePoint>(object) : std::vector<TimelinePoint>();
}

json cell_plan_to_json(const CellResult& cell) { return fields_to_json(cell, kPlanFields); }
void read_cell_plan(const json& object, CellResult& cell) { read_fields(object, kPlanFields, cell); }

json cell_load_to_json(const CellResult& cell) { return fields_to_json(cell, kLoadFields); }
void read_cell_load(const json& object, CellResult& cell) { read_fields(object, kLoadFields, cell); }

json cell_to_json(const CellResult& cell) {
  json out = {{"schema", "paceline.cell"},
              {"schema_version", 1},
              {"logit_checks", logit_checks_to_json(cell.logits)},
              {"repetitions", field_to_json(cell.repetitions)},
              {"timeline", timeline_to_json(cell.repetitions.empty() ? RepetitionResult() : cell.repetitions.front())}};
  out.update(fields_to_json(cell, [](auto&& visit) { CellResult::result_fields(visit); }));
  out.update(cell_plan_to_json(cell));
  out.update(cell_load_to_json(cell));
  return out;
}

std::string asked_without(const CellResult& cell, std::span<const std::string_view> left_out) {
  const CellAxes& axes = cell.axes;
  json asked = cell.requested.is_object() ? cell.requested : json{{"variant", axes.variant}};
  const json named = {
      {"engine", {{"parallel", {{"tp", axes.tp}, {"pp", axes.pp}}}}},
      {"load", {{"concurrency", axes.concurrency}}},
      {"speculation",
       {{"proposer", axes.proposer}, {"num_speculative_tokens", axes.num_speculative_tokens.value_or(0)}}}};
  asked.update(named, true);
  for (const std::string_view path : left_out) {
    std::string pointer = "/" + std::string(path);
    std::replace(pointer.begin(), pointer.end(), '.', '/');
    const json::json_pointer place(pointer);
    if (asked.contains(place)) asked[place.parent_pointer()].erase(place.back());
  }
  const bool any_load = std::ranges::any_of(left_out, [](std::string_view path) { return path.starts_with("load."); });
  return json::array({asked, cell.model, any_load ? "" : cell.load}).dump();
}

int repetitions_asked(const CellResult& cell) {
  const json* const asked = find_value(cell.requested, "measure.repetitions");
  return asked ? asked->get<int>() : 0;
}

CellCounts count_cells(const std::vector<CellResult>& cells) {
  CellCounts counts;
  for (const CellResult& cell : cells) {
    const bool not_reached = cell.status == CellStatus::done && cell.repetitions.empty();
    if (cell.status == CellStatus::failed) {
      ++counts.failed;
    } else if (cell.status == CellStatus::skipped || not_reached) {
      ++counts.skipped;
      counts.not_run += cell.not_run || not_reached ? 1 : 0;
    } else {
      ++counts.done;
      counts.partial += int(cell.repetitions.size()) < repetitions_asked(cell) ? 1 : 0;
    }
  }
  return counts;
}

bool is_foreign(const CellResult& cell) {
  const json* const level = find_value(cell.requested, "measure.level");
  if (!level || *level != "http") return false;
  const auto says = [&](const char* key) {
    const json* const value = find_value(cell.requested, key);
    return value && !value->is_null();
  };
  return says("server.endpoint") || says("server.command");
}

bool has_fast_numerics(const CellResult& cell) {
  return cell.effective.is_object() && cell.effective.value("numerics", "strict") == "fast";
}

bool draws_anew(const CellResult& cell) {
  const nlohmann::json* const temperature = find_value(cell.requested, "sampling.temperature");
  const nlohmann::json* const redraw = find_value(cell.requested, "sampling.redraw");
  if (!temperature || !temperature->is_number() || !redraw || !redraw->is_boolean()) return false;
  return redraw->get<bool>() && !DrawParams{.temperature = temperature->get<float>()}.greedy();
}

std::vector<int> threads_per_rank_of(const RunResult& run) {
  std::set<int> threads;
  for (const CellResult& cell : run.cells) {
    const json said = cell.effective.is_object() ? cell.effective.value("threads_per_rank", json()) : json();
    if (const auto number = integer_of<int>(said)) threads.insert(*number);
  }
  return {threads.begin(), threads.end()};
}

json request_to_json(const RequestRecord& request, int repetition) {
  json out = fields_to_json(request);
  out["repetition"] = repetition;
  return out;
}
RequestRecord request_from_json(const json& object) { return from_fields<RequestRecord>(object); }

json samples_to_json(const RunResult& run) {
  json models = json::array();
  for (const SampleTexts& texts : run.sample_texts) {
    json prompts = json::array(), tokens = json::array();
    for (const SampleTexts::Prompt& p : texts.prompts)
      prompts.push_back({{"dataset_index", p.dataset_index}, {"id", p.id}, {"text", p.text}});
    for (const SampleTexts::Token& t : texts.tokens) tokens.push_back(token_to_json(t));
    models.push_back({{"model", texts.model}, {"prompts", prompts}, {"tokens", tokens}});
  }
  return {{"schema", "paceline.samples"}, {"schema_version", 1}, {"models", models}};
}

std::vector<SampleTexts> samples_from_json(const json& object) {
  std::vector<SampleTexts> out;
  for (const json& model : object.at("models")) {
    SampleTexts texts{.model = model.at("model").get<std::string>()};
    for (const json& prompt : model.at("prompts"))
      texts.prompts.push_back({.dataset_index = value_of<int64_t>(prompt.at("dataset_index")),
                               .id = prompt.at("id").get<std::string>(),
                               .text = prompt.at("text").get<std::string>()});
    for (const json& token : model.at("tokens"))
      texts.tokens.push_back({.id = value_of<int32_t>(token.at("id")), .bytes = bytes_of(token)});
    out.push_back(std::move(texts));
  }
  return out;
}

json rank_lanes_to_json(const RankLanes& lanes) {
  json ranks = json::array();
  for (const RankLane& lane : lanes.ranks) {
    ranks.push_back(fields_to_json(lane));
    ranks.back().update(columns_to_json(lane.activities));
  }
  return {{"schema", kLanesSchema},
          {"schema_version", kLanesVersion},
          {"window_ns", lanes.window_ns},
          {"deciding_rank", lanes.deciding_rank},
          {"kinds", kKinds},
          {"ranks", ranks}};
}

std::optional<RankLanes> rank_lanes_from_json(const json& object) {
  try {
    if (object.at("schema") != kLanesSchema || value_of<int>(object.at("schema_version")) > kLanesVersion)
      return std::nullopt;
    RankLanes lanes{.window_ns = value_of<int64_t>(object.at("window_ns")),
                    .deciding_rank = value_of<int>(object.at("deciding_rank"))};
    for (const json& lane : object.at("ranks")) lanes.ranks.push_back(lane_from_json(lane));
    const bool has_deciding = lanes.deciding_rank >= 0 && size_t(lanes.deciding_rank) < lanes.ranks.size();
    return lanes.window_ns > 0 && has_deciding ? std::optional(std::move(lanes)) : std::nullopt;
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

RunCounters pooled_counters(const CellResult& cell) {
  RunCounters sum;
  for (const RepetitionResult& r : cell.repetitions) sum += r.counters;
  return sum;
}

std::optional<FlipCount> pooled_flips(const RunResult& run) {
  std::optional<FlipCount> pooled;
  for (const CellResult& cell : run.cells) {
    if (cell.status != CellStatus::done || !cell.certificate.flips) continue;
    const FlipCount& flips = *cell.certificate.flips;
    if (!pooled) pooled.emplace();
    pooled->found += flips.found;
    pooled->explained += flips.explained;
    pooled->positions += flips.positions;
    const bool keep = pooled->noise && (std::isnan(*pooled->noise) || pooled->noise > flips.noise);
    if (flips.noise && !keep) pooled->noise = flips.noise;
  }
  return pooled;
}

int64_t output_tokens_of(const RepetitionResult& repetition) {
  int64_t tokens = 0;
  for (const RequestRecord& q : repetition.requests) tokens += q.num_tokens();
  return tokens;
}

std::string output_hash(const RepetitionResult& repetition) {
  std::vector<const RequestRecord*> order;
  for (const RequestRecord& q : repetition.requests) order.push_back(&q);
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return std::tie(a->dataset_index, a->id) < std::tie(b->dataset_index, b->id);
  });
  Fnv1a hash;
  for (const RequestRecord* q : order) {
    const std::array<int64_t, 2> head = {q->dataset_index, static_cast<int64_t>(q->output.size())};
    hash.add(head.data(), sizeof(head));
    hash.add(q->output.data(), q->output.size() * sizeof(int32_t));
    if (q->output.empty()) hash.add(q->text.data(), q->text.size());
  }
  return hash.hex();
}

}  // namespace paceline
