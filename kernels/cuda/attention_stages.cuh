#pragma once
// How keys and values of a chunk lie in shared memory, and how they come there: chunk after chunk into a ring, by bulk
// copies of tensor maps (compute capability 9.0 and newer) or 16 bytes at a time, which one warp or four of them begin
// and all others take.

#include "kernels/cuda/attention_work.cuh"
#include "kernels/cuda/bulk_copy.cuh"
#include "kernels/cuda/device_code.cuh"

namespace paceline::cuda {

/// A row of 64 dimensions is 128 bytes, and its 16-byte units are exchanged as a tensor map of 128-byte swizzle does
/// it: what a warp reads at once, of keys four units of two keys that differ by four and of values one of eight keys,
/// spreads over all banks.
template <int kDims>
struct alignas(1024) Stage {
  static constexpr int kPanels = kDims / 64, kUnits = kDims / 8;  // a unit: 16 bytes
  using Rows = uint4[kPanels * kDeviceChunk * 8];
  Rows key, value;

  static_assert(kDims % 64 == 0);
  /// Where a key's units of a panel begin, and one of its units lies.
  __device__ static int place_of(int panel, int key) { return (panel * kDeviceChunk + key) * 8; }
  __device__ static int place(int key, int unit) { return place_of(unit / 8, key) + (unit % 8 ^ key % 8); }
};

/// The products take the keys of an eight in an order of their own: which is number `index` of it, and the reverse.
__device__ __forceinline__ int key_at(int index) { return index >> 1 | (index & 1) << 2; }
__device__ __forceinline__ int index_of(int key) { return (key & 3) << 1 | key >> 2; }

/// Where a position of a sequence lies in the pages, in rows; page: the one that holds it.
__device__ __forceinline__ int64_t row_in_pages(const AttentionWork& work, int kv_head, int32_t page,
                                                int32_t position) {
  return work.row_of_page(kv_head, page, position % work.block_size);
}
__device__ __forceinline__ int32_t page_of(const AttentionWork& work, const LineTile& tile, int32_t position) {
  return work.plan.block[tile.block_begin + position / work.block_size];
}

/// Arrivals that fill a stage, of `warps` that fetch.
#if __CUDA_ARCH__ >= 900
constexpr int fill_arrivals(int warps) { return warps; }
#else
constexpr int fill_arrivals(int warps) { return warps * 32; }
#endif
/// What a warp copies at once of a chunk; as many warps may fetch together.
constexpr int kChunkParts = kDeviceChunk / kCopiedKeys;

/// Stages that are filled and emptied in turn. barriers: two for each stage, in shared memory.
template <int kDims>
class StageRing {
 public:
  /// By all threads of a block, of which `first` and those behind it have the ring. fillers, takers: warps that fill
  /// and take each stage.
  __device__ StageRing(Stage<kDims>* stages, uint64_t* barriers, int count, int fillers, int takers, int first = 0)
      : stages_(stages), barriers_(shared_address(barriers)), count_(count) {
    if (int(threadIdx.x) == first) {
#pragma unroll 1
      for (int i = 0; i < count; ++i) {
        init_barrier(filled(i), uint32_t(fill_arrivals(fillers)));
        init_barrier(emptied(i), uint32_t(takers));
      }
      publish_barriers();
    }
    __syncthreads();
  }
  /// The stage that comes next. To fill: it is empty, from the second round on.
  __device__ Stage<kDims>& next_to_fill() {
    if (round_ > 0) wait_at(emptied(at_), (round_ & 1) ^ 1);
    return stages_[at_];
  }
  __device__ Stage<kDims>& next_filled() {
    wait_at(filled(at_), round_ & 1);
    return stages_[at_];
  }
  __device__ uint32_t filled_barrier() const { return filled(at_); }
  __device__ void advance() {
    if (++at_ == count_) at_ = 0, ++round_;
  }
  /// By whole warps that have what they need of the stage, then advance.
  __device__ void give_back() {
    __syncwarp();
    if (threadIdx.x % 32 == 0) arrive(emptied(at_));
    advance();
  }

 private:
  __device__ uint32_t filled(int stage) const { return barriers_ + uint32_t(stage) * 16; }
  __device__ uint32_t emptied(int stage) const { return filled(stage) + 8; }

