// A million random operations against a model of the memory itself: what each (block, offset) was last given.

#include <algorithm>
#include <map>
#include <random>

#include <gtest/gtest.h>

#include "engine/cache/block_pool.h"

namespace paceline {
namespace {

struct FuzzOptions {
  PrefixCaching caching;
  int num_blocks;
  int block_size;
  unsigned seed;
};

/// Sequences as an engine would run them: attach, compute rows (some of them drafts that are dropped again), commit,
/// release with steps still in flight. Writes land in a flat memory; every committed position must read back as its own
/// token, at any time, whoever wrote since.
class PoolWorld {
 public:
  explicit PoolWorld(const FuzzOptions& options)
      : options_(options),
        pool_({.num_blocks = options.num_blocks,
               .block_size = options.block_size,
               .prefix_caching = options.caching,
               .hash_key = options.seed * 77u}),
        memory_(size_t(options.num_blocks * options.block_size), -1),
        random_(options.seed) {}

  void operation() {
    const unsigned dice = random_() % 100;
    if (dice < 12 || seqs_.empty())
      attach();
    else if (dice < 62)
      step();
    else if (dice < 72)
      verify_one();
    else if (dice < 82)
      release();
    else if (dice < 97)
      retire();
    else if (dice == 97 && random_() % 50 == 0)
      reset();
    else
      blocked_reserve();
  }

  void finish() {
    while (!seqs_.empty()) release();
    retired_ = step_;
    pool_.retire(step_);
    late_writes_.clear();
    pool_.check();
    EXPECT_EQ(pool_.num_free(), pool_.num_blocks());
  }

  BlockPool& pool() { return pool_; }
  int64_t hits = 0, refused = 0, crossings = 0, late = 0;

 private:
  struct Seq {
    std::vector<int32_t> tokens;  // verified and then planned text
    int committed = 0;
    uint64_t last_step = 0;
  };
  struct LateWrite {  // a dead row of a step in flight
    uint64_t step;
    int32_t slot;
  };

  std::vector<int32_t> text() {  // shared prefixes of a few families, over a tiny alphabet
    std::mt19937 family(random_() % 4 + 100);
    std::vector<int32_t> tokens(1 + random_() % 40);
    const size_t shared = random_() % 41;
    for (size_t i = 0; i < tokens.size(); ++i) {
      const auto common = int32_t(family() % 3);
      tokens[i] = i < shared ? common : int32_t(random_() % 3);
    }
    return tokens;
  }

  void attach() {
    if (seqs_.size() >= 12) return;
    const SeqId id = next_id_++;
    Seq seq{.tokens = text()};
    seq.committed = pool_.attach(id, seq.tokens);
    hits += seq.committed > 0;
    ASSERT_LT(seq.committed, int(seq.tokens.size()));
    ASSERT_EQ(seq.committed % options_.block_size, 0);
    ASSERT_TRUE(options_.caching == PrefixCaching::on || seq.committed == 0);
    verify(id, seq);
    seqs_[id] = std::move(seq);
  }

  // Computes the known rows (or some of them) and up to 5 drafts; keeps a random part of the drafts.
  void step() {
    auto& [id, seq] = *pick();
    const int known = 1 + int(random_() % (seq.tokens.size() - size_t(seq.committed)));
    const int base = seq.committed + known;
    const bool at_end = base == int(seq.tokens.size());
    const int drafts = at_end ? int(random_() % 6) : 0;
    if (int(seq.tokens.size()) > 3 * options_.block_size * options_.num_blocks / 4) return;
    const int free_before = pool_.num_free();
    const size_t pages_before = pool_.pages(id).size();
    if (!pool_.reserve(id, base + drafts)) {
      ++refused;
      ASSERT_EQ(pool_.num_free(), free_before);
      ASSERT_EQ(pool_.pages(id).size(), pages_before);
      ASSERT_GT(pool_.blocks_for(base + drafts) - int(pages_before), free_before);
      return;
    }
    seq.last_step = ++step_;
    for (int position = seq.committed; position < base; ++position) write(id, position, seq.tokens[size_t(position)]);
    std::vector<int32_t> draft;
    for (int i = 0; i < drafts; ++i) {
      draft.push_back(int32_t(random_() % 3));
      write(id, base + i, draft.back());
    }
    crossings += drafts > 0 && seq.committed / options_.block_size != (base + drafts) / options_.block_size;
    int kept = 0;
    if (at_end) {
      kept = int(random_() % unsigned(drafts + 1));
      seq.tokens.insert(seq.tokens.end(), draft.begin(), draft.begin() + kept);
      seq.tokens.push_back(int32_t(random_() % 3));
    }
    pool_.commit(id, base + kept, seq.tokens);
    seq.committed = base + kept;
    ASSERT_EQ(pool_.cached(id), seq.committed);
  }

