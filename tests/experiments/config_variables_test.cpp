// Variables of an experiment file: ${name}, and what the command line and the environment say of them.

#include <cstdlib>

#include <gtest/gtest.h>

#include "experiments/config/file/load.h"
#include "tests/experiments/config_files.h"

namespace paceline {
namespace {

TEST(ConfigVariables, KeepTypesAndPathsTheirFolder) {
  const ConfigFiles files;
  files.write("base/a.json", R"({"vars": {"root": "models", "k": 3}})");
  setenv("PACELINE_TEST_DIR", "/data", 1);
  const LoadedConfig loaded = files.load(R"({"extends": "base/a.json", "vars": {"on": true, "who": "draft"},
    "engine": {"target": {"path": "${env:PACELINE_TEST_DIR}/big"}, "kv_cache": {"prefix_caching": "${on}"}},
    "speculation": {"num_speculative_tokens": "${k}", "proposer": "${who}", "draft": {"path": "${root}/small"}},
    "workload": {"dataset": "${env:PACELINE_TEST_UNSET:-prompts}/x.jsonl"}, "name": "a$${b}"})",
                                         {.set = {"name=n"}});
  EXPECT_EQ(loaded.config.speculation.num_speculative_tokens, 3);
  EXPECT_EQ(loaded.config.speculation.proposer, "draft");
  EXPECT_TRUE(loaded.config.engine.kv_cache.prefix_caching);
  EXPECT_EQ(loaded.config.engine.target.directory, "/data/big");
  EXPECT_EQ(loaded.config.speculation.of("draft").model->directory, files.folder() / "base/models/small");
  EXPECT_EQ(loaded.config.workload.file, files.folder() / "prompts/x.jsonl");
  EXPECT_EQ(loaded.config.name, "n");
  EXPECT_EQ(loaded.variables, (std::map<std::string, std::string>{{"PACELINE_TEST_DIR", "/data"}}));
  // a bomb of variables is bounded
  std::string vars = "\"v0\": \"\"";
  for (int i = 1; i < 14; ++i) {
    std::string value;
    for (int j = 0; j < 10; ++j) value += fmt::format("${{v{}}}", i - 1);
    vars += fmt::format(", \"v{}\": \"{}\"", i, value);
  }
  EXPECT_NE(
      files.complaints("{\"vars\": {" + vars + "}, \"name\": \"${v13}\"}").find("more than 100,000 substitutions"),
      std::string::npos);
}

TEST(ConfigVariables, OneThatTheFileLacksIsNotSet) {
  const ConfigFiles files;
  const auto complaint = [&](const char* text, const char* change) -> std::string {
    try {
      files.load(text, {.set = {change}});
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  const char* const has_one = R"({"vars": {"length": 4}, "sampling": {"max_tokens": 8}})";
  EXPECT_TRUE(complaint(has_one, "vars.lenght=96")
                  .starts_with("--set: error: unknown variable \"lenght\" (did you mean \"length\"?)\n"));
  EXPECT_EQ(complaint(has_one, "vars.length=96"), "");
  EXPECT_TRUE(
      complaint("{}", "vars.length=96").starts_with("--set: error: unknown variable \"length\": the file has none"));
  EXPECT_EQ(complaint(R"({"name": "n-${length}"})", "vars.length=96"), "") << "it is asked for";
  EXPECT_EQ(files.load("{}", {.set = {"vars.length=96", "name=n-${length}"}}).config.name, "n-96") << "by what follows";
}

// The environment knows texts alone: they are what the key takes.
TEST(ConfigVariables, TheEnvironmentHasNumbersToo) {
  const ConfigFiles files;
  const auto config_of = [&](const std::string& value) {
    return files.load(R"({"workload": {"requests": "${env:PACELINE_TEST_N:-)" + value + R"(}"}})").config;
  };
  EXPECT_EQ(config_of("4").workload.requests, 4);
  EXPECT_EQ(files.complaints(R"({"workload": {"requests": "${env:PACELINE_TEST_N:-4.5}"}})"),
            "1:27: \"workload.requests\" is 4.5: expected an integer from 1 to 10000000 (requests)");
  const ExperimentConfig others =
      files
          .load(R"({"name": "${env:PACELINE_TEST_N:-7}", "sampling": {"temperature": "${env:PACELINE_TEST_N:-0.5}",)"
                R"( "ignore_eos": "${env:PACELINE_TEST_N:-true}"}, "vars": {"c": "${env:PACELINE_TEST_N:-2}"},)"
                R"( "load": {"concurrency": "${c}"}})")
          .config;
  EXPECT_EQ(others.name, "7");
  EXPECT_EQ(others.sampling.temperature, 0.5);
  EXPECT_TRUE(others.sampling.ignore_eos);
  EXPECT_EQ(others.load.concurrency, 2);
  EXPECT_NE(files.complaints(R"({"workload": {"requests": "4"}})").find("write 4, without quotes"), std::string::npos);
}

}  // namespace
}  // namespace paceline
