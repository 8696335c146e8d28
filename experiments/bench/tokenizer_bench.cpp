// What encoding and decoding cost: 10 MB of mixed text (prose, programs, JSON, several scripts) on one core.
//
//   tokenizer_bench --model=FOLDER [--pre=NAME] [--text=FILE] --benchmark_repetitions=5
//
// Without --model the built-in tokenizer; without --text, files of this tree and a few lines of other scripts.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include "engine/text/pre_tokenizer_table.h"
#include "engine/text/utf8.h"
#include "engine/tokenizer/tokenizer.h"
#include "engine/util/user_file.h"
#include "experiments/config/file/builtin_root.h"

namespace paceline {
namespace {

constexpr size_t kTextBytes = 10'000'000;

constexpr std::string_view kScripts =
    "Быстрая лиса прыгает через ленивую собаку. Η γρήγορη αλεπού πηδά πάνω από το τεμπέλικο σκυλί.\n"
    "敏捷的棕色狐狸跳过了懒狗。吾輩は猫である。名前はまだ無い。 다람쥐 헌 쳇바퀴에 타고파\n"
    "الثعلب البني السريع يقفز فوق الكلب الكسول. तेज़ भूरी लोमड़ी आलसी कुत्ते के ऊपर से कूद गई। Zwölf Boxkämpfer 😀\n";

struct Inputs {
  std::string model, pre, text_file;

  std::string text() const {
    if (!text_file.empty()) return read_user_file(text_file, {.max_bytes = size_t{1} << 30});
    const auto workloads = find_builtin_root({}) / "workloads";
    std::string part;
    for (const char* file : {"reading_qa.jsonl", "code_prompts.jsonl"})
      part += read_user_file(workloads / file, {.max_bytes = size_t{1} << 30});
    std::string all;
    for (size_t begin = 0; all.size() < kTextBytes; begin = (begin + 7919) % (part.size() / 2)) {
      all += utf8_repair(std::string_view(part).substr(begin, 20'000));
      all += kScripts;
    }
    return utf8_repair(std::string_view(all).substr(0, kTextBytes));
  }
  std::shared_ptr<const Tokenizer> tokenizer() const {
    if (!model.empty()) return Tokenizer::load(model, {.pre = pre});
    return Tokenizer::load(find_builtin_root({}) / "models/target-7m");
  }
};

void register_all(const Inputs& inputs) {
  const auto tokenizer = inputs.tokenizer();
  const auto text = std::make_shared<const std::string>(inputs.text());
  const auto ids = std::make_shared<const std::vector<int32_t>>(tokenizer->encode(*text));
  const auto count = [text, ids](benchmark::State& state) {
    state.SetBytesProcessed(int64_t(state.iterations()) * int64_t(text->size()));
    state.counters["bytes_a_token"] = double(text->size()) / double(ids->size());
  };
  benchmark::RegisterBenchmark("encode", [=](benchmark::State& state) {
    for (auto _ : state) benchmark::DoNotOptimize(tokenizer->encode(*text));
    count(state);
  })->Unit(benchmark::kMillisecond);
  benchmark::RegisterBenchmark("encode_lines", [=](benchmark::State& state) {
    for (auto _ : state) {
      for (size_t pos = 0; pos < text->size();) {
        const size_t end = std::min(text->find('\n', pos), text->size());
        benchmark::DoNotOptimize(tokenizer->encode(std::string_view(*text).substr(pos, end - pos)));
        pos = end + 1;
      }
    }
    count(state);
  })->Unit(benchmark::kMillisecond);
  benchmark::RegisterBenchmark("decode", [=](benchmark::State& state) {
    for (auto _ : state) benchmark::DoNotOptimize(tokenizer->decode(*ids));
    count(state);
  })->Unit(benchmark::kMillisecond);
  for (const NamedPreTokenizer& row : pre_tokenizer_table()) {
    const std::shared_ptr<const PreTokenizer> cutter = make_pre_tokenizer(row);
    benchmark::RegisterBenchmark(fmt::format("cut/{}", row.name).c_str(), [=](benchmark::State& state) {
      std::vector<std::string_view> pieces;
      for (auto _ : state) {
        SplitScratch scratch(text->size());
        pieces.clear();
        cutter->split(*text, scratch, pieces);
        benchmark::DoNotOptimize(pieces.data());
      }
      count(state);
    })->Unit(benchmark::kMillisecond);
  }
}

/// Takes the program's own options out of the command line.
Inputs read_options(int& argc, char** argv) {
  Inputs inputs;
  int kept = 1;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word.starts_with("--model="))
      inputs.model = word.substr(8);
    else if (word.starts_with("--pre="))
      inputs.pre = word.substr(6);
    else if (word.starts_with("--text="))
      inputs.text_file = word.substr(7);
    else
      argv[kept++] = argv[i];
  }
  argc = kept;
  return inputs;
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) {
  paceline::register_all(paceline::read_options(argc, argv));
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
}
