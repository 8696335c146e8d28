// The engine against the machine, as ratios in one run: decode against a plain read of the packed weights, more rows
// against one row, prefill against the FMA rate, and the engine's own overhead.
//
//   engine_bench [MODEL_DIR [ROUNDS]]     default: $PACELINE_MODELS/target-42m, else the built-in target; 31 rounds
//
// Environment: PACELINE_BENCH_THREADS (default: usable cores), PACELINE_BENCH_DTYPE (auto, float32, …),
// PACELINE_BENCH_BACKEND (cpu, cuda), PACELINE_BENCH_NUMERICS (strict, fast), PACELINE_BENCH_INFLATE (a shape: the
// model inflated to it), PACELINE_BENCH_DUMMY (set: random weights), PACELINE_BENCH_ONLY (steps: no speculation).

#include <cstdio>
#include <cstdlib>

#include "engine/batch_rows.h"
#include "experiments/run/engine_load.h"
#include "experiments/run/measure/measure_devices.h"
#include "experiments/run/measure/repetition.h"
#include "experiments/workload/dataset.h"
#include "experiments/workload/request_sampling.h"
#include "experiments/workload/requests.h"
#include "kernels/cpu/ceilings.h"
#include "kernels/cpu/cores.h"

namespace paceline {
namespace {

constexpr int kContext = 128;
constexpr int kBlockSize = 16;
constexpr int kPrefillTokens = 2048;  // of the longer prefill on a GPU

/// Rows [begin, end) of a made-up text as one batch of one sequence; logits for the last `num_logits`.
std::shared_ptr<const Batch> text_batch(std::span<const int32_t> text, std::span<const int32_t> pages, int begin,
                                        int end, int num_logits) {
  auto batch = std::make_shared<Batch>();
  batch->step = 1;
  const SeqCommit state{.seq = 0, .cached = begin, .length = end, .last_token = text[size_t(end - 1)]};
  add_rows(*batch, {.state = state,
                    .tokens = text.first(size_t(end)),
                    .pages = pages,
                    .block_size = kBlockSize,
                    .end = end,
                    .reset = true});
  batch->logit_row.clear();
  for (int row = end - begin - num_logits; row < end - begin; ++row) batch->logit_row.push_back(row);
  batch->digest = digest_of(batch->expected);
  return batch;
}

double run_seconds(Model& model, const std::shared_ptr<const Batch>& batch) {
  const auto begin = ceilings::Clock::now();
  model.wait(model.launch(batch));
  return ceilings::seconds_since(begin);
}

constexpr int kMostStreams = 16;

/// Pages of stream `stream`, of which each has `count`.
std::vector<int32_t> pages_of(int stream, int count) {
  std::vector<int32_t> pages;
  for (int page = 0; page < count; ++page) pages.push_back(stream * count + page);
  return pages;
}

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
                      .block_size = kBlockSize,
                      .end = end,
                      .reset = true,
                      .drafts = &drafts});
  }
  batch->digest = digest_of(batch->expected);
  return batch;
}