  Stage<kDims>* const stages_;
  const uint32_t barriers_;
  const int count_;
  int at_ = 0;
  uint32_t round_ = 0;
};

/// What warps fetch: keys and values of a sequence and KV head at [begin, end), every stride-th chunk from `chunk` on.
/// What lies beside them in kCopiedKeys comes too; nothing to other places of a stage. One warp, or kChunkParts of them
/// side by side. A lane finds the page of its part, one such chunk ahead.
template <int kDims, int kFillers>
class KeyFetcher {
 public:
  __device__ KeyFetcher(const AttentionWork& work, const PageMaps& maps, const LineTile& tile, int kv_head,
                        int32_t begin, int32_t end, int chunk, int stride = 1)
      : work_(work),
        maps_(maps),
        pages_(work.plan.block + tile.block_begin),
        kv_head_(kv_head),
        begin_(begin),
        end_(end),
        part_(kFillers == 1 ? int(threadIdx.x) % kChunkParts
                            : __shfl_sync(0xffffffffu, int(threadIdx.x) / 32 % kChunkParts, 0)),
        first_(chunk * kDeviceChunk + part_ * kCopiedKeys),
        index_(first_ / work.block_size),
        offset_(first_ - index_ * work.block_size),
        keys_on_(stride * kDeviceChunk),
        pages_on_(keys_on_ / work.block_size),
        rest_on_(keys_on_ - pages_on_ * work.block_size) {
    static_assert(kFillers == 1 || kFillers == kChunkParts);
    find_page();
  }
  /// Before a warp leaves that only fetches.
  __device__ static void finish() {
#if __CUDA_ARCH__ < 900
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
  }
  /// The next chunk, by whole warps.
  __device__ void fetch(Stage<kDims>& to, uint32_t barrier) {
    const int64_t row = work_.row_of_page(kv_head_, page_, offset_);
    const bool wanted = wants();
    first_ += keys_on_;
    index_ += pages_on_;
    offset_ += rest_on_;
    if (offset_ >= work_.block_size) offset_ -= work_.block_size, ++index_;
    find_page();
    if constexpr (kFillers == 1) {
      const uint32_t all = __ballot_sync(0xffffffffu, wanted) & (1u << kChunkParts) - 1;
      expect(__popc(all), barrier);
#pragma unroll
      for (int part = 0; part < kChunkParts; ++part) {
        const int64_t row_of = __shfl_sync(0xffffffffu, row, part);
        if (all >> part & 1) copy(row_of, part, to, barrier);
      }
    } else {
      expect(wanted, barrier);
      if (wanted) copy(row, part_, to, barrier);
    }
    come(barrier);
  }

 private:
  /// Whether any of a lane's keys lies in [begin, end).
  __device__ bool wants() const { return first_ < end_ && first_ + kCopiedKeys > begin_; }
  __device__ void find_page() { page_ = wants() ? pages_[index_] : 0; }

#if __CUDA_ARCH__ >= 900
  __device__ static void expect(int parts, uint32_t barrier) {
    constexpr int kBytes = 2 * Stage<kDims>::kPanels * kCopiedKeys * 128;
    if (threadIdx.x % 32 == 0) expect_bytes(barrier, uint32_t(parts * kBytes));
  }
  __device__ void copy(int64_t row, int part, Stage<kDims>& to, uint32_t barrier) const {
    if (threadIdx.x % 32 != 0) return;
    const auto copy_panels = [&](uint4* rows, const CUtensorMap& map) {
#pragma unroll
      for (int panel = 0; panel < Stage<kDims>::kPanels; ++panel)
        copy_box_here(shared_address(rows + Stage<kDims>::place_of(panel, part * kCopiedKeys)), &map, panel * 64,
                      int32_t(row), barrier);
    };
    copy_panels(to.key, maps_.k);
    copy_panels(to.value, maps_.v);
  }
  __device__ static void come(uint32_t) {}
#else
  __device__ static void expect(int, uint32_t) {}
  __device__ void copy(int64_t row, int part, Stage<kDims>& to, uint32_t) const {
    constexpr int kUnits = Stage<kDims>::kUnits, kKeysAtOnce = 32 / kUnits;
    const int lane = int(threadIdx.x) % 32, unit = lane % kUnits;
    const int bytes = unit * 8 < work_.k_dim ? 16 : 0;  // the rest of the unit: zeros
#pragma unroll
    for (int key = lane / kUnits; key < kCopiedKeys; key += kKeysAtOnce) {
      const int64_t offset = bytes ? (row + key) * work_.k_dim + unit * 8 : 0;
      const int place = Stage<kDims>::place(part * kCopiedKeys + key, unit);
      const auto copy_unit = [&](uint4* rows, const void* base) {
        copy_16(shared_address(rows + place), static_cast<const __nv_bfloat16*>(base) + offset, bytes);
      };
      copy_unit(to.key, work_.k);
      copy_unit(to.value, work_.v);
    }
  }
  __device__ static void come(uint32_t barrier) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(barrier) : "memory");
  }
