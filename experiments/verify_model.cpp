#include "experiments/verify_model.h"

#include <algorithm>
#include <cmath>
#include <fstream>

#include "experiments/engine_load.h"

namespace paceline {
namespace {

struct GoldenCase {
  std::vector<int32_t> prompt;
  std::vector<int32_t> greedy;
  std::vector<int32_t> logit_id;  // empty: all ids in order
  std::vector<double> logit;
};

std::vector<GoldenCase> read_goldens(const std::filesystem::path& file, const std::string& model_name) {
  std::ifstream in(file);
  if (!in) fail(ExitCode::model_file, "{}: cannot be read; verify-model needs Hugging Face's reference beside the checkpoint", file.string());
  try {
    nlohmann::json json = nlohmann::json::parse(in);
    std::vector<GoldenCase> cases;
    if (json.contains("last_logits")) {
      for (size_t i = 0; i < json.at("prompts").size(); ++i) cases.push_back({json.at("prompts")[i], json.at("greedy").at(i), {}, json.at("last_logits").at(i)});
      return cases;
    }
    if (!json.contains(model_name)) fail(ExitCode::model_file, "{}: no entry \"{}\" in it", file.string(), model_name);
    for (const auto& entry : json.at(model_name).at("cases")) cases.push_back({entry.at("prompt_ids"), entry.at("greedy"), entry.at("top5_ids"), entry.at("top5_logits")});
    return cases;
  } catch (const nlohmann::json::exception& error) {
    fail(ExitCode::model_file, "{}: {}", file.string(), error.what());
  }
}

/// Logits after the last token of `tokens`, by one pass over all of them.
std::vector<float> logits_after(EngineLoad& load, std::span<const int32_t> tokens) {
  const int block_size = 16;
  std::vector<int32_t> pages;
  for (size_t i = 0; i * block_size < tokens.size(); ++i) pages.push_back(int32_t(i));
  auto batch = std::make_shared<Batch>();
  batch->step = 1;
  add_known_rows(*batch, {.state = {.seq = 0, .cached = 0, .length = int32_t(tokens.size()), .last_token = tokens.back()}, .tokens = tokens, .pages = pages, .block_size = block_size, .end = int(tokens.size()), .reset = true});
  batch->digest = digest_of(batch->expected);
  std::vector<float> logits;
  Model& model = load.target();
  model.launch(batch);
  model.wait(model.post([&](Rank&) {
    const Logits found = model.logits();
    logits.assign(found.rows.f32_row(0), found.rows.f32_row(0) + found.vocab_size);
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
  const auto dir = std::filesystem::canonical(options.model_dir);
  std::filesystem::path golden = options.golden;
  if (golden.empty()) golden = std::filesystem::exists(dir / "golden.json") ? dir / "golden.json" : dir.parent_path() / "golden.json";
  report.golden = golden.string();
  const std::vector<GoldenCase> cases = read_goldens(golden, dir.filename().string());

  ExperimentConfig config;
  config.engine.target.directory = dir;
  config.engine.parallel.tp = options.tp;
  config.engine.parallel.pp = options.pp;
  config.engine.scheduler.max_num_seqs = 1;
  EngineLoad load(config, {.threads_per_rank = options.threads_per_rank});
  report.passed = true;
  for (const GoldenCase& golden_case : cases) {
    if (int(golden_case.prompt.size() + golden_case.greedy.size()) > load.plan().max_model_len) fail(ExitCode::model_file, "{}: a case of {} + {} tokens does not fit the model's {} positions", report.golden, golden_case.prompt.size(), golden_case.greedy.size(), load.plan().max_model_len);
    VerifiedCase result{.num_prompt = int(golden_case.prompt.size()), .num_tokens = int(golden_case.greedy.size())};
    const std::vector<float> logits = logits_after(load, golden_case.prompt);
    for (size_t i = 0; i < golden_case.logit.size(); ++i) {
      const size_t id = golden_case.logit_id.empty() ? i : size_t(golden_case.logit_id[i]);
      if (id >= logits.size()) fail(ExitCode::model_file, "{}: token id {} is outside the model's vocabulary of {}", report.golden, id, logits.size());
      result.max_logit_difference = std::max(result.max_logit_difference, std::abs(double(logits[id]) - golden_case.logit[i]));
    }
    bool good = std::isfinite(result.max_logit_difference) && result.max_logit_difference <= options.max_logit_error;

    const auto engine = load.make_engine(config);
    SamplingParams params;
    params.max_tokens = int(golden_case.greedy.size());
    params.ignore_eos = true;
    engine->submit(golden_case.prompt, params);
    std::vector<int32_t> greedy;
    while (!engine->idle()) {
      for (const Emitted& emitted : engine->step()) greedy.insert(greedy.end(), emitted.token.begin(), emitted.token.end());
    }
    const auto differ = std::mismatch(greedy.begin(), greedy.end(), golden_case.greedy.begin(), golden_case.greedy.end());
    if (differ.first != greedy.end() || differ.second != golden_case.greedy.end()) {
      result.first_difference = int(differ.first - greedy.begin());
      std::vector<int32_t> tokens = golden_case.prompt;
      tokens.insert(tokens.end(), greedy.begin(), differ.first);
      result.gap_there = top2_gap(logits_after(load, tokens));
      good = good && result.gap_there <= 2 * std::max(result.max_logit_difference, 1e-6);
    }
    report.passed = report.passed && good;
    report.summary += fmt::format("prompt {:4d} tokens: max |Δlogit| {:.2e}, greedy {} of {} equal{}{}\n", result.num_prompt, result.max_logit_difference, result.first_difference < 0 ? result.num_tokens : result.first_difference, result.num_tokens,
                                  result.first_difference < 0 ? "" : fmt::format(", top-2 gap {:.2e} at the first difference", result.gap_there), good ? "" : "  ✗");
    report.cases.push_back(result);
  }
  report.summary += fmt::format("{}: {} ({} cases of {}, tp {} pp {})\n", dir.string(), report.passed ? "pass" : "FAIL", report.cases.size(), report.golden, options.tp, options.pp);
  return report;
}

}  // namespace paceline
