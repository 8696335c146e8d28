// runexp explain and runexp config: what a user reads about keys and files.

#include <regex>

#include "tests/cli/runexp.h"

namespace paceline::test {
namespace {

TEST(Explain, KeysSectionsAndTopics) {
  const ProcessResult key = runexp({"explain", "num-speculative-tokens"});
  EXPECT_EQ(key.exit_code, 0) << described(key);
  EXPECT_EQ(key.err, "");
  EXPECT_TRUE(key.out.starts_with("speculation.num_speculative_tokens   (also: k, num_speculative_tokens)\n"));
  EXPECT_EQ(runexp({"explain", "k"}).out, key.out);
  const ProcessResult all = runexp({"explain"});
  for (const char* piece :
       {"(top): The file itself.", "engine: ", "  engine.parallel.tp ", "report.facet", "exit-codes"})
    EXPECT_TRUE(holds(all.out, piece)) << piece;
  EXPECT_TRUE(holds(runexp({"explain", "exit-codes"}).out, "6    results store\n"));
  EXPECT_TRUE(holds(runexp({"explain", "exit-codes"}).out, "9    regress --strict: times were disturbed\n"));
}

TEST(Explain, ATypoGetsTheNearestName) {
  expect_failure(runexp({"explain", "speculation.ngram.maxx"}), 2, {"did you mean \"speculation.ngram.max\"?"});
  expect_failure(runexp({"explain", "max-tokns"}), 2, {"did you mean \"max_tokens\"?", "exit-codes"});
  expect_failure(runexp({"explain", "speculaton"}), 2, {"did you mean \"speculation\"?"});
  expect_failure(runexp({"explain", "ngrm"}), 2, {"did you mean \"ngram\"?"});
  EXPECT_EQ(runexp({"explain", "ngram"}).exit_code, 0) << "what is suggested is known";
  expect_failure(runexp({"explain", "tensor-parallel-size"}), 2, {"vLLM's name; here: \"engine.parallel.tp\""});
}

TEST(ConfigCommands, ShowPrintsWhatLoadsBack) {
  const Workspace workspace;
  const ProcessResult shown =
      runexp({"config", "show", workspace.config().string(), "--set", "sampling.seed=9", "--origin"});
  EXPECT_EQ(shown.exit_code, 0) << described(shown);
  const std::string tiny = workspace.config().string();
  EXPECT_TRUE(holds(shown.out, "\"seed\": 9,  // --set\n")) << shown.out;
  EXPECT_TRUE(holds(shown.out, "\"max_tokens\": 8,  // " + tiny + ":5\n")) << shown.out;
  EXPECT_TRUE(holds(shown.out, "\"top_k\": 0,  // default\n"));
  EXPECT_TRUE(holds(shown.out, "\"speculation.proposer\": [\"none\", \"ngram\"]  // " + tiny + ":8\n"));
  write_file(workspace.folder() / "shown.json", shown.out);
  const ProcessResult diff =
      runexp({"config", "diff", tiny, (workspace.folder() / "shown.json").string(), "--set", "sampling.seed=9"});
  EXPECT_EQ(diff.exit_code, 0) << described(diff);
  EXPECT_EQ(diff.out, "");
}

TEST(ConfigCommands, ExpandListsCellsAsPlanDoes) {
  const ProcessResult lines = runexp({"config", "expand", "configs/ngram_tp2.json", "--profile", "quick"});
  EXPECT_EQ(lines.exit_code, 0) << described(lines);
  EXPECT_EQ(lines_of(lines.out).size(), 32u);
  const ProcessResult json =
      runexp({"config", "expand", "configs/ngram_tp2.json", "--profile", "quick", "--json", "--only", "tp==1"});
  const nlohmann::json cells = nlohmann::json::parse(json.out);
  ASSERT_EQ(cells.size(), 16u);
  EXPECT_EQ(cells[1].at("id"), "tp1_pp1_ngram_k1_c1");
  EXPECT_EQ(cells[1].at("baseline"), "tp1_pp1_none_c1");
  EXPECT_EQ(cells[1].at("axes").at("num_speculative_tokens"), 1);
  EXPECT_TRUE(cells[1].at("skip_reason").is_null());
  const std::string identity = cells[1].at("identity");
  EXPECT_EQ(identity.size(), 16u);
  EXPECT_TRUE(std::regex_search(lines.out, std::regex("tp1_pp1_ngram_k1_c1 +" + identity +
                                                      "  tp=1 pp=1 proposer=ngram num_speculative_tokens=1")))
      << lines.out;
}

TEST(ConfigCommands, ExpandNamesNoDraftsWhereNobodyDrafts) {
  const ProcessResult lines = runexp({"config", "expand", "configs/ngram_tp2.json", "--profile", "quick"});
  EXPECT_TRUE(holds(lines.out, "proposer=none concurrency=1")) << described(lines);
  EXPECT_FALSE(holds(lines.out, "num_speculative_tokens=0"));
}

TEST(ConfigCommands, ValidatePrintsEveryComplaintAndRunTheFirst) {
  const Workspace workspace;
  std::string text = "{ \"sampling\": { \"seed\": -1";
  for (int i = 0; i < 24; ++i) text += ", \"nothing" + std::to_string(i) + "\": 1";
  write_file(workspace.config(), text + " }, \"engine\": { \"kv_cache\": { \"block_size\": 17 } } }");
  const auto errors = [](const ProcessResult& result) {
    size_t count = 0;
    for (const std::string& line : lines_of(result.err)) count += holds(line, ": error: ");
    return count;
  };
  const ProcessResult all = runexp({"config", "validate", workspace.config().string()});
  EXPECT_EQ(all.exit_code, 2);
  EXPECT_EQ(errors(all), 26u) << described(all);
  EXPECT_TRUE(holds(all.err, "block_size 17")) << described(all);
  const ProcessResult some = runexp({"run", workspace.config().string(), "--results", workspace.results().string()});
  EXPECT_EQ(errors(some), 20u) << described(some);
  EXPECT_TRUE(holds(some.err, "... and 6 more; `runexp config validate` prints all")) << described(some);
}

TEST(ConfigCommands, ABaselineThatNoCellHasIsShownInTheFileThatChangedIt) {
  const Workspace workspace;
  write_file(workspace.folder() / "base.json", R"({"sweep": {"baseline": {"proposer": "none"}}})");
  write_file(workspace.config(),
             "{ \"extends\": \"base.json\", \"sweep\": { \"axes\": { \"proposer\": [\"none\", \"ngram\"] },\n"
             "    \"baseline\": { \"proposer\": \"draft\" } } }");
  expect_failure(runexp({"plan", workspace.config().string()}), 2,
                 {workspace.config().string() + ":2:17: error: no cell has the values of sweep.baseline"});
}

TEST(ConfigCommands, ABaselineThatNoCellHasIsShownAtTheAxisThatChangedTheCells) {
  const Workspace workspace;
  write_file(workspace.folder() / "base.json", R"({"sweep": {"baseline": {"proposer": "none"}}})");
  write_file(workspace.config(),
             "{ \"extends\": \"base.json\",\n  \"sweep\": { \"axes\": { \"proposer\": [\"none\", \"ngram\"] } } }");
  const std::string error = "error: no cell has the values of sweep.baseline";
  expect_failure(runexp({"plan", workspace.config().string(), "--axis", "proposer=ngram,draft"}), 2,
                 {"--axis: " + error, "proposer=ngram,draft"});
  write_file(workspace.config(),
             "{ \"extends\": \"base.json\",\n  \"sweep\": { \"axes\": { \"proposer\": [\"ngram\"] } } }");
  expect_failure(runexp({"plan", workspace.config().string()}), 2, {workspace.config().string() + ":2:36: " + error});
}

TEST(ConfigCommands, ExpandSaysWhyACellIsSkipped) {
  const Workspace workspace;
  write_file(workspace.config(), R"({"sweep": {"axes": {"tp": [1, 2]}, "constraints": ["tp < 2"]}})");
  const ProcessResult result = runexp({"config", "expand", workspace.config().string()});
  EXPECT_TRUE(holds(result.out, "  # skipped: ")) << described(result);
  EXPECT_EQ(lines_of(result.out).size(), 2u);
}

TEST(ConfigCommands, ValidateChecksAllFilesAndTheirCells) {
  const Workspace workspace;
  const auto file = [&](const char* name, const std::string& text) {
    write_file(workspace.folder() / name, text);
    return (workspace.folder() / name).string();
  };
  const std::string good = workspace.config().string();
  const std::string bad = file("bad.json", "{ \"samplng\": 1,\n  \"load\": { \"mode\": \"poison\" } }");
  const std::string many = file("many.json", R"({"sweep": {"axes": {"k": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
      "sampling.seed": "1..10000", "sampling.max_tokens": "1..10000"}}})");
  const ProcessResult result = runexp({"config", "validate", bad, good, many, workspace.folder() / "none.json"});
  SCOPED_TRACE(described(result));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.out, good + ": ok, 2 cells\n");
  for (const std::string& piece : {bad + ":1:3: error: unknown key \"samplng\"", bad + ":2:21: error: \"load.mode\"",
                                   many + ":1:20: error: the axes cross to more than 100000 cells",
                                   std::string("none.json: no such configuration file")})
    EXPECT_TRUE(holds(result.err, piece)) << piece;
  expect_failure(runexp({"config", "validate", workspace.folder().string()}), 2,
                 {workspace.folder().string() + ": is a folder: name an experiment file in it"});
  // A file that is not there, beside one of nearly its name, or in configs/.
  for (const auto& [written, meant] : {std::pair{"configs/ngram_tp2.jso", "configs/ngram_tp2.json"},
                                       {"configs/ngrm_tp2", "configs/ngram_tp2.json"},
                                       {"ngram-tp2", "configs/ngram_tp2.json"},
                                       {"confgs/ngram_tp2.json", "configs/ngram_tp2.json"},
                                       {"configs/base/default.json", "configs/base/defaults.json"}})
    expect_failure(runexp({"run", written}), 2,
                   {fmt::format("{}: no such configuration file (did you mean \"{}\"?)", written, meant)});
  const Workspace elsewhere;
  const ProcessResult installed =
      test::run_process({kRunexp.string(), "run", "configs/ngram_tp2.json"}, {.folder = elsewhere.folder()});
  expect_failure(installed, 2, {"did you mean \"" + (kSource / "configs/ngram_tp2.json").string()});
  const ProcessResult far = runexp({"config", "validate", "configs/quite_another.json"});
  EXPECT_FALSE(holds(far.err, "did you mean")) << far.err;
  const ProcessResult shipped = runexp({"config", "validate", "configs/ngram_tp2.json", "configs/base/defaults.json",
                                        "configs/offline_throughput.json", "configs/tp_pp_speculative.json"});
  EXPECT_EQ(shipped.exit_code, 0) << described(shipped);
  EXPECT_EQ(lines_of(shipped.out).size(), 4u);
}

