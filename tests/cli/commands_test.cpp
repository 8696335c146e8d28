// The commands beside `run`: what they print and the exit codes of good calls.

#include <algorithm>
#include <cstdlib>
#include <regex>
#include <sstream>

#include <fmt/format.h>

#include "engine/util/machine.h"
#include "tests/cli/runexp.h"

namespace paceline::test {
namespace {

struct Checkpoint {
  std::string folder;
  std::vector<std::string> more;  // arguments
};

void PrintTo(const Checkpoint& checkpoint, std::ostream* out) { *out << checkpoint.folder; }

class VerifyModel : public testing::TestWithParam<Checkpoint> {};

TEST_P(VerifyModel, PassesOnOneRankAndOnRanks) {
  for (const auto& [tp, pp] : {std::pair(1, 1), {2, 1}, {1, 2}, {2, 2}}) {
    std::vector<std::string> args = {"verify-model", GetParam().folder, "--tp", std::to_string(tp),
                                     "--pp",         std::to_string(pp)};
    args.insert(args.end(), GetParam().more.begin(), GetParam().more.end());
    const ProcessResult result = runexp(args);
    expect_success(result);
    EXPECT_TRUE(holds(result.out, ": pass (")) << result.out;
    EXPECT_TRUE(holds(result.out, "tp " + std::to_string(tp) + " pp " + std::to_string(pp))) << result.out;
    EXPECT_EQ(result.err, "");
  }
}

INSTANTIATE_TEST_SUITE_P(
    Committed, VerifyModel,
    testing::Values(Checkpoint{"tests/data/llama", {}}, Checkpoint{"tests/data/llama-gqa-tied", {}},
                    Checkpoint{"tests/data/llama-linear-rope-bias", {}},
                    Checkpoint{"tests/data/llama3-rope-scaling", {}},
                    Checkpoint{"configs/models/target-7m", {"--golden", "tests/data/models_golden.json"}},
                    Checkpoint{"configs/models/draft-600k", {"--golden", "tests/data/models_golden.json"}}),
    [](const testing::TestParamInfo<Checkpoint>& each) {
      std::string name = std::filesystem::path(each.param.folder).filename();
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

TEST(VerifyModel, TakesWhatIsBuiltIn) {
  const ProcessResult result =
      runexp({"verify-model", "builtin:draft-600k", "--golden", "tests/data/models_golden.json"});
  EXPECT_EQ(result.exit_code, 0) << described(result);
  EXPECT_TRUE(holds(result.out, "draft-600k: pass")) << result.out;
  expect_failure(runexp({"verify-model", "builtin:draft-600"}), 2, {"builtin:draft-600"});
}

TEST(VerifyModel, AHeadCountThatTpDoesNotDivideNamesTheSizes) {
  expect_failure(runexp({"verify-model", "tests/data/llama-linear-rope-bias", "--tp", "4"}), 2,
                 {"num_attention_heads 6", "tp 4", "use tp 1, 2, 3"});
}

TEST(VerifyModel, ADamagedGoldenIsExitCode7) {
  for (const char* const damage : {"token", "logit"}) {
    const Workspace workspace;
    const auto model = workspace.copy_model(kSource / "tests/data/llama", "model");
    auto golden = nlohmann::json::parse(read_file(model / "golden.json"));
    auto& token = golden["greedy"][1][3];
    auto& logit = golden["last_logits"][1][7];
    if (damage == std::string("token"))
      token = (token.get<int>() + 1) % 500;
    else
      logit = logit.get<double>() + 1e-3;
    write_file(model / "golden.json", golden.dump());
    const ProcessResult result = runexp({"verify-model", model.string()});
    EXPECT_EQ(result.exit_code, 7) << described(result);
    EXPECT_TRUE(holds(result.out, "FAIL")) << result.out;
    EXPECT_TRUE(holds(result.out, damage == std::string("token") ? "greedy 3 of 32 equal" : "1.00e-03")) << result.out;
  }
}

// draft-600k four times as wide: every factor is a power of two.
constexpr const char* kFourfold = R"({"parent": "draft-600k", "exact": true, "architectures": ["LlamaForCausalLM"],
  "num_hidden_layers": 3, "hidden_size": 256, "intermediate_size": 256, "num_attention_heads": 6,
  "num_key_value_heads": 3, "head_dim": 32, "vocab_size": 8200, "max_position_embeddings": 2048,
  "tie_word_embeddings": false, "torch_dtype": "bfloat16"})";

TEST(Inflate, TheFolderAndTheKeyAreOneModel) {
  const Workspace workspace;
  const std::string shape = (workspace.folder() / "fourfold.json").string(),
                    out = (workspace.folder() / "big").string();
  write_file(shape, kFourfold);
  const ProcessResult written = runexp({"inflate", "builtin:draft-600k", shape, out});
  expect_success(written);
  EXPECT_TRUE(holds(written.out, "as fourfold, ")) << written.out;
  EXPECT_TRUE(holds(written.out, ", exact, written in")) << written.out;
  EXPECT_TRUE(holds(read_file(out + "/README.md"), "exact: every factor is a power of two"));
  const auto config = nlohmann::json::parse(read_file(out + "/config.json"));
  EXPECT_EQ(config.at("paceline_inflate").at("parent"), "draft-600k");
  EXPECT_EQ(config.at("rms_norm_eps"), 1e-5 / 4);
  EXPECT_EQ(config.at("max_position_embeddings"), 1024);

  const auto hashes = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"run", workspace.config().string(), "--results", workspace.results().string(), "--set",
                               "engine.target.dtype=float32"});
    expect_success(runexp(more));
    return workspace.cells().at(1).at("output_hashes");
  };
  const auto small = hashes({"--set", "engine.target.path=builtin:draft-600k"});
  EXPECT_EQ(hashes({"--set", "engine.target.path=" + out}), small);
  EXPECT_EQ(hashes({"--set", "engine.target.path=builtin:draft-600k", "--set", "engine.target.inflate=" + shape}),
            small);
}