  void release() {
    const auto it = pick();
    auto& [id, seq] = *it;
    // A step launched ahead may still write behind the committed part, as long as it is in flight.
    if (random_() % 2 == 0 && pool_.reserve(id, seq.committed + 3)) {
      seq.last_step = ++step_;
      for (int i = 0; i < 3; ++i) late_writes_.push_back({step_, pool_.slot(id, seq.committed + i)});
    }
    pool_.release(id, seq.last_step);
    ASSERT_FALSE(pool_.knows(id));
    seqs_.erase(it);
  }

  // Dead rows land at the very end of their step's life.
  void retire() {
    if (retired_ >= step_) return;
    retired_ += 1 + random_() % (step_ - retired_);
    std::erase_if(late_writes_, [&](const LateWrite& write) {
      if (write.step > retired_) return false;
      memory_[size_t(write.slot)] = -2;
      ++late;
      return true;
    });
    pool_.retire(retired_);
  }

  void reset() { pool_.reset_prefix_cache(); }

  void blocked_reserve() {
    auto& [id, seq] = *pick();
    const int too_much = (pool_.num_free() + int(pool_.pages(id).size())) * options_.block_size + 1;
    ASSERT_FALSE(pool_.reserve(id, too_much));
  }

  void verify_one() {
    auto& [id, seq] = *pick();
    verify(id, seq);
  }

  void verify(SeqId id, const Seq& seq) {
    for (int position = 0; position < seq.committed; ++position)
      ASSERT_EQ(memory_[size_t(pool_.slot(id, position))], seq.tokens[size_t(position)])
          << "sequence " << id << " position " << position;
  }

  void write(SeqId id, int position, int32_t token) { memory_[size_t(pool_.slot(id, position))] = token; }

  std::map<SeqId, Seq>::iterator pick() { return std::next(seqs_.begin(), std::ptrdiff_t(random_() % seqs_.size())); }

  FuzzOptions options_;
  BlockPool pool_;
  std::vector<int32_t> memory_;  // token of the position that a slot holds
  std::map<SeqId, Seq> seqs_;
  std::vector<LateWrite> late_writes_;
  std::mt19937 random_;
  SeqId next_id_ = 1;
  uint64_t step_ = 0, retired_ = 0;
};

class BlockPoolFuzz : public testing::TestWithParam<FuzzOptions> {};

TEST_P(BlockPoolFuzz, MemoryHoldsWhatEverySequenceCommitted) {
  PoolWorld world(GetParam());
  for (int i = 0; i < 250'000; ++i) {
    world.operation();
    if (HasFatalFailure()) FAIL() << "operation " << i;
    if (i % 32 == 0) world.pool().check();
  }
  EXPECT_GT(world.refused, 1000);
  EXPECT_GT(world.crossings, 1000);
  EXPECT_GT(world.late, 1000);
  EXPECT_TRUE(GetParam().caching == PrefixCaching::off || world.hits > 1000) << world.hits;
  world.finish();
}

INSTANTIATE_TEST_SUITE_P(Pools, BlockPoolFuzz,
                         testing::Values(FuzzOptions{PrefixCaching::on, 40, 4, 1},
                                         FuzzOptions{PrefixCaching::off, 40, 4, 2},
                                         FuzzOptions{PrefixCaching::on, 23, 3, 3},
                                         FuzzOptions{PrefixCaching::on, 64, 1, 4}));

}  // namespace
}  // namespace paceline
