// sample and accept on every device against kernels/math row by row: tokens, probabilities and verdicts bit for bit.

#include "kernels/math/top_tokens.h"
#include "kernels/math/verify.h"
#include "tests/kernels/backend_ops.h"

namespace paceline::test {
namespace {

class Draws : public BackendOps {
 protected:
  /// Logits with ties, zeros of both signs and tokens that are taken out.
  static std::vector<float> logits(int rows, int cols, uint32_t seed) {
    std::vector<float> values = random_values(size_t(rows) * size_t(cols), seed, 3.0f);
    for (size_t i = 0; i < values.size(); ++i) {
      if (i % 7 == 3) values[i] = float(int(values[i]));
      if (i % 11 == 5) values[i] = i % 2 ? -0.0f : 0.0f;
      if (i % 13 == 7) values[i] = -INFINITY;
    }
    return values;
  }
  static std::vector<DrawParams> params() {
    return {{.temperature = 1.0f, .seed = 1},
            {.temperature = 0.0f, .seed = 2},
            {.temperature = 0.6f, .top_k = 40, .seed = 3},
            {.temperature = 1.3f, .top_p = 0.9f, .seed = 4},
            {.temperature = 0.8f, .min_p = 0.02f, .seed = 5},
            {.temperature = 2.0f, .top_k = 500, .top_p = 0.95f, .min_p = 0.001f, .seed = 6},
            {.temperature = 1.0f, .top_k = 1, .top_p = 0.5f, .seed = 7},
            {.temperature = 0.02f, .top_p = 0.999f, .seed = 8},
            {.temperature = 30.0f, .top_k = 1000000, .top_p = 1e-6f, .seed = 9}};
  }
};

TEST_P(Draws, SampleHasTheBitsOfTheFormulas) {
  for (const int vocab : {1, 2, 5, 37, 1000, 9001, 40003}) {
    const int cols = vocab + 3;
    const std::vector<DrawParams> all = params();
    const int n = int(all.size());
    std::vector<float> values = logits(n, cols, uint32_t(vocab));
    for (int row = 0; row < n; ++row) values[size_t(row * cols)] = 1.5f;  // one finite at least
    GuardedRows rows(backend(), n, cols, values);
    std::vector<SampleRow> wanted;
    for (int row = 0; row < n; ++row)
      wanted.push_back({.logits_row = n - 1 - row,
                        .params = all[size_t(row)],
                        .purpose = row % 2 ? NoisePurpose::draft : NoisePurpose::target,
                        .origin = 17 * row,
                        .offset = row % 3});
    for (const bool with_probs : {false, true}) {
      GuardedRows probs(backend(), n, vocab);
      std::vector<int32_t> token(size_t(n), -2);
      backend().sample({.logits = rows.view(),
                        .vocab_size = vocab,
                        .rows = wanted,
                        .token = token,
                        .probs = with_probs ? probs.view() : MatView{}});
      const std::vector<float> got = probs.read();
      for (int row = 0; row < n; ++row) {
        const SampleRow& one = wanted[size_t(row)];
        math::DistributionScratch<float> scratch;
        math::PhiloxChance chance;
        const auto want = math::sample_token({&values[size_t(one.logits_row * cols)], vocab, one.params},
                                             {one.params.seed, one.purpose, one.origin, one.offset}, scratch, chance);
        EXPECT_EQ(token[size_t(row)], want.token) << "vocabulary " << vocab << ", row " << row;
        if (!with_probs) continue;
        std::vector<float> dense(size_t(vocab), 0.0f);
        for (int32_t i = 0; i < want.handed_on.size; ++i)
          dense[size_t(want.handed_on.id_at(i))] = want.handed_on.prob[i];
        EXPECT_EQ(std::memcmp(dense.data(), &got[size_t(row * vocab)], dense.size() * sizeof(float)), 0)
            << "vocabulary " << vocab << ", row " << row;
      }
    }
  }
}

// A loop of draws and passes that the host gives out without knowing a token.
TEST_P(Draws, TokensInCellsReachTheNextPass) {
  constexpr int kVocab = 900, kRows = 5, kSteps = 40, kCells = 7;
  const StoredMatrix table(kVocab, 48, DType::bf16, 3);
  const HostWeight part = table.host();
  const Weight packed = backend().pack({&part, 1}, {});
  auto* const cells = static_cast<int32_t*>(backend().alloc(kCells * sizeof(int32_t)));
  std::vector<std::unique_ptr<GuardedRows>> logits, embedded;
  std::vector<std::vector<int32_t>> token(kSteps, std::vector<int32_t>(kRows, -7));
  for (int step = 0; step < kSteps; ++step) {
    std::vector<float> values = Draws::logits(kRows, kVocab, uint32_t(step + 1));
    values[size_t(step % kRows) * kVocab + 11] = NAN;  // a row without a token
    logits.push_back(std::make_unique<GuardedRows>(backend(), kRows, kVocab, values));
    embedded.push_back(std::make_unique<GuardedRows>(backend(), kRows, 48));
  }
  const auto rows_of = [&](int step) {
    std::vector<SampleRow> rows;
    for (int row = 0; row < kRows; ++row)
      rows.push_back({.logits_row = row,
                      .params = params()[size_t((step + row) % 4)],
                      .origin = step,
                      .token_cell = (step + row) % kCells});
    return rows;
  };
  for (int step = 0; step < kSteps; ++step) {
    const std::vector<SampleRow> rows = rows_of(step);
    backend().sample({.logits = logits[size_t(step)]->view(),
                      .vocab_size = kVocab,
                      .rows = rows,
                      .token = token[size_t(step)],
                      .token_cells = cells,
                      .later = true});
    std::vector<int32_t> next;
    for (const SampleRow& row : rows) next.push_back(token_in_cell(row.token_cell));
    next.back() = 5;  // the host may know some
    backend().embed(
        {.table = packed.get(), .token = next, .token_cells = cells, .out = embedded[size_t(step)]->view()});
  }
  backend().await_draws(backend().num_draws());
  for (int step = 0; step < kSteps; ++step) {
    std::vector<int32_t> want(kRows);
    backend().sample(
        {.logits = logits[size_t(step)]->view(), .vocab_size = kVocab, .rows = rows_of(step), .token = want});
    EXPECT_EQ(token[size_t(step)], want) << "step " << step;
    EXPECT_EQ(want[size_t(step % kRows)], -1);
    want.back() = 5;
    const std::vector<float> got = embedded[size_t(step)]->read();
    for (int row = 0; row < kRows; ++row)
      for (int c = 0; c < 48; ++c)
        EXPECT_TRUE(same_bits({got[size_t(row * 48 + c)]},
                              {want[size_t(row)] >= 0 ? table.value[size_t(want[size_t(row)] * 48 + c)] : -0.0f}))
            << "step " << step << ", row " << row;
  }
  backend().free(cells);
}

// Columns of a reduced vocabulary stand for tokens: on the host, in cells, and for a row without one.
TEST_P(Draws, TokensOfAReducedVocabulary) {
  constexpr int kVocab = 700, kRows = 5;
  std::vector<int32_t> tokens;
  for (int i = 0; i < kVocab; ++i) tokens.push_back(3 * i + 2);
  auto* const ids = static_cast<int32_t*>(backend().alloc(tokens.size() * sizeof(int32_t)));
  auto* const cells = static_cast<int32_t*>(backend().alloc(kRows * sizeof(int32_t)));
  backend().upload(ids, tokens.data(), tokens.size() * sizeof(int32_t));
  std::vector<float> values = Draws::logits(kRows, kVocab, 77);
  values[2 * kVocab + 11] = NAN;
  GuardedRows logits(backend(), kRows, kVocab, values);
  std::vector<SampleRow> rows;
  for (int row = 0; row < kRows; ++row)
    rows.push_back({.logits_row = row, .params = params()[size_t(row) % 4], .origin = 9, .token_cell = row});
  std::vector<int32_t> column(kRows), token(kRows), left(kRows);
  backend().sample({.logits = logits.view(), .vocab_size = kVocab, .rows = rows, .token = column});
  backend().sample(
      {.logits = logits.view(), .vocab_size = kVocab, .rows = rows, .token = token, .token_cells = cells, .ids = ids});
  backend().sync();
  backend().download(left.data(), cells, left.size() * sizeof(int32_t));
  for (size_t row = 0; row < kRows; ++row) {
    EXPECT_EQ(column[row] < 0, row == 2);
    EXPECT_EQ(token[row], column[row] < 0 ? -1 : tokens[size_t(column[row])]) << row;
    EXPECT_EQ(left[row], token[row]) << row;
  }
  backend().free(ids);
  backend().free(cells);
}

// Bits included: a proposer's choice among branches must not depend on the device.
TEST_P(Draws, TopKAreTheLikeliestInOrder) {
  for (const int vocab : {3, 37, 700, 5000}) {
    constexpr int kRows = 6;
    std::vector<float> values = Draws::logits(kRows, vocab, uint32_t(vocab));
    for (int i = 0; i < vocab; ++i) values[size_t(vocab + i)] = float((i * 7) % 3);  // ties
    values[size_t(2 * vocab + 1)] = NAN;
    for (int i = 0; i < vocab; ++i) values[size_t(3 * vocab + i)] = -INFINITY;
    values[size_t(3 * vocab + 2)] = -3.0f;  // the only one
    values[size_t(4 * vocab)] = 90.0f;      // all others' weights are 0
    std::vector<int32_t> names;
    for (int i = 0; i < vocab; ++i) names.push_back(1000 + i);
    auto* const ids = static_cast<int32_t*>(backend().alloc(names.size() * sizeof(int32_t)));
    backend().upload(ids, names.data(), names.size() * sizeof(int32_t));
    GuardedRows logits(backend(), kRows, vocab + 5, [&] {
      std::vector<float> padded;
      for (int row = 0; row < kRows; ++row) {
        padded.insert(padded.end(), values.begin() + row * vocab, values.begin() + (row + 1) * vocab);
        padded.insert(padded.end(), 5, 99.0f);  // beyond the vocabulary
      }
      return padded;
    }());
    for (const int k : {1, 3, 10}) {
      std::vector<int32_t> token(size_t(kRows * k), -7), named = token;
      std::vector<float> prob(size_t(kRows * k), -7.0f), again = prob;
      backend().top_k({.logits = logits.view(), .vocab_size = vocab, .k = k, .token = token, .prob = prob});
      backend().top_k(
          {.logits = logits.view(), .vocab_size = vocab, .k = k, .ids = ids, .token = named, .prob = again});
      EXPECT_TRUE(same_bits(prob, again));
      for (int row = 0; row < kRows; ++row) {
        SCOPED_TRACE(fmt::format("vocabulary {}, k {}, row {}", vocab, k, row));
        const float* const logit = &values[size_t(row * vocab)];
        std::vector<int32_t> order;
        for (int i = 0; i < vocab; ++i)
          if (row != 2 && logit[i] > -INFINITY) order.push_back(i);
        std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return logit[a] > logit[b]; });
        double sum = 0;
        for (const int32_t i : order) sum += std::exp(double(logit[i]) - double(logit[order[0]]));
        for (int i = 0; i < k; ++i) {
          const size_t at = size_t(row * k + i);
          const bool there = i < int(order.size());
          ASSERT_EQ(token[at], there ? order[size_t(i)] : -1) << i;
          ASSERT_EQ(named[at], there ? 1000 + order[size_t(i)] : -1) << i;
          const double want = there ? std::exp(double(logit[order[size_t(i)]]) - double(logit[order[0]])) / sum : 0.0;
          ASSERT_NEAR(prob[at], want, 2e-6) << i;
        }
      }
      std::vector<int32_t> of_cpu(token.size());
      std::vector<float> prob_of_cpu(prob.size());
      for (int row = 0; row < kRows; ++row) {
        math::DistributionScratch<float> scratch;
        math::top_tokens(&values[size_t(row * vocab)], vocab, k, scratch, &of_cpu[size_t(row * k)],
                         &prob_of_cpu[size_t(row * k)]);
      }
      EXPECT_EQ(token, of_cpu);
      EXPECT_TRUE(same_bits(prob, prob_of_cpu));
    }
    backend().free(ids);
  }
}