TEST(Inflate, RandomWeightsNeedNoCheckpointAndAreMarked) {
  const Workspace workspace;
  const auto model = workspace.copy_model(kSource / "configs/models/draft-600k", "small");
  std::filesystem::remove(model / "model.safetensors");
  write_file(workspace.folder() / "fourfold.json", kFourfold);
  for (const char* const shape : {"", "fourfold.json"}) {
    std::vector<std::string> args = {"run",       workspace.config().string(),
                                     "--results", workspace.results().string(),
                                     "--set",     "engine.target.path=" + model.string(),
                                     "--set",     "engine.target.load_format=dummy"};
    if (*shape)
      args.insert(args.end(), {"--set", "engine.target.inflate=" + (workspace.folder() / shape).string(), "--set",
                               "engine.scheduler.max_model_len=2000"});  // beyond the small model's 1,024
    const ProcessResult result = runexp(args);
    expect_success(result);
    EXPECT_TRUE(holds(result.out, "baseline, random weights")) << result.out;
    EXPECT_TRUE(holds(result.out, "2 cells have random weights")) << result.out;
    for (const auto& cell : workspace.cells()) {
      EXPECT_TRUE(holds(cell.at("certificate").at("method"), "random weights")) << cell.at("certificate");
      EXPECT_EQ(cell.at("effective").at("load_format"), "dummy");
    }
  }
}

TEST(Inflate, CellsOfOtherWeightsAreNoEvidenceAgainstEachOther) {
  const Workspace workspace;
  const ProcessResult result =
      runexp({"run", workspace.config().string(), "--results", workspace.results().string(), "--set",
              "engine.target.path=builtin:draft-600k", "--axis", "engine.target.load_format=safetensors,dummy"});
  expect_success(result);
  ASSERT_EQ(workspace.cells().size(), 4u);
  EXPECT_NE(workspace.cells().at(0).at("output_hashes"), workspace.cells().at(2).at("output_hashes"));
  EXPECT_TRUE(holds(result.out, "2 cells have random weights")) << result.out;
}