/// A step with 16 drafts as a tree, two after each, and as a tree of one path, against one with them as a chain.
void tree_ratios(EngineLoad& load, int rounds) {
  Model& model = load.target();
  constexpr int kNodes = 16;
  DraftTree tree, path;
  for (int node = 0; node < kNodes; ++node) tree.add(node, (node + 1) / 2 - 1), path.add(node, node - 1);
  const DraftTree chain = DraftTree::chain(tree.token);
  std::vector<int32_t> text(size_t(load.plan().max_model_len));
  for (size_t i = 0; i < text.size(); ++i) text[i] = int32_t((i * 2654435761u) % uint32_t(model.spec().vocab_size));
  Backend& backend = *load.team().rank(0).backend;
  const auto seconds = [&](const std::shared_ptr<const Batch>& batch) {
    const auto begin = ceilings::Clock::now();
    model.wait(model.launch(batch));
    backend.sync();
    return ceilings::seconds_since(begin);
  };
  const auto traffic = [&](const std::shared_ptr<const Batch>& batch) {
    const Traffic before = backend.traffic();
    seconds(batch);
    Traffic counted = backend.traffic() - before;
    counted.host_waits = 0;  // now and then one more, for room in a ring
    return counted;
  };
  for (const int context : {128, 512, 4096}) {
    const int num_pages = (context + kNodes) / kBlockSize + 1;
    if (context + kNodes >= load.plan().max_model_len || num_pages * kMostStreams > load.plan().memory.num_blocks) {
      std::printf("tree of %d, context %4d: no room\n", kNodes, context);
      continue;
    }
    for (int stream = 0; stream < kMostStreams; ++stream)
      for (int begin = 0; begin < context; begin += 512)
        seconds(text_batch(text, pages_of(stream, num_pages), begin, std::min(begin + 512, context), 1));
    for (const int streams : {1, kMostStreams}) {
      const auto straight = draft_batch(text, context, streams, num_pages, chain);
      const auto of_chain = traffic(straight);
      for (const auto& [name, drafts] : {std::pair("tree", &tree), std::pair("path", &path)}) {
        const auto shaped = draft_batch(text, context, streams, num_pages, *drafts);
        const Traffic counted = traffic(shaped);
        std::vector<double> ratio, times;
        for (int pass = 0; pass < 3; ++pass) seconds(shaped), seconds(straight);
        for (int round = 0; round < rounds; ++round) {
          const double chain_seconds = std::min(seconds(straight), seconds(straight));
          times.push_back(std::min(seconds(shaped), seconds(shaped)));
          ratio.push_back(times.back() / chain_seconds);
        }
        std::printf("%s of %d / chain of %d, context %4d, %2d streams  %6.3f of %8.3f ms, KV bytes %.3f, %s\n", name,
                    kNodes, kNodes, context, streams, ceilings::median(ratio), ceilings::median(times) * 1e3,
                    double(counted.kv_bytes) / double(of_chain.kv_bytes),
                    counted == of_chain ? "equal counters" : "other counters");
      }
    }
  }
}

void kernel_ratios(EngineLoad& load, ThreadPool& pool, int rounds) {
  Model& model = load.target();
  Backend& backend = *load.team().rank(0).backend;
  std::vector<int32_t> text(1024), pages;
  for (size_t i = 0; i < text.size(); ++i) text[i] = int32_t((i * 2654435761u) % uint32_t(model.spec().vocab_size));
  for (int32_t page = 0; page < 64; ++page) pages.push_back(page);
  run_seconds(model, text_batch(text, pages, 0, kContext, 1));
  const auto regions = packed_regions(*(*load.weights())[0]);
  const auto one = text_batch(text, pages, kContext, kContext + 1, 1);
  const auto six = text_batch(text, pages, kContext, kContext + 6, 6);
  const Traffic before = backend.traffic();
  run_seconds(model, one);
  const double bytes =
      double(backend.traffic().weight_bytes - before.weight_bytes + backend.traffic().kv_bytes - before.kv_bytes);
  const uint64_t flops_before = backend.traffic().flops;
  run_seconds(model, six);
  const double six_flops = double(backend.traffic().flops - flops_before);

  std::vector<double> share, six_over_one, six_over_floor, rates, gemm_rates, steps;
  for (int round = 0; round < rounds; ++round) {
    const double read = ceilings::best_read_rate(pool, regions);
    const double t1 = std::min(run_seconds(model, one), run_seconds(model, one));
    const double t6 = std::min(run_seconds(model, six), run_seconds(model, six));
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
    const auto batch = text_batch(text, pages, kContext, kContext + rows, rows);
    std::vector<double> ratio;
    for (int round = 0; round < std::max(5, rounds / 3); ++round) {
      const double t1 = std::min(run_seconds(model, one), run_seconds(model, one));
      ratio.push_back(std::min(run_seconds(model, batch), run_seconds(model, batch)) / t1);
    }
    std::printf(" %d:%.2f", rows, ceilings::median(ratio));
  }
  std::printf("\n");

  const auto prompt = text_batch(text, pages, 0, 512, 1);
  std::vector<double> prefill_share, prefill_rate;
  for (int round = 0; round < std::max(7, rounds / 3); ++round) {
    const double peak = std::max(ceilings::fma_rate(pool), ceilings::fma_rate(pool));
    const uint64_t prefill_before = backend.traffic().flops;
    const double seconds = run_seconds(model, prompt);
    prefill_rate.push_back(512.0 / seconds);
    if (peak > 0) prefill_share.push_back(double(backend.traffic().flops - prefill_before) / seconds / peak);
  }
  std::printf("prefill of 512 tokens              %8.0f tok/s, %.3f of the FMA rate\n", ceilings::median(prefill_rate),
              ceilings::median(prefill_share));
}

