#include "engine/cache/block_pool.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"

namespace paceline {
namespace {

/// The tables that BlockPool keeps to itself: an explicit instantiation may name private members.
template <auto Member, class Tag>
struct Reveal {
  friend auto& member_of(BlockPool& pool, Tag) { return pool.*Member; }
};
struct BlocksTag {};
auto& member_of(BlockPool&, BlocksTag);
template struct Reveal<&BlockPool::blocks_, BlocksTag>;

std::vector<int32_t> iota_tokens(int count, int32_t first = 0) {
  std::vector<int32_t> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(first + i);
  return tokens;
}

/// Reserves and commits all of `tokens`.
void compute(BlockPool& pool, SeqId seq, const std::vector<int32_t>& tokens) {
  ASSERT_TRUE(pool.reserve(seq, int(tokens.size())));
  pool.commit(seq, int(tokens.size()), tokens);
}

BlockPoolOptions pool_options(int num_blocks, int block_size, PrefixCaching caching = PrefixCaching::on) {
  return {.num_blocks = num_blocks, .block_size = block_size, .prefix_caching = caching, .hash_key = 0x1234};
}

TEST(BlockPool, ReservesWholeBlocksOrNothing) {
  BlockPool pool(pool_options(4, 4, PrefixCaching::off));
  EXPECT_EQ(pool.attach(1, iota_tokens(9)), 0);
  EXPECT_TRUE(pool.reserve(1, 0));
  EXPECT_EQ(pool.num_free(), 4);
  EXPECT_TRUE(pool.reserve(1, 9));
  EXPECT_EQ(pool.num_free(), 1);
  EXPECT_TRUE(pool.reserve(1, 4));  // fewer than it has: no change
  EXPECT_EQ(pool.pages(1).size(), 3u);
  EXPECT_FALSE(pool.reserve(1, 17));
  EXPECT_EQ(pool.pages(1).size(), 3u);
  EXPECT_EQ(pool.num_free(), 1);
  EXPECT_EQ(pool.slot(1, 6), pool.pages(1)[1] * 4 + 2);
  EXPECT_THROW(pool.slot(1, 12), Error);
  EXPECT_THROW(pool.slot(1, -1), Error);
  EXPECT_EQ(pool.peak_used(), 3);
  pool.check();
}

TEST(BlockPool, BreachesOfContractThrow) {
  BlockPool pool(pool_options(4, 4));
  const auto tokens = iota_tokens(8);
  pool.attach(1, tokens);
  EXPECT_THROW(pool.attach(1, tokens), Error);
  EXPECT_THROW(pool.reserve(2, 1), Error);
  EXPECT_THROW(pool.cached(2), Error);
  EXPECT_THROW(pool.release(2, 0), Error);
  ASSERT_TRUE(pool.reserve(1, 8));
  EXPECT_THROW(pool.commit(1, 9, iota_tokens(9)), Error);  // beyond the pages
  EXPECT_THROW(pool.commit(1, 8, iota_tokens(7)), Error);  // beyond the tokens
  pool.commit(1, 5, tokens);
  EXPECT_THROW(pool.commit(1, 4, tokens), Error);  // backwards
  pool.check();
}

// Blocks go back only when the last step that may write them has completed.
TEST(BlockPool, ReleaseWaitsForTheStep) {
  BlockPool pool(pool_options(4, 4));
  pool.attach(1, iota_tokens(8));
  ASSERT_TRUE(pool.reserve(1, 8));
  pool.release(1, 5);
  EXPECT_FALSE(pool.knows(1));
  EXPECT_EQ(pool.num_free(), 2);
  pool.check();
  pool.retire(4);
  EXPECT_EQ(pool.num_free(), 2);
  pool.retire(5);
  EXPECT_EQ(pool.num_free(), 4);
  pool.attach(2, iota_tokens(8));
  ASSERT_TRUE(pool.reserve(2, 8));
  pool.release(2, 5);  // already retired: at once
  EXPECT_EQ(pool.num_free(), 4);
  pool.retire(3);  // older than what is known: nothing
  pool.check();
}

TEST(BlockPool, AHitLeavesOneTokenToCompute) {
  for (const int length : {1, 3, 4, 5, 7, 8, 9, 12}) {
    BlockPool pool(pool_options(16, 4));
    const auto tokens = iota_tokens(12);
    pool.attach(1, tokens);
    compute(pool, 1, tokens);
    const std::vector<int32_t> prefix(tokens.begin(), tokens.begin() + length);
    const int hit = pool.attach(2, prefix);
    EXPECT_EQ(hit, (length - 1) / 4 * 4);
    EXPECT_LT(hit, length);
    EXPECT_EQ(pool.cached(2), hit);
    EXPECT_EQ(pool.prefix_hit_tokens(), 0);  // an admission that fails later is no hit
    pool.release(2, 0);
    pool.attach(2, prefix);
    compute(pool, 2, prefix);
    EXPECT_EQ(pool.prefix_hit_tokens(), hit);
    EXPECT_EQ(pool.prefix_query_tokens(), 12 + length);
    for (int page = 0; page < hit / 4; ++page) EXPECT_EQ(pool.pages(1)[size_t(page)], pool.pages(2)[size_t(page)]);
    pool.check();
  }
}

TEST(BlockPool, OnlyTheSamePrefixHits) {
  BlockPool pool(pool_options(32, 4));
  const auto tokens = iota_tokens(13);
  pool.attach(1, tokens);
  compute(pool, 1, tokens);
  SeqId next = 2;
  for (int changed = 0; changed < 12; ++changed) {
    auto other = tokens;
    other[size_t(changed)] += 1000;
    EXPECT_EQ(pool.attach(next++, other), changed / 4 * 4) << changed;
  }
  // the same block content behind another parent is another block
  std::vector<int32_t> shifted(tokens.begin() + 4, tokens.end());
  EXPECT_EQ(pool.attach(next++, shifted), 0);
  pool.check();
}

// What a block holds beside the target's KV (an EAGLE-3 head's) depends on the token behind it.
TEST(BlockPool, WhereTheNextTokenCountsItIsPartOfTheBlock) {
  BlockPoolOptions options = pool_options(32, 4);
  options.next_token_counts = true;
  BlockPool pool(options);
  const auto tokens = iota_tokens(13);
  pool.attach(1, tokens);
  ASSERT_TRUE(pool.reserve(1, 12));
  const auto hit = [&](SeqId seq, std::vector<int32_t> text) {
    const int length = pool.attach(seq, text);
    pool.release(seq, 0);
    return length;
  };
  pool.commit(1, 8, std::vector<int32_t>(tokens.begin(), tokens.begin() + 8));
  EXPECT_EQ(hit(2, tokens), 4) << "the second block's next token is not known yet";
  pool.commit(1, 8, std::vector<int32_t>(tokens.begin(), tokens.begin() + 9));
  EXPECT_EQ(hit(3, tokens), 8);
  pool.commit(1, 12, tokens);
  for (int changed = 1; changed < 13; ++changed) {
    auto other = tokens;
    other[size_t(changed)] += 1000;
    EXPECT_EQ(hit(10 + changed, other), (changed - 1) / 4 * 4) << changed;
  }
  EXPECT_EQ(hit(4, tokens), 12);
  EXPECT_EQ(hit(5, iota_tokens(12)), 8) << "one token is left to compute";
  pool.check();
}

TEST(BlockPool, CachingOffSharesNothing) {
  BlockPool pool(pool_options(8, 4, PrefixCaching::off));
  const auto tokens = iota_tokens(9);
  pool.attach(1, tokens);
  compute(pool, 1, tokens);
  EXPECT_EQ(pool.attach(2, tokens), 0);
  EXPECT_EQ(pool.prefix_hit_tokens(), 0);
}

// Two texts with one hash, planted by changing the text that a cached block says it holds: the tokens decide.
TEST(BlockPool, AHashCollisionIsNoHit) {
  BlockPool pool(pool_options(8, 4));
  const auto tokens = iota_tokens(13);
  pool.attach(1, tokens);
  compute(pool, 1, tokens);
  EXPECT_EQ(pool.attach(2, tokens), 12);
  auto& blocks = member_of(pool, BlocksTag{});
  blocks[size_t(pool.pages(1)[1])].tokens[2] += 1;
  EXPECT_EQ(pool.attach(3, tokens), 4);
  blocks[size_t(pool.pages(1)[1])].tokens[2] -= 1;
  EXPECT_EQ(pool.attach(4, tokens), 12);
  blocks[size_t(pool.pages(1)[2])].parent.high ^= 1;  // the same for a chain that only looks alike
  EXPECT_EQ(pool.attach(5, tokens), 8);
}

// Freed prefixes stay usable, the one unused for longest goes first, and a sequence's tail before its head.
TEST(BlockPool, LeastRecentlyUsedGoesFirst) {
  BlockPool pool(pool_options(6, 4));
  const auto a = iota_tokens(13, 0), b = iota_tokens(13, 100);
  pool.attach(1, a);
  compute(pool, 1, iota_tokens(12, 0));
  pool.attach(2, b);
  compute(pool, 2, iota_tokens(12, 100));
  pool.release(1, 0);
  pool.release(2, 0);
  EXPECT_EQ(pool.num_free(), 6);
  pool.attach(3, a);  // touches a: b is now the oldest
  EXPECT_EQ(pool.cached(3), 12);
  pool.release(3, 0);
  pool.attach(4, iota_tokens(4, 500));
  ASSERT_TRUE(pool.reserve(4, 4));  // takes the tail of b
  pool.attach(5, b);
  EXPECT_EQ(pool.cached(5), 8);
  pool.release(5, 0);
  pool.attach(6, a);
  EXPECT_EQ(pool.cached(6), 12);
  pool.check();
}

TEST(BlockPool, ResetForgetsPrefixesInUseToo) {
  BlockPool pool(pool_options(8, 4));
  const auto tokens = iota_tokens(9);
  pool.attach(1, tokens);
  compute(pool, 1, tokens);
  pool.reset_prefix_cache();
  pool.check();
  EXPECT_EQ(pool.attach(2, tokens), 0);
  compute(pool, 2, tokens);  // and can be cached anew
  EXPECT_EQ(pool.attach(3, tokens), 8);
  EXPECT_EQ(pool.pages(3)[0], pool.pages(2)[0]);
  pool.check();
}

TEST(BlockPool, TrimmedPagesAreTheNextToBeTaken) {
  BlockPool pool(pool_options(8, 4));
  const auto tokens = iota_tokens(20);
  pool.attach(1, tokens);
  ASSERT_TRUE(pool.reserve(1, 20));
  const std::vector<int32_t> pages(pool.pages(1).begin(), pool.pages(1).end());
  pool.commit(1, 7, tokens);
  pool.trim(1, 20);
  EXPECT_EQ(pool.num_free(), 3);
  pool.trim(1, 8);
  EXPECT_EQ(pool.num_free(), 6);
  EXPECT_EQ(pool.pages(1).size(), 2u);
  pool.check();
  pool.attach(2, iota_tokens(1));
  ASSERT_TRUE(pool.reserve(2, 9));
  EXPECT_EQ(std::vector<int32_t>(pool.pages(2).begin(), pool.pages(2).end()),
            std::vector<int32_t>(pages.begin() + 2, pages.end()));
  pool.check();
  test::expect_error(ExitCode::internal, {"sequence 1: trim to 6, 7 are verified"}, [&] { pool.trim(1, 6); });
}

// Who is refused again and again brings the hashes along: they are believed, so they are not made again.
TEST(BlockPool, AttachGoesByTheHashesThatAreThere) {
  BlockPool pool(pool_options(8, 4));
  const auto tokens = iota_tokens(13);
  pool.attach(1, tokens);
  compute(pool, 1, tokens);
  std::vector<BlockHash> hashes;
  EXPECT_EQ(pool.attach(2, tokens, hashes), 12);
  EXPECT_EQ(hashes.size(), 3u);
  pool.release(2, 0);
  std::swap(hashes[1], hashes[2]);
  EXPECT_EQ(pool.attach(3, tokens, hashes), 4);
  pool.check();
}

TEST(BlockPool, CheckSeesAWrongReferenceCount) {
  BlockPool pool(pool_options(8, 4));
  pool.attach(1, iota_tokens(9));
  ASSERT_TRUE(pool.reserve(1, 9));
  pool.check();
  ++member_of(pool, BlocksTag{})[size_t(pool.pages(1)[0])].num_refs;
  test::expect_error(ExitCode::internal, {"block ", "2 references counted, 1 held"}, [&] { pool.check(); });
}

}  // namespace
}  // namespace paceline