TEST(Tokenize, PrintsIdsOneLineARecord) {
  const Workspace workspace;
  write_file(workspace.folder() / "text.txt", "The capital of France\n\nnaïve – 日本\n");
  const ProcessResult result = runexp(
      {"tokenize", "--tokenizer", "configs/models/target-7m", "--file", (workspace.folder() / "text.txt").string()});
  expect_success(result);
  const std::vector<std::string> lines = lines_of(result.out);
  ASSERT_EQ(lines.size(), 3u) << result.out;
  EXPECT_EQ(lines[1], "");
  for (const std::string& line : {lines[0], lines[2]}) {
    std::istringstream in(line);
    int id = -1, count = 0;
    while (in >> id) {
      EXPECT_TRUE(id >= 0 && id < 8193) << line;
      ++count;
    }
    EXPECT_TRUE(in.eof()) << line;
    EXPECT_GT(count, 2) << line;
  }
  EXPECT_EQ(runexp({"tokenize", "--tokenizer", "configs/models/draft-600k/tokenizer.json", "--file",
                    (workspace.folder() / "text.txt").string()})
                .out,
            result.out)
      << "a folder and a file, the same vocabulary";
}

TEST(Tokenize, TakesBuiltInModelsAndDataSets) {
  const Workspace workspace;
  const std::string text = (workspace.folder() / "text").string();
  write_file(text, "To be or not\n");
  const ProcessResult by_path = runexp({"tokenize", "--tokenizer", "configs/models/target-7m", "--file", text});
  const ProcessResult by_name = runexp({"tokenize", "--tokenizer", "builtin:target-7m", "--file", text});
  EXPECT_EQ(by_name.exit_code, 0) << described(by_name);
  EXPECT_EQ(by_name.out, by_path.out);
  const ProcessResult prompts =
      runexp({"tokenize", "--tokenizer", "builtin:target-7m", "--file", "builtin:reading_qa"});
  EXPECT_EQ(prompts.exit_code, 0) << described(prompts);
  EXPECT_EQ(lines_of(prompts.out).size(),
            lines_of(read_file(kSource / "configs/workloads/reading_qa.jsonl")).size() - 1)
      << "the first is a header";
  expect_failure(runexp({"tokenize", "--tokenizer", "builtin:target-7n", "--file", text}), 2,
                 {"--tokenizer: \"builtin:target-7n\"", "did you mean \"builtin:target-7m\"?"});
  expect_failure(runexp({"tokenize", "--tokenizer", "builtin:target-7m", "--file", "builtin:reading"}), 3,
                 {"reading", "reading_qa"});
}

TEST(Tokenize, PreNamesHowTextIsCut) {
  const Workspace workspace;
  const std::string model = (workspace.folder() / "tokenizer.model").string();
  const std::string text = (workspace.folder() / "text").string();
  write_file(model, "MQ== 0\nMTE= 1\n");  // "1", "11"
  write_file(text, "111\n");
  const auto tokenize = [&](const std::string& pre) {
    return runexp({"tokenize", "--tokenizer", model, "--file", text, "--pre", pre});
  };
  EXPECT_EQ(tokenize("gpt-2").out, "1 0\n");
  EXPECT_EQ(tokenize("qwen2").out, "0 0 0\n");
  expect_failure(tokenize("qwen"), 3, {"unknown pre-tokenizer \"qwen\", expected one of qwen2, ", "gpt-2"});
  expect_failure(runexp({"tokenize", "--tokenizer", model, "--file", text}), 3,
                 {"nothing says how text is cut", "engine.target.pre (--pre)", "gpt-2, llama-bpe, "});
}

TEST(ImportFlags, SplitsOneTextAsAShellDoes) {
  const ProcessResult split = runexp({"import-flags", "--served-model-name 'a b' --seed 7"});
  expect_success(split);
  EXPECT_TRUE(holds(split.out, "\"seed\": 7")) << split.out;
  expect_failure(runexp({"import-flags", "--seed '7"}), 2, {"import-flags: a ' in the flags is never closed"});
}

