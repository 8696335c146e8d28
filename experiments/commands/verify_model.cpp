#include "experiments/commands/verify_model.h"

#include <algorithm>
#include <cmath>

#include "engine/batch_rows.h"
#include "engine/util/gguf.h"
#include "engine/util/json_io.h"
#include "experiments/run/engine_load.h"

namespace paceline {
namespace {

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

}  // namespace

VerifyModelReport verify_model(const VerifyModelOptions& options) {
  VerifyModelReport report;
  // A link to a .gguf file may lead to one of another name (a Hugging Face cache): its own name says what it is.
  const auto dir = is_gguf_path(options.model_dir) ? std::filesystem::absolute(options.model_dir)
                                                   : std::filesystem::canonical(options.model_dir);
  const std::filesystem::path golden = options.golden.empty() ? find_golden(dir) : options.golden;
  report.golden = golden.string();
  const std::vector<GoldenCase> cases =
      read_goldens(golden, (is_gguf_path(dir) ? dir.stem() : dir.filename()).string());

  ExperimentConfig config;
  config.engine.target.directory = dir;
  config.engine.target.dtype = options.dtype;
  config.engine.parallel.tp = options.tp;
  config.engine.parallel.pp = options.pp;
  config.engine.scheduler.max_num_seqs = 1;
  EngineLoad load(config, {.threads_per_rank = options.threads_per_rank});
  report.passed = true;
  for (const GoldenCase& golden_case : cases) {
    check_golden(golden_case, report.cases.size(), report.golden, load.plan());
    VerifiedCase result{.num_prompt = int(golden_case.prompt.size()), .num_tokens = int(golden_case.greedy.size())};
    const std::vector<float> logits = logits_after(load, golden_case.prompt);
    for (size_t i = 0; i < golden_case.logit.size(); ++i) {
      const size_t id = golden_case.logit_id.empty() ? i : size_t(golden_case.logit_id[i]);
      result.max_logit_difference =
          std::max(result.max_logit_difference, std::abs(double(logits[id]) - golden_case.logit[i]));
    }
    const double largest = std::abs(*std::max_element(golden_case.logit.begin(), golden_case.logit.end(),
                                                      [](double a, double b) { return std::abs(a) < std::abs(b); }));
    const double allowed =
        options.max_logit_error.value_or(load.plan().dtype == DType::f32 ? 1e-4 : std::ldexp(largest, -6));
    bool good = std::isfinite(result.max_logit_difference) && result.max_logit_difference <= allowed;

    const auto engine = load.make_engine(config);
    SamplingParams params;
    params.max_tokens = int(golden_case.greedy.size());
    params.ignore_eos = true;
    engine->submit(golden_case.prompt, params);
    std::vector<int32_t> greedy;
    while (!engine->idle()) {
      for (const Emitted& emitted : engine->step())
        greedy.insert(greedy.end(), emitted.token.begin(), emitted.token.end());
    }
    const auto differ =
        std::mismatch(greedy.begin(), greedy.end(), golden_case.greedy.begin(), golden_case.greedy.end());
    if (differ.first != greedy.end() || differ.second != golden_case.greedy.end()) {
      result.first_difference = int(differ.first - greedy.begin());
      std::vector<int32_t> tokens = golden_case.prompt;
      tokens.insert(tokens.end(), greedy.begin(), differ.first);
      result.gap_there = top2_gap(logits_after(load, tokens));
      good = good && result.gap_there <= 2 * std::max(result.max_logit_difference, 1e-6);
    }
    report.passed = report.passed && good;
    report.summary += fmt::format(
        "prompt {:4d} tokens: max |Δlogit| {:.2e}, greedy {} of {} equal{}{}\n", result.num_prompt,
        result.max_logit_difference, result.first_difference < 0 ? result.num_tokens : result.first_difference,
        result.num_tokens,
        result.first_difference < 0 ? "" : fmt::format(", top-2 gap {:.2e} at the first difference", result.gap_there),
        good ? "" : "  ✗");
    report.cases.push_back(result);
  }
  report.summary +=
      fmt::format("{}: {} ({} cases of {}, {}, tp {} pp {})\n", dir.string(), report.passed ? "pass" : "FAIL",
                  report.cases.size(), report.golden, dtype_name(load.plan().dtype), options.tp, options.pp);
  return report;
}

}  // namespace paceline