TEST(ConfigCommands, ValidateNamesFilesThatAreNotHere) {
  const Workspace workspace;
  const std::string nowhere = (workspace.folder() / "nowhere").string();
  const auto validate = [&](const std::string& set, const std::string& axis) {
    return runexp({"config", "validate", workspace.config().string(), "--set", set, "--axis", axis}).out;
  };
  const std::string draft = validate("speculation.draft.path=" + nowhere, "proposer=none,draft");
  EXPECT_TRUE(holds(draft, ": ok, 2 cells; not here: speculation.draft.path " + nowhere + "\n")) << draft;
  const std::string data = validate("workload.dataset=" + nowhere + ".jsonl", "proposer=none,ngram");
  EXPECT_TRUE(holds(data, "; not here: workload.dataset " + nowhere + ".jsonl\n")) << data;
  EXPECT_FALSE(holds(validate("sampling.seed=1", "proposer=none,draft"), "not here"));
}

TEST(ConfigCommands, ValidateTellsSchemasAndPartsFromExperiments) {
  const ProcessResult all = run_process(
      {"/bin/sh", "-c", "exec \"$0\" config validate configs/*.json configs/base/*.json configs/workloads/*.json",
       kRunexp.string()},
      {.folder = kSource, .environment = {}, .timeout_s = 20 * time_factor()});
  SCOPED_TRACE(described(all));
  EXPECT_EQ(all.exit_code, 0);
  EXPECT_EQ(all.err, "");
  EXPECT_TRUE(holds(all.out, "configs/experiment.schema.json: skipped: a JSON Schema, not an experiment\n"));
  EXPECT_TRUE(holds(all.out, "configs/base/defaults.json: ok, 1 cell; no name and no axes: a part for other files"));
  EXPECT_TRUE(std::regex_search(all.out, std::regex("configs/ngram_tp2.json: ok, [0-9]+ cells\n")));
  expect_failure(runexp({"run", "configs/experiment.schema.json"}), 2, {":2:14: error:", "is a JSON Schema"});
}