TEST(Tokenize, MatchesTheGpt2Vectors) {
  const char* const folder = std::getenv("PACELINE_SHARED");
  const std::filesystem::path tokenizers =
      (folder ? std::filesystem::path(folder) : kSource / ".." / "shared") / "tokenizers";
  if (!std::filesystem::exists(tokenizers / "vectors/gpt-2.inp"))
    GTEST_SKIP() << "tokenizers/vectors/gpt-2.inp is missing (PACELINE_SHARED)";
  std::string records = read_file(tokenizers / "vectors/gpt-2.inp");
  const std::vector<std::string> expected = lines_of(read_file(tokenizers / "vectors/gpt-2.out"));
  const std::string separator = "\n__ggml_vocab_test__\n";
  std::string text, ids;
  size_t index = 0;
  for (size_t at; (at = records.find(separator)) != std::string::npos;
       records.erase(0, at + separator.size()), ++index) {
    const std::string record = records.substr(0, at);
    if (record.find('\n') != std::string::npos) continue;  // the command reads one record a line
    text += record + "\n";
    std::istringstream in(expected.at(index));
    std::string line;
    for (std::string id; in >> id;) line += (line.empty() ? "" : " ") + id;
    ids += line + "\n";
  }
  ASSERT_GT(lines_of(ids).size(), 10u);
  const Workspace workspace;
  write_file(workspace.folder() / "text.txt", text);
  const ProcessResult result = runexp({"tokenize", "--tokenizer", (tokenizers / "gpt2").string(), "--file",
                                       (workspace.folder() / "text.txt").string()});
  expect_success(result);
  EXPECT_EQ(result.out, ids);
}

TEST(Plan, ShowsCellsSkipsAndMemoryPerRankWithoutLoading) {
  const Workspace workspace;
  write_file(workspace.config(), Workspace::config_text("  \"engine\": { \"parallel\": { \"pp\": 1 } },\n"));
  const ProcessResult result = runexp({"plan", "configs/ngram_tp2.json", "--profile", "quick"});
  expect_success(result);
  EXPECT_LT(result.cpu_s, 2 * time_factor());
  for (const char* const piece : {"32 cells", "load 1: builtin:target-7m tp1 pp1", "tp2 pp2", "rank 0: weights ",
                                  "rank 3: weights ", "KV ", "blocks", "run  tp1_pp1_none_c1", "tp2_pp2_draft_k5_c1",
                                  "baseline tp2_pp2_none_c1; break-even AL: ", "Lower bound: all cells take at least ",
                                  " if every draft token is accepted, ",
                                  "32 to run in 4 loads, 0 skipped; 12 requests of at most 48 tokens, 3 repetitions"}) {
    EXPECT_TRUE(holds(result.out, piece)) << piece << " not in\n" << result.out;
  }
  const ProcessResult skipping =
      runexp({"plan", workspace.config().string(), "--axis", "tp=1,2", "--set", "sweep.constraints=[\"tp == 1\"]"});
  expect_success(skipping);
  EXPECT_TRUE(holds(skipping.out, "skip tp2_pp1_none_c1")) << skipping.out;
  EXPECT_TRUE(holds(skipping.out, "2 to run in 1 load, 2 skipped")) << skipping.out;
}

TEST(Plan, NamesALoadThatCannotRun) {
  const Workspace workspace;
  const ProcessResult result = runexp({"plan", workspace.config().string(), "--axis", "tp=1,3"});
  EXPECT_EQ(result.exit_code, 2) << described(result);
  EXPECT_TRUE(holds(result.out, "run  tp1_pp1_none_c1")) << result.out;
  EXPECT_EQ(lines_of(result.err).size(), 1u) << result.err;
  EXPECT_TRUE(holds(result.err, "runexp: error: num_attention_heads 8")) << result.err;
}

TEST(Plan, MarksWhatCannotRun) {
  const Workspace workspace;
  const ProcessResult result = runexp({"plan", workspace.config().string(), "--axis", "tp=1,3"});
  EXPECT_TRUE(holds(result.out, "✗    tp3_pp1_ngram_k3_c1")) << result.out;
  EXPECT_TRUE(holds(result.out, "2 to run in 1 load, 0 skipped, 2 cannot run; ")) << result.out;
  EXPECT_TRUE(holds(result.out, "Lower bound: all cells take at least ")) << "of those that can";
}

