// Loading a checkpoint against copying into fresh memory, with the same threads, by turns in one run: of the bytes of
// its files, and of as many bytes as it holds once loaded. Memory that is fresh costs its clearing, which is most of
// both.
//
//   load_bench [MODEL [ROUNDS]]     a folder or a .gguf file; default: the built-in target; 9 rounds
//
// Environment: PACELINE_BENCH_THREADS (default: usable cores), PACELINE_BENCH_DTYPE (float32, bfloat16, float16;
// default: the checkpoint's). All files lie in the page cache: one round runs before those that count.

#include <cstring>

#include <fmt/format.h>

#include "engine/transformer/transformer.h"
#include "engine/util/gguf.h"
#include "engine/util/mapped_file.h"
#include "engine/weights/model_source.h"
#include "experiments/bench/bench.h"
#include "experiments/run/engine_load.h"
#include "kernels/cpu/ceilings.h"

namespace paceline {
namespace {

constexpr int64_t kPiece = int64_t{1} << 20;

std::vector<std::filesystem::path> weight_files(const std::filesystem::path& model) {
  std::vector<std::filesystem::path> files;
  if (is_gguf_path(model)) {
    const GgufFile parts(model);
    for (const MappedFile& part : parts.files()) files.push_back(part.path());
    return files;
  }
  for (const auto& entry : std::filesystem::directory_iterator(model))
    if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
  PACELINE_CHECK(!files.empty(), "{}: no .safetensors files", model.string());
  return files;
}

/// Seconds to map the files anew, as loading does, and to copy `count` of their bytes, again and again if need be.
double copy_once(const std::vector<std::filesystem::path>& files, size_t count, ThreadPool& pool) {
  const auto begin = ceilings::Clock::now();
  std::vector<MappedMemory> copies;  // given back after the time is taken, as weights are
  size_t left = count;
  while (left > 0) {
    for (const auto& path : files) {
      const MappedFile file(path);
      const auto from = file.bytes().first(std::min(left, file.bytes().size()));
      if (from.empty()) break;
      left -= from.size();
      const MappedMemory& to = copies.emplace_back(from.size());
      pool.parallel_for((int64_t(from.size()) + kPiece - 1) / kPiece, [&](int64_t piece, int) {
        const size_t at = size_t(piece * kPiece);
        std::memcpy(static_cast<char*>(to.data()) + at, from.data() + at, std::min(size_t(kPiece), from.size() - at));
      });
    }
  }
  return ceilings::seconds_since(begin);
}

int run(int argc, char** argv) {
  const std::filesystem::path model = argc > 1 ? argv[1] : "configs/models/target-7m";
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 9;
  if (rounds < 1) fail(ExitCode::usage, "ROUNDS: found {}, expected at least 1", argv[2]);
  const int threads = bench_threads();
  ModelSource source{.directory = model};
  const ModelSpec spec = source_spec(source);
  const DType dtype = parse_dtype(bench_setting("DTYPE", "auto"), spec.checkpoint_dtype);
  source.widened = widened_for(dtype);
  RankTeam team({.placement = {.devices = {"cpu"}}, .threads_per_rank = threads});
  ThreadPool pool(threads);
  const auto files = weight_files(model);

  size_t bytes = 0, held = 0;
  for (const auto& file : files) bytes += std::filesystem::file_size(file);
  std::vector<double> load_s, copy_s, copy_held_s, of_file, of_held;
  for (int round = -1; round < rounds; ++round) {
    const double copy = copy_once(files, bytes, pool);
    const double copy_held = copy_once(files, held, pool);
    const auto begin = ceilings::Clock::now();
    const SharedWeights weights = load_weights(*open_tensors(source), spec, team, RankSet::all, dtype);
    const double load = ceilings::seconds_since(begin);
    held = (*weights)[0]->bytes;
    if (round < 0) continue;
    load_s.push_back(load);
    copy_s.push_back(copy);
    copy_held_s.push_back(copy_held);
    of_file.push_back(copy / load);
    of_held.push_back(copy_held / load);
  }
  fmt::print("{} as {}, {} threads, {} rounds by turns\n", model.string(), dtype_name(dtype), threads, rounds);
  const auto line = [](const char* what, size_t count, std::vector<double>& seconds) {
    const double median = ceilings::median(seconds);
    fmt::print("{:<26}{:8.1f} MB in {:8.2f} ms, {:6.2f} GB/s\n", what, double(count) * 1e-6, median * 1e3,
               double(count) / median * 1e-9);
  };
  line("copy of the files", bytes, copy_s);
  line("copy of as much as is held", held, copy_held_s);
  line("load", held, load_s);
  fmt::print("copy / load, in seconds: the files {:.3f}, as much as is held {:.3f}\n", ceilings::median(of_file),
             ceilings::median(of_held));
  return 0;
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) {
  return paceline::bench_main("load_bench", [&] { return paceline::run(argc, argv); });
}
