#include "kernels/cpu/gemm.h"

#include <algorithm>
#include <array>

#include "kernels/cpu/cpu_weight.h"
#include "kernels/error.h"

namespace paceline {
namespace {

constexpr int64_t kRowBlockBytes = 384 << 10;  // activations that stay in L2 while panels stream past
constexpr double kGemmInlineNs = 3000;         // below it a fork costs more than it brings
constexpr double kGrainNs = 1500;
// Rough speed of one thread, to size grains: bytes and flops per nanosecond.
constexpr double kGemmBytesPerNs = 12;
constexpr double kGemmFlopsPerNs = 80;

/// Most floats that each worker packs for itself: a copy of its own costs less than waiting for another core's.
constexpr int64_t kOwnTileFloats = 32768;

/// Activations as tiles, in the order of the panels: one copy for all workers, or one each. A worker that packs its own
/// fetches the weights that it reads next meanwhile, so that memory never rests.
class RowTiles {
 public:
  RowTiles(const GemmArgs& args, const NormWork* norm, const GemmWork& work, const CpuKernels& kernels,
           ThreadPool& pool, MappedMemory& memory)
      : args_(args), norm_(norm), work_(work), kernels_(kernels), storage_(storage_index(args.w->dtype)) {
    if (!norm && work.num_rows == 1 && work.order.k_chunks == 1 && work.order.step_values == 1) {
      shared_ = args.x.f32_row(0);
      return;
    }
    const int64_t floats = int64_t{work.num_rows} * work.order.values();
    const int64_t normed_floats = norm ? int64_t{kernels.max_tile_rows} * work.order.k : 0;
    const bool own = work.num_tiles == 1 && floats <= kOwnTileFloats && pool.num_threads() <= kMostOwners;
    memory.reserve(size_t(floats * (own ? pool.num_threads() : 1) + normed_floats * pool.num_threads()) *
                   sizeof(float));
    normed_ = memory.floats();
    tiles_ = normed_ + normed_floats * pool.num_threads();
    if (own) return;
    const int64_t grain = std::max<int64_t>(1, 16384 / (work.order.k * kernels.max_tile_rows + 1));
    pool.parallel_ranges(work.num_tiles, grain, [&](int64_t begin, int64_t end, int worker) {
      for (int tile = int(begin); tile < int(end); ++tile)
        pack(tile, worker, tiles_ + int64_t{work_.tile_begin(tile)} * work_.order.values(),
             static_cast<const char*>(work_.w));
    });
    shared_ = tiles_;
  }

  /// The tiles that `worker` reads, before it reads the weights at `first`.
  const float* of(int worker, const char* first) {
    if (shared_) return shared_;
    float* own = tiles_ + int64_t{worker} * work_.num_rows * work_.order.values();
    if (!packed_[size_t(worker)]) pack(0, worker, own, first);
    packed_[size_t(worker)] = true;
    return own;
  }

 private:
  static constexpr int kMostOwners = 16;

  void pack(int tile, int worker, float* to, const char* ahead) const {
    const int row = work_.tile_begin(tile);
    const int num_rows = work_.tile_begin(tile + 1) - row;
    const float* x = args_.x.f32_row(row);
    int64_t stride = args_.x.stride;
    if (norm_) {
      const int64_t row_bytes = work_.order.k * int64_t(sizeof(float));
      NormWork norm = *norm_;
      norm.residual += row * norm.residual_stride;
      norm.out = normed_ + int64_t{worker} * kernels_.max_tile_rows * work_.order.k;
      norm.out_stride = work_.order.k;
      x = norm.out;
      stride = norm.out_stride;
      for (int r = 0; r < num_rows; ++r, ahead += row_bytes) {
        for (int64_t at = 0; at < row_bytes; at += 64) __builtin_prefetch(ahead + at, 0, 2);
        kernels_.norm(norm, r, r + 1);
      }
    }
    kernels_.pack_rows[storage_](x, stride, num_rows, work_.order, to, ahead);
  }

  const GemmArgs& args_;
  const NormWork* const norm_;
  const GemmWork& work_;
  const CpuKernels& kernels_;
  const StorageIndex storage_;
  const float* shared_ = nullptr;
  float* normed_ = nullptr;  // [worker][max_tile_rows][k]
  float* tiles_ = nullptr;
  std::array<bool, kMostOwners> packed_{};  // each worker touches its own element
};

}  // namespace

void cpu_gemm(const GemmArgs& args, const NormWork* norm, const CpuKernels& kernels, ThreadPool& pool,
              MappedMemory& tiles) {
  const auto& w = static_cast<const CpuWeight&>(*args.w);
  const int num_rows = args.x.rows;
  PACELINE_CHECK(args.x.cols == w.k && args.y.cols == (args.glu ? w.n / 2 : w.n) && args.y.rows == num_rows,
                 "x [{}, {}], w [{}, {}], y [{}, {}], glu {}", num_rows, args.x.cols, w.n, w.k, args.y.rows,
                 args.y.cols, args.glu);
  PACELINE_CHECK(!args.glu || w.pair_panels, "glu {} needs a weight with pair_panels", args.glu);
  PACELINE_CHECK(!args.add || !w.pair_panels, "add {} with pair_panels {}", args.add, w.pair_panels);
  if (num_rows == 0 || w.n == 0) return;

  GemmWork work{.order = w.order(),
                .num_rows = num_rows,
                .num_tiles = (num_rows + kernels.max_tile_rows - 1) / kernels.max_tile_rows,
                .w = w.memory.data,
                .bias = args.bias,
                .y = args.y.f32_row(0),
                .y_stride = args.y.stride,
                .n = w.n,
                .add = args.add,
                .pair_panels = w.pair_panels,
                .glu = args.glu,
                .activation = args.activation};
  RowTiles rows(args, norm, work, kernels, pool, tiles);

  // Blocks of rows, so that a block's activations stay in L2; inside a block every panel is read once.
  const int64_t tile_bytes = int64_t(kernels.max_tile_rows) * work.order.values() * int64_t(sizeof(float));
  const int64_t most_tiles = std::max<int64_t>(1, kRowBlockBytes / std::max<int64_t>(1, tile_bytes));
  const int64_t num_blocks = (work.num_tiles + most_tiles - 1) / most_tiles;
  const int64_t num_units = work.num_units();
  const int64_t unit_bytes = int64_t(w.bytes) / num_units;
  const double unit_flops = 2.0 * double(w.n) * double(w.k) * num_rows / double(num_units * num_blocks);
  const double unit_ns = std::max(double(unit_bytes) / kGemmBytesPerNs, unit_flops / kGemmFlopsPerNs) + 10;
  const int64_t num_tasks = num_units * num_blocks;
  const int64_t grain =
      double(num_tasks) * unit_ns < kGemmInlineNs ? num_tasks : std::max<int64_t>(1, int64_t(kGrainNs / unit_ns));
  const auto gemm = kernels.gemm[storage_index(w.dtype)];
  pool.parallel_ranges(num_tasks, grain, [&](int64_t begin, int64_t end, int worker) {
    GemmWork mine = work;
    mine.x = rows.of(worker, static_cast<const char*>(work.w) + begin % num_units * unit_bytes);
    while (begin < end) {
      const int64_t block = begin / num_units;
      const int64_t unit_begin = begin % num_units;
      const int64_t unit_end = std::min(num_units, unit_begin + end - begin);
      gemm(mine, int(block * work.num_tiles / num_blocks), int((block + 1) * work.num_tiles / num_blocks), unit_begin,
           unit_end);
      begin += unit_end - unit_begin;
    }
  });
}

}  // namespace paceline
