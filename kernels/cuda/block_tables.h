#pragma once
// Which page holds which positions of a sequence, on the device: a row for each sequence of a call, of which only what
// has changed is sent. A long context's pages are more than a pass can bring, and nearly all of them are known.

#include <array>
#include <functional>
#include <span>
#include <vector>

#include "kernels/cuda/device.h"
#include "kernels/cuda/launch_queue.h"
#include "kernels/cuda/table_shadow.h"
#include "kernels/op_args.h"

namespace paceline::cuda {

/// The pages of a call's sequences, for the kernels that are given out next. Up to the end of a sequence's last chunk
/// (kDeviceChunk) there is a page of the cache.
struct PlacedBlocks {
  const int32_t* block = nullptr;  // device memory
  int32_t num_blocks = 0;          // words there
  std::span<const SeqSpan> seqs;   // the call's, with block_begin into it
};

/// Of one backend, on its thread with its device current.
class BlockTables {
 public:
  /// wait: until all work of the stream has ended, or throws. queue: outlives this.
  BlockTables(LaunchQueue& queue, std::function<void()> wait) : queue_(queue), wait_(std::move(wait)) {}

  /// While it lives, calls for the same sequences, as one layer after another makes them, are for the same pages
  /// (Backend::run).
  class Pass {
   public:
    explicit Pass(BlockTables& tables) : tables_(tables) { tables_.begin_pass(); }
    ~Pass() { --tables_.passes_; }
    Pass(const Pass&) = delete;

   private:
    BlockTables& tables_;
  };

  /// Valid until the next call of it.
  const PlacedBlocks& place(const AttentionArgs& args);

 private:
  /// Of a cache, say, or of a micro-batch: calls of several take turns.
  struct Table {
    TableShadow shadow;
    DeviceMemory memory;
    uint64_t last_use = 0;
  };
  /// What tells a call from others of its pass.
  struct Call {
    std::span<const int32_t> block;
    int block_size = 0;
    std::vector<SeqSpan> seqs;
    std::vector<int32_t> places;  // of each (places_of)

    bool operator==(const Call& other) const;
  };

  void begin_pass() {
    if (passes_++ == 0) is_placed_ = has_placed_ = false;
  }
  Table& table_for(std::span<const TableRow> rows);
  /// What differs from rows_.
  void send(Table& table, bool leads);

  LaunchQueue& queue_;
  const std::function<void()> wait_;
  std::array<Table, 4> tables_;
  uint64_t num_uses_ = 0;
  int passes_ = 0;             // that run, one within another
  bool is_placed_ = false;     // `call_`, in this pass
  bool has_placed_ = false;    // any, in this pass
  Call call_, asked_;          // the one that was placed; one that is asked about
  std::vector<SeqSpan> seqs_;  // of placed_
  std::vector<TableRow> rows_;
  PlacedBlocks placed_;
};

}  // namespace paceline::cuda