TEST(Plan, CountsWhatIsNoCell) {
  const Workspace workspace;
  const ProcessResult result = runexp({"plan", workspace.config().string(), "--axis", "k=1..3", "--set",
                                       "sweep.exclude=[{\"proposer\": \"ngram\", \"k\": 3}]"});
  expect_success(result);
  EXPECT_TRUE(holds(result.out,
                    ": 3 cells\n1 excluded by sweep.exclude, 2 duplicates dropped (speculation.num_speculative_tokens "
                    "acts only with "))
      << result.out;
  const ProcessResult open = runexp({"plan", workspace.config().string(), "--axis", "concurrency=1,4", "--set",
                                     "load.mode=poisson", "--set", "load.rate_per_s=4"});
  EXPECT_TRUE(holds(open.out, "2 duplicates dropped (load.concurrency acts only with ")) << open.out;
  const ProcessResult whole = runexp({"plan", workspace.config().string()});
  EXPECT_FALSE(holds(whole.out, "excluded")) << whole.out;
  EXPECT_FALSE(holds(whole.out, "collapsed")) << whole.out;
}

TEST(Plan, KnowsThatOutputsEndAtTheLongestSequence) {
  const Workspace workspace;
  const ProcessResult result = runexp({"plan", workspace.config().string(), "--set", "sampling.max_tokens=10000000",
                                       "--set", "measure.repetitions=200"});
  expect_success(result);
  EXPECT_TRUE(holds(result.out,
                    "caution: outputs end at max_model_len 1024: it leaves 2 of 2 requests less than "
                    "sampling.max_tokens 10000000, one of them "))
      << result.out;
  const size_t begin = result.out.find("take at least "), end = result.out.find(", and if no answer", begin);
  ASSERT_NE(end, std::string::npos) << result.out;
  const std::string times = result.out.substr(begin, end - begin);
  EXPECT_FALSE(holds(times, " h ")) << times;
  EXPECT_FALSE(holds(times, ":")) << "each number has its unit: " << times;
}

TEST(Plan, FindsAPromptThatTheKvCacheCannotHold) {
  const Workspace workspace;
  constexpr double kSomeBlocks = 250e3;  // bytes of KV, about 80 tokens
  const std::vector<std::string> rest = {
      workspace.config().string(),
      "--set",
      "engine.backend=cpu",
      "--set",
      fmt::format("engine.kv_cache.memory_fraction={:.3e}", kSomeBlocks / double(memory_limit_bytes())),
      "--results",
      workspace.results().string()};
  std::vector<std::string> plan = rest, run = rest;
  plan.insert(plan.begin(), "plan");
  run.insert(run.begin(), "run");
  const ProcessResult planned = runexp(plan);
  EXPECT_EQ(planned.exit_code, 2) << described(planned);
  EXPECT_TRUE(holds(planned.out, "(auto, cut to the KV cache)")) << planned.out;
  EXPECT_TRUE(holds(planned.out, "0 to run in 0 loads, 0 skipped, 2 cannot run")) << planned.out;
  EXPECT_TRUE(holds(planned.err, "raise engine.kv_cache.memory_fraction (now ")) << planned.err;
  EXPECT_TRUE(holds(planned.err, "): max_model_len is auto")) << planned.err;
  EXPECT_EQ(planned.err, runexp(run).err);
}

TEST(Plan, CautionsWhereAConcurrencyCannotBeReached) {
  const Workspace workspace;
  const ProcessResult result =
      runexp({"plan", workspace.config().string(), "--axis", "concurrency=1,2,16", "--set", "workload.requests=12"});
  expect_success(result);
  EXPECT_TRUE(holds(result.out, "caution: c=16: at most 12 requests are at once, as workload.requests is 12; raise it"))
      << result.out;
  EXPECT_FALSE(holds(result.out, "c=2:")) << result.out;
  const ProcessResult small = runexp({"plan", workspace.config().string(), "--axis", "concurrency=8", "--set",
                                      "workload.requests=12", "--set", "engine.scheduler.max_num_seqs=6"});
  EXPECT_TRUE(holds(small.out, "c=8: at most 6 requests are at once, as engine.scheduler.max_num_seqs is 6"))
      << small.out;
}

