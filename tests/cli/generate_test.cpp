// generate: what it prints, and where.

#include <cctype>
#include <cstring>

#include <nlohmann/json.hpp>

#include "tests/cli/runexp.h"

namespace paceline::test {
namespace {

TEST(Generate, PrintsTheSameTextWithEveryProposerAndPlacement) {
  const std::string prompt =
      "Paris is the capital of France. Paris lies on the river Seine. What is the capital of France?";
  const auto generate = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"generate", prompt, "--max_tokens", "24"});
    const ProcessResult result = runexp(more);
    expect_success(result);
    EXPECT_TRUE(holds(result.err, " tok/s")) << result.err;
    EXPECT_EQ(lines_of(result.err).size(), 1u) << result.err;
    return result.out;
  };
  const std::string plain = generate({"--proposer", "none"});
  EXPECT_GT(plain.size(), 5u);
  EXPECT_TRUE(plain.ends_with("\n"));
  EXPECT_FALSE(holds(plain, "<|end|>"));
  for (const char* const proposer : {"none", "ngram", "draft"}) {
    for (const char* const size : {"1", "2"})
      EXPECT_EQ(generate({"--proposer", proposer, "--tp", size, "--pp", size, "-k", "3"}), plain)
          << proposer << " tp and pp " << size;
  }
  EXPECT_EQ(generate({"--proposer", "draft", "--tp", "2"}), plain);
  EXPECT_EQ(generate({"--proposer", "ngram", "--pp", "2"}), plain);
}

TEST(Generate, SamplesTheSameTextForTheSameSeed) {
  const auto generate = [](const char* seed) {
    return runexp({"generate", "Tell me a story about a dog.", "--temperature", "0.8", "--seed", seed, "--proposer",
                   "draft", "--max-tokens", "32"})
        .out;
  };
  const std::string first = generate("11");
  EXPECT_GT(first.size(), 5u);
  EXPECT_EQ(generate("11"), first);
  EXPECT_NE(generate("12"), first);
}

TEST(Generate, FindsModelsBelowTheFolderOfModels) {
  const TempDir elsewhere;
  const auto generate = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {kRunexp.string(), "generate", "Say hello.", "--max-tokens", "8"};
    words.insert(words.end(), more.begin(), more.end());
    return run_process(words, {.folder = elsewhere.path(),
                               .environment = {"PACELINE_MODELS=" + (kSource / "configs/models").string()}});
  };
  const ProcessResult built_in = generate({"--proposer", "draft"});
  expect_success(built_in);
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{}, {"--set", "speculation.draft.width=2"}}) {  // two ways to make the configuration
    std::vector<std::string> words = {"--model", "target-7m", "--proposer", "draft", "--draft", "draft-600k"};
    words.insert(words.end(), more.begin(), more.end());
    const ProcessResult named = generate(words);
    expect_success(named);
    EXPECT_EQ(named.out, built_in.out);
  }
  std::filesystem::create_directory(elsewhere / "target-7m");  // what lies here comes first
  expect_failure(generate({"--model", "target-7m"}), 3, {"target-7m", "config.json"});
}

TEST(Generate, TakesSettingsThatHaveNoOption) {
  const auto generate = [](std::vector<std::string> more) {
    more.insert(more.begin(), {"generate", "Say hello.", "--max-tokens", "24", "--proposer", "draft", "-k", "3"});
    return runexp(more);
  };
  const ProcessResult line = generate({}), tree = generate({"--set", "speculation.draft.width=3"});
  expect_success(line), expect_success(tree);
  EXPECT_EQ(tree.out, line.out);
  const auto drafted = [](const ProcessResult& result) {
    const size_t of = result.err.find(" of ", result.err.find("target, "));
    return of == std::string::npos ? 0 : std::stoi(result.err.substr(of + 4));
  };
  EXPECT_NE(drafted(tree), drafted(line)) << tree.err << line.err;
  const auto first_choice = generate({"--temperature", "0.9", "--set", "sampling.top_k=1"});
  expect_success(first_choice);
  EXPECT_EQ(first_choice.out, line.out);
  const auto short_model = generate({"--set", "engine.scheduler.max_model_len=64"});  // 96 tokens would not fit
  expect_success(short_model);
  EXPECT_EQ(short_model.out, line.out);

  const auto expect_refusal = [&](const char* setting, const std::vector<std::string>& texts) {
    expect_failure(generate({"--set", setting}), 2, texts);
  };
  expect_refusal("speculation.draft.widht=3", {"speculation.draft.widht", "did you mean \"speculation.draft.width\"?"});
  expect_refusal("speculation.draft.width=x", {"speculation.draft.width", "\"x\"", "expected an integer"});
  expect_refusal("speculation.ngram.max=2", {"speculation.ngram.max", "has an effect only with proposer ngram"});
  expect_refusal("engine.parallel.tp=2", {"engine.parallel.tp", "--tp"});
  expect_refusal("k=2", {"speculation.num_speculative_tokens", "-k"});
  expect_refusal("measure.repetitions=2", {"measure.repetitions", "engine, speculation or sampling"});
}

