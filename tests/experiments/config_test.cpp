#include <sys/stat.h>

#include <gtest/gtest.h>

#include "experiments/config/keys/schema.h"
#include "speculative/proposer_entry.h"
#include "tests/experiments/config_files.h"
#include "tests/support/expect_error.h"
#include "tests/support/paths.h"

namespace paceline {
namespace {

const std::string kProposers = fmt::format("{}", fmt::join(proposer_names(ProposerNames::all), " | "));

struct Mistake {
  const char* text;
  std::string expected;  // "line:col: message", one a line
};

TEST(Config, AFileWithoutANameGivesOne) {
  const ConfigFiles files;
  const auto name_of = [&](const std::string& file) { return load_config(files.write(file, "{}"), {}).config.name; };
  EXPECT_EQ(name_of("plain-1.x.json"), "plain-1.x");
  EXPECT_EQ(name_of("my run.json"), "my_run");
  EXPECT_EQ(name_of("größe.json"), "gr__e");
  EXPECT_EQ(name_of(".hidden.json"), "_.hidden");
  EXPECT_EQ(name_of(std::string(120, 'x') + ".json"), std::string(100, 'x'));
}

TEST(Config, TypedMistakesAreNamedWithLineColumnAndFix) {
  const Mistake mistakes[] = {
      {"{\n \"speculation\": {\n  \"num_speculative_token\": 5\n } }",
       "3:3: unknown key \"num_speculative_token\" in \"speculation\" (did you mean \"num_speculative_tokens\"?)"},
      {"{\"sampling\": {\"whatever\": 1}}",
       "1:15: unknown key \"whatever\" in \"sampling\" (`runexp explain sampling` lists what is there)"},
      {"{\"engin\": {}}", "1:2: unknown key \"engin\" (did you mean \"engine\"?)"},
      {"{\"engine\": {\"tp\": 2}}", "1:13: unknown key \"tp\" in \"engine\" (did you mean \"engine.parallel.tp\"?)"},
      {"{\"engine.parallel.tp\": 2}", "1:2: unknown key \"engine.parallel.tp\" (write the dots as nested objects)"},
      {"{\"engine\": {\"parallel\": {\"tp\": 0}}}",
       "1:32: \"engine.parallel.tp\" is 0: expected an integer from 1 to 64 (ranks)"},
      {"{\"engine\": {\"parallel\": {\"tp\": \"2\"}}}",
       "1:32: \"engine.parallel.tp\" is \"2\": expected an integer from 1 to 64 (ranks); write 2, without quotes"},
      {"{\"engine\": {\"parallel\": {\"tp\": 2.0}}}",
       "1:32: \"engine.parallel.tp\" is 2.0: expected an integer from 1 to 64 (ranks); write 2"},
      {"{\"engine\": {\"parallel\": {\"tp\": true}}}",
       "1:32: \"engine.parallel.tp\" is true: expected an integer from 1 to 64 (ranks)"},
      {"{\"engine\": {\"parallel\": {\"threads_per_rank\": \"atuo\"}}}",
       "1:46: \"engine.parallel.threads_per_rank\" is \"atuo\": expected an integer from 1 to 1024 (threads), or "
       "\"auto\" "
       "(did you mean \"auto\"?)"},
      {"{\"engine\": {\"kv_cache\": {\"memory_fraction\": 1.5}}}",
       "1:45: \"engine.kv_cache.memory_fraction\" is 1.5: expected a number above 0, at most 1"},
      {"{\"engine\": {\"kv_cache\": {\"memory_fraction\": 0}}}",
       "1:45: \"engine.kv_cache.memory_fraction\" is 0: expected a number above 0, at most 1"},
      {"{\"engine\": {\"kv_cache\": {\"prefix_caching\": \"no\"}}}",
       "1:44: \"engine.kv_cache.prefix_caching\" is \"no\": expected true or false; write false, without quotes"},
      {"{\"engine\": {\"kv_cache\": {\"prefix_caching\": 1}}}",
       "1:44: \"engine.kv_cache.prefix_caching\" is 1: expected true or false; write true, without quotes"},
      {"{\"engine\": {\"scheduler\": {\"batching\": \"dynamic\"}}}",
       "1:39: \"engine.scheduler.batching\" is \"dynamic\": expected continuous | static"},
      {"{\"engine\": {\"target\": {\"dtype\": \"bfloat\"}}}",
       "1:33: \"engine.target.dtype\" is \"bfloat\": expected auto | float32 | bfloat16 | float16 (did you mean "
       "\"bfloat16\"?)"},
      {"{\"engine\": 3}",
       "1:12: \"engine\" is 3: expected an object with the keys backend, devices, target, parallel, kv_cache, "
       "scheduler, "
       "numerics, cuda_graphs"},
      {"{\"speculation\": {\"proposer\": \"ngrm\"}}",
       "1:30: \"speculation.proposer\" is \"ngrm\": expected " + kProposers + " (did you mean \"ngram\"?)"},
      {"{\"speculation\": {\"num_speculative_tokens\": 1000}}",
       "1:44: \"speculation.num_speculative_tokens\" is 1000: expected an integer from 1 to 64 (tokens)"},
      {"{\"sampling\": {\"max_tokens\": \"256ms\"}}",
       "1:29: \"sampling.max_tokens\" is \"256ms\": expected an integer from 1 to 16777216 (tokens); write the number "
       "of "
       "tokens, without a unit"},
      {"{\"sampling\": {\"max_tokens\": \"256 tokens\"}}",
       "1:29: \"sampling.max_tokens\" is \"256 tokens\": expected an integer from 1 to 16777216 (tokens); write 256, "
       "without the unit"},
      {"{\"sweep\": {\"cell_timeout_s\": \"10min\"}}",
       "1:30: \"sweep.cell_timeout_s\" is \"10min\": expected a number above 0, at most 10000000 (s); write the number "
       "of s, without a unit"},
      {"{\"sampling\": {\"seed\": 99999999999999999999}}",
       "1:23: \"sampling.seed\" is 99999999999999999999: expected an integer of at least 0; it does not fit in 64 "
       "bits"},
      {"{\"sampling\": {\"temperature\": -1}}",
       "1:30: \"sampling.temperature\" is -1: expected a number from 0 to 100"},
      {"{\"engine\": {\"devices\": [1, 3, 1]}}",
       "1:24: device 1 is named twice in [1, 3, 1]: a rank takes one alone, so name others"},
      {"{\"sampling\": {\"stop_token_ids\": [1, \"2\"]}}",
       "1:37: \"sampling.stop_token_ids\" holds \"2\": expected a list of integers from 0 to 16777215"},
      {"{\"sampling\": {\"stop_token_ids\": 2}}",
       "1:33: \"sampling.stop_token_ids\" is 2: expected a list of integers from 0 to 16777215"},
      {"{\"measure\": {\"warmup_requests\": \"=2*load.concurency\"}}",
       "1:37: unknown name \"load.concurency\" in the expression \"2*load.concurency\" (did you mean "
       "\"load.concurrency\"?)"},
      {"{\"measure\": {\"warmup_requests\": \"=2*\"}}",
       "1:37: in the expression \"2*\": expected a value, found the end"},
      {"{\"measure\": {\"warmup_requests\": \"=load.concurrency/3\"}}",
       "1:33: \"measure.warmup_requests\" is 0.3333333333333333: expected an integer from 0 to 1000000 (requests)"},
      {"{\"measure\": {\"warmup_requests\": \"=measure.repetitions\", \"repetitions\": \"=measure.warmup_requests\"}}",
       "1:72: the value of \"measure.repetitions\" depends on itself"},
      {"{\"sweep\": {\"axes\": {\"tpp\": [1]}}}", "1:21: unknown key \"tpp\" in \"sweep.axes\" (did you mean \"tp\"?)"},
      {"{\"sweep\": {\"axes\": {\"k\": []}}}",
       "1:26: the axis \"speculation.num_speculative_tokens\" is empty: give it a value or take it out"},
      {"{\"sweep\": {\"axes\": {\"tp\": 2}}}",
       "1:27: the axis \"engine.parallel.tp\" is 2: expected a list of values or a range \"1..8\""},
      {"{\"sweep\": {\"axes\": {\"k\": \"8..1\"}}}",
       "1:26: \"8..1\" is not a range: write \"1..8\", \"1..9+2\" or \"1..16*2\""},
      {"{\"sweep\": {\"axes\": {\"proposer\": [\"none\", \"drft\"]}}}",
       "1:42: \"speculation.proposer\" is \"drft\": expected " + kProposers + " (did you mean \"draft\"?)"},
      {"{\"sweep\": {\"axes\": {\"tp\": [1, 2, 1]}}}", "1:34: the axis \"engine.parallel.tp\" holds 1 twice"},
      {"{\"sweep\": {\"axes\": {\"tp\": [1], \"engine.parallel.tp\": [2]}}}",
       "1:32: duplicate key: \"engine.parallel.tp\" is set twice here"},
      {"{\"sweep\": {\"axes\": {\"sweep.max_failures\": [1]}}}",
       "1:21: \"sweep.max_failures\" in \"sweep.axes\" cannot differ between cells"},
      {"{\"sweep\": {\"constraints\": [\"tp*pp <= device\"]}}",
       "1:38: unknown name \"device\" in the expression \"tp*pp <= device\" (did you mean \"devices\"?)"},
      {"{\"sweep\": {\"exclude\": [{\"proposr\": \"draft\"}]}}",
       "1:25: unknown key \"proposr\" in \"sweep.exclude\" (did you mean \"proposer\"?)"},
      {"{\"sweep\": {\"zip\": [[\"tp\", \"pp\"]], \"axes\": {\"tp\": [1, 2], \"pp\": [1]}}}",
       "1:19: zipped axes have equal lengths: \"engine.parallel.tp\" has 2 values, \"engine.parallel.pp\" has 1"},
      {"{\"sweep\": {\"on_error\": \"halt\"}}", "1:24: \"sweep.on_error\" is \"halt\": expected continue | stop"},
      {"{\"load\": {\"mode\": \"poison\"}}",
       "1:19: \"load.mode\" is \"poison\": expected closed | offline | poisson | gamma | trace (did you mean "
       "\"poisson\"?)"},
      {"{\"load\": {\"mode\": \"poisson\"}}",
       "1:19: load.mode \"poisson\" needs load.rate_per_s, the mean number of requests a second"},
      {"{\"load\": {\"mode\": \"trace\"}}", "1:19: load.mode \"trace\" needs load.trace, a file of arrival times"},
      {"{\"load\": {\"mode\": \"trace\", \"trace\": \"builtin:x\"}}",
       "1:37: \"builtin:x\": no trace is built in: write the path of a file"},
      {"{\"load\": {\"mode\": \"gamma\", \"rate_per_s\": 0}}",
       "1:42: \"load.rate_per_s\" is 0: expected a number above 0, at most 1000000 (requests/s), or null"},
      {"{\"load\": {\"mode\": \"gamma\", \"rate_per_s\": 0.1}}",
       "1:42: 64 requests at 0.1 a second arrive over 640 s, sweep.cell_timeout_s is 600: fewer requests, a higher "
       "rate "
       "or a longer timeout"},
      {"{\"workload\": {\"format\": \"specbench\"}}",
       "1:25: \"workload.format\" is \"specbench\": expected auto | paceline | spec_bench | mt_bench | humaneval | "
       "gsm8k "
       "| squad | sharegpt | jsonl | csv (did you mean \"spec_bench\"?)"},
      {"{\"sweep\": {\"axes\": {\"workload.requests\": [1, 2]}}}",
       "1:21: \"workload.requests\" in \"sweep.axes\" cannot differ between cells"},
      {"{\"schema_version\": 2}", "1:20: \"schema_version\" is 2: this program reads version 1"},
      {"{\"name\": \"a/b\"}",
       "1:10: \"name\" is \"a/b\": expected up to 100 letters, digits, '_', '-' and '.', no '.' first"},
      {"{\"extends\": \"nowhere.json\"}", "1:13: there is no file nowhere.json"},
      {"{\"vars\": {\"model\": \"m\"}, \"engine\": {\"target\": {\"path\": \"${modle}/x\"}}}",
       "1:56: unknown variable \"modle\" in \"${modle}/x\" (did you mean \"model\"?)"},
      {"{\"engine\": {\"target\": {\"path\": \"${env:PACELINE_NOT_SET}/x\"}}}",
       "1:32: the environment variable PACELINE_NOT_SET is not set: set it, or write ${env:PACELINE_NOT_SET:-default}"},
      {"{\"vars\": {\"a\": \"${b}\", \"b\": \"${a}\"}, \"name\": \"${a}\"}",
       "1:16: variables refer to each other more than 16 levels deep: is there a circle?"},
      {"{\"speculation\": {\"proposer\": \"ngram\", \"ngram\": {\"min\": 5, \"max\": 4}}}",
       "1:56: speculation.ngram.min 5 is larger than speculation.ngram.max 4"},
      {"{\"speculation\": {\"proposer\": \"synthetic\", \"synthetic\": {\"acceptance_length\": 7}}}",
       "1:78: acceptance_length 7 cannot be reached with num_speculative_tokens 5: at most 6"},
      {"{\"speculation\": {\"proposer\": \"ngram\", \"verifier\": {\"rule\": \"greedy\"}}, \"sampling\": "
       "{\"temperature\": 1}}",
       "1:60: the rule \"greedy\" needs sampling.temperature 0, found 1: use auto, rejection, block or coupled"},
      {"{\"speculation\": {\"proposer\": \"eagle3\", \"eagle3\": {\"width\": 4}, \"verifier\": {\"rule\": \"block\"}}, "
       "\"sampling\": {\"temperature\": 1}}",
       "1:85: drafts of proposer eagle3 branch: use rejection or coupled, or have chains by speculation.eagle3.width"},
      {"{\"speculation\": {\"proposer\": \"suffix\", \"suffix\": {\"branches\": true}}, \"engine\": {\"scheduler\": "
       "{\"run_ahead\": true}}}",
       "1:109: drafts of proposer suffix branch: use false, or have chains by speculation.suffix.branches"},
      {"{\"report\": {\"x\": \"concurency\"}}",
       "1:18: report.x names \"concurency\", which is no key: write one that the sweep varies, such as k, concurrency "
       "or "
       "speculation.ngram.max"},
      {"{\"report\": {\"facet\": [\"tp\", \"cards\"]}}",
       "1:22: report.facet names \"cards\", which is no key: write one that the sweep varies, such as k, concurrency "
       "or "
       "speculation.ngram.max"},
      {"{\"profiles\": {\"quick\": {\"samplng\": {}}}}", "1:25: unknown key \"samplng\" (did you mean \"sampling\"?)"},
      {"{\"profiles\": {\"quick\": {\"extends\": \"x\"}}}", "1:25: \"extends\" cannot stand in a profile"},
      {"[1]", "1:1: a configuration is an object {...}, found a list"},
      // several at once, in the order of the file, syntax and meaning alike
      {"{\n \"load\": {\"concurrency\": -1},\n \"sampling\": {\"topp\": 1, \"seed\": 1, \"seed\": 2},\n \"engine\": "
       "{\"numerics\": \"exact\"}\n}",
       "2:26: \"load.concurrency\" is -1: expected an integer from 1 to 65536 (requests)\n"
       "3:15: unknown key \"topp\" in \"sampling\" (did you mean \"top_p\"?)\n"
       "3:37: duplicate key \"seed\" (first on line 3)\n"
       "4:25: \"engine.numerics\" is \"exact\": expected strict | fast"},
  };
  const ConfigFiles files;
  for (const Mistake& mistake : mistakes) EXPECT_EQ(files.complaints(mistake.text), mistake.expected) << mistake.text;
}

TEST(Config, OnePassFindsWhatSeveralValuesSayTogether) {
  const ConfigFiles files;
  EXPECT_EQ(
      files.complaints("{\"engine\": {\"kv_cache\": {\"block_size\": 17}},\n\"speculation\": {\"proposer\": \"ngram\", "
                       "\"ngram\": {\"min\": 8, \"max\": 4}}}"),
      "1:40: block_size 17 is no multiple of 16: use 16, 32, 48, ...\n"
      "2:55: speculation.ngram.min 8 is larger than speculation.ngram.max 4");
  // what cannot be read hides only the checks that need it
  const std::string rest = R"(
"engine": {"kv_cache": {"block_size": 17}}, "report": {"x": "foo", "facet": ["bar"]},
"speculation": {"proposer": "ngram", "ngram": {"min": 8, "max": 4}},
"load": {"rate_per_s": 4},
"measure": {"warmup_requests": "=load.concurrency/3"},
"sweep": {"cell_timeout_s": "10m", "axes": {"tp": [1, 2, 2], "pp": [1]}, "zip": [["tp", "pp"]]}})";
  const std::string together =
      "2:39: block_size 17 is no multiple of 16: use 16, 32, 48, ...\n"
      "2:61: report.x names \"foo\", which is no key: write one that the sweep varies, such as k, concurrency or "
      "speculation.ngram.max\n"
      "2:77: report.facet names \"bar\", which is no key: write one that the sweep varies, such as k, concurrency or "
      "speculation.ngram.max\n"
      "3:55: speculation.ngram.min 8 is larger than speculation.ngram.max 4\n"
      "4:24: load.rate_per_s is 4, which has an effect only with load.mode poisson or gamma: here load.mode is "
      "\"closed\"; drop it, or change that\n"
      "5:32: \"measure.warmup_requests\" is 0.3333333333333333: expected an integer from 0 to 1000000 (requests)\n"
      "6:29: \"sweep.cell_timeout_s\" is \"10m\": expected a number above 0, at most 10000000 (s); write the number of "
      "s, "
      "without a unit\n"
      "6:81: zipped axes have equal lengths: \"engine.parallel.tp\" has 3 values, \"engine.parallel.pp\" has 1";
  EXPECT_EQ(files.complaints("{" + rest), together);
  EXPECT_EQ(files.complaints("{\"samplng\": {}," + rest),
            "1:2: unknown key \"samplng\" (did you mean \"sampling\"?)\n" + together);
  EXPECT_EQ(files.complaints("{\"vars\": {}, \"name\": \"${no}\"," + rest),
            "1:22: unknown variable \"no\" in \"${no}\"\n" + together);
}