// Verdicts of windows without drafts: in cells for the next pass, and for the host when it asks for them.
TEST_P(Draws, VerdictsMayComeLater) {
  constexpr int kVocab = 700, kRows = 6, kSteps = 9;
  auto* const cells = static_cast<int32_t*>(backend().alloc(kRows * sizeof(int32_t)));
  std::vector<int32_t> none(kRows, -9);
  backend().upload(cells, none.data(), none.size() * sizeof(int32_t));
  std::vector<std::unique_ptr<GuardedRows>> logits;
  std::vector<std::vector<AcceptRow>> rows(kSteps);
  std::vector<std::vector<AcceptResult>> results(kSteps, std::vector<AcceptResult>(kRows, {.next = -5})),
      want = results;
  std::vector<uint64_t> calls;
  for (int step = 0; step < kSteps; ++step) {
    std::vector<float> values = Draws::logits(kRows, kVocab, uint32_t(step + 50));
    values[size_t(step % kRows) * kVocab + 3] = NAN;
    logits.push_back(std::make_unique<GuardedRows>(backend(), kRows, kVocab, values));
    for (int row = 0; row < kRows; ++row)
      rows[size_t(step)].push_back({.logits_row = row,
                                    .first_position = 7 * step,
                                    .params = params()[size_t(row) % 4],
                                    .rule = step % 2 ? VerifyRule::coupled : VerifyRule::greedy,
                                    .token_cell = row == 2 ? -1 : row});
  }
  const auto args = [&](int step, std::vector<AcceptResult>& to) {
    return AcceptArgs{
        .logits = logits[size_t(step)]->view(), .vocab_size = kVocab, .rows = rows[size_t(step)], .result = to};
  };
  for (int step = 0; step < kSteps; ++step) {
    AcceptArgs later = args(step, results[size_t(step)]);
    later.token_cells = cells;
    later.later = true;
    backend().accept(later);
    calls.push_back(backend().num_draws());
  }
  for (int step = 0; step < kSteps; ++step) {
    backend().await_draws(calls[size_t(step)]);
    for (const AcceptResult& got : results[size_t(step)]) EXPECT_NE(got.next, -5) << "step " << step;
  }
  for (int step = 0; step < kSteps; ++step) {
    backend().accept(args(step, want[size_t(step)]));
    for (int row = 0; row < kRows; ++row) {
      const AcceptResult &got = results[size_t(step)][size_t(row)], &right = want[size_t(step)][size_t(row)];
      EXPECT_EQ(got.next, right.next) << "step " << step << ", row " << row;
      EXPECT_EQ(got.numerical_error, row == step % kRows);
      EXPECT_EQ(right.numerical_error, row == step % kRows);
    }
  }
  std::vector<int32_t> left(kRows);
  backend().sync();
  backend().download(left.data(), cells, left.size() * sizeof(int32_t));
  for (int row = 0; row < kRows; ++row) EXPECT_EQ(left[size_t(row)], row == 2 ? -9 : want.back()[size_t(row)].next);
  backend().free(cells);
}