TEST(Plan, ShowsMemoryOfEachRankInOneUnitAgainstWhatThereIs) {
  const Workspace workspace;
  const ProcessResult result =
      runexp({"plan", workspace.config().string(), "--axis", "tp=1,2", "--axis", "proposer=none,ngram"});
  expect_success(result);
  EXPECT_FALSE(holds(result.out, "MiB")) << result.out;
  for (const char* const piece : {"rank 1: weights 0.", " + workspace 0.", " + KV 0.", " + draft KV 0.", " free now; ",
                                  "ranks send ", "ngram_k3_c1          baseline tp1_pp1_none_c1\n"})
    EXPECT_TRUE(holds(result.out, piece)) << piece << " not in\n" << result.out;
  const size_t first = result.out.find("load 2"), sends = result.out.find("ranks send");
  EXPECT_LT(first, sends) << "one rank alone sends nothing";
}

TEST(Plan, RefusesAMissingDataSetAsARunDoes) {
  const Workspace workspace;
  const std::vector<std::string> rest = {workspace.config().string(), "--set", "workload.dataset=nofile.jsonl",
                                         "--results", workspace.results().string()};
  std::vector<std::string> plan = rest, run = rest;
  plan.insert(plan.begin(), "plan");
  run.insert(run.begin(), "run");
  const ProcessResult planned = runexp(plan);
  expect_failure(planned, 3, {"nofile.jsonl: dataset file not found"});
  EXPECT_EQ(planned.err, runexp(run).err);
}

TEST(Plan, SpeaksOfDraftsOnlyWhereTheSweepDrafts) {
  const Workspace workspace;
  const ProcessResult result = runexp({"plan", workspace.config().string(), "--axis", "proposer=none"});
  expect_success(result);
  EXPECT_TRUE(holds(result.out, "Lower bound: all cells take at least ")) << result.out;
  EXPECT_FALSE(holds(result.out, "draft token is accepted")) << result.out;
  EXPECT_FALSE(holds(result.out, "s, and if no answer ends early")) << "there is no other condition";
  EXPECT_TRUE(holds(result.out, "s if no answer ends early. ")) << result.out;
}

TEST(Plan, BoundsADraftModelAgainstTheSamePlacementWithoutOne) {
  const Workspace workspace;
  const ProcessResult result =
      runexp({"plan", workspace.config().string(), "--axis", "tp=1,2", "--axis", "proposer=none,draft", "--set",
              "sweep.baseline={\"engine.parallel.tp\": 2, \"speculation.proposer\": \"none\"}"});
  expect_success(result);
  EXPECT_TRUE(holds(result.out, "baseline tp2_pp1_none_c1; break-even AL over tp1_pp1_none_c1: ")) << result.out;
  EXPECT_TRUE(holds(result.out, "baseline tp2_pp1_none_c1; break-even AL: ")) << result.out;
  const ProcessResult alone = runexp({"plan", workspace.config().string(), "--axis", "proposer=ngram,draft", "--set",
                                      "sweep.baseline={\"speculation.proposer\": \"ngram\"}"});
  expect_success(alone);
  EXPECT_FALSE(holds(alone.out, "pays")) << alone.out;
}

TEST(Models, ListsTheBuiltInOnesFromAnywhereBelowTheRepository) {
  const ProcessResult result = runexp({"models"}, {.folder = kSource / "configs/models",
                                                   .environment = {"PACELINE_MODELS"},
                                                   .timeout_s = 20,
                                                   .streams = Streams::pipes});
  EXPECT_EQ(result.exit_code, 0) << described(result);
  for (const char* const piece : {"builtin:target-7m", "builtin:draft-600k", "vocab 8193", "6 layers", "bfloat16"})
    EXPECT_TRUE(holds(result.out, piece)) << piece << "\n" << result.out;
  const ProcessResult named =
      runexp({"models"}, {.folder = {},
                          .environment = {"PACELINE_MODELS=" + (kSource / "tests/data").string()},
                          .timeout_s = 20,
                          .streams = Streams::pipes});
  EXPECT_TRUE(holds(named.out, "llama-gqa-tied")) << named.out;
}

