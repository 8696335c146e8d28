// The engine against the machine, as ratios in one run: decode against a plain read of the packed weights, more rows
// against one row, prefill against the FMA rate, sampling plans, and the engine's own overhead. On a GPU: steps against
// their floors, and against committed ratios (step_ratios.h).
//
//   engine_bench [MODEL_DIR [ROUNDS]]     default: $PACELINE_MODELS/target-42m, else the built-in target; 31 rounds
//
// Environment: PACELINE_BENCH_THREADS (default: usable cores), PACELINE_BENCH_DTYPE (auto, float32, …),
// PACELINE_BENCH_BACKEND (cpu, cuda), PACELINE_BENCH_NUMERICS (strict, fast), PACELINE_BENCH_INFLATE (a shape: the
// model inflated to it), PACELINE_BENCH_DUMMY (set: random weights), PACELINE_BENCH_ONLY (steps: no speculation;
// plans: sampling plans alone; gate: steps against their floors alone, on a CPU, too), and those of step_ratios.h. Exit
// code 8: a step is slower than committed.

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "experiments/bench/bench.h"
#include "experiments/bench/step_ratios.h"
#include "experiments/bench/stepper.h"
#include "experiments/run/engine_load.h"
#include "experiments/run/measure/measure_devices.h"
#include "experiments/run/measure/repetition.h"
#include "experiments/workload/dataset.h"
#include "experiments/workload/request_sampling.h"
#include "experiments/workload/requests.h"
#include "kernels/cpu/ceilings.h"