// More results than there is room for, read now and then.
TEST_P(Draws, ManyDrawsMayWait) {
  constexpr int kVocab = 3, kRows = 7000, kCalls = 40, kBehind = 5;
  GuardedRows logits(backend(), kRows, kVocab, Draws::logits(kRows, kVocab, 5));
  std::vector<SampleRow> rows;
  for (int row = 0; row < kRows; ++row)
    rows.push_back({.logits_row = row, .params = {.temperature = 1.0f}, .token_cell = 0});
  std::vector<std::vector<int32_t>> token(kCalls, std::vector<int32_t>(kRows, -7)), want = token;
  const auto sample = [&](int call, std::vector<int32_t>& to, bool later) {
    for (int row = 0; row < kRows; ++row) rows[size_t(row)].origin = call * kRows + row;
    backend().sample({.logits = logits.view(), .vocab_size = kVocab, .rows = rows, .token = to, .later = later});
  };
  std::vector<uint64_t> calls;
  for (int call = 0; call < kCalls; ++call) {
    sample(call, token[size_t(call)], true);
    calls.push_back(backend().num_draws());
    if (call >= kBehind && call < kCalls / 2) {
      backend().await_draws(calls[size_t(call - kBehind)]);
      EXPECT_NE(token[size_t(call - kBehind)].back(), -7) << call;
    }
  }
  backend().await_draws(calls.back());
  for (int call = 0; call < kCalls; ++call) {
    sample(call, want[size_t(call)], false);
    EXPECT_EQ(token[size_t(call)], want[size_t(call)]) << call;
  }
}