TEST(Config, AFileMayHaveTheBytesThatAreAllowed) {
  const ConfigFiles files;
  const std::string end = "\n{\"sampling\": {\"seed\": 7}}";
  const std::string longest = "//" + std::string(kMaxConfigBytes - 2 - end.size(), '.') + end;
  EXPECT_EQ(files.load(longest).config.sampling.seed, 7u);
  test::expect_error(ExitCode::usage, {"x.json: 4194305 bytes; expected at most 4194304"},
                     [&] { files.load(longest + " "); });
}

TEST(Config, StagesOfAnAxisHaveTheirOptions) {
  const ConfigFiles files;
  const auto cascades = [&](const std::string& stages) {
    return R"({"speculation": {"ngram": {"min": 2}}, "sweep": {"axes": {"proposer": ["none", "cascade"], )"
           R"("speculation.cascade.stages": [)" +
           stages + "]}}}";
  };
  EXPECT_NO_THROW(files.load(cascades(R"("oracle, suffix", "ngram, suffix")")));
  EXPECT_EQ(files.complaints(cascades(R"("oracle, suffix", "oracle")")),
            "1:35: speculation.ngram.min is 2, which has an effect only with proposer ngram: here the axis "
            "speculation.proposer has no such value; drop it, or change that");
}

TEST(Config, OneMistakeGetsOneComplaint) {
  const ConfigFiles files;
  const auto speculation = [&](const std::string& members) {
    return files.complaints("{\"speculation\": {\"proposer\": \"ngram\", " + members + "}}");
  };
  // each of these may be what makes the other value right
  EXPECT_EQ(speculation(R"("ngram": {"min": 8, "mx": 12})"),
            "1:59: unknown key \"mx\" in \"speculation.ngram\" (did you mean \"max\"?)");
  EXPECT_EQ(speculation(R"("ngram": {"min": 8, "max": "12"})"),
            "1:66: \"speculation.ngram.max\" is \"12\": expected an integer from 1 to 64 (tokens); write 12, without "
            "quotes");
  EXPECT_EQ(
      files.complaints(R"({"speculation": {"proposer": "ngrm", "num_speculative_tokens": 3, "ngram": {"min": 8}}})"),
      "1:30: \"speculation.proposer\" is \"ngrm\": expected " + kProposers + " (did you mean \"ngram\"?)");
  EXPECT_EQ(speculation(R"("ngram": {"min": 8}}, "sweep": {"axes": {"speculation.ngram.mx": [8, 9]})"),
            "1:80: unknown key \"speculation.ngram.mx\" in \"sweep.axes\" (did you mean \"speculation.ngram.max\"?)");
  EXPECT_EQ(
      speculation(
          R"("ngram": {"min": 1}}, "sweep": {"axes": {"speculative.k": [1, 2], "tp": [1, 2]}, "zip": [["k", "tp"]])"),
      "1:80: unknown key \"speculative.k\" in \"sweep.axes\" (did you mean \"speculation.num_speculative_tokens\"?)");
  EXPECT_EQ(
      speculation(R"("ngram": {"min": 8}}, "sweep": {"axes": {"speculation.ngram.max": [8, "9"]})"),
      "1:109: \"speculation.ngram.max\" is \"9\": expected an integer from 1 to 64 (tokens); write 9, without quotes");
  EXPECT_EQ(speculation(R"("ngram": {"min": 8, "max": "=measure.repetitions"}}, "measure": {"repetitions": "9")"),
            "1:119: \"measure.repetitions\" is \"9\": expected an integer from 1 to 10000; write 9, without quotes");
  EXPECT_EQ(
      files.complaints(R"({"speculation": {"proposer": "ngram", "ngram": {"min": 8}}})", {.set = {"ngram.max=9"}}),
      "--set: error: unknown key \"ngram.max\" (did you mean \"speculation.ngram.max\"?)");
}

