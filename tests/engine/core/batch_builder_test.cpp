#include "engine/batch_builder.h"

#include <gtest/gtest.h>

#include "engine/batch_rows.h"
#include "tests/support/expect_error.h"

namespace paceline {
namespace {

struct Case {
  BlockPool pool{{.num_blocks = 32, .block_size = 4, .prefix_caching = PrefixCaching::off}};
  std::vector<std::unique_ptr<Request>> requests;
  ScheduledStep step;
  std::vector<Proposal> proposals;

  Request& add(SeqId id, std::vector<int32_t> tokens, int launched, ScheduledRows rows,
               std::vector<int32_t> drafts = {}) {
    auto request = std::make_unique<Request>();
    request->seq = {.id = id, .slot = int32_t(id + 10), .tokens = std::move(tokens)};
    request->launched = launched;
    request->needs_reset = launched == 0;
    pool.attach(id, {});
    EXPECT_TRUE(pool.reserve(id, request->seq.length() + rows.max_drafts));
    rows.request = request.get();
    step.rows.push_back(rows);
    proposals.push_back(
        {.committed = request->seq.length(), .draft = DraftTree::chain(std::move(drafts)), .probs = {}});
    requests.push_back(std::move(request));
    return *requests.back();
  }
  BuiltBatch build(int vocab_size = 100) { return build_batch(step, proposals, pool, 9, vocab_size); }
};

TEST(BatchBuilder, PromptChunkDecodeAndDrafts) {
  Case c;
  c.add(1, {10, 11, 12, 13, 14, 15}, 2, {.num_known = 3, .wants_logits = false});
  c.add(2, {20, 21, 22, 23, 24}, 4, {.num_known = 1, .max_drafts = 5}, {30, 31, 32, 33});
  c.add(3, {40, 41}, 0, {.num_known = 2});
  const BuiltBatch built = c.build();
  const Batch& batch = *built.batch;
  EXPECT_EQ(batch.step, 9u);
  EXPECT_EQ(batch.after, 8u);
  EXPECT_EQ(batch.token, (std::vector<int32_t>{12, 13, 14, 24, 30, 31, 32, 33, 40, 41}));
  EXPECT_EQ(batch.position, (std::vector<int32_t>{2, 3, 4, 4, 5, 6, 7, 8, 0, 1}));
  for (int row = 0; row < batch.num_rows(); ++row) {
    const SeqId id = row < 3 ? 1 : row < 8 ? 2 : 3;
    EXPECT_EQ(batch.kv_len[size_t(row)], batch.position[size_t(row)] + 1);
    EXPECT_EQ(batch.slot[size_t(row)], c.pool.slot(id, batch.position[size_t(row)]));
  }
  ASSERT_EQ(batch.seqs.size(), 3u);
  EXPECT_EQ(batch.seqs[1].seq, 12);
  EXPECT_EQ(batch.seqs[1].first_row, 3);
  EXPECT_EQ(batch.seqs[1].num_rows, 5);
  EXPECT_EQ(batch.seqs[1].num_drafts, 4);
  EXPECT_EQ(batch.logit_row, (std::vector<int32_t>{3, 4, 5, 6, 7, 9}));
  EXPECT_EQ(batch.block_begin, (std::vector<int32_t>{0, 2, 5}));
  for (size_t i = 0; i < 3; ++i) {
    const auto pages = c.pool.pages(SeqId(i + 1));
    EXPECT_TRUE(std::equal(pages.begin(), pages.end(), batch.block.begin() + batch.block_begin[i]));
  }
  ASSERT_EQ(built.verify.size(), 2u);
  EXPECT_EQ(built.verify[0].batch_seq, 1u);
  EXPECT_EQ(built.verify[0].first_logit, 0);
  EXPECT_EQ(built.verify[0].known_rows, 1);
  EXPECT_EQ(built.verify[0].proposal.draft.size(), 4u);
  EXPECT_EQ(built.verify[1].batch_seq, 2u);
  EXPECT_EQ(built.verify[1].first_logit, 5);
  EXPECT_EQ(built.verify[1].known_rows, 2);
  // the control plane
  ASSERT_EQ(batch.resets.size(), 1u);
  EXPECT_EQ(batch.resets[0].seq, 13);
  ASSERT_EQ(batch.expected.size(), 3u);
  EXPECT_EQ(batch.expected[0].cached, 2);
  EXPECT_EQ(batch.expected[0].length, 6);
  EXPECT_EQ(batch.expected[0].last_token, 15);
  EXPECT_EQ(batch.expected[0].request, 1);
  EXPECT_EQ(batch.digest, digest_of(batch.expected));
}

TEST(BatchBuilder, ADeferredRowIsBlank) {
  Case c;
  c.add(2, {20, 21}, 0, {.num_known = 2});
  c.add(1, {10, 11, 12}, 3, {.num_known = 1, .deferred = true});
  const BuiltBatch built = c.build();
  EXPECT_EQ(built.batch->token, (std::vector<int32_t>{20, 21, -1}));
  EXPECT_EQ(built.batch->kv_len, (std::vector<int32_t>{1, 2, 0}));
  EXPECT_EQ(built.batch->slot.back(), -1);
  EXPECT_EQ(built.batch->logit_row, (std::vector<int32_t>{1, 2}));
  EXPECT_TRUE(built.batch->seqs[1].deferred);
  EXPECT_EQ(built.batch->seqs[1].first_row, 2);
  EXPECT_EQ(built.batch->seqs[1].num_rows, 1);
  EXPECT_EQ(built.batch->expected.size(), 1u);  // of the other
  EXPECT_EQ(built.verify[1].first_logit, 1);
}

TEST(BatchBuilder, PaddingRowsBelongToNoSequence) {
  Case c;
  c.add(1, {10, 11}, 0, {.num_known = 2});
  c.step.num_padding_rows = 3;
  const BuiltBatch built = c.build();
  EXPECT_EQ(built.batch->num_rows(), 5);
  ASSERT_EQ(built.batch->seqs.size(), 2u);
  EXPECT_EQ(built.batch->seqs[1].seq, -1);
  EXPECT_EQ(built.batch->seqs[1].first_row, 2);
  EXPECT_EQ(built.batch->seqs[1].num_rows, 3);
  EXPECT_FALSE(built.batch->seqs[1].wants_logits);
  EXPECT_EQ(built.batch->block_begin.size(), 2u);
  EXPECT_EQ(built.batch->logit_row, (std::vector<int32_t>{1}));
  EXPECT_EQ(built.batch->kv_len[4], 0);
  EXPECT_EQ(built.verify.size(), 1u);
}

// No id outside the vocabulary reaches a gather, whoever proposed it.
TEST(BatchBuilder, DraftIdsAreChecked) {
  for (const int32_t bad : {-1, 100, 1 << 30}) {
    Case c;
    c.add(5, {10, 11}, 1, {.num_known = 1, .max_drafts = 3}, {20, bad, 21});
    test::expect_error(ExitCode::internal,
                       {"request 5", fmt::format("token {}", bad), "position 3", "vocabulary of 100"},
                       [&] { c.build(); });
  }
  Case c;
  c.add(5, {10, 11}, 1, {.num_known = 1, .max_drafts = 3}, {99, 0, 21});
  EXPECT_NO_THROW(c.build());
}

TEST(BatchBuilder, MoreDraftsThanPagesIsRefused) {
  Case c;
  c.add(5, {10, 11}, 1, {.num_known = 1, .max_drafts = 2}, {20, 20, 21});
  test::expect_error(ExitCode::internal, {"request 5", "3 drafts, pages for 2"}, [&] { c.build(); });
}

TEST(Batch, DigestSeesEveryField) {
  const SeqCommit state{.seq = 1, .cached = 2, .length = 3, .last_token = 4, .request = 5};
  const uint64_t digest = digest_of(std::span(&state, 1));
  for (int field = 0; field < 4; ++field) {
    SeqCommit other = state;
    ++(field == 0 ? other.seq : field == 1 ? other.cached : field == 2 ? other.length : other.last_token);
    EXPECT_NE(digest_of(std::span(&other, 1)), digest) << field;
  }
  SeqCommit renamed = state;
  renamed.request = 6;  // for messages only
  EXPECT_EQ(digest_of(std::span(&renamed, 1)), digest);
  const SeqCommit two[] = {state, renamed};
  EXPECT_NE(digest_of(two), digest);
}

TEST(Batch, NewRowsOfAChunk) {
  Batch batch;
  const std::vector<int32_t> tokens{5, 6, 7, 8, 9};
  const std::vector<int32_t> pages{3, 1};
  add_rows(batch, {.state = {.seq = 2, .cached = 1, .length = 5, .last_token = 9},
                   .tokens = tokens,
                   .pages = pages,
                   .block_size = 4,
                   .end = 3,
                   .reset = true});
  EXPECT_EQ(batch.token, (std::vector<int32_t>{6, 7}));
  EXPECT_EQ(batch.slot, (std::vector<int32_t>{13, 14}));
  EXPECT_TRUE(batch.logit_row.empty());
  EXPECT_FALSE(batch.seqs[0].wants_logits);
  EXPECT_EQ(batch.resets.size(), 1u);
  add_rows(batch, {.state = {.seq = 3, .cached = 3, .length = 5, .last_token = 9},
                   .tokens = tokens,
                   .pages = pages,
                   .block_size = 4,
                   .end = 5});
  EXPECT_EQ(batch.slot.back(), 4);
  EXPECT_EQ(batch.logit_row, (std::vector<int32_t>{3}));
  EXPECT_EQ(batch.block_begin, (std::vector<int32_t>{0, 2}));
}

TEST(BatchRows, PagesMustCoverEveryRow) {
  const std::vector<int32_t> tokens = {1, 2, 3, 4, 5}, pages = {7, 9};
  const DraftTree drafts = DraftTree::chain({6, 7, 8});
  Batch batch;
  NewRows rows{.state = {.seq = 0, .cached = 3, .length = 5, .last_token = 5, .request = 11},
               .tokens = tokens,
               .pages = pages,
               .block_size = 4,
               .end = 5,
               .drafts = &drafts};
  add_rows(batch, rows);
  EXPECT_EQ(batch.slot, (std::vector<int32_t>{31, 36, 37, 38, 39}));
  EXPECT_TRUE(batch.parent.empty());
  const DraftTree one_more = DraftTree::chain({6, 7, 8, 9});
  rows.drafts = &one_more;
  test::expect_error(ExitCode::internal, {"request 11", "position 8 of 2 pages"}, [&] { add_rows(batch, rows); });
}

TEST(BatchRows, NodesHaveThePositionOfTheirDepthAndTheSlotOfTheirNumber) {
  const std::vector<int32_t> tokens = {1, 2, 3, 4, 5}, pages = {7, 9, 2};
  const DraftTree tree{.token = {6, 7, 8, 9}, .parent = {-1, -1, 0, 2}, .score = {}};
  Batch batch;
  add_rows(batch, {.state = {.seq = 3, .cached = 0, .length = 2},
                   .tokens = std::span(tokens).first(2),
                   .pages = pages,
                   .block_size = 4,
                   .end = 2});
  add_rows(batch, {.state = {.seq = 0, .cached = 4, .length = 5, .last_token = 5},
                   .tokens = tokens,
                   .pages = pages,
                   .block_size = 4,
                   .end = 5,
                   .drafts = &tree});
  EXPECT_EQ(batch.position, (std::vector<int32_t>{0, 1, 4, 5, 5, 6, 7}));
  EXPECT_EQ(batch.slot, (std::vector<int32_t>{28, 29, 36, 37, 38, 39, 8}));
  EXPECT_EQ(batch.parent, (std::vector<int32_t>{-1, 0, -1, 2, 2, 3, 5}));
  EXPECT_EQ(batch.logit_row, (std::vector<int32_t>{1, 2, 3, 4, 5, 6}));
}

TEST(BatchRows, NodesOfAGrowingTreeSeeTheirPaths) {
  const std::vector<int32_t> pages = {7, 9, 2}, first = {0, 1}, second = {0, 2};
  const std::vector<TreeRow> rows = {{.token = 6, .depth = 1, .path = first}, {.token = 7, .depth = 1, .path = second}};
  Batch batch;
  add_tree_rows(batch, 3, 6, pages, 4, rows);
  add_tree_rows(batch, 0, 2, pages, 4, std::span(rows).first(1));
  EXPECT_EQ(batch.token, (std::vector<int32_t>{6, 7, 6}));
  EXPECT_EQ(batch.position, (std::vector<int32_t>{7, 7, 3}));
  EXPECT_EQ(batch.slot, (std::vector<int32_t>{39, 8, 31}));
  EXPECT_EQ(batch.path_begin, (std::vector<int32_t>{0, 2, 4}));
  EXPECT_EQ(batch.path_place, (std::vector<int32_t>{6, 7, 6, 8, 2, 3}));
  EXPECT_EQ(batch.logit_row, (std::vector<int32_t>{0, 1, 2}));
  EXPECT_EQ(batch.seqs[1].tree_begin, 2);
  EXPECT_TRUE(batch.expected.empty());
  add_padding_rows(batch, 1);
  EXPECT_THROW(add_tree_rows(batch, 1, 2, pages, 4, rows), Error);
}

}  // namespace
}  // namespace paceline