/// On a GPU: the step at several numbers of rows, and prefill. Contexts are those of a long chat.
void step_times(EngineLoad& load, int rounds) {
  constexpr int kLongContext = 1024, kMostRows = 512, kMostLogits = 64;
  Model& model = load.target();
  const int context = std::min(kLongContext, load.plan().max_model_len - kMostRows);
  PACELINE_CHECK(context > 0, "the model takes {} tokens, the benchmark needs more than {}", load.plan().max_model_len,
                 kMostRows);
  std::vector<int32_t> text(size_t(load.plan().max_model_len)), pages;
  for (size_t i = 0; i < text.size(); ++i) text[i] = int32_t((i * 2654435761u) % uint32_t(model.spec().vocab_size));
  for (int32_t page = 0; page * kBlockSize < int(text.size()); ++page) pages.push_back(page);
  for (int begin = 0; begin < context; begin += 512)
    run_seconds(model, text_batch(text, pages, begin, std::min(begin + 512, context), 1));
  Backend& backend = *load.team().rank(0).backend;
  const auto one = text_batch(text, pages, context, context + 1, 1);
  const auto seconds = [&](const std::shared_ptr<const Batch>& batch) {
    const auto begin = ceilings::Clock::now();
    model.wait(model.launch(batch));
    backend.sync();
    return ceilings::seconds_since(begin);
  };
  const Traffic before = backend.traffic();
  seconds(one);
  const double bytes =
      double(backend.traffic().weight_bytes - before.weight_bytes + backend.traffic().kv_bytes - before.kv_bytes);
  std::vector<double> host;
  for (int round = 0; round < rounds; ++round) {
    const auto begin = ceilings::Clock::now();
    model.wait(model.launch(one));
    host.push_back(ceilings::seconds_since(begin));
    backend.sync();
  }
  std::printf("context %d, %.3f GB a step of one row, which the host gives out in %.3f ms\n", context, bytes * 1e-9,
              ceilings::median(host) * 1e3);
  for (const int rows : {1, 2, 6, 8, 16, 17, 24, 32, 64, 96, 128, 129, 192, 256, kMostRows}) {
    const auto batch = text_batch(text, pages, context, context + rows, std::min(rows, kMostLogits));
    std::vector<double> times, ratios;
    for (int pass = 0; pass < 3; ++pass) seconds(batch);  // from the third on the device remembers it
    for (int round = 0; round < rounds; ++round) {
      const double t1 = seconds(one);
      times.push_back(seconds(batch));
      ratios.push_back(times.back() / t1);
    }
    std::printf("%3d rows %9.3f ms   over one row %6.3f   %7.1f GB/s\n", rows, ceilings::median(times) * 1e3,
                ceilings::median(ratios), bytes / ceilings::median(times) * 1e-9);
  }
  for (const int tokens : {512, kPrefillTokens}) {
    if (tokens > load.plan().max_model_len) continue;
    std::vector<double> prefill;
    const uint64_t flops_before = backend.traffic().flops;
    for (int round = 0; round < std::max(3, rounds / 5); ++round)
      prefill.push_back(seconds(text_batch(text, pages, 0, tokens, 1)));
    const double flops = double(backend.traffic().flops - flops_before) / double(prefill.size());
    std::printf("prefill of %4d tokens %8.3f ms, %.0f tok/s, %.0f TFLOP/s\n", tokens, ceilings::median(prefill) * 1e3,
                tokens / ceilings::median(prefill), flops / ceilings::median(prefill) * 1e-12);
  }
}