TEST(Models, AreFoundAboveTheProgramFromAnyFolder) {
  const Workspace workspace;
  const auto program = workspace.folder() / "build/release/runexp";
  std::filesystem::create_directories(program.parent_path());
  std::filesystem::copy_file(kRunexp, program);
  const auto models = [&] {
    return run_process({program.string(), "models"},
                       {.folder = "/", .environment = {"PACELINE_MODELS"}, .timeout_s = 20, .streams = Streams::pipes});
  };
  const ProcessResult without = models();
  EXPECT_EQ(without.exit_code, 0) << described(without);
  EXPECT_TRUE(holds(without.err, "found no folder configs/models")) << without.err;
  const ProcessResult generate =
      run_process({program.string(), "generate", "hi"},
                  {.folder = "/", .environment = {}, .timeout_s = 20, .streams = Streams::pipes});
  expect_failure(generate, 2, {"builtin:target-7m", "found no folder configs/ with", "run it in the repository"});
  write_file(workspace.config(), "{ \"engine\": { \"target\": { \"path\": \"" +
                                     (kSource / "configs/models/target-7m").string() + "\" } } }");
  const ProcessResult plan =
      run_process({program.string(), "plan", workspace.config().string()},
                  {.folder = "/", .environment = {}, .timeout_s = 20, .streams = Streams::pipes});
  expect_failure(plan, 2, {"\"builtin:reading_qa\": found no folder configs/ with", "models, shapes, workloads"});
  std::filesystem::create_directory_symlink(kSource / "configs", workspace.folder() / "configs");
  const ProcessResult with = models();
  EXPECT_TRUE(holds(with.out, "builtin:target-7m")) << described(with);
}

TEST(Doctor, LooksAtTheMachineAndSaysWhatARunNeeds) {
  const Workspace workspace;
  const ProcessResult text = runexp({"doctor", "--results", workspace.results().string()});
  EXPECT_TRUE(holds(text.out, "builtin:target-7m")) << described(text);
  EXPECT_LT(text.wall_s, 10 * time_factor());
  EXPECT_EQ(text.err, "");
  EXPECT_FALSE(std::filesystem::exists(workspace.results())) << "it makes no folder";
  const ProcessResult result = runexp({"doctor", "--json", "--results", workspace.results().string()});
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(result.exit_code, json.at("exit_code").get<int>()) << described(result);
  EXPECT_EQ(json.at("schema"), "paceline.doctor");
  for (const auto& check : json.at("checks")) {
    const bool cross = check.at("finding") == "weak" || check.at("finding") == "broken";
    EXPECT_EQ(check.at("fix").is_string(), cross) << check.dump();
    if (check.at("section") == "gpu" && json.at("gpus").empty()) {
      EXPECT_EQ(check.at("finding"), "note") << check.dump();
    }
  }
  if (json.at("gpus").empty()) {
    EXPECT_EQ(result.exit_code, 0) << described(result);
  }
}

TEST(Doctor, AResultsFolderThatCannotBeWrittenHasTheStoresCode) {
  const ProcessResult result = runexp({"doctor", "--results", "/proc/results"});
  EXPECT_EQ(result.exit_code, 6) << described(result);
  EXPECT_TRUE(holds(result.out, "✗ results")) << result.out;
  EXPECT_TRUE(holds(result.out, "fix: name a folder of yours with --results DIR")) << result.out;
}