#endif

  const AttentionWork& work_;
  const PageMaps& maps_;
  const int32_t* const pages_;  // of the sequence
  const int kv_head_;
  const int32_t begin_, end_;
  const int part_;
  int32_t first_;                               // of the lane's keys, in the chunk that comes next
  int32_t index_, offset_;                      // where they lie: which page, and where in it
  const int32_t keys_on_, pages_on_, rest_on_;  // from a chunk to the next one
  int32_t page_ = 0;
};

/// Threads of a block that take chunks together, from a first one on, and the barrier that is theirs.
struct Takers {
  int threads;
  int first = 0, number = 0;

  __device__ __forceinline__ int index() const { return int(threadIdx.x) - first; }
  __device__ __forceinline__ void barrier() const {
    asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
  }
  __device__ __forceinline__ bool any(bool mine) const {
    uint32_t any_of;
    asm volatile(
        "{\n.reg .pred mine, all;\nsetp.ne.u32 mine, %1, 0;\nbar.red.or.pred all, %3, %2, mine;\n"
        "selp.u32 %0, 1, 0, all;\n}"
        : "=r"(any_of)
        : "r"(uint32_t(mine)), "r"(threads), "r"(number)
        : "memory");
    return any_of;
  }
};

/// Of a pair of bfloat16, the upper bits of those that are no numbers: all bits of their exponents are set.
__device__ __forceinline__ uint32_t non_numbers_of(uint32_t pair) {
  return (pair & 0x7f807f80u) + 0x00800080u & 0x80008000u;
}

/// Zeros in place of a chunk's values, by all takers: of keys outside [begin, end), and if only `numbers` may stay, of
/// what is none. Returns, if `numbers`, whether there was any, once all takers have met; else false at once, without
/// reading what others may write meanwhile.
template <int kDims>
__device__ __forceinline__ bool clear_values(const Takers& takers, int32_t chunk_begin, int32_t begin, int32_t end,
                                             bool numbers, Stage<kDims>& stage) {
  constexpr int kUnits = kDeviceChunk * Stage<kDims>::kUnits, kTogether = 4;
  const uint32_t looked_at = numbers ? 0x80008000u : 0u;
  bool found = false, has_written = false;
#pragma unroll 1
  for (int first = takers.index(); first < kUnits; first += kTogether * takers.threads) {
    uint4 unit[kTogether];
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      const int at = first + i * takers.threads;
      unit[i] = numbers && at < kUnits ? stage.value[at] : uint4{};
    }
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      const int at = first + i * takers.threads;
      if (at >= kUnits) break;
      const int32_t position = chunk_begin + at / 8 % kDeviceChunk;
      const bool is_outside = position < begin || position >= end;
      uint32_t any = 0;
      const auto clear = [&](uint32_t& pair) {
        const uint32_t bits = non_numbers_of(pair) & looked_at;
        any |= bits;
        pair = is_outside ? 0u : pair & ~((bits >> 15) * 0xffffu);
      };
      clear(unit[i].x), clear(unit[i].y), clear(unit[i].z), clear(unit[i].w);
      if (!is_outside) found |= any != 0;
      if (is_outside || any != 0) stage.value[at] = unit[i], has_written = true;
    }
  }
  if (has_written) fence_before_copy();
  return numbers && takers.any(found);
}

}  // namespace paceline::cuda
