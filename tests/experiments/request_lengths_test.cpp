// Prompts and outputs against the longest sequence: what fits, what is cut, and which key is named.

#include <gtest/gtest.h>

#include "experiments/run/engine_load.h"
#include "experiments/run/plan/planned_cell.h"
#include "tests/support/checkpoint_writer.h"
#include "tests/support/expect_error.h"
#include "tests/support/paths.h"

namespace paceline::test {
namespace {

EncodedPrompt encoded(const std::string& id, size_t num_tokens, std::optional<int> max_tokens = {}) {
  return {.id = id, .category = {}, .tokens = std::vector<int32_t>(num_tokens), .max_tokens = max_tokens};
}

ExperimentConfig builtin_config() {
  ExperimentConfig config;
  config.builtin_root = source_dir() / "configs";
  config.engine.backend = "cpu";
  derive_paths(config);
  return config;
}

TEST(RequestLengths, APromptMustLeaveRoomForAToken) {
  const std::vector<EncodedPrompt> prompts = {encoded("short", 79), encoded("long", 80)};
  EXPECT_NO_THROW(check_prompts_fit(std::span(prompts).first(1), {.max_model_len = 80, .fix = {}}));
  expect_error(ExitCode::usage, {"prompt \"long\" has 80 tokens, max_model_len 80 leaves room for 79", " or raise it"},
               [&] { check_prompts_fit(prompts, {.max_model_len = 80, .fix = "raise it"}); });
}

TEST(RequestLengths, OutputsEndAtTheLongestSequence) {
  const LengthLimit limit{.max_model_len = 100, .fix = "raise it"};
  EXPECT_EQ(longest_output(encoded("a", 30), 50, limit), 50);
  EXPECT_EQ(longest_output(encoded("a", 70), 50, limit), 30);
  EXPECT_EQ(longest_output(encoded("a", 70, 20), 50, limit), 20);
  const std::vector<EncodedPrompt> prompts = {encoded("a", 30), encoded("b", 70), encoded("c", 70, 20),
                                              encoded("d", 60)};
  EXPECT_EQ(cut_outputs_text(prompts, 20, limit), "");
  EXPECT_EQ(cut_outputs_text(prompts, 50, limit),
            "outputs end at max_model_len 100: it leaves 2 of 4 requests less than sampling.max_tokens 50, one of them "
            "30; set sampling.max_tokens to at most 30, or raise it");
}

TEST(RequestLengths, BytesAreAtLeastAsManyAsTokens) {
  const auto prompt = [](const std::string& text, std::optional<int> max_tokens) {
    return Prompt{.id = "a", .category = {}, .messages = {}, .text = text, .max_tokens = max_tokens};
  };
  const std::vector<Prompt> plain = {prompt(std::string(40, 'x'), {})};
  EXPECT_TRUE(surely_fit(plain, 60, 100 + kMostTokensAround));
  EXPECT_FALSE(surely_fit(plain, 61, 100 + kMostTokensAround));
  EXPECT_TRUE(surely_fit({prompt(std::string(40, 'x'), 60)}, 1000, 100 + kMostTokensAround));
  const std::vector<Prompt> chat = {
      {.id = "b", .category = {}, .messages = {{"user", std::string(40, 'x')}}, .text = {}, .max_tokens = {}}};
  EXPECT_FALSE(surely_fit(chat, 60, 120)) << "its template is not counted";
  const int around = kMostTokensAround + kMostTemplateTokens + kMostTokensAMessage;
  EXPECT_TRUE(surely_fit(chat, 60, 100 + around));
  EXPECT_FALSE(surely_fit(chat, 60, 99 + around));
  EXPECT_TRUE(surely_fit({}, 1000, 10));
}

TEST(RequestLengths, TheBuiltInTemplateStaysBelowItsBound) {
  const ExperimentConfig config = builtin_config();
  const PlannedRequests requests(config.workload);
  const auto& model = config.engine.target.directory;
  const auto tokens = encode_prompts(requests.prompts(), *Tokenizer::load(model), model, ChatFormat::template_of_model);
  ASSERT_EQ(tokens.size(), size_t(config.workload.requests));
  for (size_t i = 0; i < tokens.size(); ++i)
    EXPECT_FALSE(surely_fit({requests.prompts()[i]}, 1, int(tokens[i].tokens.size()))) << tokens[i].id;
}

TEST(RequestLengths, APlanCountsWhatPromptsLeave) {
  ExperimentConfig config = builtin_config();
  PlannedRequests requests(config.workload);
  ASSERT_TRUE(requests.were_read());
  const LengthLimit limit{.max_model_len = 1024, .fix = {}};
  EXPECT_EQ(requests.mean_output(config, limit), config.sampling.max_tokens);
  EXPECT_EQ(requests.cut_outputs(config, limit), "");
  config.sampling.max_tokens = 100'000;
  const auto& model = config.engine.target.directory;
  double sum = 0;
  for (const EncodedPrompt& prompt :
       encode_prompts(requests.prompts(), *Tokenizer::load(model), model, ChatFormat::template_of_model))
    sum += 1024 - double(prompt.tokens.size());
  EXPECT_DOUBLE_EQ(requests.mean_output(config, limit), sum / config.workload.requests);
  EXPECT_NE(requests.cut_outputs(config, limit).find("64 of 64 requests less than"), std::string::npos);
  EXPECT_NO_THROW(requests.check_fit(config, limit));
  expect_error(ExitCode::usage, {"max_model_len 80 leaves room for 79"},
               [&] { requests.check_fit(config, {.max_model_len = 80, .fix = {}}); });
}

TEST(RequestLengths, ALargeDataSetIsNotRead) {
  const TempDir dir;
  ExperimentConfig config = builtin_config();
  config.workload.file = dir / "large.jsonl";
  write_file(config.workload.file, std::string(PlannedRequests::kMostDatasetBytes + 1, '\n'));
  PlannedRequests requests(config.workload);
  EXPECT_FALSE(requests.were_read());
  config.sampling.max_tokens = 500;
  EXPECT_EQ(requests.mean_output(config, {.max_model_len = 100, .fix = {}}), 99);
  EXPECT_EQ(requests.cut_outputs(config, {.max_model_len = 100, .fix = {}}), "");
}

TEST(RequestLengths, TheFixIsTheKeyThatHoldsTheLengthDown) {
  const LoadLimits limits{.memory_bytes = {size_t{8} << 30}};
  ExperimentConfig config = builtin_config();
  EXPECT_EQ(length_limit(config, plan_load(config, limits)).fix, "") << "the model knows no more positions";
  config.engine.scheduler.max_model_len = 500;
  LengthLimit limit = length_limit(config, plan_load(config, limits));
  EXPECT_EQ(limit.max_model_len, 500);
  EXPECT_EQ(limit.fix, "raise engine.scheduler.max_model_len (the model knows 1024 positions)");
  config.engine.scheduler.max_model_len.reset();
  config.engine.kv_cache.memory_fraction = 0.0001;
  limit = length_limit(config, plan_load(config, limits));
  EXPECT_LT(limit.max_model_len, 1024);
  EXPECT_EQ(limit.fix,
            fmt::format("raise engine.kv_cache.memory_fraction (now 0.0001): max_model_len is auto, and the KV "
                        "cache holds {} tokens",
                        limit.max_model_len));
}

}  // namespace
}  // namespace paceline::test
