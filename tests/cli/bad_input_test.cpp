// Command lines and configurations that are wrong: exit code, one error on stderr that names the mistake and the fix,
// nothing on stdout, no crash, at once.

#include "tests/cli/bad_input.h"

#include <algorithm>

namespace paceline::test {
namespace {

class BadInputTest : public testing::TestWithParam<BadInput> {};

TEST_P(BadInputTest, IsOneErrorWithItsExitCode) { expect_refused(GetParam()); }

std::vector<BadInput> command_lines() {
  return {
      {"no_command", {}, 2, {"doctor, models, inflate, convert, generate", "runexp --help"}},
      {"typo_command", {"genrate", "hi"}, 2, {"\"genrate\"", "did you mean \"generate\"?", "commands:"}},
      {"typo_option",
       {"run", "{tiny}", "--profle", "quick"},
       2,
       {"\"--profle\"", "did you mean \"--profile\"?", "runexp run --help"}},
      {"typo_option_with_value", {"{tiny}", "--resluts={dir}"}, 2, {"did you mean \"--results\"?"}},
      {"typo_global_option", {"--versoin"}, 2, {"\"--versoin\"", "did you mean \"--version\"?"}},
      {"two_prompts", {"generate", "two", "words"}, 2, {"\"words\"", "quote"}},
      {"model_as_prompt",
       {"generate", "builtin:target-7m", "Say hello."},
       2,
       {"\"builtin:target-7m\" looks like a model: name it with --model; see runexp generate --help"}},
      {"folder_as_prompt", {"generate", "{dir}", "Hi"}, 2, {"\"{dir}\" looks like a model: name it with --model"}},
      {"two_texts", {"generate", "Hi.", "Say hello."}, 2, {"unexpected argument \"Say hello.\"; see"}},
      {"no_config", {"run"}, 2, {"config is required", "runexp run --help"}},
      {"missing_config", {"run", "{dir}/none.json"}, 2, {"{dir}/none.json", "no such"}},
      {"folder_as_config", {"run", "{dir}"}, 2, {"{dir}"}},
      {"unknown_topic", {"explain", "exit"}, 2, {"\"exit\"", "exit-codes"}},
      {"unknown_ui",
       {"{tiny}", "--ui", "fancy", "--results", "{dir}/results"},
       2,
       {"\"fancy\"", "auto, live, plain, jsonl or quiet"}},
      {"setting_without_set",
       {"generate", "--set", "speculation.ngram.max=3", "proposer=none", "hi"},
       2,
       {"\"proposer=none\"", "write --set before each KEY=VALUE"}},
      {"prompt_from_stdin", {"generate", "-"}, 2, {"standard input is not read", "cat FILE"}},
      {"bad_tp", {"generate", "hi", "--tp", "many"}, 2, {"--tp", "many", "1"}},
      {"negative_temperature", {"generate", "hi", "--temperature", "-1"}, 2, {"--temperature", "-1"}},
      {"negative_seed", {"generate", "hi", "--seed", "-1"}, 2, {"--seed", "-1"}},
      {"temperature_nan", {"generate", "hi", "--temperature", "nan"}, 2, {"--temperature", "nan", "expected a number"}},
      {"seed_beyond_64_bits",
       {"generate", "hi", "--seed", "99999999999999999999"},
       2,
       {"--seed", "9223372036854775807"}},
      {"seed_of_2_to_63", {"generate", "hi", "--seed", "9223372036854775808"}, 2, {"--seed", "9223372036854775807"}},
      {"too_many_drafts", {"generate", "hi", "-k", "65"}, 2, {"65", "64"}},
      {"no_tokens", {"generate", "hi", "--max-tokens", "0"}, 2, {"--max-tokens", "0"}},
      {"unknown_proposer",
       {"generate", "hi", "--proposer", "ngarm"},
       2,
       {"\"ngarm\"", "did you mean \"ngram\"?", "none, ngram"}},
      {"unknown_builtin",
       {"generate", "hi", "--model", "builtin:target-7n"},
       2,
       {"builtin:target-7n", "did you mean \"builtin:target-7m\"?", "builtin:draft-600k"}},
      {"draft_without_model",
       {"generate", "hi", "--proposer", "draft", "--draft", ""},
       2,
       {"--draft", "expected builtin:NAME, a folder or a .gguf file"}},
      {"draft_of_a_proposer_without",
       {"generate", "hi", "--draft", "builtin:draft-600k"},
       2,
       {"--draft", "\"ngram\" takes no model", "--proposer draft or eagle3 does"}},
      {"draft_folder_missing",
       {"generate", "hi", "--proposer", "draft", "--draft", "{dir}/none"},
       3,
       {"there is no folder {dir}/none", "nothing is downloaded", "PACELINE_MODELS}/none", "`runexp models`"}},
      {"model_folder_missing",
       {"generate", "hi", "--model", "{dir}/none"},
       3,
       {"there is no folder {dir}/none", "nothing is downloaded", "PACELINE_MODELS}/none", "`runexp models`"}},
      {"heads_not_divisible",
       {"generate", "hi", "--tp", "3"},
       2,
       {"num_attention_heads 8", "tp 3", "use tp 1, 2, 4, 8"}},
      {"more_stages_than_layers", {"generate", "hi", "--pp", "9"}, 2, {"pp 9", "num_hidden_layers 6", "1 to 6"}},
      {"tokenizer_missing", {"tokenize", "--tokenizer", "{dir}", "--file", "{tiny}"}, 3, {"{dir}", "tokenizer.json"}},
      {"inflate_missing_parent",
       {"inflate", "{dir}/none", "llama-3-8b", "{dir}/out"},
       3,
       {"{dir}/none/config.json: no such file", "target-7m belongs to it"}},
      {"inflate_unknown_shape",
       {"inflate", "builtin:target-7m", "llama-3-8", "{dir}/out"},
       2,
       {"SHAPE: \"llama-3-8\"", "did you mean \"llama-3-8b\"?", "llama-3.2-1b"}},
      {"inflate_unknown_parent",
       {"inflate", "builtin:target-7n", "llama-3-8b", "{dir}/out"},
       2,
       {"SMALL: \"builtin:target-7n\"", "did you mean \"builtin:target-7m\"?"}},
      {"inflate_missing_shape_file",
       {"inflate", "builtin:target-7m", "{dir}/none.json", "{dir}/out"},
       3,
       {"{dir}/none.json", "No such file"}},
      {"inflate_over_a_folder",
       {"inflate", "builtin:target-7m", "llama-3-8b", "{dir}"},
       2,
       {"{dir}: exists, expected a new folder"}},
      {"text_missing",
       {"tokenize", "--tokenizer", "configs/models/target-7m", "--file", "{dir}/none"},
       3,
       {"{dir}/none", "No such file"}},
      {"text_is_folder",
       {"tokenize", "--tokenizer", "configs/models/target-7m", "--file", "{dir}"},
       3,
       {"{dir}", "is a folder"}},
      {"verify_missing", {"verify-model", "{dir}/none"}, 3, {"{dir}/none", "no such folder"}},
      {"verify_without_golden", {"verify-model", "configs/models/target-7m"}, 3, {"golden.json", "--golden"}},
  };
}

std::vector<BadInput> overrides() {
  const auto run = [](const std::string& option, const std::string& value) {
    return std::vector<std::string>{"run", "{tiny}", option, value, "--results", "{dir}/results"};
  };
  return {
      {"unknown_key",
       run("--set", "speculation.ngram.maxx=3"),
       2,
       {"--set: error: ", "\"speculation.ngram.maxx\"", "did you mean \"speculation.ngram.max\"?"}},
      {"mistyped_value",
       run("--set", "sampling.max_tokens=lots"),
       2,
       {"sampling.max_tokens", "\"lots\"", "integer from 1"}},
      {"set_on_axis",
       run("--set", "speculation.proposer=draft"),
       2,
       {"is an axis", "--axis speculation.proposer=draft"}},
      {"no_profiles", run("--profile", "quick"), 2, {"has no profiles"}},
      {"unknown_profile",
       {"run", "configs/ngram_tp2.json", "--profile", "qick", "--results", "{dir}/results"},
       2,
       {"\"qick\"", "did you mean \"quick\"?"}},
      {"unknown_category",
       run("--set", "workload.categories=[\"questions\"]"),
       2,
       {"no category \"questions\" (did you mean \"question\"?)"}},
      {"prompts_too_long", run("--set", "workload.max_prompt_chars=3"), 2, {"all prompts of the data set are longer"}},
      {"bad_only", run("--only", "tp==="), 2, {"--only: error: ", "expected a value"}},
      {"only_mistyped",
       run("--only", "proposer != nnoe"),
       2,
       {"--only: error: ", "\"nnoe\" is no value of proposer", "did you mean \"none\"?"}},
      {"only_quoted", run("--only", "'ngrm' == proposer"), 2, {"\"ngrm\" is no value of proposer", "\"ngram\"?"}},
      {"only_of_another_key",
       run("--only", "proposer == greedy"),
       2,
       {"\"greedy\" is no value of proposer: there are"}},
      {"only_meets_nothing", run("--only", "tp==7"), 2, {"tp==7", "no cell"}},
      {"stop_id_beyond_32_bits",
       run("--set", "sampling.stop_token_ids=[4294967313]"),
       2,
       {"stop_token_ids", "4294967313", "16777215"}},
      {"zero_k", run("--set", "num_speculative_tokens=0"), 2, {"is 0", "1 to 64"}},
      {"large_k", run("--axis", "k=1000"), 2, {"is 1000", "1 to 64"}},
      {"ngram_min_above_max",
       run("--set", "speculation.ngram.min=9"),
       2,
       {"speculation.ngram.min 9", "speculation.ngram.max 4"}},
      {"unknown_proposer", run("--axis", "proposer=none,medusa"), 2, {"\"medusa\"", "none | ngram"}},
      {"unknown_dtype", run("--set", "engine.target.dtype=int3"), 2, {"\"int3\"", "bfloat16"}},
      {"unknown_model", run("--set", "engine.target.path=builtin:target-7n"), 2, {"did you mean \"target-7m\"?"}},
      {"unknown_dataset", run("--set", "workload.dataset=builtin:reading"), 2, {"builtin:reading", "reading_qa"}},
      {"dataset_missing",
       run("--set", "workload.dataset={dir}/none.jsonl"),
       3,
       {"{dir}/none.jsonl", "workload.dataset"}},
      {"model_missing",
       run("--set", "engine.target.path={dir}/org/none"),
       3,
       {"engine.target.path: there is no folder {dir}/org/none", "nothing is downloaded", "PACELINE_MODELS}/none"}},
      {"unknown_shape", run("--set", "engine.target.inflate=llama-3-8"), 2, {"did you mean \"llama-3-8b\"?"}},
      {"shape_missing", run("--set", "engine.target.inflate={dir}/none.json"), 3, {"{dir}/none.json", "No such file"}},
      {"fraction_zero", run("--set", "engine.kv_cache.memory_fraction=0"), 2, {"above 0, at most 1"}},
      {"fraction_word", run("--set", "engine.kv_cache.memory_fraction=abc"), 2, {"\"abc\"", "above 0, at most 1"}},
      {"no_room_for_a_block",
       run("--set", "engine.kv_cache.memory_fraction=1e-9"),
       4,
       {"No available memory for the KV cache", "GiB", "16 tokens", "memory_fraction"}},
      {"heads_not_divisible", run("--axis", "tp=3"), 2, {"num_attention_heads 8", "tp 3", "use tp 1, 2, 4, 8"}},
      {"more_stages_than_layers", run("--set", "engine.parallel.pp=9"), 2, {"pp 9", "num_hidden_layers 6", "1 to 6"}},
      {"longer_than_positions",
       run("--set", "engine.scheduler.max_model_len=4096"),
       2,
       {"max_model_len", "4096", "1024"}},
      {"prompt_too_long",
       run("--set", "engine.scheduler.max_model_len=64"),
       2,
       {"prompt \"", "max_model_len 64", "room for 63"}},
      {"draft_missing_everywhere",
       {"run", "{bad}", "--set", "speculation.draft.path={dir}/none", "--results", "{dir}/results"},
       3,
       {"speculation.draft.path: there is no folder {dir}/none", "nothing is downloaded"},
       "{ \"speculation\": { \"proposer\": \"draft\" }, \"workload\": { \"requests\": 1 } }\n"},
  };
}

std::vector<BadInput> config_files() {
  const std::vector<std::string> plan = {"plan", "{bad}"};
  return {
      {"unknown_key",
       plan,
       2,
       {"{bad}:2:3: error: ", "\"sampling\"", "\"samplng\""},
       "{\n  \"samplng\": { \"max_tokens\": 3 }\n}\n"},
      {"nested_unknown_key",
       plan,
       2,
       {"{bad}:2:17: error: ", "did you mean \"max_tokens\"?"},
       "{\n  \"sampling\": { \"max_token\": 3 }\n}\n"},
      {"duplicate_key",
       plan,
       2,
       {"{bad}:3:3: error: ", "\"name\"", "duplicate"},
       "{\n  \"name\": \"a\",\n  \"name\": \"b\"\n}\n"},
      {"mistyped_value",
       plan,
       2,
       {"{bad}:1:31: error: ", "integer"},
       "{ \"sampling\": { \"max_tokens\": \"many\" } }\n"},
      {"trailing_garbage", plan, 2, {"{bad}:2:1: error: "}, "{ \"name\": \"a\" }\n}\n"},
      {"empty_file", plan, 2, {"{bad}:1:1: error: "}, ""},
      {"missing_parent", plan, 2, {"{bad}:1:", "none.json"}, "{ \"extends\": \"none.json\" }\n"},
      {"extends_itself", plan, 2, {"{bad}:1:", "bad.json"}, "{ \"extends\": \"bad.json\" }\n"},
      {"empty_axis", plan, 2, {"{bad}:1:", "error: "}, "{ \"sweep\": { \"axes\": { \"engine.parallel.tp\": [] } } }\n"},
      {"unknown_axis",
       plan,
       2,
       {"{bad}:1:", "engine.parallel.tpp", "did you mean"},
       "{ \"sweep\": { \"axes\": { \"engine.parallel.tpp\": [1] } } }\n"},
  };
}

INSTANTIATE_TEST_SUITE_P(CommandLine, BadInputTest, testing::ValuesIn(command_lines()), name_of);
INSTANTIATE_TEST_SUITE_P(Override, BadInputTest, testing::ValuesIn(overrides()), name_of);
INSTANTIATE_TEST_SUITE_P(ConfigFile, BadInputTest, testing::ValuesIn(config_files()), name_of);

/// Both answers to a KV cache that is too small come with numbers and the fix.
TEST(BadMemory, MaxModelLenAboveCapacityNamesTheLongestThatFits) {
  const Workspace workspace;
  const std::vector<std::string> args = {
      "run",       workspace.config().string(),  "--set", "engine.scheduler.max_model_len=1024",
      "--results", workspace.results().string(), "--set"};
  // What fits depends on the machine: the share of its memory that holds about 20 blocks of 16 tokens x 6 KiB.
  for (double fraction = 1e-3; fraction > 1e-9; fraction /= 2) {
    std::vector<std::string> with = args;
    with.push_back("engine.kv_cache.memory_fraction=" + std::to_string(fraction * 1e9) + "e-9");
    const ProcessResult result = runexp(with);
    if (result.exit_code == 0) continue;
    expect_failure(
        result, 4,
        {"max seq len (1024)", "KV cache (", "GiB", "decreasing max_model_len to at most ", "memory_fraction"});
    return;
  }
  FAIL() << "no fraction was too small";
}

TEST(BadVocabulary, ADraftWithOtherTokensIsRefusedWithTheFirstDifferences) {
  const Workspace workspace;
  const auto draft = workspace.copy_model(kSource / "configs/models/draft-600k", "draft");
  nlohmann::ordered_json tokenizer = nlohmann::ordered_json::parse(read_file(draft / "tokenizer.json"));
  auto& vocab = tokenizer["model"]["vocab"];
  std::string first, second;  // two tokens of one byte each change places
  for (const auto& [token, id] : vocab.items()) {
    if (token == "a") first = token;
    if (token == "b") second = token;
  }
  ASSERT_FALSE(first.empty() || second.empty());
  const int low = vocab[first], high = vocab[second];
  std::swap(vocab[first], vocab[second]);
  write_file(draft / "tokenizer.json", tokenizer.dump());
  const std::string id = "id " + std::to_string(std::min(low, high));
  expect_failure(runexp({"generate", "hi", "--proposer", "draft", "--draft", draft.string()}), 2,
                 {"speculation.draft", "vocabulary", id, "target \"a\", draft \"b\"", "100.0 %"});

  // In a sweep it takes the drafting cells along, not the others.
  const ProcessResult run =
      runexp({"run", workspace.config().string(), "--axis", "proposer=none,ngram,draft", "--set",
              "speculation.draft.path=" + draft.string(), "--results", workspace.results().string()});
  SCOPED_TRACE(described(run));
  EXPECT_EQ(run.exit_code, 1);
  for (const auto& cell : workspace.cells()) {
    const bool drafts = cell.at("axes").at("proposer") == "draft";
    EXPECT_EQ(cell.at("status"), drafts ? "failed" : "done");
    if (drafts) {
      EXPECT_TRUE(holds(cell.at("reason"), id));
    }
  }
}

TEST(BadCorpus, OneOfAnotherTokenizerIsRefusedAndOneOfTheTargetsIsUsed) {
  const Workspace workspace;
  write_file(workspace.folder() / "texts", "The harbour master\nwalked along the quay\n");
  const auto corpus_of = [&](const std::string& tokenizer) {
    const ProcessResult made =
        runexp({"tokenize", "--tokenizer", tokenizer, "--file", (workspace.folder() / "texts").string(), "--corpus"});
    EXPECT_EQ(made.exit_code, 0);
    return made.out;
  };
  const std::filesystem::path corpus = workspace.folder() / "corpus";
  write_file(corpus, corpus_of("builtin:target-7m"));
  const std::vector<std::string> run = {
      "run",       workspace.config().string(),  "--axis", "proposer=none,ngram",
      "--results", workspace.results().string(), "--set",  "speculation.ngram.corpus=" + corpus.string()};
  EXPECT_EQ(runexp(run).exit_code, 0);
  std::string other = corpus_of("builtin:target-7m");
  char& digit = other[other.find(',', other.find(',') + 1) - 1];
  digit = digit == '0' ? '1' : '0';
  write_file(corpus, other);
  EXPECT_EQ(runexp(run).exit_code, 1);
  for (const auto& cell : workspace.cells()) {
    const bool drafts = cell.at("axes").at("proposer") == "ngram";
    EXPECT_EQ(cell.at("status"), drafts ? "failed" : "done");
    if (drafts) {
      EXPECT_TRUE(holds(cell.at("reason"), corpus.string() + ":1: a corpus of another tokenizer")) << cell.at("reason");
    }
  }
}

}  // namespace
}  // namespace paceline::test