TEST(Config, AFewOfManyComplaintsArePrintedAndAllAreKept) {
  const ConfigFiles files;
  std::string text = "{\"sampling\": {";
  for (int i = 0; i < 25; ++i) text += fmt::format("{}\n\"nothing{}\": 1", i ? "," : "", i);
  try {
    files.load(text + "}}");
    FAIL();
  } catch (const ConfigError& error) {
    const std::string some = error.what(), all = error.full_text();
    EXPECT_NE(some.find("nothing19"), std::string::npos);
    EXPECT_EQ(some.find("nothing20"), std::string::npos);
    EXPECT_TRUE(some.ends_with("\n... and 5 more; `runexp config validate` prints all")) << some;
    EXPECT_NE(all.find("nothing24"), std::string::npos);
    EXPECT_EQ(all.find("more;"), std::string::npos);
  }
}

TEST(Config, NamesOfVllmAreToldFromTyposWithTheKeyHere) {
  const ConfigFiles files;
  const std::pair<const char*, std::string> names[] = {
      {R"({"engine": {"tensor_parallel_size": 2}})",
       "1:13: unknown key \"tensor_parallel_size\" in \"engine\" (vLLM's name; here: \"engine.parallel.tp\")"},
      {R"({"engine": {"pipeline_parallel_size": 2}})",
       "1:13: unknown key \"pipeline_parallel_size\" in \"engine\" (vLLM's name; here: \"engine.parallel.pp\")"},
      {R"({"gpu_memory_utilization": 0.9})",
       "1:2: unknown key \"gpu_memory_utilization\" (vLLM's name; here: "
       "\"engine.kv_cache.memory_fraction\")"},
      {R"({"speculation": {"method": "ngram"}})",
       "1:18: unknown key \"method\" in \"speculation\" (vLLM's name; here: \"speculation.proposer\")"},
      {R"({"speculation": {"model": "m"}})",
       "1:18: unknown key \"model\" in \"speculation\" (vLLM's name; here: \"speculation.draft.path\")"},
      {R"({"engine": {"model": "m"}})",
       "1:13: unknown key \"model\" in \"engine\" (vLLM's name; here: \"engine.target.path\")"},
      {R"({"speculative_model": "m"})",
       "1:2: unknown key \"speculative_model\" (vLLM's name; here: \"speculation.draft.path\")"},
      {R"({"speculative_config": {}})", "1:2: unknown key \"speculative_config\" (vLLM's name; here: \"speculation\")"},
      {R"({"engine": {"num_speculative_tokens": 3}})",
       "1:13: unknown key \"num_speculative_tokens\" in \"engine\" (did you mean "
       "\"speculation.num_speculative_tokens\"?)"},
      {R"({"speculation": {"proposer": "medusa"}})",
       "1:30: \"speculation.proposer\" is \"medusa\": expected " + kProposers + find_key("speculation.proposer")->hint},
  };
  for (const auto& [text, expected] : names) EXPECT_EQ(files.complaints(text), expected) << text;
  EXPECT_EQ(files.complaints("{}", {.set = {"tensor_parallel_size=2"}}),
            "--set: error: unknown key \"tensor_parallel_size\" (vLLM's name; here: \"engine.parallel.tp\")");
}

