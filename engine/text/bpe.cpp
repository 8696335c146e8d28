#include "engine/text/bpe.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "kernels/error.h"

namespace paceline {

namespace {

constexpr uint64_t kEmptyKey = std::numeric_limits<uint64_t>::max();  // ids are below 2^31, so no pair has it

uint64_t pair_key(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

/// Heap order: std::push_heap keeps the largest first, so "larger" is lower rank, then further left.
bool after(const BpeScratch::Candidate& a, const BpeScratch::Candidate& b) {
  return a.rank != b.rank ? a.rank > b.rank : a.position > b.position;
}

}  // namespace

PairRanks::PairRanks(size_t num_pairs) : slots_(std::bit_ceil(std::max<size_t>(num_pairs * 2, 16)), {kEmptyKey, -1}) {}

size_t PairRanks::slot_of(uint64_t key) const {
  uint64_t hash = key * 0x9E3779B97F4A7C15ull;
  hash ^= hash >> 32;
  size_t slot = hash & (slots_.size() - 1);
  while (slots_[slot].key != key && slots_[slot].key != kEmptyKey) slot = (slot + 1) & (slots_.size() - 1);
  return slot;
}

void PairRanks::set(int32_t left, int32_t right, int32_t rank) {
  const uint64_t key = pair_key(left, right);
  slots_[slot_of(key)] = {key, rank};
}

int32_t PairRanks::find(int32_t left, int32_t right) const { return slots_[slot_of(pair_key(left, right))].rank; }

Bpe::Bpe(const std::vector<Merge>& merges, Options options) : ranks_(merges.size()), options_(std::move(options)) {
  PACELINE_CHECK(merges.size() < static_cast<size_t>(std::numeric_limits<int32_t>::max()), "{} merges", merges.size());
  merged_ids_.reserve(merges.size());
  for (const Merge& merge : merges) {
    ranks_.set(merge.left, merge.right, static_cast<int32_t>(merged_ids_.size()));
    merged_ids_.push_back(merge.merged);
  }
}

void Bpe::encode(std::string_view piece, BpeScratch& scratch, std::vector<int32_t>& ids) const {
  if (!options_.whole_pieces.empty()) {
    if (const auto it = options_.whole_pieces.find(std::string(piece)); it != options_.whole_pieces.end()) {
      ids.push_back(it->second);
      return;
    }
  }
  auto& symbols = scratch.symbols;
  auto& heap = scratch.heap;
  symbols.clear();
  heap.clear();

  bool last_unknown = false;
  for (const char c : piece) {
    int32_t id = options_.byte_ids[static_cast<unsigned char>(c)];
    const bool unknown = id < 0;
    if (unknown) {
      if (!options_.unknown_id || (options_.fuse_unknown && last_unknown)) continue;
      id = *options_.unknown_id;
    }
    last_unknown = unknown;
    const auto index = static_cast<int32_t>(symbols.size());
    symbols.push_back({id, index - 1, index + 1});
  }
  if (symbols.empty()) return;
  symbols.back().next = -1;

  const auto symbol = [&](int32_t index) -> BpeScratch::Symbol& { return symbols[static_cast<size_t>(index)]; };
  const auto candidate_at = [&](int32_t position) {
    const auto& left = symbol(position);
    const int32_t right = symbol(left.next).id;
    return BpeScratch::Candidate{ranks_.find(left.id, right), position, left.id, right};
  };
  const auto push = [&](int32_t position) {
    const auto candidate = candidate_at(position);
    if (candidate.rank < 0) return;
    heap.push_back(candidate);
    std::push_heap(heap.begin(), heap.end(), after);
  };

  for (int32_t i = 0; i + 1 < static_cast<int32_t>(symbols.size()); ++i) {
    const auto candidate = candidate_at(i);
    if (candidate.rank >= 0) heap.push_back(candidate);
  }
  std::make_heap(heap.begin(), heap.end(), after);

  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), after);
    const auto top = heap.back();
    heap.pop_back();
    auto& left = symbol(top.position);
    // Stale when an earlier merge changed or consumed either side.
    if (left.id != top.left || left.next < 0 || symbol(left.next).id != top.right) continue;
    auto& right = symbol(left.next);
    left.id = merged_ids_[static_cast<size_t>(top.rank)];
    left.next = right.next;
    right.id = -1;
    if (left.next >= 0) {
      symbol(left.next).previous = top.position;
      push(top.position);
    }
    if (left.previous >= 0) push(left.previous);
  }
  for (int32_t i = 0; i >= 0; i = symbol(i).next) ids.push_back(symbol(i).id);
}

}  // namespace paceline