TEST_P(Draws, AcceptHasTheVerdictsOfTheFormulas) {
  constexpr int kDrafts = 4, kRounds = 6;
  for (const int vocab : {5, 1000, 9001}) {
    const std::vector<float> values = logits(kDrafts + 1, vocab, uint32_t(vocab));
    // drafts that are often kept: the drafter's logits are the target's, a little off
    std::vector<float> other = values;
    const std::vector<float> off = random_values(other.size(), 5, 0.3f);
    for (size_t i = 0; i < other.size(); ++i) other[i] += off[i];
    GuardedRows rows(backend(), kDrafts + 1, vocab, values);
    int kept = 0, refused = 0;
    for (const DrawParams& sampler : params())
      for (const VerifyRule rule : {VerifyRule::greedy, VerifyRule::rejection, VerifyRule::coupled, VerifyRule::block})
        for (const DraftProbKind kind : {DraftProbKind::point_mass, DraftProbKind::dense})
          for (const int num_drafts : {0, 1, kDrafts})
            for (int round = 0; round < kRounds; ++round) {
              const int cols = round % 2 ? vocab : vocab - 1;  // a smaller vocabulary of the drafter
              std::vector<float> prob(size_t(kDrafts * vocab), 0.0f);
              std::vector<int32_t> draft;
              for (int j = 0; j < num_drafts; ++j) {
                math::DistributionScratch<float> scratch;
                math::PhiloxChance chance;
                const bool coupled = rule == VerifyRule::coupled;
                const auto drawn =
                    math::sample_token({&other[size_t(j * vocab)], cols, sampler},
                                       {sampler.seed, coupled ? NoisePurpose::target : NoisePurpose::draft,
                                        coupled ? round + j : round, coupled ? 0 : j},
                                       scratch, chance);
                draft.push_back(j == 3 && round == 5 ? vocab + 7 : drawn.token);
                for (int32_t i = 0; i < drawn.handed_on.size; ++i)
                  prob[size_t(j * vocab + drawn.handed_on.id_at(i))] = drawn.handed_on.prob[i];
              }
              GuardedRows probs(backend(), kDrafts, vocab, prob, 0);
              AcceptRow row{.draft_len = num_drafts,
                            .draft = draft.data(),
                            .kind = kind,
                            .first_position = round,
                            .params = sampler,
                            .rule = rule};
              if (kind == DraftProbKind::dense) {
                row.draft_prob = probs.view();
                row.draft_prob.cols = cols;
              }
              AcceptResult got;
              backend().accept({.logits = rows.view(),
                                .vocab_size = vocab,
                                .rows = std::span(&row, 1),
                                .result = std::span(&got, 1)});
              math::DistributionScratch<float> scratch;
              math::TargetWindow<float> target(values.data(), vocab, vocab, sampler, scratch);
              math::PhiloxChance chance;
              const AcceptResult want = math::verify_window(rule,
                                                            {.token = draft.data(),
                                                             .len = num_drafts,
                                                             .kind = kind,
                                                             .prob = prob.data(),
                                                             .stride = vocab,
                                                             .cols = cols},
                                                            target, round, chance);
              EXPECT_EQ(got.num_accepted, want.num_accepted) << vocab << " rule " << int(rule);
              EXPECT_EQ(got.next, want.next)
                  << vocab << " rule " << int(rule) << " temperature " << sampler.temperature;
              EXPECT_EQ(got.numerical_error, want.numerical_error);
              if (rule != VerifyRule::rejection) continue;
              kept += want.num_accepted;
              refused += want.num_accepted < num_drafts;
            }
    EXPECT_GT(kept, 50);  // both ways are taken
    EXPECT_GT(refused, 50);
  }
}

