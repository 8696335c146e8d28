#include "kernels/cuda/block_tables.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "kernels/cuda/attention.h"

namespace paceline::cuda {
namespace {

constexpr int32_t kFewestPages = 64;  // of a row

bool are_same(const SeqSpan& a, const SeqSpan& b) {
  return a.first_row == b.first_row && a.num_rows == b.num_rows && a.block_begin == b.block_begin &&
         a.tree_begin == b.tree_begin;
}

int32_t pages_for(int32_t places, int block_size) { return (places + block_size - 1) / block_size; }

}  // namespace

bool BlockTables::Call::operator==(const Call& other) const {
  return block.data() == other.block.data() && block.size() == other.block.size() && block_size == other.block_size &&
         std::ranges::equal(seqs, other.seqs, are_same) && places == other.places;
}

const PlacedBlocks& BlockTables::place(const AttentionArgs& args) {
  Call& call = asked_;
  call.block = args.block, call.block_size = args.kv.block_size;
  call.seqs.assign(args.seqs.begin(), args.seqs.end());
  call.places.clear();
  for (const SeqSpan& seq : args.seqs) call.places.push_back(places_of(args, seq));
  if (passes_ > 0 && is_placed_ && call == call_) return placed_;
  is_placed_ = false;
  // nothing on the list reads a table yet where the pass begins
  const bool leads = passes_ > 0 && !std::exchange(has_placed_, true);
  rows_.clear();
  for (size_t i = 0; i < call.seqs.size(); ++i) {
    const int32_t places = call.places[i];
    const int32_t to_chunk = (places + kDeviceChunk - 1) / kDeviceChunk * kDeviceChunk;
    rows_.push_back(
        {.pages = args.block.subspan(size_t(call.seqs[i].block_begin), size_t(pages_for(places, args.kv.block_size))),
         .padded = pages_for(to_chunk, args.kv.block_size)});
  }
  Table& table = table_for(rows_);
  send(table, leads);
  seqs_ = call.seqs;
  for (size_t i = 0; i < seqs_.size(); ++i) seqs_[i].block_begin = int32_t(i) * table.shadow.stride();
  placed_ = {.block = table.memory.as<int32_t>(), .num_blocks = int32_t(table.shadow.words().size()), .seqs = seqs_};
  std::swap(call_, asked_);
  is_placed_ = passes_ > 0;
  return placed_;
}

/// The one whose first row has the same pages but for the last, which may be new; else the one that was not used for
/// longest. With room.
BlockTables::Table& BlockTables::table_for(std::span<const TableRow> rows) {
  Table* found = &*std::ranges::min_element(tables_, {}, &Table::last_use);
  if (const size_t pages = rows.empty() ? 0 : rows[0].pages.size(); pages > 0) {
    const std::span<const int32_t> known = rows[0].pages.first(std::max<size_t>(pages - 1, 1));
    for (Table& table : tables_) {
      const std::span<const int32_t> words = table.shadow.words();
      if (words.size() >= known.size() && std::equal(known.begin(), known.end(), words.begin())) found = &table;
    }
  }
  found->last_use = ++num_uses_;
  int32_t stride = kFewestPages;
  for (const TableRow& row : rows) stride = std::max(stride, row.padded);
  const auto num_rows = int32_t(std::max<size_t>(rows.size(), 1));
  const int32_t had_rows = found->shadow.rows(), had_stride = found->shadow.stride();
  if (num_rows <= had_rows && stride <= had_stride) return *found;
  const auto grown = [](int32_t wanted, int32_t had) {
    return std::max(had, int32_t(std::bit_ceil(uint32_t(wanted))));
  };
  TableShadow shadow(grown(num_rows, had_rows), grown(stride, had_stride));
  found->shadow = {};                      // nothing is known where the rest fails
  if (found->memory.bytes() > 0) wait_();  // kernels may still read it
  found->memory = DeviceMemory();
  found->memory = DeviceMemory(shadow.words().size_bytes(), queue_.now());
  found->shadow = std::move(shadow);
  return *found;
}

void BlockTables::send(Table& table, bool leads) {
  auto* const to = table.memory.as<int32_t>();
  try {
    const TableChanges changes = table.shadow.update(rows_, kMostPutWords);
    if (!changes.words.empty()) queue_.put_words(to, changes.words, leads);
    for (const auto& [begin, end] : changes.runs)
      queue_.send(to + begin, table.shadow.words().data() + begin, (end - begin) * sizeof(int32_t));
  } catch (...) {
    table.shadow = {};  // what the device has is not known
    throw;
  }
}

}  // namespace paceline::cuda
