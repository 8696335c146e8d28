#include "experiments/bench/step_ratios.h"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "engine/cache/kv_slot.h"
#include "experiments/analysis/step_gate.h"
#include "experiments/bench/bench.h"
#include "experiments/bench/stepper.h"
#include "experiments/config/devices.h"
#include "experiments/run/measure/measure_devices.h"
#include "kernels/cuda/probe.h"

namespace paceline {
namespace {

constexpr int kStepContext = 512;      // of all steps but those whose name says another
constexpr int kLongContext = 131'064;  // "128K": with eight rows behind it as long as models of 131,072 positions allow
constexpr int kMostSingleLogits = 64;  // of the rows of one sequence
constexpr int32_t kMatrixSize = 8192;  // of the product that the rate of multiplying is taken from

/// One kind of step: rows of each of its sequences.
struct StepCase {
  std::string name;
  std::vector<TextRows> seqs;
};

/// Each of `count` sequences: `rows` behind `context` tokens, with logits for all.
std::vector<TextRows> sequences(int count, int context, int rows) {
  return std::vector<TextRows>(size_t(count), {.begin = context, .end = context + rows, .logits = rows});
}

std::vector<StepCase> step_cases() {
  std::vector<StepCase> cases;
  for (const int rows : {1, 6, 9, 16, 17, 32, 33, 64, 65, 96, 128, 129, 256, 512})
    cases.push_back(
        {.name = fmt::format("{} {}", rows, rows == 1 ? "row" : "rows"),
         .seqs = {{.begin = kStepContext, .end = kStepContext + rows, .logits = std::min(rows, kMostSingleLogits)}}});
  for (const auto& [count, rows] : {std::pair(16, 6), {kMostStepSeqs, 1}, {kMostStepSeqs, kMostStepDrafts + 1}})
    cases.push_back({.name = fmt::format("{} x {}", count, rows), .seqs = sequences(count, kStepContext, rows)});
  StepCase uneven{.name = "15 x 1K + 1 x 128K", .seqs = sequences(15, 1024, 1)};
  uneven.seqs.push_back({.begin = kLongContext, .end = kLongContext + 1});
  cases.push_back(std::move(uneven));
  cases.push_back({.name = "1 x 128K, 6 rows", .seqs = sequences(1, kLongContext, 6)});
  for (const int tokens : {512, kMostStepPrefillTokens})
    cases.push_back({.name = fmt::format("prefill {}", tokens), .seqs = {{.begin = 0, .end = tokens}}});
  return cases;
}

int pages_for(int tokens) { return kv_blocks(tokens, kStepBlockSize); }

/// Of all sequences, each in pages of its own.
int pages_for(const StepCase& step) {
  return std::accumulate(step.seqs.begin(), step.seqs.end(), 0,
                         [](int sum, const TextRows& rows) { return sum + pages_for(rows.end); });
}

bool has_room(const StepCase& step, const LoadPlan& plan) {
  int num_rows = 0, num_logits = 0, longest = 0;
  for (const TextRows& rows : step.seqs) {
    num_rows += rows.end - rows.begin;
    num_logits += rows.logits;
    longest = std::max(longest, rows.end);
  }
  return longest <= plan.max_model_len && num_rows <= plan.max_num_rows && num_logits <= plan.max_num_logit_rows &&
         int(step.seqs.size()) <= plan.max_num_seqs && pages_for(step) <= plan.memory.num_blocks;
}

/// Says which have none.
std::vector<StepCase> cases_with_room(const LoadPlan& plan) {
  std::vector<StepCase> cases = step_cases();
  std::erase_if(cases, [&](const StepCase& step) {
    const bool fits = has_room(step, plan);
    if (!fits) std::printf("%s: no room\n", step.name.c_str());
    return !fits;
  });
  return cases;
}

std::shared_ptr<const Batch> batch_of(const StepCase& step, std::span<const int32_t> text) {
  const std::vector<int32_t> pages = pages_of(0, pages_for(step));
  auto batch = std::make_shared<Batch>();
  batch->step = 1;
  std::span<const int32_t> left = pages;
  for (size_t seq = 0; seq < step.seqs.size(); ++seq) {
    const size_t count = size_t(pages_for(step.seqs[seq].end));
    add_text_rows(*batch, int(seq), text, left.first(count), step.seqs[seq]);
    left = left.subspan(count);
  }
  batch->digest = digest_of(batch->expected);
  return batch;
}

/// Keys and values into the first `count` pages: of texts as long as one pass takes, one behind the other, whatever
/// sequence has the pages later. What they hold decides no time, but a device may save power on zeros.
void fill_pages(const Stepper& stepper, std::span<const int32_t> text, int count, int most_rows) {
  const std::vector<int32_t> pages = pages_of(0, count);
  const int most_pages = std::min(most_rows, int(text.size())) / kStepBlockSize;
  for (int begin = 0; begin < count; begin += most_pages) {
    const int some = std::min(most_pages, count - begin);
    stepper.seconds(
        text_batch(text, std::span(pages).subspan(size_t(begin), size_t(some)), {.end = some * kStepBlockSize}));
  }
}

/// As doctor measures them: what the device reads at most, and on a GPU cuBLASLt's product, whichever the numerics.
StepCeilings measure_step_ceilings(EngineLoad& load, const ExperimentConfig& config) {
  if (on_cuda(config.engine)) {
    const std::string& name = load.team().options().placement.devices[0];
    return {.read_bytes_s = measure_cuda_memory(cuda_index(name)).read_bytes_s,
            .multiply_flops_s = measure_matrix_rate(name, Numerics::fast, kMatrixSize)};
  }
  ThreadPool pool(load.team().options().threads_per_rank);
  return {.read_bytes_s = ceilings::best_read_rate(pool, packed_regions(*(*load.weights())[0])),
          .multiply_flops_s = ceilings::gemm_rate(pool, load.plan().dtype)};
}

std::string device_name(EngineLoad& load, const ExperimentConfig& config) {
  if (!on_cuda(config.engine)) return load.team().rank(0).backend->describe();
  const size_t index = size_t(cuda_index(load.team().options().placement.devices[0]));
  const CudaFacts facts = probe_cuda(ProbeDepth::listed);
  PACELINE_CHECK(index < facts.devices.size(), "device {} of {}", index, facts.devices.size());
  return facts.devices[index].name;
}

/// Weights that are not random may cost less: many of an inflated model are zeros.
std::string shape_name(const TargetConfig& target) {
  const std::string shape = (target.inflate ? target.shape_file.stem() : target.directory.filename()).string();
  return target.load_format == "dummy" ? shape + ", random weights" : shape;
}

StepTime time_step(const Stepper& stepper, const StepCase& step, std::span<const int32_t> text, int rounds) {
  const auto batch = batch_of(step, text);
  const Traffic counted = stepper.traffic(batch);
  for (int pass = 0; pass < 2; ++pass) stepper.seconds(batch);  // from the third pass on the device remembers it
  std::vector<double> times;
  for (int round = 0; round < rounds; ++round) times.push_back(stepper.seconds(batch));
  return {.name = step.name,
          .seconds = ceilings::median(times),
          .bytes = double(counted.weight_bytes + counted.kv_bytes),
          .flops = double(counted.flops)};
}

/// Until the host has given out the step.
double host_seconds(const Stepper& stepper, const StepCase& step, std::span<const int32_t> text, int rounds) {
  const auto batch = batch_of(step, text);
  std::vector<double> times;
  for (int round = 0; round < rounds; ++round) {
    times.push_back(stepper.host_seconds(batch));
    stepper.backend.sync();
  }
  return ceilings::median(times);
}

}  // namespace

ExitCode time_steps(EngineLoad& load, const ExperimentConfig& config, int rounds) {
  const std::string committed_file = bench_setting("STEPS"), written_file = bench_setting("WRITE_STEPS");
  std::vector<CommittedSteps> committed;
  if (!committed_file.empty()) committed = read_committed_steps(committed_file);  // before anything takes time

  const Stepper stepper(load);
  const std::vector<int32_t> text = stepper.text(load.plan().max_model_len);
  const std::vector<StepCase> cases = cases_with_room(load.plan());
  PACELINE_CHECK(!cases.empty(), "{} tokens have no room for any step", load.plan().max_model_len);
  int num_pages = 0;
  for (const StepCase& step : cases) num_pages = std::max(num_pages, pages_for(step));
  fill_pages(stepper, text, num_pages, load.plan().max_num_rows);

  std::printf("context %d; the host gives out %s in %.3f ms\n", kStepContext, cases[0].name.c_str(),
              host_seconds(stepper, cases[0], text, rounds) * 1e3);
  const StepCeilings before = measure_step_ceilings(load, config);
  std::vector<StepTime> times;
  for (const StepCase& step : cases) times.push_back(time_step(stepper, step, text, rounds));
  const StepCeilings behind = measure_step_ceilings(load, config);
  const StepCeilings best{.read_bytes_s = std::max(before.read_bytes_s, behind.read_bytes_s),
                          .multiply_flops_s = std::max(before.multiply_flops_s, behind.multiply_flops_s)};
  std::printf(
      "floors: the longer of reading at %.4g GB/s and multiplying at %.4g TFLOP/s%s, each the better of before (%.4g, "
      "%.4g) and behind the steps (%.4g, %.4g)\n",
      best.read_bytes_s * 1e-9, best.multiply_flops_s * 1e-12,
      on_cuda(config.engine) ? fmt::format(" (cuBLASLt, {}³)", kMatrixSize).c_str() : "", before.read_bytes_s * 1e-9,
      before.multiply_flops_s * 1e-12, behind.read_bytes_s * 1e-9, behind.multiply_flops_s * 1e-12);

  const StepKey key{.shape = shape_name(config.engine.target),
                    .card = card_of(device_name(load, config)),
                    .numerics = config.engine.numerics};
  std::vector<StepRatio> ratios;
  for (const StepTime& time : times) ratios.push_back(step_ratio(time, best));
  const std::vector<JudgedStep> judged = judge_steps(ratios, find_committed(committed, key));
  for (const JudgedStep& step : judged) std::printf("%s\n", step_line(step).c_str());
  std::printf("%s\n", steps_summary(judged, key).c_str());
  if (!written_file.empty()) commit_steps(written_file, key, ratios);
  return steps_exit_code(judged);
}

}  // namespace paceline
