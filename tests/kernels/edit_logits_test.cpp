// The op edit_logits on every device against the order of vLLM's sampler written plainly: all bits.

#include <algorithm>
#include <map>

#include "kernels/cuda/edit_parts.h"
#include "tests/kernels/backend_ops.h"

namespace paceline::test {
namespace {

class EditLogits : public BackendOps {};

/// Random edits of `rows` rows out of `of_rows`; shared ones of windows of three.
struct MadeEdits {
  std::vector<EditRow> rows;
  std::vector<TokenEdit> edits;
  std::vector<uint32_t> masks;
  int words = 0;

  MadeEdits(int num_rows, int of_rows, int vocab, uint32_t seed) : words(mask_words(vocab) + 1) {
    std::mt19937 random(seed);
    std::vector<int> place(static_cast<size_t>(of_rows));
    for (int i = 0; i < of_rows; ++i) place[size_t(i)] = i;
    std::shuffle(place.begin(), place.end(), random);
    int first_shared = 0, num_shared = 0;
    for (int i = 0; i < num_rows; ++i) {
      if (i % 3 == 0) {
        first_shared = int(edits.size());
        num_shared = add(vocab, int(random() % 40), false, random);
      }
      EditRow row{.logits_row = place[size_t(i)], .first_shared = first_shared, .num_shared = num_shared};
      row.first_own = int(edits.size());
      row.num_own = add(vocab, int(random() % 6), true, random);
      if (i % 2 == 1) {
        row.mask = int(masks.size()) / words;
        for (int word = 0; word < words; ++word) masks.push_back(random() % 3 ? uint32_t(random()) : ~uint32_t{0});
      }
      rows.push_back(row);
    }
  }
  EditArgs args(const MatView& logits, int vocab) const {
    return {
        .logits = logits, .vocab_size = vocab, .rows = rows, .edits = edits, .masks = masks, .words_of_mask = words};
  }

