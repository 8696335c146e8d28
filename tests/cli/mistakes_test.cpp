// What people mistype in configurations: each mistake gets its line and column, says what was found and hints the fix.
// bad_input_test.cpp has the command lines and the simpler files.

#include "tests/cli/bad_input.h"

namespace paceline::test {
namespace {

class MistakeTest : public testing::TestWithParam<BadInput> {};

TEST_P(MistakeTest, IsNamedWithItsPlaceAndTheFix) { expect_refused(GetParam()); }

/// A file {bad}, JSON unless the pieces name {yaml}, and what `plan` must say: the place first.
BadInput file(const std::string& name, const std::string& place, std::vector<std::string> pieces,
              const std::string& text, const std::string& kind = "{bad}") {
  pieces.insert(pieces.begin(), kind + ":" + place + ": error: ");
  return {name, {"plan", kind}, 2, std::move(pieces), text};
}
BadInput yaml(const std::string& name, const std::string& place, std::vector<std::string> pieces,
              const std::string& text) {
  return file(name, place, std::move(pieces), text, "{yaml}");
}
BadInput line(const std::string& name, const std::string& option, const std::string& value,
              std::vector<std::string> pieces) {
  pieces.insert(pieces.begin(), option + ": error: ");
  return {name, {"plan", "{tiny}", option, value}, 2, std::move(pieces)};
}

/// The same for `config validate`, which wants every cell to be fit to run; `plan` and `run` go on with those that are.
BadInput validated(BadInput input) {
  input.args.erase(input.args.begin());
  input.args.insert(input.args.begin(), {"config", "validate"});
  return input;
}

std::vector<BadInput> numbers() {
  return {
      file("integer_too_large", "2:11", {"99999999999999999999", "does not fit in 64 bits"},
           "{ \"sampling\": {\n  \"seed\": 99999999999999999999 } }"),
      file("tokens_above_range", "1:31", {"3000000000", "1 to 16777216 (tokens)"},
           "{ \"sampling\": { \"max_tokens\": 3000000000 } }"),
      file("number_overflows", "1:32", {"1e400 does not fit"}, "{ \"sampling\": { \"temperature\": 1e400 } }"),
      file("half_a_repetition", "1:31", {"7.5", "integer from 1"}, "{ \"measure\": { \"repetitions\": 7.5 } }"),
      file("not_a_number", "1:32", {"NaN", "write a finite number"}, "{ \"sampling\": { \"temperature\": NaN } }"),
      file("hexadecimal", "1:25", {"0x10", "write 16"}, "{ \"sampling\": { \"seed\": 0x10 } }"),
      file("leading_zero", "1:25", {"010", "write 10"}, "{ \"sampling\": { \"seed\": 010 } }"),
      file("grouped_digits", "1:31", {"1_000", "write 1000"}, "{ \"sampling\": { \"max_tokens\": 1_000 } }"),
      file("quoted_number", "1:31", {"\"64\"", "write 64, without quotes"},
           "{ \"sampling\": { \"max_tokens\": \"64\" } }"),
      file("fraction_zero", "1:48", {"memory_fraction\" is 0", "above 0, at most 1"},
           "{ \"engine\": { \"kv_cache\": { \"memory_fraction\": 0 } } }"),
      file("fraction_above_one", "1:48", {"is 1.5", "above 0, at most 1"},
           "{ \"engine\": { \"kv_cache\": { \"memory_fraction\": 1.5 } } }"),
      file("fraction_word", "1:48", {"is \"abc\"", "above 0, at most 1"},
           "{ \"engine\": { \"kv_cache\": { \"memory_fraction\": \"abc\" } } }"),
      file("fraction_as_per_cent", "1:48", {"is \"90%\"", "90 % is 0.9"},
           "{ \"engine\": { \"kv_cache\": { \"memory_fraction\": \"90%\" } } }"),
      file("fraction_as_hundred", "1:48", {"is 90", "90 % is 0.9"},
           "{ \"engine\": { \"kv_cache\": { \"memory_fraction\": 90 } } }"),
  };
}

std::vector<BadInput> units_and_words() {
  return {
      file("milliseconds_for_tokens", "1:31", {"\"256ms\"", "the number of tokens, without a unit"},
           "{ \"sampling\": { \"max_tokens\": \"256ms\" } }"),
      file("seconds_with_their_unit", "1:32", {"\"600s\"", "write 600, without the unit"},
           "{ \"sweep\": { \"cell_timeout_s\": \"600s\" } }"),
      file("gigabytes", "1:47", {"\"4GB\"", "the number of GiB"},
           "{ \"engine\": { \"kv_cache\": { \"swap_space_gib\": \"4GB\" } } }"),
      file("boolean_as_string", "1:47", {"\"false\"", "write false, without quotes"},
           "{ \"engine\": { \"kv_cache\": { \"prefix_caching\": \"false\" } } }"),
      file("boolean_as_one", "1:35", {"is 1", "write true"}, "{ \"measure\": { \"verify_lossless\": 1 } }"),
      file("bare_yes", "1:35", {"yes is not a JSON value", "write true"},
           "{ \"measure\": { \"verify_lossless\": yes } }"),
      file("pythons_true", "1:35", {"True", "did you mean \"true\"?"},
           "{ \"measure\": { \"verify_lossless\": True } }"),
      file("pythons_none", "1:47", {"None", "write null"},
           "{ \"engine\": { \"scheduler\": { \"max_model_len\": None } } }"),
      file("single_quotes", "1:3", {"double quotes"}, "{ 'name': 'a' }"),
      file("missing_comma", "2:3", {"expected ','"}, "{ \"name\": \"a\"\n  \"sampling\": { \"seed\": 1 } }"),
      file("unclosed_string", "1:11", {"never closed"}, "{ \"name\": \"a\n }"),
      file("escape_in_a_name", "1:11", {"\"a\\x1b\"", "letters, digits"}, "{ \"name\": \"a\\u001b\" }"),
  };
}

std::vector<BadInput> keys() {
  return {
      file("duplicate_key", "3:5", {"duplicate key \"concurrency\"", "first on line 2"},
           "{\n  \"load\": { \"concurrency\": 1,\n    \"concurrency\": 2 } }"),
      file("duplicate_by_alias", "2:2", {"\"speculation.num_speculative_tokens\" is set twice"},
           "{ \"sweep\": { \"axes\": { \"k\": [1],\n \"num_speculative_tokens\": [2] } } }"),
      file("alias_in_a_section", "1:20", {"unknown key \"k\"", "did you mean \"speculation.num_speculative_tokens\"?"},
           "{ \"speculation\": { \"k\": 5 } }"),
      file("key_without_section", "1:3", {"did you mean \"sampling.max_tokens\"?"}, "{ \"max_tokens\": 2 }"),
      file("dots_in_a_key", "1:3", {"write the dots as nested objects"}, "{ \"engine.parallel.tp\": 2 }"),
      file("list_outside_of_axes", "1:35", {"is a list", "put the list under \"sweep.axes\""},
           "{ \"engine\": { \"parallel\": { \"tp\": [1, 2] } } }"),
      line("set_by_last_part", "--set", "seed=3", {"unknown key \"seed\"", "did you mean \"sampling.seed\"?"}),
      line("axis_by_last_part", "--axis", "temperature=0,1", {"did you mean \"sampling.temperature\"?"}),
      line("set_without_value", "--set", "k", {"expected key=value, found \"k\""}),
  };
}

std::vector<BadInput> speculation() {
  return {
      file("no_drafts", "2:28", {"is 0", "1 to 64", "take the proposer \"none\""},
           "{ \"speculation\": { \"proposer\": \"ngram\",\n \"num_speculative_tokens\": 0 } }"),
      file("negative_drafts", "2:28", {"is -1", "1 to 64"},
           "{ \"speculation\": { \"proposer\": \"ngram\",\n \"num_speculative_tokens\": -1 } }"),
      file("thousand_drafts", "1:46", {"is 1000", "1 to 64"},
           "{ \"speculation\": { \"num_speculative_tokens\": 1000 } }"),
      file("none_that_drafts", "2:28", {"\"none\" drafts nothing", "is 5", "drop it, or name a proposer"},
           "{ \"speculation\": { \"proposer\": \"none\",\n \"num_speculative_tokens\": 5 } }"),
      file("rule_without_drafts", "1:55", {"\"none\" drafts nothing", "rule is \"greedy\""},
           "{ \"name\": \"x\", \"speculation\": { \"verifier\": { \"rule\": \"greedy\" } } }"),
      file("model_that_nobody_drafts_with", "2:24",
           {"speculation.draft.path is \"d\"", "only with proposer draft", "speculation.proposer is \"ngram\"",
            "drop it"},
           "{ \"speculation\": { \"proposer\": \"ngram\",\n \"draft\": { \"path\":    \"d\" } } }"),
      file("draft_that_no_axis_names", "2:38",
           {"speculation.draft.path", "the axis speculation.proposer has no such value"},
           "{ \"sweep\": { \"axes\": { \"proposer\": [\"none\", \"ngram\"] } },\n"
           " \"speculation\": { \"draft\": { \"path\": \"d\" } } }"),
      line("model_on_the_line_that_nobody_drafts_with", "--set", "speculation.draft.path=d",
           {"only with proposer draft", "the axis speculation.proposer has no such value"}),
      file("rate_of_a_closed_loop", "1:28",
           {"load.rate_per_s is 4", "only with load.mode poisson or gamma", "here load.mode is \"closed\""},
           "{ \"load\": { \"rate_per_s\":  4 } }"),
      file("concurrency_of_an_open_loop", "2:17",
           {"load.concurrency is 8", "only with load.mode closed", "\"poisson\""},
           "{ \"load\": { \"mode\": \"poisson\", \"rate_per_s\": 4,\n \"concurrency\": 8 } }"),
      file("shape_of_poisson", "2:16", {"load.burstiness is 0.5", "only with load.mode gamma"},
           "{ \"load\": { \"mode\": \"poisson\", \"rate_per_s\": 4,\n \"burstiness\": 0.5 } }"),
      file("trace_that_is_not_played", "1:23", {"load.trace is \"t.jsonl\"", "only with load.mode trace"},
           "{ \"load\": { \"trace\":  \"t.jsonl\" } }"),
      file("size_of_turns_that_are_not", "1:51",
           {"static_batch_size is 4", "only with engine.scheduler.batching static"},
           "{ \"engine\": { \"scheduler\": { \"static_batch_size\": 4 } } }"),
      file("draft_without_model", "1:60", {"\"speculation.draft.path\" is null", "builtin:NAME"},
           "{ \"speculation\": { \"proposer\": \"draft\", \"draft\": { \"path\": null } } }"),
      file("shortest_above_longest", "1:59", {"min 5", "larger than", "max 3"},
           "{ \"speculation\": { \"proposer\": \"ngram\", \"ngram\": { \"min\": 5, \"max\": 3 } } }"),
      file("heads_not_divisible", "2:8", {"num_attention_heads 8", "tp 3", "use tp 1, 2, 4, 8"},
           "{ \"engine\": { \"parallel\": {\n \"tp\": 3 } } }"),
      validated(file("heads_not_divisible_on_an_axis", "1:37", {"num_attention_heads 8", "tp 3"},
                     "{ \"sweep\": { \"axes\": { \"tp\": [1, 2, 3] } } }")),
      file("more_stages_than_layers", "1:35", {"pp 9", "num_hidden_layers 6"},
           "{ \"engine\": { \"parallel\": { \"pp\": 9 } } }"),
      validated(
          line("more_ranks_than_heads", "--axis", "tp=1,3", {"num_attention_heads 8", "tp 3", "use tp 1, 2, 4, 8"})),
  };
}

std::vector<BadInput> sweeps() {
  return {
      file("empty_axis", "2:8", {"is empty", "take it out"}, "{ \"sweep\": { \"axes\": {\n  \"k\": [] } } }"),
      file(
          "a_billion_cells", "1:22", {"more than 100000 cells"},
          "{ \"sweep\": { \"axes\": { \"sampling.seed\": \"1..100000\",\n \"sampling.max_tokens\": \"1..10000\" } } }"),
      file("a_billion_values", "1:41", {"more than 100000 values"},
           "{ \"sweep\": { \"axes\": { \"sampling.seed\": \"1..1000000000\" } } }"),
      file("range_with_a_dash", "1:29", {"\"1-8\"", "a range \"1..8\""},
           "{ \"sweep\": { \"axes\": { \"k\": \"1-8\" } } }"),
      file("range_backwards", "1:29", {"\"8..1\"", "write \"1..8\""},
           "{ \"sweep\": { \"axes\": { \"k\": \"8..1\" } } }"),
      file("range_beyond_the_key", "1:29", {"is 65", "1 to 64"}, "{ \"sweep\": { \"axes\": { \"k\": \"60..70\" } } }"),
      file("no_baseline", "1:22", {"no cell has the values of sweep.baseline", "add them to the axes"},
           "{ \"sweep\": { \"axes\": { \"proposer\": [\"ngram\", \"draft\"] } } }"),
      file("same_cell_twice", "1:40", {"duplicate cell"},
           "{ \"sweep\": { \"include\": [ { \"tp\": 1 }, { \"tp\": 1 } ] } }"),
      file("operator_of_no_language", "1:37", {"tp*pp =< devices", "single ="},
           "{ \"sweep\": { \"constraints\": [\"tp*pp =< devices\"] } }"),
  };
}

std::string alias_bomb() {
  std::string text = "vars: &a [x, x, x, x, x, x, x, x, x, x]\n";
  for (char name = 'b'; name < 'j'; ++name) {
    const std::string before(1, static_cast<char>(name - 1));
    text += std::string(1, name) + ": &" + name + " [*" + before;
    for (int i = 1; i < 10; ++i) text += ", *" + before;
    text += "]\n";
  }
  return text;
}

std::vector<BadInput> yaml_files() {
  return {
      yaml("merge_key", "4:3", {"unknown key \"<<\"", "use \"extends\""},
           "profiles:\n  q: &q { sampling: { seed: 1 } }\nsampling:\n  <<: *q\n"),
      yaml("alias_bomb", "1:1", {"more than 200000 values once aliases are copied"}, "x: 1\n" + alias_bomb()),
      yaml("unknown_alias", "2:9", {"anchor is not defined"}, "sampling:\n  seed: *x\n"),
      yaml("tab", "2:6", {"indented with blanks", "tab"}, "sampling:\n\tseed: 1\n"),
      yaml("norwegian_no", "2:20", {"is \"no\"", "write false"}, "measure:\n  verify_lossless: no\n"),
      yaml("second_document", "3:1", {"a second document", "one document expected"}, "name: a\n---\nname: b\n"),
      yaml("leading_zero", "2:16", {"012 has a leading zero: write 12"}, "load:\n  concurrency: 012\n"),
      yaml("range_outside_of_axes", "2:16", {"\"load.concurrency\" is \"1..4\"", "put the range under \"sweep.axes\""},
           "load:\n  concurrency: 1..4\n"),
      yaml("text_by_its_tag", "2:16", {"\"load.concurrency\" is \"8\""}, "load:\n  concurrency: !!str 8\n"),
      yaml("duplicate_in_yaml", "2:1", {"duplicate key \"name\"", "first on line 1"}, "name: a\nname: b\n"),
  };
}

INSTANTIATE_TEST_SUITE_P(Numbers, MistakeTest, testing::ValuesIn(numbers()), name_of);
INSTANTIATE_TEST_SUITE_P(Words, MistakeTest, testing::ValuesIn(units_and_words()), name_of);
INSTANTIATE_TEST_SUITE_P(Keys, MistakeTest, testing::ValuesIn(keys()), name_of);
INSTANTIATE_TEST_SUITE_P(Speculation, MistakeTest, testing::ValuesIn(speculation()), name_of);
INSTANTIATE_TEST_SUITE_P(Sweeps, MistakeTest, testing::ValuesIn(sweeps()), name_of);
INSTANTIATE_TEST_SUITE_P(Yaml, MistakeTest, testing::ValuesIn(yaml_files()), name_of);

std::vector<BadInput> hints() {
  return {
      file("extends_from_elsewhere", "1:14",
           {"base/defaults.json", "paths count from this file's folder", "write builtin:base/defaults.json"},
           "{ \"extends\": \"base/defaults.json\" }"),
      file("transposed_in_a_section", "1:15", {"unknown key \"dtpe\" in \"engine\"", "\"engine.target.dtype\""},
           "{ \"engine\": { \"dtpe\": \"auto\" } }"),
      {"end_of_a_key", {"explain", "ngram.max"}, 2, {"did you mean \"speculation.ngram.max\"?"}},
      {"option_without_value",
       {"run", "--profile"},
       2,
       {"--profile: expected a value behind it; see runexp run --help"}},
      {"number_without_value", {"regress", "x.json", "--pairs"}, 2, {"--pairs: expected a value behind it"}},
      {"option_twice", {"plan", "x.json", "--only", "a", "--only", "b"}, 2, {"--only: expected it once, found 2"}},
      {"one_run_of_two", {"compare", "a"}, 2, {"runs: expected at least 2, found 1"}},
      {"an_experiment_to_resume",
       {"resume", "configs/ngram_tp2.json"},
       2,
       {"expected a run, which keeps the settings", "runexp run configs/ngram_tp2.json"}},
      {"help_of_nothing", {"help", "plann"}, 2, {"unknown command \"plann\"", "did you mean \"plan\"?"}},
  };
}
INSTANTIATE_TEST_SUITE_P(Hints, MistakeTest, testing::ValuesIn(hints()), name_of);

TEST(Mistakes, ServeNamesWhatWasMeant) {
  const auto refuses = [](std::vector<std::string> arguments, int code, const std::vector<std::string>& pieces) {
    arguments.insert(arguments.begin(), "serve");
    expect_failure(runexp(arguments), code, pieces);
  };
  const std::string model = "builtin:target-7m";
  refuses({"target-7m"}, 3,
          {"serve: there is no model \"target-7m\" (did you mean \"builtin:target-7m\"?)", "builtin:NAME"});
  refuses({"configs/ngram_tp2.jsn"}, 3, {"(did you mean \"configs/ngram_tp2.json\"?)"});
  refuses({"builtin:target-7b"}, 2, {"serve: \"builtin:target-7b\"", "(did you mean \"builtin:target-7m\"?)"});
  refuses({"${env:PACELINE_UNSET:-configs}/models/target-7m", "--set", "speculation.proposer=ngram", "--set",
           "speculation.verifier.rule=greedy"},
          2, {"speculation.verifier.rule: found \"greedy\""});  // the model is there
  refuses({model, "--cell", "x"}, 2, {"serve: --cell: goes with an experiment file"});
  refuses({model, "--profile", "quick"}, 2, {"serve: --profile: goes with an experiment file"});
  refuses({model, "--served-model-name", "a", ""}, 2, {"--served-model-name: found nothing"});
  refuses({"--served-model-name", "a", model}, 2,
          {"name a model", "before --served-model-name, which takes all words"});
  refuses({model, "stray"}, 2, {"server flags: error: expected a flag, found \"stray\""});
  refuses({model, "--speculative-config",
           R"({"method": "draft_model", "model": "builtin:draft-600x", "num_speculative_tokens": 3})"},
          2, {"serve: the model that drafts: \"builtin:draft-600x\"", "(did you mean \"builtin:draft-600k\"?)"});
  refuses({model, "--kv-cache-dtype", "fp8"}, 2, {"serve: --kv-cache-dtype fp8: this value is not supported;"});
  refuses({model, "--kv-cache-dtpe", "fp8"}, 2, {"not supported (did you mean \"--kv-cache-dtype\"?)"});
  refuses({"configs/ngram_tp2.json", "--cell", "tp2_pp1_ngram_k5_c1", "--set", "k=2"}, 2,
          {"\"k\" is an axis of the sweep", "choose another cell with --cell"});
  refuses({"configs/tp_pp_speculative.json", "--cell", "tp2_pp1_ngram", "--set", "proposer=none"}, 2,
          {"\"proposer\" is in every row of sweep.include (5)", "choose another cell with --cell"});
}

TEST(Mistakes, RowsThatDecideAKeyAreNotOverruledInSilence) {
  const std::string file = "configs/tp_pp_speculative.json";
  expect_failure(runexp({"plan", file, "--set", "engine.parallel.tp=4"}), 2,
                 {"\"engine.parallel.tp\" is in every row of sweep.include (5), which would overrule --set: change the "
                  "rows, or choose some with --only"});
  expect_failure(runexp({"plan", file, "--axis", "k=2"}), 2,
                 {"cells are the 5 rows of sweep.include here, and --axis would put a grid beside them"});
  EXPECT_EQ(runexp({"plan", file, "--profile", "quick", "--set", "k=2"}).exit_code, 0);
}

TEST(Mistakes, AValueThatNoAxisTakesIsNotAdvisedAsOne) {
  const Workspace workspace;
  const ProcessResult result = runexp({"plan", workspace.config().string(), "--axis", "k=1,2", "--set", "k=three"});
  expect_failure(result, 2, {"--set: error: ", "\"three\"", "integer"});
  EXPECT_FALSE(holds(result.err, "--axis k=three")) << result.err;
}

TEST(Mistakes, HelpIsACommandToo) {
  EXPECT_EQ(runexp({"help"}).out, runexp({"--help"}).out);
  EXPECT_TRUE(holds(runexp({"help", "compare"}).out, "runexp compare [OPTIONS] runs...\n"));
  EXPECT_EQ(runexp({"help", "config", "show"}).out, runexp({"config", "show", "--help"}).out);
}

/// What only looks like a mistake: a base that sets k for those that draft, and a resolved configuration.
TEST(Mistakes, AnInheritedNumberOfDraftsIsNone) {
  const Workspace workspace;
  write_file(workspace.folder() / "base.json", "{ \"speculation\": { \"num_speculative_tokens\": 3 } }");
  write_file(workspace.config(), "{ \"extends\": \"base.json\", \"speculation\": { \"proposer\": \"none\" } }");
  const ProcessResult plan = runexp({"plan", workspace.config().string()});
  EXPECT_EQ(plan.exit_code, 0) << described(plan);
  write_file(workspace.folder() / "shown.json", runexp({"config", "show", workspace.config().string()}).out);
  const ProcessResult shown = runexp({"plan", (workspace.folder() / "shown.json").string()});
  EXPECT_EQ(shown.exit_code, 0) << described(shown);
}

TEST(Mistakes, AValueThatIsNoneIsComplainedAboutOnce) {
  const Workspace workspace;
  const auto complaints = [&](const std::string& sampling) {
    write_file(workspace.folder() / "one.json", "{ \"name\": \"x\", \"sampling\": { " + sampling + " } }");
    return lines_of(runexp({"config", "validate", (workspace.folder() / "one.json").string()}).err);
  };
  for (const char* value : {"NaN", "Infinity", "08", "0x8", "+8", "1e400"})
    EXPECT_EQ(complaints(std::string("\"max_tokens\": ") + value).size(), 3u) << value;
  const std::vector<std::string> exact = complaints("\"seed\": \"=9007199254740993\"");
  ASSERT_EQ(exact.size(), 3u);
  EXPECT_TRUE(holds(exact[0], "exact up to 2^53: write the number itself")) << exact[0];
  const ProcessResult nan = runexp({"plan", workspace.config().string(), "--set", "sampling.temperature=nan"});
  EXPECT_FALSE(holds(nan.err, "write nan")) << nan.err;
}

}  // namespace
}  // namespace paceline::test
