// What a grammar costs on a model's vocabulary: compiling, the mask of a state that was seen before, and of one that
// was not, along a text of JSON and one of many counted characters.
//
//   grammar_bench --benchmark_repetitions=9
//
// Environment: PACELINE_BENCH_MODEL, a folder or file with a tokenizer, and PACELINE_BENCH_PRE as engine.target.pre
// (default: the built-in tokenizer).

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "engine/grammar/grammar_constraint.h"
#include "engine/grammar/grammar_sources.h"
#include "engine/tokenizer/tokenizer.h"
#include "engine/util/clock.h"
#include "experiments/bench/bench.h"
#include "experiments/config/file/builtin_root.h"
#include "kernels/logit_edits.h"

namespace paceline {
namespace {

constexpr const char* kJson = R"(
root   ::= ws value ws
value  ::= object | array | string | number | "true" | "false" | "null"
object ::= "{" ws (pair ("," ws pair)*)? "}"
pair   ::= string ws ":" ws value ws
array  ::= "[" ws (value ws ("," ws value ws)*)? "]"
string ::= "\"" ([^"\\\x00-\x1F] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{4}))* "\""
number ::= "-"? ("0" | [1-9] [0-9]*) ("." [0-9]+)? ([eE] [-+]? [0-9]+)?
ws     ::= [ \t\n\r]*
)";

// What a schema of an object becomes: keys in order, types, a string of bounded length, a list of objects.
constexpr const char* kRecord = R"(
root   ::= "{\"name\": " name ", \"age\": " int ", \"tags\": [" (string (", " string)*)? "], \"kind\": " kind
           (", \"children\": [" (root (", " root)*)? "]")? "}"
name   ::= "\"" char{1,1000} "\""
string ::= "\"" char* "\""
char   ::= [^"\\\x00-\x1F] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{4})
int    ::= "0" | [1-9] [0-9]{0,8}
kind   ::= "\"person\"" | "\"place\"" | "\"thing\""
)";

constexpr const char* kJsonText =
    R"({"name": "Großvater \"Joe\" Smith", "age": 72, "tags": ["tall", "likes tea and long walks"], "x": [1.5e3, null]})";
constexpr const char* kRecordText =
    R"({"name": "Großvater Joe, who was born in a small town by the sea and never left it", "age": 72, "tags": ["tall"], )"
    R"("kind": "person", "children": [{"name": "Ann", "age": 9, "tags": [], "kind": "person"}]})";

std::shared_ptr<const Tokenizer> grammar_tokenizer() {
  if (const std::string model = bench_setting("MODEL"); !model.empty())
    return Tokenizer::load(model, {.pre = bench_setting("PRE")});
  return Tokenizer::load(find_builtin_root({}) / "models/target-7m");
}

struct GrammarBench {
  std::string name;
  std::function<ByteGrammar()> compile;
  std::string text;
};

void register_grammar(const GrammarBench& bench, const std::shared_ptr<const Tokenizer>& tokenizer,
                      const std::shared_ptr<const TokenTrie>& trie) {
  const int32_t end = tokenizer->vocab_size() - 1;
  const auto ids = std::make_shared<const std::vector<int32_t>>(tokenizer->encode(bench.text));
  // Returns the CPU time of all masks of the text; `worst` is raised to the longest, by the wall clock.
  const auto mask_all = [ids, end](const std::shared_ptr<CompiledGrammar>& grammar, double& worst) {
    const auto constraint = make_grammar_constraint(grammar, {end});
    std::vector<uint32_t> mask(size_t(mask_words(grammar->trie().vocab_size())));
    const double before = thread_cpu_seconds();
    for (size_t length = 0; length <= ids->size(); ++length) {
      const auto begin = std::chrono::steady_clock::now();
      bool is_bound = constraint->allow(std::span(*ids).first(length), {}, mask);
      benchmark::DoNotOptimize(is_bound);
      worst = std::max(worst, seconds_since(begin));
    }
    return thread_cpu_seconds() - before;
  };
  benchmark::RegisterBenchmark((bench.name + "/compile").c_str(), [=](benchmark::State& state) {
    for (auto _ : state) {
      const auto compiled = std::make_unique<CompiledGrammar>(bench.compile(), trie);
      const CompiledGrammar* made = compiled.get();
      benchmark::DoNotOptimize(made);
    }
  })->Unit(benchmark::kMillisecond);
  // One iteration is all masks of the text; the time is a mask's.
  const auto add = [&](const char* what, bool is_new) {
    benchmark::RegisterBenchmark(
        (bench.name + what).c_str(),
        [=](benchmark::State& state) {
          double worst = 0.0, unused = 0.0;
          auto grammar = std::make_shared<CompiledGrammar>(bench.compile(), trie);
          if (!is_new) mask_all(grammar, unused);
          for (auto _ : state) {
            if (is_new) grammar = std::make_shared<CompiledGrammar>(bench.compile(), trie);
            const double seconds = mask_all(grammar, worst);
            state.SetIterationTime(seconds / double(is_new ? grammar->num_walks() : ids->size() + 1));
          }
          state.counters["worst_us"] = worst * 1e6;
          state.counters["tokens"] = double(ids->size());
          state.counters["walks"] = double(grammar->num_walks());
          state.counters["MiB"] = double(grammar->bytes()) / double(1 << 20);
        })
        ->UseManualTime()
        ->Unit(benchmark::kMicrosecond)
        ->Iterations(is_new ? 20 : 200);
  };
  add("/seen", false);
  add("/new", true);
}

void register_all() {
  const auto tokenizer = grammar_tokenizer();
  const auto trie = TokenTrie::make(*tokenizer);
  benchmark::RegisterBenchmark("trie", [=](benchmark::State& state) {
    for (auto _ : state) {
      const auto trie = TokenTrie::make(*tokenizer);
      const TokenTrie* made = trie.get();
      benchmark::DoNotOptimize(made);
    }
    state.counters["tokens"] = double(trie->vocab_size());
    state.counters["nodes"] = double(trie->nodes().size());
  })->Unit(benchmark::kMillisecond);
  register_grammar({"json", [] { return ebnf_grammar(kJson); }, kJsonText}, tokenizer, trie);
  register_grammar({"record", [] { return ebnf_grammar(kRecord); }, kRecordText}, tokenizer, trie);
  register_grammar({"letters", [] { return regex_grammar("[^\\d]{0,2000}"); }, "Once upon a time there was a bench."},
                   tokenizer, trie);
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) {
  return paceline::bench_main("grammar_bench", [&] {
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
    paceline::register_all();
    benchmark::RunSpecifiedBenchmarks();
    return 0;
  });
}
