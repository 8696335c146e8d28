#include <gtest/gtest.h>

#include "experiments/config/view.h"
#include "tests/experiments/config_files.h"

namespace paceline {
namespace {

/// "path=text @origin" of one value; the folder's name is cut out.
std::string value_at(const ConfigFiles& files, const LoadedConfig& loaded, const std::string& path) {
  for (const ResolvedValue& value : resolved_values(loaded)) {
    if (value.path != path) continue;
    std::string text = value.text() + " @" + value.origin;
    for (size_t at; (at = text.find(files.folder().string() + "/")) != std::string::npos;)
      text.erase(at, files.folder().string().size() + 1);
    return text;
  }
  return "absent";
}

TEST(ConfigView, EveryValueNamesItsPlace) {
  const ConfigFiles files;
  files.write("base.json", "{\n \"sampling\": { \"seed\": 3,\n \"stop_token_ids\": [1] },\n \"name\": \"n\" }");
  const LoadedConfig loaded = files.load(
      "{ \"extends\": \"base.json\",\n \"sampling\": { \"max_tokens\": 9, \"+stop_token_ids\": [2] },\n"
      " \"measure\": {\n \"warmup_requests\": \"=2*concurrency\" },\n"
      " \"sweep\": { \"axes\": {\n \"tp\": [1, 2],\n \"k\": [3] } },\n"
      " \"profiles\": { \"quick\": {\n \"workload\": { \"requests\": 4 } } } }",
      {.set = {"sampling.top_p=0.5"}, .profile = "quick", .axis = {"pp=1,2"}});
  const auto at = [&](const char* path) { return value_at(files, loaded, path); };
  EXPECT_EQ(at("name"), "\"n\" @base.json:4");
  EXPECT_EQ(at("sampling.seed"), "3 @base.json:2");
  EXPECT_EQ(at("sampling.max_tokens"), "9 @x.json:2");
  EXPECT_EQ(at("sampling.stop_token_ids"), "[1, 2] @base.json:3 and x.json:2");
  EXPECT_EQ(at("measure.warmup_requests"), "\"=2*concurrency\" @x.json:4");
  EXPECT_EQ(at("workload.requests"), "4 @x.json:9");
  EXPECT_EQ(at("sampling.top_p"), "0.5 @--set");
  EXPECT_EQ(at("sampling.temperature"), "0.0 @default");
  EXPECT_EQ(at("sweep.axes.engine.parallel.tp"), "[1, 2] @x.json:6");
  EXPECT_EQ(at("sweep.axes.speculation.num_speculative_tokens"), "[3] @x.json:7");
  EXPECT_EQ(at("sweep.axes.engine.parallel.pp"), "[1, 2] @--axis");
  EXPECT_EQ(at("sweep.baseline.speculation.proposer"), "\"none\" @default");
  EXPECT_EQ(at("sweep.axes"), "absent");
}

TEST(ConfigView, OriginsAreThoseOfValuesThatWereWritten) {
  const ConfigFiles files;
  const LoadedConfig loaded = files.load(
      "{ \"name\": \"n\",\n \"measure\": { \"warmup_requests\": \"=2*concurrency\" },\n"
      " \"sweep\": { \"axes\": { \"tp\": [1, 2] } } }",
      {.set = {"sampling.top_p=0.5"}});
  const std::string file = (files.folder() / "x.json").string();
  EXPECT_EQ(value_origins(loaded), (ConfigJson{{"name", file + ":1"},
                                               {"sampling.top_p", "--set"},
                                               {"measure.warmup_requests", file + ":2, =2*concurrency"},
                                               {"sweep.axes.engine.parallel.tp", file + ":3"}}));
}

TEST(ConfigView, TheShownTextLoadsBackWithAndWithoutOrigins) {
  const ConfigFiles files;
  const LoadedConfig loaded = files.load(
      R"({"name": "n", "sweep": {"axes": {"k": "1..3", "proposer": ["none", "ngram"]}, "include": [{"label": "x", "tp": 2}]},
          "report": {"slo": {"ttft_ms": 200}}})");
  for (const ShowOrigins origins : {ShowOrigins::no, ShowOrigins::yes}) {
    const std::string text = resolved_text(loaded, origins);
    EXPECT_EQ(load_config(files.write("shown.json", text)).hash, loaded.hash) << text;
    EXPECT_EQ(text.find("//") != std::string::npos, origins == ShowOrigins::yes);
  }
  EXPECT_EQ(nlohmann::ordered_json::parse(resolved_text(loaded, ShowOrigins::no)), config_to_json(loaded.config));
}

TEST(ConfigView, DifferencesAreByValueAndNameBothSides) {
  const ConfigFiles files;
  const LoadedConfig left = load_config(
      files.write("a.json", R"({"name": "n", "sampling": {"seed": 1, "top_p": 1}, "load": {"concurrency": 2},
        "measure": {"warmup_requests": 2}, "sweep": {"axes": {"tp": [1, 2], "k": [1]}}})"));
  const LoadedConfig right = load_config(
      files.write("b.json", R"({"name": "n", "sampling": {"seed": 2, "top_p": 1.0}, "load": {"concurrency": 2},
        "measure": {"warmup_requests": "=load.concurrency"}, "sweep": {"axes": {"k": "1..1", "pp": [1]}}})"));
  std::string text;
  for (const ConfigDifference& d : config_differences(left, right)) {
    text += d.path + " " + (d.left ? d.left->text() : "-") + " " + (d.right ? d.right->text() : "-") + "\n";
  }
  EXPECT_EQ(text,
            "sampling.seed 1 2\n"
            "measure.warmup_requests 2 \"=load.concurrency\"\n"
            "sweep.axes.engine.parallel.tp [1, 2] -\n"
            "sweep.axes.engine.parallel.pp - [1]\n");
  EXPECT_TRUE(config_differences(left, left).empty());
}

}  // namespace
}  // namespace paceline
