#include "engine/tokenizer/bpe.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "engine/text/utf8.h"
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

/// Symbols up to which a search for the lowest rank at each step beats the heap.
constexpr size_t kFewSymbols = 32;

}  // namespace

PairRanks::PairRanks(size_t num_pairs) : slots_(std::bit_ceil(std::max<size_t>(num_pairs * 2, 16)), {kEmptyKey, {}}) {}

size_t PairRanks::slot_of(uint64_t key) const {
  uint64_t hash = key * 0x9E3779B97F4A7C15ull;
  hash ^= hash >> 32;
  size_t slot = hash & (slots_.size() - 1);
  while (slots_[slot].key != key && slots_[slot].key != kEmptyKey) slot = (slot + 1) & (slots_.size() - 1);
  return slot;
}

void PairRanks::set(int32_t left, int32_t right, Merged merged) {
  const uint64_t key = pair_key(left, right);
  slots_[slot_of(key)] = {key, merged};
}

PairRanks::Merged PairRanks::find(int32_t left, int32_t right) const {
  return slots_[slot_of(pair_key(left, right))].merged;
}

Bpe::Bpe(const std::vector<Merge>& merges, Options options) : ranks_(merges.size()), options_(std::move(options)) {
  PACELINE_CHECK(merges.size() < static_cast<size_t>(std::numeric_limits<int32_t>::max()), "{} merges", merges.size());
  for (const Merge& merge : merges) ranks_.set(merge.left, merge.right, {merge.rank, merge.merged});
}

void Bpe::read_symbols(std::string_view piece, std::vector<int32_t>& symbols) const {
  bool last_unknown = false;
  const auto put = [&](int32_t id) {
    const bool unknown = id < 0;
    if (!unknown)
      symbols.push_back(id);
    else if (options_.unknown_id && !(options_.fuse_unknown && last_unknown))
      symbols.push_back(*options_.unknown_id);
    last_unknown = unknown;
  };
  const auto byte_id = [&](char c) { return options_.byte_ids[static_cast<unsigned char>(c)]; };
  if (options_.char_ids.empty()) {
    for (const char c : piece) put(byte_id(c));
    return;
  }
  for (size_t pos = 0; pos < piece.size();) {
    const Utf8Char c = utf8_decode(piece, pos);
    const std::string_view bytes = piece.substr(pos, static_cast<size_t>(c.num_bytes));
    pos += bytes.size();
    const auto known = options_.char_ids.find(c.code);
    if (known != options_.char_ids.end()) {
      put(known->second);
    } else if (std::all_of(bytes.begin(), bytes.end(), [&](char byte) { return byte_id(byte) >= 0; })) {
      for (const char byte : bytes) put(byte_id(byte));
    } else {
      put(-1);
    }
  }
}

void Bpe::join_few(std::vector<int32_t>& symbols, std::vector<PairRanks::Merged>& pairs) const {
  pairs.clear();
  for (size_t i = 0; i + 1 < symbols.size(); ++i) pairs.push_back(ranks_.find(symbols[i], symbols[i + 1]));
  while (!pairs.empty()) {
    size_t best = pairs.size();
    uint32_t best_rank = std::numeric_limits<uint32_t>::max();  // what −1 is too
    for (size_t i = 0; i < pairs.size(); ++i) {
      if (const auto rank = static_cast<uint32_t>(pairs[i].rank); rank < best_rank) {
        best_rank = rank;
        best = i;
      }
    }
    if (best == pairs.size()) return;
    symbols[best] = pairs[best].id;
    symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(best) + 1);
    pairs.erase(pairs.begin() + static_cast<ptrdiff_t>(best));
    if (best > 0) pairs[best - 1] = ranks_.find(symbols[best - 1], symbols[best]);
    if (best < pairs.size()) pairs[best] = ranks_.find(symbols[best], symbols[best + 1]);
  }
}

void Bpe::join_many(BpeScratch& scratch) const {
  auto& symbols = scratch.symbols;
  auto& heap = scratch.heap;
  symbols.clear();
  heap.clear();
  for (const int32_t id : scratch.ids) {
    const auto index = static_cast<int32_t>(symbols.size());
    symbols.push_back({id, index - 1, index + 1});
  }
  symbols.back().next = -1;

  const auto symbol = [&](int32_t index) -> BpeScratch::Symbol& { return symbols[static_cast<size_t>(index)]; };
  const auto candidate_at = [&](int32_t position) {
    const auto& left = symbol(position);
    const int32_t right = symbol(left.next).id;
    const PairRanks::Merged merged = ranks_.find(left.id, right);
    return BpeScratch::Candidate{merged.rank, position, left.id, right, merged.id};
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
    left.id = top.merged;
    left.next = right.next;
    right.id = -1;
    if (left.next >= 0) {
      symbol(left.next).previous = top.position;
      push(top.position);
    }
    if (left.previous >= 0) push(left.previous);
  }
  scratch.ids.clear();
  for (int32_t i = 0; i >= 0; i = symbol(i).next) scratch.ids.push_back(symbol(i).id);
}

void Bpe::encode(std::string_view piece, BpeScratch& scratch, std::vector<int32_t>& ids) const {
  if (!options_.whole_pieces.empty()) {
    if (const auto it = options_.whole_pieces.find(std::string(piece)); it != options_.whole_pieces.end()) {
      ids.push_back(it->second);
      return;
    }
  }
  scratch.ids.clear();
  read_symbols(piece, scratch.ids);
  if (scratch.ids.size() <= kFewSymbols)
    join_few(scratch.ids, scratch.pairs);
  else
    join_many(scratch);
  ids.insert(ids.end(), scratch.ids.begin(), scratch.ids.end());
}

}  // namespace paceline