 private:
  /// Up to `count` tokens, some of them beyond the vocabulary.
  int add(int vocab, int count, bool ascending, std::mt19937& random) {
    std::map<int32_t, TokenEdit> made;
    for (int i = 0; i < count; ++i) {
      TokenEdit edit{.token = int32_t(random() % uint32_t(vocab + 2))};
      if (random() % 2) edit.add = float(int(random() % 200)) / 10.0f - 10.0f;
      if (random() % 5 == 0) edit.add = -INFINITY;
      if (random() % 2) edit.repetition = 0.5f + float(random() % 100) / 37.0f;
      if (random() % 2) edit.subtract = float(random() % 100) / 13.0f - 2.0f;
      made[edit.token] = edit;
    }
    std::vector<TokenEdit> list;
    for (const auto& [token, edit] : made) list.push_back(edit);
    if (!ascending) std::shuffle(list.begin(), list.end(), random);
    edits.insert(edits.end(), list.begin(), list.end());
    return int(list.size());
  }
};

/// Step by step over the whole row, as vLLM's sampler goes.
void edit_plainly(const MadeEdits& made, const EditRow& row, int vocab, float* logit) {
  if (row.mask >= 0)
    for (int token = 0; token < vocab; ++token)
      if (!(made.masks[size_t(row.mask * made.words + token / 32)] >> (token % 32) & 1u)) logit[token] = -INFINITY;
  std::map<int32_t, TokenEdit> edits;
  for (int i = 0; i < row.num_shared; ++i) {
    const TokenEdit& edit = made.edits[size_t(row.first_shared + i)];
    edits[edit.token] = edit;
  }
  for (int i = 0; i < row.num_own; ++i) {
    const TokenEdit& edit = made.edits[size_t(row.first_own + i)];
    edits[edit.token] = edit;
  }
  for (int token = 0; token < vocab; ++token)
    if (edits.contains(token)) logit[token] += edits[token].add;
  for (int token = 0; token < vocab; ++token)
    if (edits.contains(token)) {
      if (logit[token] > 0)
        logit[token] /= edits[token].repetition;
      else
        logit[token] *= edits[token].repetition;
    }
  for (int token = 0; token < vocab; ++token)
    if (edits.contains(token)) logit[token] -= edits[token].subtract;
}

TEST_P(EditLogits, HasTheBitsOfThePlainOrder) {
  for (const int vocab : {1, 31, 32, 33, 1000, 40003}) {
    const int num_rows = 11, cols = vocab + 3;
    std::vector<float> values = random_values(size_t(num_rows * cols), uint32_t(vocab), 3.0f);
    for (size_t i = 0; i < values.size(); i += 13) values[i] = i % 2 ? -INFINITY : 0.0f;
    for (const int num_edited : {1, 4, 11}) {
      const MadeEdits made(num_edited, num_rows, vocab, uint32_t(vocab + num_edited));
      GuardedRows rows(backend(), num_rows, cols, values);
      backend().edit_logits(made.args(rows.view(), vocab));
      std::vector<float> want = values;
      for (const EditRow& row : made.rows) edit_plainly(made, row, vocab, &want[size_t(row.logits_row * cols)]);
      const std::vector<float> got = rows.read();
      ASSERT_EQ(std::memcmp(got.data(), want.data(), got.size() * sizeof(float)), 0)
          << "vocabulary " << vocab << ", " << num_edited << " rows";
      ASSERT_NE(std::memcmp(got.data(), values.data(), got.size() * sizeof(float)), 0) << "nothing was edited";
    }
  }
}

TEST_P(EditLogits, WithoutRowsNothingIsDone) {
  const std::vector<float> values = random_values(40, 3);
  GuardedRows rows(backend(), 2, 20, values);
  backend().edit_logits({.logits = rows.view(), .vocab_size = 20});
  EXPECT_EQ(rows.read(), values);
}

// Draws in stream order behind the edits see them.
TEST_P(EditLogits, AreSeenByTheDrawsBehindThem) {
  const std::vector<float> values = {0.0f, 5.0f, 4.0f, 3.0f};
  GuardedRows rows(backend(), 1, 4, values);
  std::vector<SampleRow> wanted(1);
  std::vector<int32_t> token(1);
  const auto greedy = [&] {
    backend().sample({.logits = rows.view(), .vocab_size = 4, .rows = wanted, .token = token});
    return token[0];
  };
  EXPECT_EQ(greedy(), 1);
  const std::vector<EditRow> row = {{.num_shared = 1}};
  const std::vector<TokenEdit> edit = {{.token = 1, .repetition = 1.5f}};
  backend().edit_logits({.logits = rows.view(), .vocab_size = 4, .rows = row, .edits = edit});
  EXPECT_EQ(greedy(), 2);
  const std::vector<EditRow> masked = {{.mask = 0}};
  const std::vector<uint32_t> mask = {0b1001u};
  backend().edit_logits({.logits = rows.view(), .vocab_size = 4, .rows = masked, .masks = mask, .words_of_mask = 1});
  EXPECT_EQ(greedy(), 3);
}

INSTANTIATE_TEST_SUITE_P(Devices, EditLogits, testing::ValuesIn(kDevices), device_name);

// What the CUDA backend stages at once: the same edits, in parts that are no larger than asked for.
TEST(EditParts, GiveTheEditsOfTheWhole) {
  const auto cpu = make_backend("cpu", {.threads = 2});
  const int vocab = 500, num_rows = 30;
  const std::vector<float> values = random_values(size_t(num_rows * vocab), 5, 3.0f);
  const MadeEdits made(num_rows, num_rows, vocab, 9);
  GuardedRows whole(*cpu, num_rows, vocab, values);
  cpu->edit_logits(made.args(whole.view(), vocab));
  const std::vector<float> want = whole.read();
  for (const size_t most : {size_t{1}, size_t{2000}, size_t{5000}, size_t{1} << 20}) {
    GuardedRows rows(*cpu, num_rows, vocab, values);
    const auto parts = cuda::edit_parts(made.args(rows.view(), vocab), most);
    for (const cuda::EditPart& part : parts) {
      EXPECT_TRUE(part.bytes() <= most || part.rows.size() == 1) << part.bytes() << " of " << most;
      EditArgs args = part.args;
      args.rows = part.rows;
      cpu->edit_logits(args);
    }
    EXPECT_EQ(parts.size() == 1, most >= 10'000);
    EXPECT_EQ(rows.read(), want) << most;
  }
}

}  // namespace
}  // namespace paceline::test
