// What backends count of their work, and for what it was.

#include <chrono>
#include <thread>

#include "tests/kernels/backend_ops.h"

namespace paceline::test {
namespace {

class BackendWork : public BackendOps {
 protected:
  Work work(WorkKind kind) {
    backend().sync();
    return backend().work(kind);
  }
};

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

TEST_P(BackendWork, IsCountedByWhatItIsFor) {
  const StoredMatrix w(512, 512, DType::bf16, 1);
  const HostWeight part = w.host();
  const Weight packed = backend().pack({&part, 1}, {});
  GuardedRows in(backend(), 2, 512, random_values(2 * 512, 1)), out(backend(), 2, 512);
  const auto product = [&] { backend().gemm({.x = in.view(), .w = packed.get(), .y = out.view()}); };
  const Work target = work(WorkKind::target), draft = work(WorkKind::draft), decide = work(WorkKind::decide);
  product();  // nobody's
  const auto start = Clock::now();
  for (int pass = 0; pass < 3; ++pass) {
    backend().begin_work(WorkKind::target);
    product();
    product();
    backend().end_work(0.0);
    backend().begin_work(WorkKind::draft);
    product();
    backend().end_work(0.0);
  }
  product();
  const Work target_after = work(WorkKind::target), draft_after = work(WorkKind::draft);
  const double passed = seconds_since(start);
  const Traffic of_target = target_after.traffic - target.traffic, of_draft = draft_after.traffic - draft.traffic;
  const uint64_t flops = uint64_t{2} * 2 * 512 * 512;
  const size_t copy = GetParam().numerics == Numerics::fast ? row_copy_bytes(512, 512, {}) : 0;  // only one is read
  EXPECT_EQ(of_target.flops, 6 * flops);
  EXPECT_EQ(of_target.weight_bytes, 6 * (packed->bytes - copy));
  EXPECT_EQ(of_target.attention_flops, 0u);
  EXPECT_EQ(of_draft.flops, 3 * flops);
  EXPECT_EQ(of_draft.weight_bytes, 3 * (packed->bytes - copy));
  EXPECT_EQ(work(WorkKind::decide).seconds, decide.seconds);
  const double target_s = target_after.seconds - target.seconds, draft_s = draft_after.seconds - draft.seconds;
  EXPECT_GT(target_s, 0.0);
  EXPECT_GT(draft_s, 0.0);
  EXPECT_LT(target_s + draft_s, passed);
}

// Pieces side by side may share a mark, and two of a kind be one; what lies between them when the host waits is
// neither's.
TEST_P(BackendWork, LeavesOutWhatLiesBetweenPieces) {
  const StoredMatrix w(512, 512, DType::bf16, 1);
  const HostWeight part = w.host();
  const Weight packed = backend().pack({&part, 1}, {});
  GuardedRows in(backend(), 2, 512, random_values(2 * 512, 1)), out(backend(), 2, 512);
  const auto piece = [&](WorkKind kind) {
    backend().begin_work(kind);
    backend().gemm({.x = in.view(), .w = packed.get(), .y = out.view()});
    backend().end_work(0.0);
  };
  double slept = 0.0;
  const auto rest = [&] {
    const auto start = Clock::now();
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    slept += seconds_since(start);
  };
  double longest = 0.0;  // that a piece may take, under a sanitizer
  for (int i = 0; i < 2; ++i) {
    const auto before = Clock::now();
    piece(WorkKind::draft);
    backend().sync();
    longest = seconds_since(before);
  }
  const Work target = work(WorkKind::target), draft = work(WorkKind::draft);
  const auto start = Clock::now();
  piece(WorkKind::target);
  piece(WorkKind::target);
  EXPECT_GT(work(WorkKind::target).seconds, target.seconds);
  rest();
  piece(WorkKind::target);
  piece(WorkKind::draft);
  EXPECT_GT(work(WorkKind::draft).seconds, draft.seconds);
  piece(WorkKind::draft);  // nobody waits, and says so
  backend().pause_work();
  rest();
  piece(WorkKind::draft);
  backend().begin_work(WorkKind::target);
  std::vector<AcceptResult> result(1);
  const std::vector<AcceptRow> window = {{}};
  backend().accept({.logits = in.view(), .vocab_size = 512, .rows = window, .result = result});  // waits
  backend().end_work(0.0);
  rest();
  piece(WorkKind::draft);
  const double counted =
      work(WorkKind::draft).seconds - draft.seconds + work(WorkKind::target).seconds - target.seconds;
  // the device may go on with a piece while the host rests
  EXPECT_LT(counted, seconds_since(start) - slept + 2 * longest + 0.01);
  EXPECT_EQ((work(WorkKind::target).traffic - target.traffic).flops, uint64_t{3} * 2 * 2 * 512 * 512);
}

// What comes behind a wait belongs to the piece, too.
TEST_P(BackendWork, GoesOnBehindAWait) {
  const StoredMatrix w(512, 512, DType::bf16, 1);
  const HostWeight part = w.host();
  const Weight packed = backend().pack({&part, 1}, {});
  GuardedRows in(backend(), 2, 512, random_values(2 * 512, 1)), out(backend(), 2, 512);
  double seconds[2];
  for (int round = 0; round < 2; ++round)
    for (const bool waits : {false, true}) {
      const double before = work(WorkKind::target).seconds;
      backend().begin_work(WorkKind::target);
      if (waits) backend().sync();
      for (int i = 0; i < 500; ++i) backend().gemm({.x = in.view(), .w = packed.get(), .y = out.view()});
      backend().end_work(0.0);
      seconds[waits] = work(WorkKind::target).seconds - before;
    }
  EXPECT_GT(seconds[1], 0.0);
  if (GetParam().device != "cpu") {  // on the device's own clock
    EXPECT_GT(seconds[1], 0.3 * seconds[0]);
  }
}

TEST_P(BackendWork, LeavesWaitsForOtherRanksOut) {
  const double before = work(WorkKind::decide).seconds;
  const auto start = Clock::now();
  backend().begin_work(WorkKind::decide);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const double waited = seconds_since(start);
  backend().end_work(waited);
  const double counted = work(WorkKind::decide).seconds - before;
  EXPECT_LT(counted, 0.5 * waited);  // a device with a clock of its own had nothing to do yet
}

TEST_P(BackendWork, CountsWhatAttentionReadsAndComputes) {
  constexpr int kHeads = 4, kKvHeads = 2, kDim = 32, kLen = 40, kRows = 3;
  const std::vector<int32_t> block = {0, 1, 2}, kv_len = {kLen - 2, kLen - 1, kLen};
  const std::vector<SeqSpan> seqs = {{.first_row = 0, .num_rows = kRows, .block_begin = 0}};
  PagedKv kv(backend(), 3, 16, kKvHeads, kDim, kDim, DType::bf16);
  GuardedRows q(backend(), kRows, kHeads * kDim, random_values(kRows * kHeads * kDim, 1));
  GuardedRows out(backend(), kRows, kHeads * kDim);
  const Work before = work(WorkKind::target);
  backend().begin_work(WorkKind::target);
  backend().attention({.q = q.view(),
                       .out = out.view(),
                       .num_heads = kHeads,
                       .group = kHeads / kKvHeads,
                       .scale = 0.125f,
                       .seqs = seqs,
                       .kv_len = kv_len,
                       .block = block,
                       .kv = kv.view()});
  backend().end_work(0.0);
  const Traffic counted = work(WorkKind::target).traffic - before.traffic;
  EXPECT_EQ(counted.kv_bytes, uint64_t{kLen} * kKvHeads * 2 * kDim * 2) << "keys and values once for all rows";
  EXPECT_EQ(counted.attention_flops, uint64_t{38 + 39 + 40} * 2 * kHeads * 2 * kDim);
  EXPECT_EQ(counted.flops, counted.attention_flops);
  EXPECT_EQ(counted.weight_bytes, 0u);
}

TEST_P(BackendWork, CountsTheLogitsThatDecide) {
  constexpr int kVocab = 100, kRows = 4;
  std::vector<float> values(kRows * kVocab, 0.0f);
  for (int row = 0; row < kRows; ++row) values[size_t(row * kVocab + 10 + row)] = 1.0f;  // row r says 10 + r
  GuardedRows logits(backend(), kRows, kVocab, values);
  const std::vector<SampleRow> draws = {{.logits_row = 0}, {.logits_row = 2}};
  std::vector<int32_t> token(2);
  const Traffic before = backend().traffic();
  backend().sample({.logits = logits.view(), .vocab_size = kVocab, .rows = draws, .token = token});
  const Traffic drawn = backend().traffic();
  EXPECT_EQ(token, (std::vector<int32_t>{10, 12}));
  EXPECT_EQ((drawn - before).logit_bytes, uint64_t{2} * kVocab * sizeof(float));
  const std::vector<int32_t> draft = {10, 99, 12};
  const std::vector<AcceptRow> windows = {{.logits_row = 0, .draft_len = 3, .draft = draft.data()}};
  std::vector<AcceptResult> result(1);
  backend().accept({.logits = logits.view(), .vocab_size = kVocab, .rows = windows, .result = result});
  EXPECT_EQ(result[0].num_accepted, 1);
  EXPECT_EQ((backend().traffic() - drawn).logit_bytes, uint64_t{2} * kVocab * sizeof(float))
      << "the row of the draft that was kept, and the one that decided";
}

INSTANTIATE_TEST_SUITE_P(Devices, BackendWork, testing::ValuesIn(kDevices), device_name);

}  // namespace
}  // namespace paceline::test