struct Pass {
  double tpot_ms = 0;
  double overhead = 0;  // scheduler + proposer + verifier over all phases
  double tokens_per_forward = 0;
  double acceptance_length = 0;
};

/// self: the target drafts for itself, on outputs of full windows (no eos: a stop inside a window would count as cost).
Pass measure(EngineLoad& load, ExperimentConfig config, const std::string& proposer, int draft_len, bool self,
             std::span<const EncodedPrompt> prompts) {
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
  Pass pass;
  double tpot = 0, tokens = 0;
  for (const RequestRecord& request : result.requests) {
    tpot += (request.e2e_ms - request.ttft_ms) / std::max(1.0, double(request.output.size()) - 1);
    tokens += double(request.output.size());
  }
  pass.tpot_ms = tpot / double(result.requests.size());
  pass.overhead =
      (result.phases.schedule_ms + result.phases.sample_ms + (proposer == "ngram" ? result.phases.draft_ms : 0.0)) /
      result.phases.total_ms();
  pass.tokens_per_forward = tokens / double(result.counters.steps);
  pass.acceptance_length =
      result.counters.drafts ? 1.0 + double(result.counters.accepted) / double(result.counters.drafts) : 1.0;
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
    Pass last;
  };
  std::vector<Row> rows = {{"ngram k=5", "ngram", false, {}, {}},
                           {"draft k=5", "draft", false, {}, {}},
                           {"self-draft k=5", "draft", true, {}, {}}};
  for (int round = 0; round < rounds; ++round) {
    for (Row& row : rows) {
      const Pass plain = measure(load, config, "none", 0, row.self, prompts);
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

int run(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // a run that is cut short keeps its lines
  ExperimentConfig config;
  config.builtin_root = "configs";
  if (argc > 1)
    config.engine.target.path = argv[1];
  else if (const char* models = std::getenv("PACELINE_MODELS"))
    config.engine.target.path = std::string(models) + "/target-42m";
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 31;
  if (const char* dtype = std::getenv("PACELINE_BENCH_DTYPE")) config.engine.target.dtype = dtype;
  if (const char* shape = std::getenv("PACELINE_BENCH_INFLATE")) config.engine.target.inflate = shape;
  if (std::getenv("PACELINE_BENCH_DUMMY")) config.engine.target.load_format = "dummy";
  const char* const backend = std::getenv("PACELINE_BENCH_BACKEND");
  config.engine.backend = backend ? backend : "cpu";
  const char* const numerics = std::getenv("PACELINE_BENCH_NUMERICS");
  if (numerics && std::string_view(numerics) == "fast") config.engine.numerics = Numerics::fast;
  const char* wanted = std::getenv("PACELINE_BENCH_THREADS");
  const int threads = wanted ? std::atoi(wanted) : usable_cores();
  config.engine.scheduler.max_num_seqs = kMostStreams;
  if (config.engine.backend == "cuda") config.engine.scheduler.max_num_batched_tokens = kPrefillTokens;
  derive_paths(config);
  EngineLoad load(config, {.threads_per_rank = threads, .max_draft_len = 63});
  std::printf("%s, %s%s, loaded in %.3f s\n", config.engine.target.path.c_str(),
              load.team().rank(0).backend->describe().c_str(),
              config.engine.numerics == Numerics::fast ? ", fast numerics" : "", load.load_seconds());
  ThreadPool pool(threads);
  if (config.engine.backend == "cuda")
    step_times(load, rounds);
  else
    kernel_ratios(load, pool, rounds);
  tree_ratios(load, rounds);
  const char* const only = std::getenv("PACELINE_BENCH_ONLY");
  if (!only || std::string_view(only) != "steps") speculation_ratios(load, config, std::max(3, rounds / 6));
  return 0;
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) {
  try {
    return paceline::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "engine_bench: %s\n", error.what());
    return 1;
  }
}