TEST(Config, ADraftRunsOnOneRankOrOnTheTargets) {
  const ConfigFiles files;
  const auto with = [&](const std::string& draft_tp, const std::string& more) {
    return files.complaints("{\"speculation\": {\"proposer\": \"draft\", \"draft\": {\"tp\": " + draft_tp + "}}" +
                            more + "}");
  };
  EXPECT_EQ(with("2", ""),
            "1:55: speculation.draft.tp is 2, engine.parallel.tp 1: expected 1 or the target's; \"target\" follows it");
  EXPECT_EQ(with("2", R"(, "engine": {"parallel": {"tp": 2}})"), "");
  EXPECT_EQ(with("1", R"(, "engine": {"parallel": {"tp": 2}})"), "");
  EXPECT_EQ(with("\"target\"", R"(, "engine": {"parallel": {"tp": 2}})"), "");
  EXPECT_EQ(with("2", R"(, "sweep": {"axes": {"tp": [1, 2]}})"), "") << "cells of tp 2 can run";
  EXPECT_EQ(files.complaints(R"({"speculation": {"proposer": "draft", "draft": {"tp": 2, "self": true}}})")
                .find("expected 1"),
            std::string::npos)
      << "void for a target that drafts for itself";
}

TEST(Config, MessagesCarryFileLineAndCaret) {
  const ConfigFiles files;
  try {
    files.load("{\n  \"speculation\": {\n      \"num_speculative_token\": 5,\n  },\n}");
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_EQ(std::string(error.what()),
              (files.folder() / "x.json").string() +
                  ":3:7: error: unknown key \"num_speculative_token\" in \"speculation\" (did you mean "
                  "\"num_speculative_tokens\"?)\n      \"num_speculative_token\": 5,\n      ^");
  }
  EXPECT_THROW(load_config(files.folder() / "missing.json"), Error);
  try {
    load_config(files.folder());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()), files.folder().string() + ": is a folder: name an experiment file in it");
  }
  ASSERT_EQ(::mkfifo((files.folder() / "fifo.json").c_str(), 0600), 0);
  test::expect_error(ExitCode::usage, {"fifo.json: is a FIFO, expected a regular file"},
                     [&] { load_config(files.folder() / "fifo.json"); });
  std::filesystem::create_directory(files.folder() / "base");
  EXPECT_EQ(files.complaints(R"({"extends": "base"})"), "1:13: base is a folder: expected a file");
  EXPECT_EQ(files.complaints(R"({"extends": "fifo.json"})"), "1:13: fifo.json is no regular file: expected a file");
}