// More rows than a device keeps distributions of; some rows have none.
TEST_P(Draws, BlocksOfACallStayWhole) {
  constexpr int kVocab = 50021, kWindows = 90, kMostDrafts = 7;
  const DrawParams sampler{.temperature = 0.7f, .top_p = 0.98f, .seed = 3};
  std::vector<float> values = logits(kWindows * (kMostDrafts + 1), kVocab, 8);
  std::vector<std::vector<int32_t>> draft;
  std::vector<AcceptRow> windows;
  int num_rows = 0, num_missing = 0;
  for (int w = 0; w < kWindows; ++w) {
    const int len = 1 + w * 5 % kMostDrafts;
    std::vector<int32_t>& drafts = draft.emplace_back();
    for (int j = 0; j < len; ++j) {  // likely ones
      const float* row = &values[size_t(num_rows + j) * kVocab];
      drafts.push_back(math::row_max(row, kVocab).id);
    }
    for (int j = 0; j <= len; ++j) {  // few tokens that matter, and now and then none
      float* row = &values[size_t(num_rows + j) * kVocab];
      row[(j < len ? drafts[size_t(j)] : 7)] += float(2 + w % 5);
      if ((w * 7 + j * 3) % 31 == 0) row[11] = NAN, ++num_missing;
    }
    windows.push_back({.logits_row = num_rows,
                       .draft_len = len,
                       .draft = drafts.data(),
                       .first_position = 10 * w,
                       .params = sampler,
                       .rule = w % 6 == 5 ? VerifyRule::rejection : VerifyRule::block});
    num_rows += len + 1;
  }
  values.resize(size_t(num_rows) * kVocab);
  GuardedRows rows(backend(), num_rows, kVocab, values);
  std::vector<AcceptResult> got(windows.size());
  backend().accept({.logits = rows.view(), .vocab_size = kVocab, .rows = windows, .result = got});
  int all_kept = 0, some_kept = 0, errors = 0;
  for (size_t w = 0; w < windows.size(); ++w) {
    const AcceptRow& window = windows[w];
    math::DistributionScratch<float> scratch;
    math::TargetWindow<float> target(&values[size_t(window.logits_row) * kVocab], kVocab, kVocab, sampler, scratch);
    math::PhiloxChance chance;
    const AcceptResult want = math::verify_window(window.rule, {.token = window.draft, .len = window.draft_len}, target,
                                                  window.first_position, chance);
    EXPECT_EQ(got[w].num_accepted, want.num_accepted) << w;
    EXPECT_EQ(got[w].next, want.next) << w;
    EXPECT_EQ(got[w].numerical_error, want.numerical_error) << w;
    if (window.rule != VerifyRule::block) continue;
    all_kept += want.num_accepted == window.draft_len;
    some_kept += want.num_accepted > 0 && want.num_accepted < window.draft_len;
    errors += want.numerical_error;
  }
  EXPECT_GT(num_missing, 3);
  EXPECT_GT(all_kept, 3);
  EXPECT_GT(some_kept, 3);
  EXPECT_GT(errors, 0);
}

