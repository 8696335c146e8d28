#include "engine/cache/block_pool.h"

#include <algorithm>
#include <utility>

#include "engine/cache/kv_slot.h"
#include "kernels/error.h"
#include "kernels/mix64.h"

namespace paceline {

BlockPool::BlockPool(const BlockPoolOptions& options) : options_(options), blocks_(size_t(options.num_blocks)) {
  PACELINE_CHECK(options.num_blocks >= 0 && options.block_size >= 1, "num_blocks {} block_size {}", options.num_blocks,
                 options.block_size);
  for (int32_t id = 0; id < options.num_blocks; ++id) push_free_last(id);
}

BlockPool::Hash BlockPool::chain_hash(const Hash& parent, std::span<const int32_t> tokens) const {
  Hash hash{mix64(parent.low ^ options_.hash_key), mix64(parent.high + 0x9e3779b97f4a7c15ull)};
  for (int32_t token : tokens) {
    hash.low = mix64(hash.low ^ uint64_t(uint32_t(token)));
    hash.high = mix64(hash.high + (uint64_t(uint32_t(token)) << 32 | 0x5bd1e995u) + options_.hash_key);
  }
  return hash;
}

BlockPool::Owner& BlockPool::owner(SeqId seq) {
  auto it = owners_.find(seq);
  PACELINE_CHECK(it != owners_.end(), "sequence {} is not in the pool", seq);
  return it->second;
}

const BlockPool::Owner& BlockPool::owner(SeqId seq) const { return const_cast<BlockPool*>(this)->owner(seq); }

int BlockPool::attach(SeqId seq, std::span<const int32_t> tokens, std::vector<BlockHash>& hashes) {
  PACELINE_CHECK(!owners_.contains(seq), "sequence {} is attached twice", seq);
  Owner& fresh = owners_[seq];
  if (options_.prefix_caching == PrefixCaching::off || tokens.empty()) return 0;
  const int block_size = options_.block_size;
  const int max_blocks = (int(tokens.size()) - 1) / block_size;
  for (int i = 0; i < max_blocks; ++i) {
    const auto content = tokens.subspan(size_t(i) * size_t(block_size), size_t(block_size));
    if (size_t(i) == hashes.size()) hashes.push_back(chain_hash(fresh.chain, content));
    const Hash hash = hashes[size_t(i)];
    const auto hit = table_.find(hash);
    if (hit == table_.end()) break;
    Block& block = blocks_[size_t(hit->second)];
    // The hash is only a hint: the tokens decide, and the parent's chain was decided the same way before.
    if (!(block.parent == fresh.chain) ||
        !std::equal(content.begin(), content.end(), block.tokens.begin(), block.tokens.end()))
      break;
    const int32_t next_token = tokens[size_t(i + 1) * size_t(block_size)];
    if (options_.next_token_counts && block.next_token != next_token) break;
    if (block.num_refs == 0) remove_from_free(hit->second);
    ++block.num_refs;
    fresh.pages.push_back(hit->second);
    fresh.chain = hash;
    ++fresh.num_hashed;
  }
  fresh.committed = fresh.num_hashed * block_size;
  fresh.hit_tokens = fresh.committed;
  fresh.query_tokens = int(tokens.size());
  peak_used_ = std::max(peak_used_, num_blocks() - num_free_);
  return fresh.committed;
}

int BlockPool::attach_to(SeqId seq, SeqId from, int len) {
  PACELINE_CHECK(!owners_.contains(seq), "sequence {} is attached twice", seq);
  PACELINE_CHECK(!caches_prefixes() && len <= cached(from), "sequence {}: {} tokens of sequence {}, {} are verified",
                 seq, len, from, cached(from));
  const int num_blocks = len / options_.block_size;
  Owner fresh{.pages = {}, .committed = num_blocks * options_.block_size};
  const Owner& other = owner(from);
  fresh.pages.assign(other.pages.begin(), other.pages.begin() + num_blocks);
  for (const int32_t block : fresh.pages) ++blocks_[size_t(block)].num_refs;
  fresh.hit_tokens = fresh.query_tokens = fresh.committed;
  return owners_.emplace(seq, std::move(fresh)).first->second.committed;
}

bool BlockPool::reserve(SeqId seq, int len) {
  Owner& mine = owner(seq);
  const int needed = blocks_for(len) - int(mine.pages.size());
  if (needed <= 0) return true;
  if (needed > num_free_) return false;
  for (int i = 0; i < needed; ++i) mine.pages.push_back(take_free_block());
  peak_used_ = std::max(peak_used_, num_blocks() - num_free_);
  return true;
}

void BlockPool::trim(SeqId seq, int len) {
  Owner& mine = owner(seq);
  PACELINE_CHECK(len >= mine.committed, "sequence {}: trim to {}, {} are verified", seq, len, mine.committed);
  while (int(mine.pages.size()) > blocks_for(len)) {
    Block& block = blocks_[size_t(mine.pages.back())];
    PACELINE_CHECK(block.num_refs == 1 && !block.shareable, "sequence {}: block {} is shared", seq, mine.pages.back());
    block.num_refs = 0;
    push_free_first(mine.pages.back());
    mine.pages.pop_back();
  }
}

void BlockPool::commit(SeqId seq, int len, std::span<const int32_t> tokens) {
  Owner& mine = owner(seq);
  PACELINE_CHECK(
      len >= mine.committed && len <= int(mine.pages.size()) * options_.block_size && int(tokens.size()) >= len,
      "sequence {}: commit {} after {} with {} pages and {} tokens", seq, len, mine.committed, mine.pages.size(),
      tokens.size());
  mine.committed = len;
  prefix_hit_tokens_ += std::exchange(mine.hit_tokens, 0);
  prefix_query_tokens_ += std::exchange(mine.query_tokens, 0);
  if (options_.prefix_caching == PrefixCaching::off) return;
  const int block_size = options_.block_size;
  const int behind = options_.next_token_counts ? 1 : 0;
  while ((mine.num_hashed + 1) * block_size <= len &&
         (mine.num_hashed + 1) * block_size + behind <= int(tokens.size())) {
    const auto content = tokens.subspan(size_t(mine.num_hashed) * size_t(block_size), size_t(block_size));
    const Hash hash = chain_hash(mine.chain, content);
    Block& block = blocks_[size_t(mine.pages[size_t(mine.num_hashed)])];
    if (!block.shareable && !table_.contains(hash)) {
      block.shareable = true;
      block.hash = hash;
      block.parent = mine.chain;
      block.tokens.assign(content.begin(), content.end());
      if (behind) block.next_token = tokens[size_t(mine.num_hashed + 1) * size_t(block_size)];
      table_.emplace(hash, mine.pages[size_t(mine.num_hashed)]);
    }
    mine.chain = hash;
    ++mine.num_hashed;
  }
}

int BlockPool::cached(SeqId seq) const { return owner(seq).committed; }

int32_t BlockPool::slot(SeqId seq, int position) const {
  const Owner& mine = owner(seq);
  const size_t page = size_t(position / options_.block_size);
  PACELINE_CHECK(position >= 0 && page < mine.pages.size(), "sequence {}: position {} of {} pages", seq, position,
                 mine.pages.size());
  return kv_slot(mine.pages, options_.block_size, position);
}

std::span<const int32_t> BlockPool::pages(SeqId seq) const { return owner(seq).pages; }

void BlockPool::release(SeqId seq, uint64_t last_step) {
  Owner& mine = owner(seq);
  // Last page first: the tail of a sequence is worth less as a cached prefix, so it should be taken first.
  std::vector<int32_t> blocks(mine.pages.rbegin(), mine.pages.rend());
  owners_.erase(seq);
  if (last_step <= retired_) {
    for (int32_t block : blocks) unref(block);
  } else {
    pending_.push_back({last_step, std::move(blocks)});
  }
}

void BlockPool::retire(uint64_t step) {
  retired_ = std::max(retired_, step);
  std::erase_if(pending_, [&](const Pending& pending) {
    if (pending.step > retired_) return false;
    for (int32_t block : pending.blocks) unref(block);
    return true;
  });
}

void BlockPool::reset_prefix_cache() {
  for (Block& block : blocks_) {
    if (block.shareable) forget_content(block);
  }
}

int32_t BlockPool::take_free_block() {
  const int32_t id = free_head_;
  remove_from_free(id);
  Block& block = blocks_[size_t(id)];
  if (block.shareable) forget_content(block);
  block.num_refs = 1;
  return id;
}

void BlockPool::unref(int32_t id) {
  Block& block = blocks_[size_t(id)];
  PACELINE_CHECK(block.num_refs > 0, "block {} is freed twice", id);
  if (--block.num_refs == 0) push_free_last(id);
}

void BlockPool::forget_content(Block& block) {
  table_.erase(block.hash);
  block.shareable = false;
  block.tokens.clear();
}

void BlockPool::push_free_first(int32_t id) {
  Block& block = blocks_[size_t(id)];
  block.lru_prev = -1;
  block.lru_next = free_head_;
  block.in_free_list = true;
  (free_head_ >= 0 ? blocks_[size_t(free_head_)].lru_prev : free_tail_) = id;
  free_head_ = id;
  ++num_free_;
}

void BlockPool::push_free_last(int32_t id) {
  Block& block = blocks_[size_t(id)];
  block.lru_prev = free_tail_;
  block.lru_next = -1;
  block.in_free_list = true;
  if (free_tail_ >= 0)
    blocks_[size_t(free_tail_)].lru_next = id;
  else
    free_head_ = id;
  free_tail_ = id;
  ++num_free_;
}

void BlockPool::remove_from_free(int32_t id) {
  Block& block = blocks_[size_t(id)];
  PACELINE_CHECK(block.in_free_list, "block {} is not free", id);
  (block.lru_prev >= 0 ? blocks_[size_t(block.lru_prev)].lru_next : free_head_) = block.lru_next;
  (block.lru_next >= 0 ? blocks_[size_t(block.lru_next)].lru_prev : free_tail_) = block.lru_prev;
  block.lru_prev = block.lru_next = -1;
  block.in_free_list = false;
  --num_free_;
}

void BlockPool::check() const {
  std::vector<int32_t> refs(blocks_.size(), 0);
  std::vector<int32_t> unshared_owner(blocks_.size(), 0);
  for (const auto& [seq, mine] : owners_) {
    PACELINE_CHECK(mine.committed <= int(mine.pages.size()) * options_.block_size,
                   "sequence {}: committed {} beyond {} pages", seq, mine.committed, mine.pages.size());
    PACELINE_CHECK(mine.num_hashed * options_.block_size <= mine.committed,
                   "sequence {}: {} hashed blocks beyond committed {}", seq, mine.num_hashed, mine.committed);
    for (size_t i = 0; i < mine.pages.size(); ++i) {
      const int32_t id = mine.pages[i];
      ++refs[size_t(id)];
      if ((int(i) + 1) * options_.block_size > mine.committed) ++unshared_owner[size_t(id)];
    }
  }
  for (const Pending& pending : pending_) {
    for (int32_t id : pending.blocks) ++refs[size_t(id)];
  }
  int num_free = 0;
  for (size_t id = 0; id < blocks_.size(); ++id) {
    const Block& block = blocks_[id];
    PACELINE_CHECK(block.num_refs == refs[id], "block {}: {} references counted, {} held", id, block.num_refs,
                   refs[id]);
    PACELINE_CHECK(block.in_free_list == (block.num_refs == 0), "block {}: {} references, free list {}", id,
                   block.num_refs, block.in_free_list);
    PACELINE_CHECK(unshared_owner[id] == 0 || refs[id] == 1, "block {} may be written by one of its {} owners", id,
                   refs[id]);
    if (block.in_free_list) ++num_free;
    if (block.shareable) {
      const auto entry = table_.find(block.hash);
      PACELINE_CHECK(entry != table_.end() && entry->second == int32_t(id), "block {}: its hash is not in the table",
                     id);
    }
  }
  PACELINE_CHECK(num_free == num_free_, "{} blocks in the free list, {} counted", num_free, num_free_);
}

}  // namespace paceline
