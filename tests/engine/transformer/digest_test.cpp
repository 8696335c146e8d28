// Ranks that disagree are found before they compute: the error names rank, request, field and both values.

#include "engine/batch_rows.h"
#include "model_rig.h"
#include "tests/support/expect_error.h"

namespace paceline {
namespace {

using test::expect_error;
using test::ModelRig;
using test::sample_text;

struct Decoding {
  ModelRig rig;
  std::vector<int32_t> tokens;
  std::vector<int32_t> pages;

  Decoding(int tp, int pp)
      : rig({.folder = "tests/data/llama", .tp = tp, .pp = pp}), tokens(sample_text(8, 515)), pages(rig.pages(32)) {
    launch(next(true));
    accept(7, 8);
  }

  /// A step over the tokens not cached yet.
  std::shared_ptr<Batch> next(bool reset = false) {
    auto batch = std::make_shared<Batch>();
    batch->step = rig.next_step();
    const int length = int(tokens.size());
    add_rows(*batch,
             {.state = {.seq = 3, .cached = cached, .length = length, .last_token = tokens.back(), .request = 41},
              .tokens = tokens,
              .pages = pages,
              .block_size = rig.block_size(),
              .end = length,
              .reset = reset});
    batch->decisions = decisions;
    decisions.clear();
    batch->digest = digest_of(batch->expected);
    last = batch->step;
    return batch;
  }
  void launch(const std::shared_ptr<Batch>& batch) {
    rig.model().launch(batch);
    rig.team().wait_all();
  }
  /// The verdict of the step just run: `token` follows.
  void accept(int32_t token, int rows) {
    rig.model().wait(rig.model().post([&](Rank&) { rig.model().state().accept(3, rows, nullptr, 0, token, last); }));
    decisions.push_back({.seq = 3, .step = last, .kept_rows = rows, .num_emitted = 1, .next = token});
    tokens.push_back(token);
    cached += rows;
  }

  int cached = 0;
  uint64_t last = 0;
  std::vector<SeqDecision> decisions;
};

TEST(Digest, RanksThatAgreeGoOn) {
  for (const auto& [tp, pp] : {std::pair{1, 1}, {2, 1}, {1, 2}, {2, 2}}) {
    Decoding run(tp, pp);
    for (int i = 0; i < 5; ++i) {
      run.launch(run.next());
      run.accept(100 + i, 1);
    }
  }
}

// The deciding rank's own state is damaged.
TEST(Digest, TheDecidingRankIsNamed) {
  struct Damage {
    const char* field;
    std::function<void(SeqSlot&)> apply;
  };
  const Damage damages[] = {{"committed length is 7, expected 8", [](SeqSlot& slot) { --slot.cached; }},
                            {"token count is 10, expected 9", [](SeqSlot& slot) { ++slot.length; }},
                            {"next token is 8, expected 7", [](SeqSlot& slot) { slot.put_token(8, 8); }}};
  for (const auto& [tp, pp] : {std::pair{1, 1}, {2, 1}, {1, 2}, {2, 2}}) {
    for (const Damage& damage : damages) {
      Decoding run(tp, pp);
      run.rig.model().wait(run.rig.model().post([&](Rank&) { damage.apply(run.rig.model().state()[3]); }));
      expect_error(
          ExitCode::comm,
          {fmt::format("rank {} disagrees", run.rig.team().deciding_rank()), "request 41", damage.field, "(length 9)"},
          [&] { run.launch(run.next()); });
    }
  }
}

// Another rank missed a decision, or got another one.
TEST(Digest, ARankThatMissedADecisionIsNamed) {
  for (const auto& [tp, pp, rank] : {std::tuple{2, 1, 1}, {1, 2, 0}}) {
    {
      Decoding run(tp, pp);
      run.decisions.clear();
      expect_error(ExitCode::comm,
                   {fmt::format("rank {} disagrees", rank), "request 41", "committed length is 0, expected 8"},
                   [&] { run.launch(run.next()); });
    }
    {
      Decoding run(tp, pp);
      run.decisions[0].next = 9;
      expect_error(ExitCode::comm,
                   {fmt::format("rank {} disagrees", rank), "request 41", "next token is 9, expected 7"},
                   [&] { run.launch(run.next()); });
    }
    {
      Decoding run(tp, pp);
      run.decisions[0].num_emitted = 2;
      expect_error(ExitCode::comm,
                   {fmt::format("rank {} disagrees", rank), "request 41", "token count is 10, expected 9"},
                   [&] { run.launch(run.next()); });
    }
  }
}

TEST(Digest, ADamagedMessageIsFound) {
  Decoding run(2, 1);
  const auto batch = run.next();
  batch->digest ^= 1;
  expect_error(ExitCode::comm, {"rank ", "digest of step 2", "damaged"}, [&] { run.launch(batch); });
}

TEST(Digest, AFailedModelCanBeTakenDown) {
  for (int i = 0; i < 10; ++i) {  // other ranks may be deep in the step when one complains
    auto run = std::make_unique<Decoding>(2, 2);
    run->decisions.clear();
    EXPECT_THROW(run->launch(run->next()), Error);
    run.reset();
  }
}

}  // namespace
}  // namespace paceline
