#include "experiments/run/forecast.h"

#include <algorithm>
#include <cstring>

#include "experiments/run/runner.h"
#include "kernels/cpu/ceilings.h"
#include "kernels/cpu/cores.h"
#include "kernels/cpu/mapped_memory.h"
#include "speculative/proposer_entry.h"

namespace paceline {
namespace {

double weight_bytes(const LoadPlan& plan) { return double(plan.memory.weight_bytes); }

/// Values of the embedding, or of the head.
double vocabulary_values(const ModelSpec& spec) { return double(spec.vocab_size) * spec.hidden_size; }

/// What a step looks up instead of reading: the embedding, unless its own rank has it as the head, too.
double lookup_bytes(const ModelSpec& spec, DType dtype, int num_stages) {
  return spec.tied_head && num_stages == 1 ? 0 : vocabulary_values(spec) * double(dtype_bytes(dtype));
}

/// Operations of a row: a multiplication and an addition for every weight that is not looked up.
double row_operations(const ModelSpec& spec) {
  return 2 * (double(spec.num_parameters()) - (spec.tied_head ? 0 : vocabulary_values(spec)));
}

double num_drafts(const ExperimentConfig& config) {
  return config.speculation.drafts() ? config.speculation.num_speculative_tokens : 0;
}

/// Passes of the second model, and most drafts that a step keeps.
double num_levels(const ExperimentConfig& config) {
  return config.speculation.form().depth_of(int(num_drafts(config)));
}

/// Repetitions, and the part of one that warming up is: in requests.
double num_passes(const ExperimentConfig& config) {
  const double requests = config.workload.requests;
  return config.measure.repetitions + std::min(1.0, config.measure.warmup_requests / requests);
}

/// Sequences of a step at most.
double most_at_once(const ExperimentConfig& config) {
  return double(reachable_concurrency(concurrency_limits(config)));
}

/// The texts of a prompt one behind the other; a template puts more around them.
std::string text_of(const Prompt& prompt) {
  std::string text = prompt.text;
  for (const PromptMessage& message : prompt.messages) text += message.content;
  return text;
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

double quick_arithmetic_rate(DType dtype) {
  ThreadPool pool(usable_cores());
  double best = 0;
  for (int round = 0; round < 3; ++round) best = std::max(best, ceilings::gemm_rate(pool, dtype));
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
  sizes.dtype = target.dtype;
  sizes.target = weight_bytes(target) - lookup_bytes(target.target, target.dtype, cell.config.engine.parallel.pp);
  sizes.row.target = row_operations(target.target);
  sizes.row.prompt = sizes.row.target - 2 * vocabulary_values(target.target);
  const SecondModelConfig* const second = cell.config.speculation.draft_model();
  if (cell.config.speculation.head()) {
    const LoadPlan both = plan_load(cell.config, limits);
    sizes.draft = double(eagle3_read_bytes(*both.head, both.draft_dtype));
    sizes.row.draft = 2 * sizes.draft / double(dtype_bytes(both.draft_dtype));
  } else if (second && second->self) {
    sizes.draft = sizes.target;
    sizes.row.draft = sizes.row.target;
  } else if (second) {
    const LoadPlan both = plan_load(cell.config, limits);
    sizes.draft = weight_bytes(both) - weight_bytes(target) - lookup_bytes(*both.draft, both.draft_dtype, 1);
    sizes.row.draft = row_operations(*both.draft);
  }
  return sizes_.emplace(key, sizes).first->second;
}

std::optional<StepForecast> Forecaster::step(const Cell& cell) {
  if (on_cuda(cell.config.engine)) return std::nullopt;
  const Sizes& sizes = sizes_of(cell);
  const std::string target = target_name(cell.config);
  auto rate = read_rates_.find(target);
  if (rate == read_rates_.end()) rate = read_rates_.emplace(target, quick_read_rate(size_t(sizes.target))).first;
  StepForecast out{.target_bytes = sizes.target, .draft_bytes = sizes.draft, .read_bytes_s = rate->second};
  if (sizes.target <= 0 || rate->second <= 0) return std::nullopt;
  out.step_ms = (sizes.target + num_levels(cell.config) * sizes.draft) / rate->second * 1e3;
  return out;
}

RowWork Forecaster::row_work(const Cell& cell) {
  const Sizes& sizes = sizes_of(cell);
  auto rate = arithmetic_rates_.find(sizes.dtype);
  if (rate == arithmetic_rates_.end())
    rate = arithmetic_rates_.emplace(sizes.dtype, quick_arithmetic_rate(sizes.dtype)).first;
  RowWork row = sizes.row;
  row.per_second = rate->second;
  return row;
}

double num_turns(const ExperimentConfig& config) {
  ConcurrencyLimits limits = concurrency_limits(config);
  const double of_repetition = double(limits.requests) / double(reachable_concurrency(limits));
  limits.requests = std::clamp<int64_t>(config.measure.warmup_requests, 0, limits.requests);
  const double of_warm_up = limits.requests == 0 ? 0 : double(limits.requests) / double(reachable_concurrency(limits));
  return config.measure.repetitions * of_repetition + of_warm_up;
}

SecondsRange forecast(const ExperimentConfig& config, const StepForecast& step, const RequestTokens& tokens) {
  const double all = num_turns(config) * step.step_ms / 1e3;
  return {.low = all * tokens.output / (num_levels(config) + 1), .high = all * tokens.output};
}

SecondsRange arithmetic_forecast(const ExperimentConfig& config, const RowWork& row, const RequestTokens& tokens) {
  if (row.per_second <= 0) return {};
  const double levels = num_levels(config), outputs = config.workload.requests * tokens.output;
  const double drafting = levels * config.speculation.form().width * row.draft;
  const double step = (num_drafts(config) + 1) * row.target + drafting;  // of one sequence that drafts
  const double passes = num_passes(config) / row.per_second, prompts = tokens.prompts * row.prompt;
  return {.low = passes * (prompts + outputs / (levels + 1) * step), .high = passes * (prompts + outputs * step)};
}

double least_prompt_tokens(const std::vector<Prompt>& requests, bool prefix_caching) {
  constexpr double kMostBytesPerToken = 5;
  std::vector<std::string> texts;
  for (const Prompt& prompt : requests) texts.push_back(text_of(prompt));
  if (prefix_caching) std::sort(texts.begin(), texts.end());  // what two begin with, neighbours begin with
  size_t bytes = 0;
  for (size_t i = 0; i < texts.size(); ++i) {
    const size_t known =
        !prefix_caching || i == 0
            ? 0
            : size_t(std::mismatch(texts[i - 1].begin(), texts[i - 1].end(), texts[i].begin(), texts[i].end()).first -
                     texts[i - 1].begin());
    bytes += texts[i].size() - known;
  }
  return double(bytes) / kMostBytesPerToken;
}

std::optional<double> break_even_length(const ExperimentConfig& config, const StepForecast& step, const RowWork& row) {
  const bool has_model = config.speculation.second_model() && step.draft_bytes > 0;
  if (!config.speculation.drafts() || (!has_model && row.per_second <= 0)) return std::nullopt;
  const double sequences = most_at_once(config), drafts = num_drafts(config);
  const auto pass_s = [&](double bytes, double operations) {
    return std::max(bytes / step.read_bytes_s, row.per_second > 0 ? operations / row.per_second : 0);
  };
  const double verify = pass_s(step.target_bytes, sequences * (drafts + 1) * row.target);
  const double of_level = sequences * config.speculation.form().width * row.draft;
  const double draft = has_model ? num_levels(config) * pass_s(step.draft_bytes, of_level) : 0;
  return (verify + draft) / pass_s(step.target_bytes, sequences * row.target);
}

}  // namespace paceline