TEST(Config, WordsOfOtherEnginesAreAliases) {
  const ConfigFiles files;
  const LoadedConfig loaded =
      files.load("{}", {.set = {"proposer=ngram", "gpu-memory-utilization=0.75", "num-speculative-tokens=3"}});
  EXPECT_EQ(loaded.config.engine.kv_cache.memory_fraction, 0.75);
  EXPECT_EQ(loaded.config.speculation.num_speculative_tokens, 3);
}

TEST(Config, MistakesOnTheCommandLine) {
  const ConfigFiles files;
  const std::string text = "{\"profiles\": {\"quick\": {}}, \"sweep\": {\"axes\": {\"tp\": [1, 2]}}}";
  const auto set = [&](const std::string& s) { return files.complaints(text, {.set = {s}}); };
  EXPECT_EQ(set("speculation.proposr=ngram"),
            "--set: error: unknown key \"speculation.proposr\" (did you mean \"speculation.proposer\"?)");
  EXPECT_EQ(set("speculative.k=3"),
            "--set: error: unknown key \"speculative.k\" (did you mean \"speculation.num_speculative_tokens\"?)");
  EXPECT_EQ(set("speculative.whatever=3"),
            "--set: error: unknown key \"speculative.whatever\" (did you mean \"speculation\"? `runexp explain "
            "speculation` lists what is there)");
  EXPECT_EQ(set("engine.parallel.whatever=3"),
            "--set: error: unknown key \"engine.parallel.whatever\" (`runexp explain engine.parallel` lists what is "
            "there)");
  EXPECT_EQ(set("zzz.zzz=3"), "--set: error: unknown key \"zzz.zzz\"");
  EXPECT_EQ(set("k=0"),
            "--set: error: \"speculation.num_speculative_tokens\" is 0: expected an integer from 1 to 64 (tokens); "
            "to draft nothing, take the proposer \"none\"");
  EXPECT_EQ(set("k"), "--set: error: expected key=value, found \"k\"");
  EXPECT_EQ(set("tp=2"), "--set: error: \"tp\" is an axis of the sweep, which would overrule --set: use --axis tp=2");
  EXPECT_EQ(files.complaints(text, {.profile = "quik"}),
            "--profile: error: x.json has no profile \"quik\" (did you mean \"quick\"?): there are quick");
  EXPECT_EQ(files.complaints(text, {.axis = {"tp=1-2"}}),
            "--axis: error: \"1-2\" is no number: a range is written 1..2, a list 1,3,5");
  EXPECT_EQ(files.complaints(text, {.axis = {"tp=1,x"}}),
            "--axis: error: \"engine.parallel.tp\" is \"x\": expected an integer from 1 to 64 (ranks)");
  EXPECT_EQ(files.complaints(text, {.axis = {"tp=1", "engine.parallel.tp=1,2"}}),
            "--axis: error: \"engine.parallel.tp\" stands twice: write all values behind one, engine.parallel.tp=1,2");
  EXPECT_EQ(files.complaints(text, {.only = "tpp==2"}),
            "--only: error: unknown name \"tpp\" in the expression \"tpp==2\" (did you mean \"tp\"?)");
}