TEST(Generate, EndsItsLineBeforeTheCountsComeToTheSamePlace) {
  const ProcessResult result =
      test::run_process({"/bin/sh", "-c", "exec \"$0\" generate 'Where is it?' --max-tokens 8 2>&1", kRunexp.string()},
                        {.folder = kSource});
  expect_success(result);
  const std::vector<std::string> lines = test::lines_of(result.out);
  ASSERT_GE(lines.size(), 2u) << result.out;
  EXPECT_TRUE(holds(lines.back(), " tok/s")) << result.out;
  EXPECT_TRUE(std::isdigit(static_cast<unsigned char>(lines.back().front()))) << lines.back();
}

TEST(Generate, RefusesAPromptThatDoesNotFit) {
  std::string prompt;
  for (int i = 0; i < 1500; ++i) prompt += "word ";
  expect_failure(runexp({"generate", prompt}), 2, {"max_model_len 1024", "room for 1023"});
}

TEST(Generate, KeepsToASchema) {
  const Workspace workspace;
  const std::filesystem::path schema = workspace.folder() / "schema.json";
  write_file(schema, R"({"type": "object", "required": ["name", "old"], "additionalProperties": false,
 "properties": {"name": {"enum": ["Anna", "Ben"]}, "old": {"type": "boolean"}}})");
  const auto generate = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"generate", "Who built the bridge?", "--json-schema", schema.string()});
    return runexp(more);
  };
  for (const char* const proposer : {"none", "ngram", "draft"}) {
    const ProcessResult result = generate({"--proposer", proposer, "--tp", "2"});
    expect_success(result);
    const auto text = nlohmann::json::parse(result.out, nullptr, false);
    ASSERT_TRUE(text.is_object()) << result.out;
    EXPECT_EQ(text.size(), 2u) << result.out;
    EXPECT_TRUE(text["name"] == "Anna" || text["name"] == "Ben") << result.out;
    EXPECT_TRUE(text["old"].is_boolean()) << result.out;
  }
  const ProcessResult cut = generate({"--max-tokens", "2"});
  expect_success(cut);
  EXPECT_TRUE(holds(cut.err, "--max-tokens 2")) << cut.err;
  EXPECT_TRUE(holds(cut.err, "not complete")) << cut.err;
  const ProcessResult full = runexp({"generate", "hi", "--max-tokens", "5000"});
  EXPECT_TRUE(holds(full.err, "the text was cut at the model's context, 1024 tokens with the prompt")) << full.err;

  write_file(schema, "{\"type\": \"object\",\n \"properties\": {\"a\": {\"format\": \"date\"}}}");
  expect_failure(generate({}), 2, {schema.string(), "/properties/a", "format"});
  write_file(schema, "{\"type\": \"object\",\n}");
  expect_failure(generate({}), 2, {schema.string() + ":2:"});
  std::filesystem::remove(schema);
  expect_failure(generate({}), 2, {schema.string(), "o such file"});
}

TEST(Generate, LogitsThatAreNoNumbersAreAnError) {
  const Workspace workspace;
  const std::filesystem::path model = workspace.copy_model(kSource / "configs/models/target-7m", "overflowing");
  std::string bytes = read_file(model / "model.safetensors");
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data(), sizeof header_bytes);
  const auto header = nlohmann::json::parse(bytes.substr(8, header_bytes));
  const auto offsets = header.at("model.norm.weight").at("data_offsets");
  const size_t begin = 8 + header_bytes + offsets[0].get<size_t>(), end = 8 + header_bytes + offsets[1].get<size_t>();
  bytes.replace(begin, end - begin, std::string(end - begin, '\x7f'));  // 3.4e38 in bfloat16
  write_file(model / "model.safetensors", bytes);
  const ProcessResult result = runexp({"generate", "hi", "--model", model.string(), "--max-tokens", "4"});
  EXPECT_EQ(result.exit_code, 3) << described(result);
  EXPECT_TRUE(holds(result.err, "numerical_error")) << result.err;
}

}  // namespace
}  // namespace paceline::test
