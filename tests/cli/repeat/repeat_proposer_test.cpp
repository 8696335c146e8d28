// What a new proposer gets without a change to any other file: runexp, linked with a list that has one more.

#include "speculative/proposer_entry.h"
#include "tests/cli/runexp.h"

namespace paceline {
namespace {

using namespace test;

/// The program with `repeat` on its list.
ProcessResult runexp_repeat(std::vector<std::string> args) {
  args.insert(args.begin(), (binary_dir() / "runexp_repeat").string());
  return run_process(args, {.folder = kSource, .timeout_s = 120 * time_factor()});
}

/// What a file of `text` is told by `runexp_repeat config validate`.
ProcessResult validated(const Workspace& workspace, const std::string& text) {
  write_file(workspace.folder() / "x.json", text);
  return runexp_repeat({"config", "validate", (workspace.folder() / "x.json").string()});
}

TEST(RepeatProposer, GoesOnAsTheTextEnded) {
  const ProposerEntry& entry = proposer_entry("repeat");
  std::any options = entry.defaults;
  entry.options.at(0).set(options, int64_t{2});
  const auto proposer = entry.make({.options = &options, .pool = {}});
  Sequence seq;
  seq.tokens = {7, 8, 9};
  const DraftRequest request{.seq = &seq, .max_drafts = 5};
  Proposal out;
  proposer->propose({&request, 1}, {&out, 1});
  EXPECT_EQ(out.draft.token, (std::vector<int32_t>{8, 9, 8, 9, 8}));
  EXPECT_EQ(out.committed, 3);
  entry.options.at(1).set(options, 0.6);
  entry.options.at(2).set(options, true);
  entry.make({.options = &options, .pool = {}})->propose({&request, 1}, {&out, 1});
  EXPECT_EQ(out.draft.token, (std::vector<int32_t>{9, 8, 9}));
}

TEST(RepeatProposer, IsExplained) {
  EXPECT_EQ(runexp_repeat({"explain", "speculation.repeat.period"}).out,
            "speculation.repeat.period\n"
            "  How many of the last tokens are repeated.\n\n"
            "  type      integer\n"
            "  range     from 1 to 64\n"
            "  unit      tokens\n"
            "  default   1\n"
            "  scope     only with proposer repeat; elsewhere without effect\n"
            "  sweep     may be an axis\n"
            "  computed  \"=expression\" over other keys, as in \"=2*load.concurrency\"\n"
            "  in a file \"speculation\": { \"repeat\": { \"period\": 1 } }\n");
  const std::string choices = runexp_repeat({"explain", "proposer"}).out;
  EXPECT_TRUE(holds(choices, ", synthetic, replay, repeat\n")) << choices;
  EXPECT_TRUE(holds(choices, ", drafts that another run recorded, or the last tokens over again.")) << choices;
  EXPECT_TRUE(holds(runexp_repeat({"explain", "k"}).out, ", synthetic, replay or repeat;"));
  for (const char* command : {"schema", "docs"})
    EXPECT_TRUE(holds(runexp_repeat({"config", command}).out, "speculation.repeat.period")) << command;
  EXPECT_TRUE(
      holds(runexp_repeat({"generate", "--help"}).out, "none, ngram, draft, eagle3, suffix, cascade or repeat"));
}

TEST(RepeatProposer, BadValuesAreShownWhereTheyStand) {
  const Workspace workspace;
  const std::string file = (workspace.folder() / "x.json").string();
  EXPECT_EQ(validated(workspace, R"({"speculation": {"proposer": "repeat", "repeat": {"period": 65}}})").err,
            file + ":1:61: error: \"speculation.repeat.period\" is 65: expected an integer from 1 to 64 (tokens)\n" +
                R"({"speculation": {"proposer": "repeat", "repeat": {"period": 65}}})" + "\n" + std::string(60, ' ') +
                "^\n");
  const auto says = [&](const std::string& text, const std::string& piece) {
    const ProcessResult result = validated(workspace, text);
    expect_failure(result, 2, {piece});
  };
  says(R"({"speculation": {"proposer": "repeet"}})", "(did you mean \"repeat\"?)");
  says(R"({"speculation": {"proposer": "repeat", "repeat": {"perid": 2}}})", "(did you mean \"period\"?)");
  says(R"({"speculation": {"proposer": "repeat", "repeat": {"share": 0}}})", "expected a number above 0, at most 1");
  says(R"({"speculation": {"proposer": "repeat", "repeat": {"backward": "yes"}}})", "write true, without quotes");
  says(R"({"speculation": {"proposer": "ngram", "repeat": {"period": 2}}})", "has an effect only with proposer repeat");
}

TEST(RepeatProposer, ItsOptionIsAnAxisAndItsRunIsLossless) {
  const Workspace workspace;
  write_file(workspace.folder() / "prompts.jsonl", "{\"prompt\": \"Hi there\"}\n");
  const ProcessResult run =
      runexp_repeat({"run",       workspace.config().string(),
                     "--results", workspace.results().string(),
                     "--ui",      "plain",
                     "--axis",    "proposer=none,repeat",
                     "--axis",    "speculation.repeat.period=1,7",
                     "--set",     "workload.dataset=" + (workspace.folder() / "prompts.jsonl").string(),
                     "--set",     "workload.chat_template=false",
                     "--set",     "sampling.max_tokens=96",
                     "--set",     "sampling.ignore_eos=true",
                     "--set",     "engine.backend=cpu"});
  ASSERT_EQ(run.exit_code, 0) << described(run);
  const nlohmann::json cells = workspace.cells();
  ASSERT_EQ(cells.size(), 3u) << "without a proposer the period is void";
  EXPECT_EQ(cells[0].at("id"), "tp1_pp1_none_c1");
  EXPECT_EQ(cells[1].at("id"), "tp1_pp1_repeat_k3_c1_period-1");
  EXPECT_EQ(cells[2].at("id"), "tp1_pp1_repeat_k3_c1_period-7");
  for (const size_t i : {1u, 2u}) {
    SCOPED_TRACE(cells[i].at("id").get<std::string>());
    EXPECT_EQ(cells[i].at("certificate").at("status"), "pass");
    EXPECT_GT(cells[i].at("counters").at("drafted"), 0);
    EXPECT_LT(cells[i].at("counters").at("accepted"), cells[i].at("counters").at("drafted")) << "nothing was refused";
    EXPECT_EQ(cells[i].at("effective").at("proposer"), "repeat");
  }
  // The model ends in a sentence of seven tokens over and over.
  EXPECT_EQ(cells[1].at("counters").at("accepted"), 0);
  EXPECT_GT(cells[2].at("counters").at("accepted"), 0);
  EXPECT_TRUE(holds(read_file(workspace.results() / "latest" / "report.html"), "repeat, period=7 k=3"));
}

}  // namespace
}  // namespace paceline
