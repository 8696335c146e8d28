#include "experiments/run/plan/forecast.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include <nlohmann/json.hpp>

#include "experiments/results/files/files.h"
#include "experiments/results/files/run_names.h"
#include "experiments/run/runner.h"
#include "kernels/cpu/ceilings.h"
#include "kernels/cpu/cores.h"
#include "kernels/cpu/mapped_memory.h"
#include "speculative/proposer_entry.h"

namespace paceline {

using nlohmann::json;

namespace {

double weight_bytes(const LoadPlan& plan) { return double(plan.memory.weight_bytes); }

/// What a step looks up instead of reading: the embedding, unless its own rank has it as the head, too.
double lookup_bytes(const ModelSpec& spec, DType dtype, int num_stages) {
  return spec.tied_head && num_stages == 1 ? 0
                                           : double(spec.vocab_size) * spec.hidden_size * double(dtype_bytes(dtype));
}

/// Passes of the second model where it drafts, and most drafts that a step keeps.
double num_levels(const ExperimentConfig& config) {
  if (!config.speculation.drafts()) return 0;
  return config.speculation.form().depth_of(config.speculation.num_speculative_tokens);
}

/// Passes of the second model that a step makes in any case: none where stages before it may draft in its place.
double least_passes(const ExperimentConfig& config) {
  const ProposerEntry* const proposer = find_proposer(config.speculation.proposer);
  if (!proposer || !proposer->stages) return num_levels(config);
  const auto stages = proposer->stages(config.speculation.of(proposer->name).options);
  const ProposerEntry* const first = stages.empty() ? nullptr : find_proposer(stages.front());
  return first && first->has_second_model() ? num_levels(config) : 0;
}

constexpr size_t kMostRuns = 24;

json read_or_null(const std::filesystem::path& file) {
  const auto text = try_read_user_file(file, kResultFile);
  const json content = text ? json::parse(*text, nullptr, false) : json();
  return content.is_object() ? content : json();
}

MeasuredCell measured_cell(const json& cell) {
  const json& axes = cell.at("axes");
  const auto num_requests = cell.at("num_requests").get<double>();
  const ConcurrencyLimits limits{
      .requests = cell.at("num_requests").get<int64_t>() / cell.at("repetitions").get<int64_t>(),
      .concurrency = axes.at("concurrency").get<int64_t>(),
      .max_num_seqs = cell.at("effective").value("max_num_seqs", std::numeric_limits<int64_t>::max())};
  const double turns = num_requests / double(reachable_concurrency(limits));
  const double forwards = cell.at("counters").at("target_forwards").get<double>();
  return {.id = cell.at("id").get<std::string>(),
          .kind = {.model = cell.at("model").get<std::string>(),
                   .load = cell.at("load").get<std::string>(),
                   .proposer = axes.at("proposer").get<std::string>(),
                   .concurrency = int(limits.concurrency)},
          .turn_s = cell.at("step_ms").get<double>() / 1e3 * forwards / turns,
          .mean_output = cell.at("output_tokens").get<double>() / num_requests};
}

/// Of a run's folder; none where it says nothing about these kinds. Throws json::exception for another form.
std::optional<Calibration> calibration_of(const std::filesystem::path& folder, const std::set<CellKind>& kinds) {
  const json summary = read_or_null(folder / "summary.json");
  const std::string status = summary.value("status", "");
  if (status != "done" && status != "failed_cells") return std::nullopt;
  const json forecast = summary.value("forecast", json());
  if (!forecast.is_object() || !forecast.value("time_ratio", json()).is_number()) return std::nullopt;
  Calibration out{.run = summary.at("id").get<std::string>(), .ratio = forecast.at("time_ratio").get<double>()};
  std::set<CellKind> measured;
  for (const json& cell : summary.at("cells")) {
    if (cell.at("status") != "done" || cell.at("num_requests").get<int64_t>() == 0) continue;
    out.cells.push_back(measured_cell(cell));
    measured.insert(out.cells.back().kind);
    out.num_noisy += cell.at("noisy").get<bool>() ? 1 : 0;
    out.requests = cell.at("num_requests").get<int64_t>() / cell.at("repetitions").get<int64_t>();
  }
  const json sampling = read_or_null(folder / "config.resolved.json").value("sampling", json::object());
  out.max_tokens = sampling.value("max_tokens", 0);
  return measured == kinds ? std::optional(std::move(out)) : std::nullopt;
}

}  // namespace

ConcurrencyLimits concurrency_limits(const ExperimentConfig& config) {
  const SchedulerConfig& scheduler = config.engine.scheduler;
  const bool is_static = scheduler.batching == BatchingMode::static_turns;
  return {.requests = config.workload.requests,
          .concurrency = config.load.mode == LoadMode::closed ? config.load.concurrency : 0,
          .max_num_seqs = is_static ? scheduler.static_batch_size : scheduler.max_num_seqs};
}

double quick_read_rate(size_t bytes) {
  constexpr size_t kMost = size_t{64} << 20, kLeast = size_t{1} << 20;
  ThreadPool pool(usable_cores());
  const MappedMemory memory(std::clamp(bytes, kLeast, kMost));  // pages as weights have them
  std::memset(memory.data(), 1, memory.bytes());
  const ceilings::Region region{static_cast<const char*>(memory.data()), memory.bytes()};
  double best = 0;  // what another program disturbs is slower, never faster
  for (int round = 0; round < 3; ++round) best = std::max(best, ceilings::best_read_rate(pool, std::span(&region, 1)));
  return best;
}

const Forecaster::Sizes& Forecaster::sizes_of(const Cell& cell) {
  const auto key = std::pair(cell.load_key, cell.draft_key);
  if (const auto known = sizes_.find(key); known != sizes_.end()) return known->second;
  const LoadLimits limits = limits_of(cells_, cell.load_key, auto_threads_);
  Sizes sizes;
  ExperimentConfig plain = cell.config;
  plain.speculation.proposer = kNoProposer;
  const LoadPlan target = plan_load(plain, limits);
  sizes.target = weight_bytes(target) - lookup_bytes(target.target, target.dtype, cell.config.engine.parallel.pp);
  const SecondModelConfig* const second = cell.config.speculation.second_model();
  if (second && second->self) {
    sizes.draft = sizes.target;
  } else if (second) {
    const LoadPlan both = plan_load(cell.config, limits);
    sizes.draft = both.head
                      ? double(eagle3_read_bytes(*both.head, both.draft_dtype))
                      : weight_bytes(both) - weight_bytes(target) - lookup_bytes(*both.draft, both.draft_dtype, 1);
  }
  return sizes_.emplace(key, sizes).first->second;
}

std::optional<StepForecast> Forecaster::step(const Cell& cell) {
  if (on_cuda(cell.config.engine) || cell.config.is_foreign()) return std::nullopt;
  Sizes sizes;
  try {
    sizes = sizes_of(cell);
  } catch (const Error&) {
    return std::nullopt;
  }
  const std::string target = target_name(cell.config);
  auto rate = read_rates_.find(target);
  if (rate == read_rates_.end()) rate = read_rates_.emplace(target, quick_read_rate(size_t(sizes.target))).first;
  StepForecast out{.target_bytes = sizes.target, .draft_bytes = sizes.draft, .read_bytes_s = rate->second};
  if (sizes.target <= 0 || rate->second <= 0) return std::nullopt;
  out.step_ms = (sizes.target + least_passes(cell.config) * sizes.draft) / rate->second * 1e3;
  return out;
}

double num_turns(const ExperimentConfig& config) {
  ConcurrencyLimits limits = concurrency_limits(config);
  const double of_repetition = double(limits.requests) / double(reachable_concurrency(limits));
  limits.requests = std::clamp<int64_t>(config.measure.warmup_requests, 0, limits.requests);
  const double of_warm_up = limits.requests == 0 ? 0 : double(limits.requests) / double(reachable_concurrency(limits));
  return config.measure.repetitions * of_repetition + of_warm_up;
}

SecondsRange forecast(const ExperimentConfig& config, const StepForecast& step, double mean_output) {
  const double all = num_turns(config) * step.step_ms / 1e3;
  return {.low = all * mean_output / (num_levels(config) + 1), .high = all * mean_output};
}

std::optional<double> break_even_length(const ExperimentConfig& config, const StepForecast& step) {
  if (!config.speculation.second_model() || step.draft_bytes <= 0 || least_passes(config) <= 0) return std::nullopt;
  return 1 + least_passes(config) * step.draft_bytes / step.target_bytes;
}

std::optional<Calibration> find_calibration(const std::filesystem::path& root, const std::string& machine_id,
                                            const std::set<CellKind>& kinds, int64_t requests) {
  const auto num_faults = [&](const Calibration& calibration) {
    return (calibration.num_noisy > 0 ? 1 : 0) + (is_much_smaller(calibration.requests, requests) ? 1 : 0);
  };
  const std::vector<std::string> ids = list_runs(root);
  std::optional<Calibration> best;
  for (size_t i = 0; i < std::min(ids.size(), kMostRuns); ++i) {
    const std::filesystem::path folder = root / ids[ids.size() - 1 - i];
    try {
      if (read_or_null(folder / "environment.json").value("machine_id", "") != machine_id) continue;
      std::optional<Calibration> found = calibration_of(folder, kinds);
      if (!found || (best && num_faults(*found) >= num_faults(*best))) continue;
      best = std::move(found);
      if (num_faults(*best) == 0) break;
    } catch (const json::exception&) {  // of another form
    }
  }
  return best;
}

SecondsRange calibrated_forecast(const Calibration& calibration, const PlannedCell& planned) {
  const auto is_same = [&](const MeasuredCell& cell) { return cell.id == planned.id && cell.kind == planned.kind; };
  const bool has_same = std::any_of(calibration.cells.begin(), calibration.cells.end(), is_same);
  SecondsRange range{.low = std::numeric_limits<double>::infinity(), .high = 0};
  for (const MeasuredCell& cell : calibration.cells) {
    if (has_same ? !is_same(cell) : cell.kind != planned.kind) continue;
    const double time_s = planned.num_turns * cell.turn_s;
    const bool may_grow = calibration.max_tokens > 0 && planned.max_tokens > calibration.max_tokens;
    const double shrinks = cell.mean_output > 0 ? std::min(1.0, planned.mean_output / cell.mean_output) : 1;
    const double grows = may_grow ? std::max(1.0, planned.mean_output / calibration.max_tokens) : 1;
    range.low = std::min(range.low, time_s * shrinks);
    range.high = std::max(range.high, time_s * shrinks * grows);
  }
  return range;
}

}  // namespace paceline