TEST(Help, EveryCommandMentionsItsOptions) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> commands = {
      {"run", {"config", "--set", "--profile", "--axis", "--only", "--results", "--ui"}},
      {"plan", {"config", "--set", "--profile", "--axis", "--only", "--results"}},
      {"trace", {"run", "cell", "--results", "ui.perfetto.dev"}},
      {"compare", {"Usage: runexp compare [OPTIONS] runs...\n", "  runs RUN REQUIRED", "two runs or more"}},
      {"doctor", {"--json", "--results"}},
      {"models", {}},
      {"generate",
       {"prompt", "--model", "--proposer", "--draft", "--num-speculative-tokens", "--max-tokens", "--temperature",
        "--seed", "--tp", "--pp", "--raw"}},
      {"inflate", {"small", "shape", "out", "builtin:NAME", "must not exist"}},
      {"tokenize", {"--tokenizer", "--file"}},
      {"verify-model", {"dir", "--golden", "--tp", "--pp"}},
      {"explain", {"key", "topic"}},
      {"init", {"template", "--list"}},
      {"config", {"show", "expand", "validate", "diff", "schema", "docs"}},
      {"completion", {"bash", "zsh", "fish"}},
      {"import-flags", {"Usage: runexp import-flags [OPTIONS] FLAGS...\n", "SGLang"}},
      {"serve", {"Usage: runexp serve [OPTIONS] MODEL|EXPERIMENT [FLAGS...]\n"}},
      {"regress",
       {"Without --baseline-bin only tokens and counters are compared.", "9: times were disturbed (with --strict)"}},
  };
  const ProcessResult all = runexp({"--help"});
  expect_success(all);
  for (const auto& [command, options] : commands) {
    EXPECT_TRUE(holds(all.out, "  " + command + " ")) << all.out;
    const ProcessResult help = runexp({command, "--help"});
    expect_success(help);
    EXPECT_EQ(help.err, "");
    EXPECT_TRUE(holds(help.out, "runexp " + command)) << help.out;
    for (const std::string& option : options)
      EXPECT_TRUE(holds(help.out, option)) << command << " " << option << "\n" << help.out;
  }
}

TEST(Help, VersionAndExitCodes) {
  const ProcessResult version = runexp({"--version"});
  expect_success(version);
  EXPECT_TRUE(version.out.starts_with("paceline 0.")) << version.out;
  const std::vector<std::string> lines = lines_of(version.out);
  ASSERT_EQ(lines.size(), 5u) << version.out;
  EXPECT_TRUE(std::regex_match(lines[1], std::regex("commit   (unknown|[0-9a-f]{40})(, with changes that are not "
                                                    "committed)?")))
      << lines[1];
  EXPECT_TRUE(lines[2].starts_with("compiler ") && lines[2].size() > 14) << lines[2];
  EXPECT_TRUE(lines[3].starts_with("flags    ")) << lines[3];
  EXPECT_TRUE(lines[4] == "mode     unity" || lines[4] == "mode     one object per file") << lines[4];
  const ProcessResult codes = runexp({"explain", "exit-codes"});
  expect_success(codes);
  EXPECT_EQ(lines_of(codes.out).size(), 13u);
  for (const char* const code :
       {"0  ", "1  ", "2  ", "3  ", "4  ", "5  ", "6  ", "7  ", "8  ", "9  ", "10 ", "130", "143"})
    EXPECT_TRUE(holds(codes.out, code)) << code;
  EXPECT_TRUE(holds(codes.out, "a model's config.json included\n")) << "an unknown architecture ends with 2";
}

TEST(Models, AModelThatLinksToItselfHidesNoOther) {
  const TempDir dir;
  std::filesystem::create_directory(dir / "loop");
  std::filesystem::create_symlink("config.json", dir / "loop" / "config.json");
  const ProcessResult result = run_process(
      {kRunexp.string(), "models"}, {.folder = kSource, .environment = {"PACELINE_MODELS=" + dir.path().string()}});
  EXPECT_EQ(result.exit_code, 0) << described(result);
  EXPECT_TRUE(holds(result.out, "target-7m")) << result.out;
}

TEST(Models, AreListedFromAFolderThatIsGone) {
  const TempDir dir;
  const ProcessResult result =
      run_process({"/bin/sh", "-c", "mkdir \"$1/gone\" && cd \"$1/gone\" && rmdir \"$1/gone\" && exec \"$0\" models",
                   kRunexp.string(), dir.path().string()});
  EXPECT_EQ(result.exit_code, 0) << described(result);
  EXPECT_TRUE(holds(result.out, "target-7m")) << result.out;
}

}  // namespace
}  // namespace paceline::test
