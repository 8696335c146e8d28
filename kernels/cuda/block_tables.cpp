#include "kernels/cuda/block_tables.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "kernels/cuda/attention.h"

namespace paceline::cuda {
namespace {

constexpr int32_t kFewestPages = 64;  // of a row

bool equal(const SeqSpan& a, const SeqSpan& b) {
  return a.first_row == b.first_row && a.num_rows == b.num_rows && a.block_begin == b.block_begin &&
         a.tree_begin == b.tree_begin;
}

int32_t pages_for(int32_t places, int block_size) { return (places + block_size - 1) / block_size; }

}  // namespace

bool BlockTables::Call::is_of(const AttentionArgs& args) const {
  return block.data() == args.block.data() && block.size() == args.block.size() &&
         std::ranges::equal(seqs, args.seqs, equal) && std::ranges::equal(kv_len, args.kv_len);
}

const PlacedBlocks& BlockTables::place(const AttentionArgs& args) {
  const bool was_placed = std::exchange(is_placed_, passes_ > 0);
  if (was_placed && call_.is_of(args)) return placed_;
  call_.block = args.block;
  call_.seqs.assign(args.seqs.begin(), args.seqs.end());
  call_.kv_len.assign(args.kv_len.begin(), args.kv_len.end());
  rows_.clear();
  for (const SeqSpan& seq : args.seqs) {
    const int32_t places = places_of(args, seq);
    const int32_t to_chunk = (places + kDeviceChunk - 1) / kDeviceChunk * kDeviceChunk;
    rows_.push_back(
        {.pages = args.block.subspan(size_t(seq.block_begin), size_t(pages_for(places, args.kv.block_size))),
         .padded = pages_for(to_chunk, args.kv.block_size)});
  }
  Table& table = table_for(rows_);
  send(table, table.shadow.update(rows_, kMostPutWords), passes_ > 0 && !was_placed);
  seqs_ = call_.seqs;
  for (size_t i = 0; i < seqs_.size(); ++i) seqs_[i].block_begin = int32_t(i) * table.shadow.stride();
  placed_ = {.block = table.memory.as<int32_t>(), .num_blocks = int32_t(table.shadow.words().size()), .seqs = seqs_};
  return placed_;
}

/// The one that begins with the same page, else the one that was not used for longest; with room.
BlockTables::Table& BlockTables::table_for(std::span<const TableRow> rows) {
  Table* found = &*std::ranges::min_element(tables_, {}, &Table::last_use);
  if (!rows.empty() && !rows[0].pages.empty())
    for (Table& table : tables_)
      if (!table.shadow.words().empty() && table.shadow.words()[0] == rows[0].pages[0]) found = &table;
  found->last_use = ++num_uses_;
  int32_t stride = kFewestPages;
  for (const TableRow& row : rows) stride = std::max(stride, row.padded);
  const auto num_rows = int32_t(std::max<size_t>(rows.size(), 1));
  const TableShadow& shadow = found->shadow;
  if (num_rows <= shadow.rows() && stride <= shadow.stride()) return *found;
  const auto grown = [](int32_t wanted, int32_t is) { return std::max(is, int32_t(std::bit_ceil(uint32_t(wanted)))); };
  found->shadow = TableShadow(grown(num_rows, shadow.rows()), grown(stride, shadow.stride()));
  if (found->memory.bytes() > 0) wait_();  // kernels may still read it
  found->memory = DeviceMemory();
  found->memory = DeviceMemory(found->shadow.words().size_bytes(), queue_.now());
  return *found;
}

void BlockTables::send(Table& table, const TableChanges& changes, bool is_first_of_pass) {
  auto* const to = table.memory.as<int32_t>();
  // nothing on the list reads a table yet where the pass begins
  if (!changes.words.empty()) queue_.put_words(to, changes.words, is_first_of_pass);
  for (const auto& [begin, end] : changes.runs)
    queue_.send(to + begin, table.shadow.words().data() + begin, (end - begin) * sizeof(int32_t));
}

}  // namespace paceline::cuda