TEST(ConfigCommands, DiffNamesKeysBothValuesAndOrigins) {
  const std::string a = "configs/ngram_tp2.json", b = "configs/offline_throughput.json";
  const ProcessResult two = runexp({"config", "diff", a, b, "--origin"});
  EXPECT_EQ(two.exit_code, 0) << described(two);
  EXPECT_TRUE(holds(two.out, "workload.requests: 64 (configs/workloads/reading_qa.json:")) << two.out;
  EXPECT_TRUE(holds(two.out, ") -> 256 (configs/offline_throughput.json:"));
  EXPECT_TRUE(holds(two.out, "sweep.axes.load.concurrency: [1, 8] (")) << two.out;
  EXPECT_TRUE(holds(two.out, " -> absent\n"));
  EXPECT_EQ(runexp({"config", "diff", a, a, "--profile", "quick"}).out, "");
  // one file: what the options change in it
  EXPECT_EQ(runexp({"config", "diff", a, "--profile", "quick", "--set", "sampling.seed=2"}).out,
            "sampling.seed: 1 -> 2\nsampling.max_tokens: 96 -> 48\nworkload.requests: 64 -> 12\n"
            "measure.warmup_requests: \"=load.concurrency\" -> 1\nmeasure.repetitions: 7 -> 3\n"
            "sweep.axes.load.concurrency: [1, 8] -> [1]\n");
}