TEST(Config, MergesInheritedFilesInOrder) {
  const ConfigFiles files;
  files.write("base/a.json",
              R"({"sampling": {"seed": 1, "max_tokens": 10, "stop_token_ids": [1]}, "load": {"concurrency": 2},
    "report": {"slo": {"ttft_ms": 5}}})");
  files.write("base/b.yaml", "sampling:\n  seed: 2\nengine:\n  parallel: {tp: 2}\n");
  const LoadedConfig loaded = files.load(R"({"extends": ["base/a.json", "base/b.yaml"],
    "sampling": {"max_tokens": 30, "+stop_token_ids": [7, 8]}, "report": {"-slo": true}})");
  EXPECT_EQ(loaded.config.sampling.seed, 2);
  EXPECT_EQ(loaded.config.sampling.max_tokens, 30);
  EXPECT_EQ(loaded.config.sampling.stop_token_ids, (std::vector<int64_t>{1, 7, 8}));
  EXPECT_EQ(loaded.config.load.concurrency, 2);
  EXPECT_EQ(loaded.config.engine.parallel.tp, 2);
  EXPECT_FALSE(loaded.config.report.slo_ttft_ms);
  EXPECT_EQ(loaded.sources.size(), 3u);
  EXPECT_EQ(loaded.config.name, "x");
  EXPECT_EQ(loaded.origin_of("sampling.seed").source->name, (files.folder() / "base/b.yaml").string());
  EXPECT_EQ(loaded.origin_of("sampling.seed").line, 2);

  EXPECT_EQ(files.complaints(R"({"extends": "base/a.json", "sampling": {"-sed": true}})"),
            "1:41: unknown key \"sed\" in \"sampling\" (did you mean \"seed\"?)");
  EXPECT_EQ(files.complaints(R"({"extends": "base/a.json", "sampling": {"-top_p": true}})"),
            "1:41: \"-top_p\": no such key is inherited");
  EXPECT_EQ(files.complaints(R"({"extends": "base/a.json", "sampling": {"-seed": 1}})"),
            "1:50: \"-seed\" deletes an inherited key: expected true, found 1");
  EXPECT_EQ(files.complaints(R"({"extends": "base/c.json"})"),
            "1:13: there is no file base/c.json (did you mean \"a.json\"?)");
}

