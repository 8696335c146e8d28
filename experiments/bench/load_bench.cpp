// Loading a checkpoint against copying its bytes into fresh memory, with the same threads, by turns in one run.
//
//   load_bench [MODEL [ROUNDS]]     a folder or a .gguf file; default: the built-in target; 9 rounds
//
// Environment: PACELINE_BENCH_THREADS (default: usable cores), PACELINE_BENCH_DTYPE (float32, bfloat16, float16;
// default: the checkpoint's). All files lie in the page cache: one round runs before those that count.

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

#include "engine/transformer/transformer.h"
#include "engine/util/gguf.h"
#include "engine/util/mapped_file.h"
#include "engine/weights/model_source.h"
#include "experiments/run/engine_load.h"
#include "kernels/cpu/ceilings.h"
#include "kernels/cpu/cores.h"

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

struct Copied {
  double seconds = 0;
  size_t bytes = 0;
};

/// Maps the files anew, as loading does, and copies them.
Copied copy_once(const std::vector<std::filesystem::path>& files, ThreadPool& pool) {
  const auto begin = ceilings::Clock::now();
  Copied copied;
  std::vector<MappedMemory> copies;  // given back after the time is taken, as weights are
  for (const auto& path : files) {
    const MappedFile file(path);
    const auto from = file.bytes();
    const MappedMemory& to = copies.emplace_back(from.size());
    pool.parallel_for((int64_t(from.size()) + kPiece - 1) / kPiece, [&](int64_t piece, int) {
      const size_t at = size_t(piece * kPiece);
      std::memcpy(static_cast<char*>(to.data()) + at, from.data() + at, std::min(size_t(kPiece), from.size() - at));
    });
    copied.bytes += from.size();
  }
  copied.seconds = ceilings::seconds_since(begin);
  return copied;
}

int run(int argc, char** argv) {
  const std::filesystem::path model = argc > 1 ? argv[1] : "configs/models/target-7m";
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 9;
  if (rounds < 1) fail(ExitCode::usage, "ROUNDS: found {}, expected at least 1", argv[2]);
  const char* const threads_text = std::getenv("PACELINE_BENCH_THREADS");
  const int threads = threads_text ? std::atoi(threads_text) : usable_cores();
  ModelSource source{.directory = model};
  const ModelSpec spec = source_spec(source);
  const char* const dtype_text = std::getenv("PACELINE_BENCH_DTYPE");
  const DType dtype = parse_dtype(dtype_text ? dtype_text : "auto", spec.checkpoint_dtype);
  source.widened = widened_for(dtype);
  RankTeam team({.placement = {.devices = {"cpu"}}, .threads_per_rank = threads});
  ThreadPool pool(threads);
  const auto files = weight_files(model);

  std::vector<double> load_s, copy_s, ratios;
  size_t bytes = 0, held = 0;
  for (int round = -1; round < rounds; ++round) {
    const Copied copied = copy_once(files, pool);
    const auto begin = ceilings::Clock::now();
    const SharedWeights weights = load_weights(*open_tensors(source), spec, team, RankSet::all, dtype);
    const double seconds = ceilings::seconds_since(begin);
    bytes = copied.bytes;
    held = (*weights)[0]->bytes;
    if (round < 0) continue;
    load_s.push_back(seconds);
    copy_s.push_back(copied.seconds);
    ratios.push_back(copied.seconds / seconds);
  }
  const double copy = ceilings::median(copy_s), load = ceilings::median(load_s), ratio = ceilings::median(ratios);
  fmt::print("{} as {}, {} threads, {} rounds by turns\n", model.string(), dtype_name(dtype), threads, rounds);
  fmt::print("copy   {:8.1f} MB in {:8.2f} ms, {:6.2f} GB/s\n", double(bytes) * 1e-6, copy * 1e3,
             double(bytes) / copy * 1e-9);
  fmt::print("load   {:8.1f} MB in {:8.2f} ms, {:6.2f} GB/s of the file's bytes\n", double(held) * 1e-6, load * 1e3,
             double(bytes) / load * 1e-9);
  fmt::print("load / copy, by the file's bytes   {:6.3f}\n", ratio);
  fmt::print("load / copy, by the bytes held     {:6.3f}\n", ratio * double(held) / double(bytes));
  return 0;
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) {
  try {
    return paceline::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "load_bench: %s\n", error.what());
    return 1;
  }
}