TEST(ConfigCommands, SchemaIsJsonAndDocsAreMarkdown) {
  const ProcessResult schema = runexp({"config", "schema"});
  EXPECT_EQ(schema.out, read_file(kSource / "configs/experiment.schema.json"));
  const ProcessResult docs = runexp({"config", "docs"});
  EXPECT_TRUE(holds(docs.out, "| `engine.parallel.tp`, `tp` | an integer from 1 to 64 (ranks) | `1` | reload |"))
      << docs.out;
}

TEST(ConfigCommands, AFileMayComeThroughAPipe) {
  // Its paths count from the current folder.
  const std::string command = kRunexp.string() +
                              " config expand <(echo '{\"extends\": \"configs/base/defaults.json\"}') && " +
                              kRunexp.string() + " config validate <(echo '{\"extends\": \"base/defaults.json\"}')";
  const ProcessResult result = run_process({"/bin/bash", "-c", command}, {.folder = kSource, .environment = {}});
  EXPECT_EQ(result.exit_code, 2) << described(result);
  EXPECT_TRUE(holds(result.out, "tp1_pp1_none")) << described(result);
  EXPECT_TRUE(holds(result.err, "there is no file ")) << described(result);
}

TEST(ConfigCommands, MistypedCommandsAreNamed) {
  expect_failure(runexp({"config"}), 2, {"name a command after \"config\"", "show, expand, profiles, validate, diff"});
  expect_failure(runexp({"config", "shwo", "x.json"}), 2, {"\"config shwo\"", "did you mean \"show\"?"});
  expect_failure(runexp({"config", "show", "x.json", "--orgin"}), 2,
                 {"did you mean \"--origin\"?", "runexp config show --help"});
  expect_failure(runexp({"config", "show"}), 2, {"config is required", "runexp config show --help"});
}

}  // namespace
}  // namespace paceline::test