TEST(Config, AWordWithoutQuotesIsNotToldToLoseThem) {
  const ConfigFiles files;
  const auto of_yaml = [&](const std::string& value) {
    files.write("base/a.yaml", "sampling:\n  ignore_eos: " + value + "\n");
    return files.complaints(R"({"extends": "base/a.yaml"})");
  };
  const std::string plain = of_yaml("yes"), quoted = of_yaml("\"yes\"");
  EXPECT_TRUE(plain.ends_with("is \"yes\": expected true or false; write true")) << plain;
  EXPECT_TRUE(quoted.ends_with("is \"yes\": expected true or false; write true, without quotes")) << quoted;
  const std::string argument = files.complaints("{}", {.set = {"sampling.ignore_eos=off"}});
  EXPECT_TRUE(argument.ends_with("write false")) << argument;
}

TEST(Config, AMergedObjectStandsWhereItWasWrittenIntoLast) {
  const ConfigFiles files;
  files.write("base.json", R"({"sweep": {"baseline": {"proposer": "none"}, "axes": {"tp": [1, 2]}}})");
  const LoadedConfig loaded =
      files.load("{\"extends\": \"base.json\",\n\"sweep\": {\"baseline\": {\"tp\": 1}, \"axes\": {}}}");
  EXPECT_EQ(loaded.origin_of("sweep.baseline").source->name, (files.folder() / "x.json").string());
  EXPECT_EQ(loaded.origin_of("sweep.baseline").line, 2);
  EXPECT_EQ(loaded.origin_of("sweep.axes").source->name, (files.folder() / "base.json").string());
}

TEST(Config, CirclesAndDeepInheritanceAreErrors) {
  const ConfigFiles files;
  files.write("a.json", "{\"extends\": \"b.json\"}");
  files.write("b.json", "{\n\"extends\": [\"x.json\"]}");
  EXPECT_EQ(files.complaints("{\"extends\": \"a.json\"}"),
            "2:13: \"extends\" goes in a circle: x.json -> a.json -> b.json -> x.json");
  for (int i = 0; i < 20; ++i)
    files.write(fmt::format("d{}.json", i), fmt::format("{{\"extends\": \"d{}.json\"}}", i + 1));
  EXPECT_EQ(files.complaints("{\"extends\": \"d0.json\"}"), "1:13: \"extends\" goes more than 16 files deep");
  // the same file twice, side by side, is no circle; every level doubling is bounded
  files.write("e.json", "{}");
  EXPECT_EQ(files.complaints("{\"extends\": [\"e.json\", \"e.json\"]}"), "");
  for (int i = 0; i < 15; ++i)
    files.write(fmt::format("f{}.json", i), fmt::format("{{\"extends\": [\"f{0}.json\", \"f{0}.json\"]}}", i + 1));
  files.write("f15.json", "{}");
  EXPECT_NE(files.complaints("{\"extends\": \"f1.json\"}").find("reads more than 256 files"), std::string::npos);
}

TEST(Config, SetProfileAndAxis) {
  const ConfigFiles files;
  const std::string text =
      R"({"vars": {"x": 0}, "load": {"concurrency": 4}, "measure": {"warmup_requests": "=2*concurrency"},
    "sampling": {"stop_token_ids": [5]}, "sweep": {"axes": {"tp": [1, 2]}},
    "profiles": {"quick": {"sampling": {"max_tokens": 7, "+stop_token_ids": [6]}, "sweep": {"axes": {"-tp": true, "pp": [1, 2]}}}}})";
  const LoadedConfig plain = files.load(text);
  EXPECT_EQ(plain.config.measure.warmup_requests, 8);
  EXPECT_EQ(plain.profiles, std::vector<std::string>{"quick"});
  EXPECT_EQ(plain.config.sweep.axes.size(), 1u);

  const LoadedConfig loaded = files.load(text, {.set = {"concurrency=3", "speculation.ngram.match=first",
                                                        "sampling.top-p=0.5", "engine.target.path=m", "vars.x=1"},
                                                .profile = "quick",
                                                .axis = {"k=1..8*2", "proposer=none,ngram"}});
  EXPECT_EQ(loaded.config.measure.warmup_requests, 6);
  EXPECT_EQ(find_key("speculation.ngram.match")->read(loaded.config), "first");
  EXPECT_EQ(loaded.config.sampling.top_p, 0.5);
  EXPECT_EQ(loaded.config.sampling.max_tokens, 7);
  EXPECT_EQ(loaded.config.sampling.stop_token_ids, (std::vector<int64_t>{5, 6}));
  EXPECT_EQ(loaded.config.engine.target.directory, std::filesystem::current_path() / "m");
  ASSERT_EQ(loaded.config.sweep.axes.size(), 3u);
  EXPECT_EQ(loaded.config.sweep.axes[0].path, "engine.parallel.pp");
  EXPECT_EQ(loaded.config.sweep.axes[1].values, (std::vector<ConfigJson>{1, 2, 4, 8}));
  EXPECT_EQ(loaded.config.sweep.axes[2].values, (std::vector<ConfigJson>{"none", "ngram"}));
  // an expression given on the command line works as well
  EXPECT_EQ(files.load(text, {.set = {"measure.warmup-requests==1+1"}}).config.measure.warmup_requests, 2);
}