namespace paceline {
namespace {

constexpr int kContext = 128;

double bytes_of(const Traffic& traffic) { return double(traffic.weight_bytes + traffic.kv_bytes); }

constexpr int kMostStreams = 16;

/// One step of `streams` sequences of the same text, behind `context` tokens in `num_pages` pages of their own: the
/// last token and drafts behind it.
std::shared_ptr<const Batch> draft_batch(std::span<const int32_t> text, int context, int streams, int num_pages,
                                         const DraftTree& drafts) {
  auto batch = std::make_shared<Batch>();
  batch->step = 1;
  for (int stream = 0; stream < streams; ++stream) {
    const std::vector<int32_t> pages = pages_of(stream, num_pages);
    const int end = context + 1;
    add_rows(*batch, {.state = {.seq = stream, .cached = context, .length = end, .last_token = text[size_t(context)]},
                      .tokens = text.first(size_t(end)),
                      .pages = pages,
                      .block_size = kStepBlockSize,
                      .end = end,
                      .reset = true,
                      .drafts = &drafts});
  }
  batch->digest = digest_of(batch->expected);
  return batch;
}

/// A step with 16 drafts as a tree, two after each, and as a tree of one path, against one with them as a chain.
void tree_ratios(EngineLoad& load, int rounds) {
  const Stepper stepper(load);
  constexpr int kNodes = 16;
  DraftTree tree, path;
  for (int node = 0; node < kNodes; ++node) tree.add(node, (node + 1) / 2 - 1), path.add(node, node - 1);
  const DraftTree chain = DraftTree::chain(tree.token);
  const std::vector<int32_t> text = stepper.text(load.plan().max_model_len);
  for (const int context : {128, 512, 4096}) {
    const int num_pages = (context + kNodes) / kStepBlockSize + 1;
    if (context + kNodes >= load.plan().max_model_len || num_pages * kMostStreams > load.plan().memory.num_blocks) {
      std::printf("tree of %d, context %4d: no room\n", kNodes, context);
      continue;
    }
    for (int stream = 0; stream < kMostStreams; ++stream)
      for (int begin = 0; begin < context; begin += 512)
        stepper.seconds(
            text_batch(text, pages_of(stream, num_pages), {.begin = begin, .end = std::min(begin + 512, context)}));
    for (const int streams : {1, kMostStreams}) {
      const auto straight = draft_batch(text, context, streams, num_pages, chain);
      const auto of_chain = stepper.traffic(straight);
      for (const auto& [name, drafts] : {std::pair("tree", &tree), std::pair("path", &path)}) {
        const auto shaped = draft_batch(text, context, streams, num_pages, *drafts);
        const Traffic counted = stepper.traffic(shaped);
        for (int pass = 0; pass < 3; ++pass) stepper.seconds(shaped), stepper.seconds(straight);
        const auto [time, ratio] = stepper.by_turns(shaped, straight, rounds, 2);
        std::printf("%s of %d / chain of %d, context %4d, %2d streams  %6.3f of %8.3f ms, KV bytes %.3f, %s\n", name,
                    kNodes, kNodes, context, streams, ratio, time * 1e3,
                    double(counted.kv_bytes) / double(of_chain.kv_bytes),
                    counted == of_chain ? "equal counters" : "other counters");
      }
    }
  }
}

void kernel_ratios(EngineLoad& load, ThreadPool& pool, int rounds) {
  const Stepper stepper(load);
  const std::vector<int32_t> text = stepper.text(1024), pages = pages_of(0, 64);
  stepper.seconds(text_batch(text, pages, {.end = kContext}));
  const auto regions = packed_regions(*(*load.weights())[0]);
  const auto one = text_batch(text, pages, {.begin = kContext, .end = kContext + 1});
  const auto six = text_batch(text, pages, {.begin = kContext, .end = kContext + 6, .logits = 6});
  const double bytes = bytes_of(stepper.traffic(one)), six_flops = double(stepper.traffic(six).flops);

  std::vector<double> share, six_over_one, six_over_floor, rates, gemm_rates, steps;
  for (int round = 0; round < rounds; ++round) {
    const double read = ceilings::best_read_rate(pool, regions);
    const double t1 = std::min(stepper.seconds(one), stepper.seconds(one));
    const double t6 = std::min(stepper.seconds(six), stepper.seconds(six));
    rates.push_back(read);
    steps.push_back(t1);
    share.push_back(bytes / t1 / read);
    six_over_one.push_back(t6 / t1);
    const double gemm = ceilings::gemm_rate(pool, load.plan().dtype);
    gemm_rates.push_back(gemm);
    six_over_floor.push_back(t6 / std::max(bytes / read, gemm > 0 ? six_flops / gemm : 0.0));
  }
  std::printf("plain read of the packed weights   %8.2f GB/s\n", ceilings::median(rates) / 1e9);
  std::printf("decode, 1 row, context %d         %8.3f ms  (%.1f MB a step)\n", kContext, ceilings::median(steps) * 1e3,
              bytes / 1e6);
  std::printf("decode bytes / time over the read  %8.3f\n", ceilings::median(share));
  std::printf("verify 6 rows / decode 1 row       %8.3f\n", ceilings::median(six_over_one));
  std::printf("verify 6 rows / its floor          %8.3f  (the longer of reading and %.0f GFLOP/s of bare %s)\n",
              ceilings::median(six_over_floor), ceilings::median(gemm_rates) * 1e-9,
              ceilings::multiplies_pairs(load.plan().dtype) ? "bfloat16 dot products" : "FMAs");

  std::printf("T(rows) / T(1):");
  for (int rows : {1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 13, 14, 16, 20, 24, 32, 48, 64}) {
    const auto batch = text_batch(text, pages, {.begin = kContext, .end = kContext + rows, .logits = rows});
    std::printf(" %d:%.2f", rows, stepper.by_turns(batch, one, std::max(5, rounds / 3), 2).second);
  }
  std::printf("\n");

  const auto prompt = text_batch(text, pages, {.end = 512});
  std::vector<double> prefill_share, prefill_rate;
  for (int round = 0; round < std::max(7, rounds / 3); ++round) {
    const double peak = std::max(ceilings::fma_rate(pool), ceilings::fma_rate(pool));
    const uint64_t before = stepper.backend.traffic().flops;
    const double seconds = stepper.seconds(prompt);
    prefill_rate.push_back(512.0 / seconds);
    if (peak > 0) prefill_share.push_back(double(stepper.backend.traffic().flops - before) / seconds / peak);
  }
  std::printf("prefill of 512 tokens              %8.0f tok/s, %.3f of the FMA rate\n", ceilings::median(prefill_rate),
              ceilings::median(prefill_share));
}

struct SpeculationPass {
  double tpot_ms = 0;
  double overhead = 0;  // scheduler + proposer + verifier over all phases
  double tokens_per_forward = 0;
  double acceptance_length = 1;
};

/// self: the target drafts for itself, on outputs of full windows (no eos: a stop inside a window would count as cost).
SpeculationPass measure(EngineLoad& load, ExperimentConfig config, const std::string& proposer, int draft_len,
                        bool self, std::span<const EncodedPrompt> prompts) {
  config.sampling.ignore_eos = self;
  config.speculation.proposer = proposer;
  config.speculation.num_speculative_tokens = draft_len;
  config.speculation.of("draft").model->self = self;
  derive_paths(config);
  const RepetitionResult result = run_repetition(load, config, prompts,
                                                 {.sampling = sampling_params(config.sampling),
                                                  .concurrency = 1,
                                                  .timeout_s = 600,
                                                  .on_progress = {},
                                                  .stop_now = {}});
  SpeculationPass pass;
  double tokens = 0;
  for (const RequestRecord& request : result.requests) {
    pass.tpot_ms += (request.e2e_ms - request.ttft_ms) / std::max(1.0, double(request.output.size()) - 1) /
                    double(result.requests.size());
    tokens += double(request.output.size());
  }
  const PhaseTimes& phases = result.phases;
  pass.overhead =
      (phases.schedule_ms + phases.sample_ms + (proposer == "ngram" ? phases.draft_ms : 0.0)) / phases.total_ms();
  pass.tokens_per_forward = tokens / double(result.counters.steps);
  if (result.counters.drafts > 0)
    pass.acceptance_length += double(result.counters.accepted) / double(result.counters.drafts);
  return pass;
}

void speculation_ratios(EngineLoad& load, const ExperimentConfig& config, int rounds) {
  const auto prompts =
      encode_prompts(select_prompts(load_dataset("builtin:reading_qa", config.builtin_root / "workloads"), 16, 7),
                     *load.tokenizer(), config.engine.target.directory, ChatFormat::template_of_model);
  check_prompts_fit(prompts, length_limit(config, load.plan()));
  struct Row {
    const char* name;
    const char* proposer;
    bool self;
    std::vector<double> speedup;
    SpeculationPass last;
  };
  std::vector<Row> rows = {{"ngram k=5", "ngram", false, {}, {}},
                           {"draft k=5", "draft", false, {}, {}},
                           {"self-draft k=5", "draft", true, {}, {}}};
  for (int round = 0; round < rounds; ++round) {
    for (Row& row : rows) {
      const SpeculationPass plain = measure(load, config, "none", 0, row.self, prompts);
      row.last = measure(load, config, row.proposer, 5, row.self, prompts);
      row.speedup.push_back(plain.tpot_ms / row.last.tpot_ms);
    }
  }
  for (const Row& row : rows) {
    std::printf(
        "%-15s decode_speedup %6.3f   tokens/forward %.2f  acceptance length %.2f  scheduler+proposer+verifier %.2f "
        "%%\n",
        row.name, ceilings::median(row.speedup), row.last.tokens_per_forward, row.last.acceptance_length,
        100 * row.last.overhead);
  }
}

/// Lets every second token follow.
class HalfConstraint final : public TokenConstraint {
 public:
  bool allow(std::span<const int32_t>, std::span<const int32_t>, std::span<uint32_t> mask) override {
    std::fill(mask.begin(), mask.end(), 0x55555555u);
    return true;
  }
};

/// Steps of `streams` sequences with sampling plans over steps without, by turns; a token a sequence and step.
void plan_ratios(EngineLoad& load, const ExperimentConfig& config, int rounds) {
  constexpr int kTokens = 64;
  ExperimentConfig plain = config;
  plain.speculation.proposer = "none";
  const std::vector<int32_t> text = Stepper(load).text(kContext);
  const auto seconds_a_step = [&](const SamplingParams& params, int streams) {
    const auto engine = load.make_engine(plain);
    for (int stream = 0; stream < streams; ++stream) engine->submit(text, params);
    std::vector<double> steps;
    while (!engine->idle()) {
      const auto begin = ceilings::Clock::now();
      const auto emitted = engine->step();
      if (int(emitted.size()) == streams) steps.push_back(ceilings::seconds_since(begin));
    }
    return ceilings::median(steps);
  };
  SamplingParams without;
  without.max_tokens = kTokens;
  without.ignore_eos = true;
  without.sampler.temperature = 1;
  SamplingParams penalties = without;
  penalties.repetition_penalty = 1.1f;
  penalties.presence_penalty = penalties.frequency_penalty = 0.2f;
  SamplingParams masked = penalties;
  masked.constraint = std::make_shared<HalfConstraint>();
  for (const int streams : {1, 8, kMostStreams}) {
    const auto ratio_of = [&](const SamplingParams& params) {
      std::vector<double> ratios;
      for (int round = 0; round < rounds; ++round) {
        const double base = seconds_a_step(without, streams);
        ratios.push_back(seconds_a_step(params, streams) / base);
      }
      return ceilings::median(ratios);
    };
    const double of_penalties = ratio_of(penalties), of_mask = ratio_of(masked);
    std::printf("plans, %2d rows: %.3f ms a step, with penalties %.3f of it, with penalties and a mask %.3f\n", streams,
                1e3 * seconds_a_step(without, streams), of_penalties, of_mask);
  }
}

int run(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // a run that is cut short keeps its lines
  ExperimentConfig config;
  config.builtin_root = "configs";
  if (argc > 1)
    config.engine.target.path = argv[1];
  else if (const char* models = std::getenv("PACELINE_MODELS"))
    config.engine.target.path = std::string(models) + "/target-42m";
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 31;
  config.engine.target.dtype = bench_setting("DTYPE", config.engine.target.dtype);
  if (const std::string shape = bench_setting("INFLATE"); !shape.empty()) config.engine.target.inflate = shape;
  if (!bench_setting("DUMMY").empty()) config.engine.target.load_format = "dummy";
  config.engine.backend = bench_setting("BACKEND", "cpu");
  if (bench_setting("NUMERICS") == "fast") config.engine.numerics = Numerics::fast;
  const int threads = bench_threads();
  const std::string only = bench_setting("ONLY");
  const bool times_steps = config.engine.backend == "cuda" || only == "gate";
  config.engine.scheduler.max_num_seqs = times_steps ? kMostStepSeqs : kMostStreams;
  if (times_steps) config.engine.scheduler.max_num_batched_tokens = kMostStepPrefillTokens;
  derive_paths(config);
  EngineLoad load(config, {.threads_per_rank = threads, .max_draft_len = 63});
  std::printf("%s, %s%s, loaded in %.3f s\n", config.engine.target.path.c_str(),
              load.team().rank(0).backend->describe().c_str(),
              config.engine.numerics == Numerics::fast ? ", fast numerics" : "", load.load_seconds());
  if (only == "plans") {
    plan_ratios(load, config, rounds);
    return 0;
  }
  ExitCode verdict = ExitCode::ok;
  if (times_steps) {
    verdict = time_steps(load, config, rounds);
  } else {
    ThreadPool pool(threads);
    kernel_ratios(load, pool, rounds);
  }
  if (only == "gate") return int(verdict);
  tree_ratios(load, rounds);
  plan_ratios(load, config, std::max(3, rounds / 6));
  if (only != "steps") speculation_ratios(load, config, std::max(3, rounds / 6));
  return int(verdict);
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) {
  return paceline::bench_main("engine_bench", [&] { return paceline::run(argc, argv); });
}