// Trees: greedy and coupled verdicts walk them, rejection decides siblings one after another.
TEST_P(Draws, TreesHaveTheVerdictsOfTheFormulas) {
  std::mt19937 random(4);
  for (const int vocab : {6, 1000, 9001}) {
    int kept = 0, beyond_first = 0, refused = 0;
    for (int round = 0; round < 60; ++round) {
      const int num_drafts = 2 + int(random() % 14);
      const std::vector<float> values = logits(num_drafts + 1, vocab, uint32_t(vocab + round));
      std::vector<float> other = values;
      const std::vector<float> off = random_values(other.size(), uint32_t(round), 0.5f);
      for (size_t i = 0; i < other.size(); ++i) other[i] += off[i];
      const DrawParams sampler = params()[size_t(round % 6)];
      // drafts of a row are drawn one after another, of what those before them have left
      std::vector<int32_t> draft, parent;
      std::vector<float> prob;
      for (int last = -1; last < num_drafts && int(draft.size()) < num_drafts; ++last) {
        const int count = last < 0 ? 3 : int(random() % 4);
        if (last >= int(draft.size())) break;
        math::DistributionScratch<float> scratch;
        const auto from = math::distribution<float>({&other[size_t((last + 1) * vocab)], vocab, sampler}, scratch);
        std::vector<float> left(size_t(vocab), 0.0f);
        for (int32_t i = 0; i < from.size; ++i) left[size_t(from.id_at(i))] = from.prob[i];
        const std::vector<float> whole = left;
        int added = 0;
        for (; added < count && int(draft.size()) < num_drafts; ++added) {
          const int32_t token = math::race(
              vocab, [](int32_t i) { return i; }, [&](int32_t i) { return left[size_t(i)]; },
              {uint64_t(round), NoisePurpose::draft, last, added});
          if (token < 0) break;
          draft.push_back(token), parent.push_back(last);
          left[size_t(token)] = 0.0f;
        }
        if (added > 0) prob.insert(prob.end(), whole.begin(), whole.end());
      }
      const int len = int(draft.size()), inner = int(prob.size()) / vocab;
      GuardedRows rows(backend(), num_drafts + 1, vocab, values), probs(backend(), inner, vocab, prob, 0);
      for (const VerifyRule rule : {VerifyRule::greedy, VerifyRule::coupled, VerifyRule::rejection}) {
        for (const DraftProbKind kind : {DraftProbKind::point_mass, DraftProbKind::dense}) {
          const AcceptRow row{.draft_len = len,
                              .draft = draft.data(),
                              .parent = parent.data(),
                              .kind = kind,
                              .draft_prob = kind == DraftProbKind::dense ? probs.view() : MatView{},
                              .first_position = round,
                              .params = sampler,
                              .rule = rule};
          AcceptResult got;
          backend().accept(
              {.logits = rows.view(), .vocab_size = vocab, .rows = std::span(&row, 1), .result = std::span(&got, 1)});
          math::DistributionScratch<float> scratch;
          math::TargetWindow<float> target(values.data(), vocab, vocab, sampler, scratch);
          math::PhiloxChance chance;
          const AcceptResult want = math::verify_window(rule,
                                                        {.token = draft.data(),
                                                         .parent = parent.data(),
                                                         .len = len,
                                                         .kind = kind,
                                                         .prob = prob.data(),
                                                         .stride = vocab,
                                                         .cols = vocab},
                                                        target, round, chance);
          EXPECT_EQ(got.num_accepted, want.num_accepted) << vocab << " rule " << int(rule) << " round " << round;
          EXPECT_EQ(got.last, want.last) << vocab << " rule " << int(rule) << " round " << round;
          EXPECT_EQ(got.next, want.next) << vocab << " rule " << int(rule) << " round " << round;
          if (rule != VerifyRule::rejection) continue;
          kept += want.num_accepted;
          beyond_first += want.num_accepted > 0 && want.last >= want.num_accepted;
          refused += want.num_accepted == 0;
        }
      }
    }
    EXPECT_GT(kept, 30);
    EXPECT_GT(beyond_first, 5) << "later siblings are kept, too";
    EXPECT_GT(refused, 2);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Draws, testing::ValuesIn(kDevices), device_name);

}  // namespace
}  // namespace paceline::test
