// runexp verify-model, certificate: does a checkpoint compute what Hugging Face computed, and do certificates find
// faults?

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "engine/batch_rows.h"
#include "engine/util/gguf.h"
#include "engine/util/json_io.h"
#include "experiments/commands/builtin_names.h"
#include "experiments/commands/command_line.h"
#include "experiments/commands/commands.h"
#include "experiments/config/file/builtin_root.h"
#include "experiments/run/engine_load.h"
#include "experiments/workload/requests.h"
#include "kernels/cpu/cores.h"
#include "kernels/cuda/cuda_backend.h"
#include "speculative/selftest/self_test.h"

namespace paceline {
namespace {

struct VerifyModelCommand {
  std::filesystem::path model;   // a folder or a .gguf file
  std::filesystem::path golden;  // empty: beside the model
  int tp = 1, pp = 1;
  std::string dtype = "float32";          // as engine.target.dtype; goldens were computed in float32
  std::optional<double> max_logit_error;  // else 1e-4 in float32, and 2^-6 of the largest logit in 16-bit types
};

struct GoldenCase {
  std::vector<int32_t> prompt;
  std::vector<int32_t> greedy;
  std::vector<int32_t> logit_id;  // empty: all ids in order
  std::vector<double> logit;
};

/// golden.json of the folder, else of its parent.
std::filesystem::path find_golden(const std::filesystem::path& dir) {
  for (const std::filesystem::path& folder : {dir, dir.parent_path()}) {
    if (std::filesystem::exists(folder / "golden.json")) return folder / "golden.json";
  }
  fail(ExitCode::model_file, "{}: found golden.json neither there nor in {}; name the reference file with --golden",
       dir.string(), dir.parent_path().string());
}

std::vector<GoldenCase> read_goldens(const std::filesystem::path& file, const std::string& model_name) {
  const nlohmann::json document = read_json_file(file, ExitCode::model_file);
  try {
    std::vector<GoldenCase> cases;
    if (document.contains("last_logits")) {
      for (size_t i = 0; i < document.at("prompts").size(); ++i)
        cases.push_back({document.at("prompts")[i], document.at("greedy").at(i), {}, document.at("last_logits").at(i)});
      return cases;
    }
    if (!document.contains(model_name))
      fail(ExitCode::model_file, "{}: no entry \"{}\" in it", file.string(), model_name);
    for (const auto& entry : document.at(model_name).at("cases"))
      cases.push_back({entry.at("prompt_ids"), entry.at("greedy"), entry.at("top5_ids"), entry.at("top5_logits")});
    return cases;
  } catch (const nlohmann::json::exception& error) {
    fail(ExitCode::model_file, "{}: {}", file.string(), error.what());
  }
}

/// A golden of another checkpoint, or a damaged one, must not reach the engine.
void check_golden(const GoldenCase& golden, size_t index, const std::string& file, const LoadPlan& plan) {
  const auto check_ids = [&](const char* what, const std::vector<int32_t>& ids) {
    for (int32_t id : ids) {
      if (id < 0 || id >= plan.target.vocab_size)
        fail(ExitCode::model_file,
             "{}: case {}: {} holds token {}, outside the model's vocabulary of {}; is it the golden of another model?",
             file, index, what, id, plan.target.vocab_size);
    }
  };
  if (golden.prompt.empty() || golden.greedy.empty())
    fail(ExitCode::model_file, "{}: case {}: expected a prompt and greedy tokens, found {} and {} tokens", file, index,
         golden.prompt.size(), golden.greedy.size());
  check_ids("the prompt", golden.prompt);
  check_ids("the greedy continuation", golden.greedy);
  check_ids("the list of logits", golden.logit_id);
  const size_t num_ids = golden.logit_id.empty() ? size_t(plan.target.vocab_size) : golden.logit_id.size();
  if (golden.logit.size() != num_ids)
    fail(ExitCode::model_file, "{}: case {}: {} logits for {} token ids", file, index, golden.logit.size(), num_ids);
  if (int(golden.prompt.size() + golden.greedy.size()) > plan.max_model_len)
    fail(ExitCode::model_file, "{}: case {}: {} + {} tokens do not fit the model's {} positions", file, index,
         golden.prompt.size(), golden.greedy.size(), plan.max_model_len);
}

/// Logits after the last token of `tokens`, by one pass over all of them.
std::vector<float> logits_after(EngineLoad& load, std::span<const int32_t> tokens) {
  const int block_size = 16;
  std::vector<int32_t> pages;
  for (size_t i = 0; i * block_size < tokens.size(); ++i) pages.push_back(int32_t(i));
  auto batch = std::make_shared<Batch>();
  batch->step = 1;
  add_rows(*batch, {.state = {.seq = 0, .cached = 0, .length = int32_t(tokens.size()), .last_token = tokens.back()},
                    .tokens = tokens,
                    .pages = pages,
                    .block_size = block_size,
                    .end = int(tokens.size()),
                    .reset = true});
  batch->digest = digest_of(batch->expected);
  std::vector<float> logits;
  Model& model = load.target();
  model.launch(batch);
  model.wait(model.post([&](Rank& rank) {
    const Logits found = model.logits();
    logits = download_rows(*rank.backend, found.rows.row_range(0, 1), found.vocab_size);
  }));
  return logits;
}

double top2_gap(std::vector<float> logits) {
  std::nth_element(logits.begin(), logits.begin() + 1, logits.end(), std::greater<>());
  return double(*std::max_element(logits.begin(), logits.begin() + 1)) - double(logits[1]);
}

/// Prints a line and returns whether the case passes. A greedy difference is an error unless the top-2 gap there lies
/// within the largest logit difference seen.
bool verify_case(const GoldenCase& golden, const VerifyModelCommand& command, EngineLoad& load,
                 const ExperimentConfig& config) {
  const std::vector<float> logits = logits_after(load, golden.prompt);
  double difference = 0, largest = 0;
  for (size_t i = 0; i < golden.logit.size(); ++i) {
    const size_t id = golden.logit_id.empty() ? i : size_t(golden.logit_id[i]);
    difference = std::max(difference, std::abs(double(logits[id]) - golden.logit[i]));
    largest = std::max(largest, std::abs(golden.logit[i]));
  }
  const double allowed =
      command.max_logit_error.value_or(load.plan().dtype == DType::f32 ? 1e-4 : std::ldexp(largest, -6));
  bool good = std::isfinite(difference) && difference <= allowed;

  const auto engine = load.make_engine(config);
  SamplingParams params;
  params.max_tokens = int(golden.greedy.size());
  params.ignore_eos = true;
  engine->submit(golden.prompt, params);
  std::vector<int32_t> greedy;
  while (!engine->idle()) {
    for (const Emitted& emitted : engine->step())
      greedy.insert(greedy.end(), emitted.token.begin(), emitted.token.end());
  }
  const auto differ = std::mismatch(greedy.begin(), greedy.end(), golden.greedy.begin(), golden.greedy.end());
  std::string gap_text;
  if (differ.first != greedy.end() || differ.second != golden.greedy.end()) {
    std::vector<int32_t> tokens = golden.prompt;
    tokens.insert(tokens.end(), greedy.begin(), differ.first);
    const double gap = top2_gap(logits_after(load, tokens));
    good = good && gap <= 2 * std::max(difference, 1e-6);
    gap_text = fmt::format(", top-2 gap {:.2e} at the first difference", gap);
  }
  fmt::print("prompt {:4d} tokens: max |Δlogit| {:.2e}, greedy {} of {} equal{}{}\n", golden.prompt.size(), difference,
             differ.first - greedy.begin(), golden.greedy.size(), gap_text, good ? "" : "  ✗");
  return good;
}

/// Throws Error(model_file) when there is no golden, or it does not belong to this checkpoint.
ExitCode verify_model_command(const VerifyModelCommand& command) {
  const std::filesystem::path named = model_path("dir", command.model.string());
  const bool is_gguf = is_gguf_path(named);
  if (!is_gguf && !std::filesystem::is_directory(named))
    fail(ExitCode::model_file, "{}: no such folder", named.string());
  // A link to a .gguf file may lead to one of another name (a Hugging Face cache): its own name says what it is.
  const auto model = is_gguf ? std::filesystem::absolute(named) : std::filesystem::canonical(named);
  const std::filesystem::path file = command.golden.empty() ? find_golden(model) : command.golden;
  const std::vector<GoldenCase> cases = read_goldens(file, (is_gguf ? model.stem() : model.filename()).string());

  ExperimentConfig config;
  config.engine.target.directory = model;
  config.engine.target.dtype = command.dtype;
  config.engine.parallel.tp = command.tp;
  config.engine.parallel.pp = command.pp;
  config.engine.scheduler.max_num_seqs = 1;
  EngineLoad load(config, {.threads_per_rank = std::max(1, usable_cores() / (command.tp * command.pp))});
  for (size_t i = 0; i < cases.size(); ++i) check_golden(cases[i], i, file.string(), load.plan());
  bool passed = true;
  for (const GoldenCase& golden : cases) passed = verify_case(golden, command, load, config) && passed;
  fmt::print("{}: {} ({} cases of {}, {}, tp {} pp {})\n", model.string(), passed ? "pass" : "FAIL", cases.size(),
             file.string(), dtype_name(load.plan().dtype), command.tp, command.pp);
  return passed ? ExitCode::ok : ExitCode::correctness;
}

constexpr size_t kPromptsOfEach = 6;  // built-in workloads

std::vector<std::vector<int32_t>> self_test_prompts(const std::filesystem::path& builtin,
                                                    const std::filesystem::path& target) {
  const auto tokenizer = Tokenizer::load(target);
  std::vector<std::vector<int32_t>> tokens;
  for (const char* const name : {"builtin:reading_qa", "builtin:code_prompts"}) {
    std::vector<Prompt> prompts = load_dataset(name, builtin / "workloads");
    prompts.resize(std::min(prompts.size(), kPromptsOfEach));
    for (EncodedPrompt& prompt : encode_prompts(prompts, *tokenizer, target, ChatFormat::template_of_model))
      tokens.push_back(std::move(prompt.tokens));
  }
  return tokens;
}

ExitCode self_test_command(const std::string& device, int clean_runs) {
  const std::filesystem::path builtin = find_builtin_root("config.json");
  if (builtin.empty()) fail_without_builtin_root("builtin:target-7m");
  if (device == "cuda" && num_cuda_devices() == 0)
    fail(ExitCode::device, "--device cuda: this build has no CUDA backend, or the machine no GPU; use cpu");
  install_interrupt_handler();
  const std::filesystem::path target = builtin / "models" / "target-7m";
  const SelfTestReport report =
      run_self_test({.target = target,
                     .draft = builtin / "models" / "draft-600k",
                     .head = builtin / "models" / "eagle3-target-7m",
                     .prompts = self_test_prompts(builtin, target),
                     .device = device,
                     .clean_runs = clean_runs,
                     .progress = [](const std::string& line) { fmt::print(stderr, "  {}\n", line); },
                     .stop_now = [] { return num_interrupts() > 0; }});
  fmt::print("{}", self_test_text(report));
  if (report.was_stopped) return interrupt_exit_code();
  return report.passed() ? ExitCode::ok : ExitCode::correctness;
}

}  // namespace

void add_verify_commands(const Command& program) {
  const auto verify = std::make_shared<VerifyModelCommand>();
  program.below("verify-model", "compare a checkpoint with the golden.json beside it")
      .option("dir", &verify->model, "builtin:NAME, a checkpoint folder or a .gguf file", {.required = true})
      .option("--golden", &verify->golden, "reference file, if not beside the checkpoint")
      .option("--tp", &verify->tp, "tensor-parallel ranks", {.shown = true, .least = 1, .most = 64})
      .option("--pp", &verify->pp, "pipeline stages", {.shown = true, .least = 1, .most = 64})
      .option("--dtype", &verify->dtype, "weights in memory",
              {.shown = true, .words = {"auto", "float32", "bfloat16", "float16"}})
      .option("--max-logit-error", &verify->max_logit_error,
              "allowed logit difference; default 1e-4 (float32) or 1/64 of the largest logit (16-bit)", {.least = 0})
      .calls([verify] { return verify_model_command(*verify); });

  struct Certificate {
    std::string device = "cpu";
    int clean_runs = 200;
  };
  const auto certificate = std::make_shared<Certificate>();
  program.below("certificate", "test the losslessness check itself: plant known faults, see each found; takes a minute")
      .option("--device", &certificate->device, "device", {.shown = true, .words = {"cpu", "cuda"}})
      .option("--clean-runs", &certificate->clean_runs, "runs without a fault, which must give no alarm",
              {.shown = true, .least = 0, .most = 100000})
      .calls([certificate] { return self_test_command(certificate->device, certificate->clean_runs); });
}

}  // namespace paceline
