// What encoding and decoding cost: 10 MB of mixed text (prose, programs, JSON, several scripts) on one core.
//
//   tokenizer_bench --benchmark_repetitions=5
//
// Environment: PACELINE_BENCH_MODEL, a folder, and PACELINE_BENCH_PRE as engine.target.pre (default: the built-in
// tokenizer); PACELINE_BENCH_TEXT, a file (default: files of this tree and a few lines of other scripts).

#include <functional>
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
#include "experiments/bench/bench.h"
#include "experiments/config/file/builtin_root.h"

namespace paceline {
namespace {

constexpr size_t kTextBytes = 10'000'000;

constexpr std::string_view kScripts =
    "Быстрая лиса прыгает через ленивую собаку. Η γρήγορη αλεπού πηδά πάνω από το τεμπέλικο σκυλί.\n"
    "敏捷的棕色狐狸跳过了懒狗。吾輩は猫である。名前はまだ無い。 다람쥐 헌 쳇바퀴에 타고파\n"
    "الثعلب البني السريع يقفز فوق الكلب الكسول. तेज़ भूरी लोमड़ी आलसी कुत्ते के ऊपर से कूद गई। Zwölf Boxkämpfer 😀\n";

std::string bench_text() {
  if (const std::string file = bench_setting("TEXT"); !file.empty())
    return read_user_file(file, {.max_bytes = size_t{1} << 30});
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

std::shared_ptr<const Tokenizer> bench_tokenizer() {
  if (const std::string model = bench_setting("MODEL"); !model.empty())
    return Tokenizer::load(model, {.pre = bench_setting("PRE")});
  return Tokenizer::load(find_builtin_root({}) / "models/target-7m");
}

void register_all() {
  const auto tokenizer = bench_tokenizer();
  const auto text = std::make_shared<const std::string>(bench_text());
  const auto ids = std::make_shared<const std::vector<int32_t>>(tokenizer->encode(*text));
  const auto add = [=](const std::string& name, const std::function<void()>& once) {
    benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) {
      for (auto _ : state) once();
      state.SetBytesProcessed(int64_t(state.iterations()) * int64_t(text->size()));
      state.counters["bytes_a_token"] = double(text->size()) / double(ids->size());
    })->Unit(benchmark::kMillisecond);
  };
  add("encode", [=] { benchmark::DoNotOptimize(tokenizer->encode(*text)); });
  add("encode_lines", [=] {
    for (size_t pos = 0; pos < text->size();) {
      const size_t end = std::min(text->find('\n', pos), text->size());
      benchmark::DoNotOptimize(tokenizer->encode(std::string_view(*text).substr(pos, end - pos)));
      pos = end + 1;
    }
  });
  add("decode", [=] { benchmark::DoNotOptimize(tokenizer->decode(*ids)); });
  for (const NamedPreTokenizer& row : pre_tokenizer_table()) {
    const std::shared_ptr<const PreTokenizer> cutter = make_pre_tokenizer(row);
    const auto pieces = std::make_shared<std::vector<std::string_view>>();
    add(fmt::format("cut/{}", row.name), [=] {
      SplitScratch scratch(text->size());
      pieces->clear();
      cutter->split(*text, scratch, *pieces);
      benchmark::DoNotOptimize(pieces->data());
    });
  }
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) {
  return paceline::bench_main("tokenizer_bench", [&] {
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
    paceline::register_all();
    benchmark::RunSpecifiedBenchmarks();
    return 0;
  });
}