TEST(Config, BuiltinNamesAreChecked) {
  const ConfigFiles files;
  const std::filesystem::path configs = source_dir() / "configs";
  EXPECT_EQ(files.complaints(R"({"engine": {"target": {"path": "builtin:target-7n"}}})", {.builtin_root = configs}),
            "1:32: \"builtin:target-7n\": no model of that name is built in (did you mean \"target-7m\"?): there are "
            "draft-600k, eagle3-target-7m, target-7m");
  const LoadedConfig loaded = files.load("{}", {.builtin_root = configs});
  EXPECT_EQ(loaded.config.engine.target.directory, configs / "models/target-7m");
  EXPECT_EQ(loaded.config.workload.file, configs / "workloads/reading_qa.jsonl");
  // without a root the names stay, and so does the hash: it holds no machine's paths
  EXPECT_EQ(loaded.hash, files.load("{}").hash);
}

TEST(Config, ShapesAreNamesOrFiles) {
  const ConfigFiles files;
  const std::filesystem::path configs = source_dir() / "configs";
  const auto with = [](const std::string& shape) { return R"({"engine": {"target": {"inflate": )" + shape + "}}}"; };
  EXPECT_EQ(
      files.complaints(with("\"llama-3-8\""), {.builtin_root = configs}),
      "1:35: \"llama-3-8\": no shape of that name is built in (did you mean \"llama-3-8b\"?): there are "
      "gemma-3-4b, gpt2-xl, llama-1b-draft, llama-3-8b, llama-3.1-70b, llama-3.1-8b, llama-3.2-1b, opt-125m, opt-6.7b, "
      "qwen3-8b");
  EXPECT_EQ(files.complaints(with("8")),
            "1:35: \"engine.target.inflate\" is 8: expected the name of a shape or a .json file, as a string, or null");
  const auto file_of = [&](const std::string& shape) {
    return files.load(with(shape), {.builtin_root = configs}).config.engine.target.shape_file;
  };
  EXPECT_EQ(file_of("\"llama-3-8b\""), configs / "shapes/llama-3-8b.json");
  EXPECT_EQ(file_of("\"own.json\""), files.folder() / "own.json");
  EXPECT_EQ(file_of("null"), "");
  const ExperimentConfig draft =
      files.load(R"({"speculation": {"draft": {"inflate": "llama-3.2-1b"}}})", {.builtin_root = configs}).config;
  EXPECT_EQ(draft.speculation.of("draft").model->shape_file, configs / "shapes/llama-3.2-1b.json");
  EXPECT_EQ(files.complaints(R"({"engine": {"target": {"load_format": "dummy"}}})"), "");
}

TEST(Config, ResolvedJsonLoadsBackToTheSameConfiguration) {
  const ConfigFiles files;
  const LoadedConfig first =
      files.load(R"({"engine": {"target": {"path": "m", "dtype": "bf16"}, "parallel": {"threads_per_rank": 3}},
    "speculation": {"proposer": "draft", "draft": {"tp": "target"}},
    "sweep": {"axes": {"k": "1..3", "tp": [1, 2], "pp": [1, 2]}, "zip": [["tp", "pp"]], "constraints": ["tp <= 2"],
      "include": [{"label": "x", "tp": 4, "published": {"over": "x", "speedup": 1.5}}], "exclude": [{"k": [1, 2], "pp": 2}], "baseline": {"tp": 1, "pp": 1}},
    "report": {"slo": {"ttft_ms": 200}}, "measure": {"warmup_requests": "=2*k"}})");
  EXPECT_EQ(first.config.engine.target.dtype, "bfloat16");
  EXPECT_FALSE(first.config.speculation.of("draft").model->tp);
  const std::string resolved = config_to_json(first.config).dump(2);
  const LoadedConfig second = load_config(files.write("resolved.json", resolved));
  EXPECT_EQ(config_to_json(second.config).dump(2), resolved);
  EXPECT_EQ(second.hash, first.hash);
  EXPECT_NE(files.load("{\"sampling\": {\"seed\": 2}}").hash, files.load("{}").hash);
  EXPECT_EQ(config_hash(ConfigJson("a")), "d4272417d7c77eea") << "the hash is stable: it names results on disk";
}

TEST(Config, EveryKeyHasHelpAndAUniquePath) {
  std::set<std::string> paths;
  const ExperimentConfig defaults;
  for (const KeySpec& key : config_keys()) {
    EXPECT_TRUE(paths.insert(key.path).second) << key.path;
    EXPECT_FALSE(key.help.empty()) << key.path;
    EXPECT_TRUE(!key.assign || key.read) << key.path;
    if (key.type != KeyType::outside) {
      EXPECT_FALSE(key.expectation().empty()) << key.path;
      ExperimentConfig copy;  // a default is a legal value of its key
      key.assign(copy, key.read(defaults));
      EXPECT_EQ(key.read(copy), key.read(defaults)) << key.path;
    }
  }
  const ConfigFiles files;
  ConfigJson written = config_to_json(defaults);
  written["name"] = "defaults";
  EXPECT_EQ(files.complaints(written.dump()), "") << "the defaults pass their own limits";
}

}  // namespace
}  // namespace paceline
