// runexp completion: the scripts are valid and complete what a user would type.

#include "speculative/proposer_entry.h"
#include "tests/cli/runexp.h"

namespace paceline::test {
namespace {

bool has_shell(const std::string& shell) {
  return run_process({"/bin/sh", "-c", "command -v " + shell}).exit_code == 0;
}

class CompletionTest : public testing::Test {
 protected:
  std::string script(const std::string& shell) const {
    const ProcessResult result = runexp({"completion", shell});
    EXPECT_EQ(result.exit_code, 0) << described(result);
    write_file(dir_ / shell, result.out);
    return (dir_ / shell).string();
  }
  /// What bash offers for the last of `words`, in the order of the script.
  std::vector<std::string> offered(std::vector<std::string> words) const {
    std::vector<std::string> argv = {"/bin/bash", "-c",
                                     "source \"$0\"; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($#-1)); _runexp; "
                                     "printf '%s\\n' \"${COMPREPLY[@]}\"",
                                     script("bash"), kRunexp};
    argv.insert(argv.end(), words.begin(), words.end());
    const ProcessResult result = run_process(argv, {.folder = kSource});
    EXPECT_EQ(result.err, "");
    return lines_of(result.out);
  }
  TempDir dir_;
};

using Words = std::vector<std::string>;

TEST_F(CompletionTest, BashScriptIsValid) {
  const ProcessResult check = run_process({"/bin/bash", "-n", script("bash")});
  EXPECT_EQ(check.exit_code, 0) << described(check);
  EXPECT_EQ(check.err, "");
}

TEST_F(CompletionTest, BashCompletesCommandsOptionsKeysAndFiles) {
  EXPECT_EQ(offered({"pl"}), Words{"plan"});
  EXPECT_EQ(offered({"config", "val"}), Words{"validate"});
  EXPECT_EQ(offered({"config", "show", "x.json", "--or"}), Words{"--origin"});
  EXPECT_EQ(offered({"run", "--prof"}), Words{"--profile"});
  EXPECT_EQ(offered({"configs/x.json", "--prof"}), Words{"--profile"}) << "a file alone means run";
  EXPECT_EQ(offered({"run", "x.json", "--set", "speculation.ngram.m"}),
            (Words{"speculation.ngram.min=", "speculation.ngram.max=", "speculation.ngram.match="}));
  EXPECT_EQ(offered({"plan", "x.json", "--axis", "propo"}), Words{"proposer="});
  EXPECT_EQ(offered({"plan", "x.json", "--axis", "sweep.on"}), Words{""}) << "no axis";
  EXPECT_EQ(offered({"plan", "x.json", "--set", "sweep.on"}), Words{"sweep.on_error="});
  EXPECT_EQ(offered({"run", "--set", "speculation.proposer", "="}), proposer_names(ProposerNames::all));
  EXPECT_EQ(offered({"run", "--set", "engine.cuda_graphs", "=", "f"}), Words{"false"});
  EXPECT_EQ(offered({"run", "--ui", "pl"}), Words{"plain"});
  EXPECT_EQ(offered({"init", "tp"}), Words{"tp-vs-pp"});
  EXPECT_EQ(offered({"explain", "exit"}), Words{"exit-codes"});
  EXPECT_EQ(offered({"run", "--profile", "configs/ngram"}), Words{""}) << "a profile is no file";
  EXPECT_EQ(offered({"run", "configs/tp_pp_speculative.json", "--profile", ""}), Words{"quick"});
  EXPECT_EQ(offered({"run", "--ui", "j"}), Words{"jsonl"});
  EXPECT_EQ(offered({"run", "configs/ngram"}), Words{"configs/ngram_tp2.json"});
}

/// Every command of --help is offered, and so is every option of a command.
TEST_F(CompletionTest, FollowsTheProgram) {
  const Words commands = offered({""});
  for (const char* command :
       {"run", "plan", "doctor", "models", "generate", "regress", "explain", "init", "config", "completion", "trace"})
    EXPECT_NE(std::find(commands.begin(), commands.end(), command), commands.end()) << command;
  const std::string help = runexp({"run", "--help"}).out;
  for (const std::string& option : offered({"run", "--"})) EXPECT_TRUE(holds(help, option)) << option;
}

TEST_F(CompletionTest, ZshScriptCompletes) {
  if (!has_shell("zsh")) GTEST_SKIP() << "zsh is not installed";
  const std::string file = script("zsh");
  const ProcessResult check = run_process({"/bin/sh", "-c", "zsh -n \"$0\"", file});
  EXPECT_EQ(check.exit_code, 0) << described(check);
  // zsh's own functions, as far as the script calls them
  const ProcessResult offer = run_process(
      {"/bin/sh", "-c",
       "zsh -f -c 'compadd() { print -r -- \"$@\" }; compset() { : }; _files() { print files }; source \"$0\"; "
       "words=(\"$@\"); CURRENT=$#; _runexp' \"$@\"",
       "sh", file, kRunexp, "config", ""});
  EXPECT_EQ(offer.out, "-- show expand profiles validate diff schema docs records\n") << described(offer);
}

TEST_F(CompletionTest, FishScriptCompletes) {
  if (!has_shell("fish")) GTEST_SKIP() << "fish is not installed";
  const std::string file = script("fish");
  const auto offer = [&](const std::string& line) {
    const ProcessResult result = run_process(
        {"/bin/sh", "-c", "HOME=\"$2\" fish --no-config -c 'source $argv[1]; complete -C $argv[2]' \"$0\" \"$1\"", file,
         line, dir_.path().string()},
        {.folder = kSource, .environment = {"PATH=" + fs::path(kRunexp).parent_path().string() + ":/usr/bin:/bin"}});
    EXPECT_EQ(result.exit_code, 0) << described(result);
    return result.out;
  };
  EXPECT_TRUE(holds(offer("runexp config va"), "validate\t"));
  EXPECT_TRUE(holds(offer("runexp run --set speculation.proposer=n"), "speculation.proposer=ngram"));
  EXPECT_TRUE(holds(offer("runexp config show --orig"), "--origin\t"));
  EXPECT_FALSE(holds(offer("runexp plan --orig"), "--origin"));
}

TEST(Completion, AnotherShellIsAnError) {
  expect_failure(runexp({"completion", "bsh"}), 2, {"\"bsh\"", "did you mean \"bash\"?", "bash, zsh or fish"});
  expect_failure(runexp({"completion"}), 2, {"shell is required"});
}

}  // namespace
}  // namespace paceline::test
