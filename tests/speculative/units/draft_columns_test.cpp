#include "speculative/draft_columns.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include "kernels/backend.h"

namespace paceline {
namespace {

class SomeTokens final : public TokenConstraint {
 public:
  bool allow(std::span<const int32_t>, std::span<const int32_t> drafts, std::span<uint32_t> mask) override {
    for (size_t word = 0; word < mask.size(); ++word) mask[word] = 0x9d2c5680u >> drafts.size();
    return drafts.size() != 1;
  }
};

// The columns of edited rows are those of the whole vocabulary.
TEST(DraftColumns, EditsByColumnEqualThoseByToken) {
  constexpr int kVocab = 300;
  std::mt19937 random(4);
  std::vector<int32_t> ids;
  for (int32_t token = 0; token < kVocab; ++token)
    if (random() % 3 == 0) ids.push_back(token);
  std::vector<int32_t> text;
  for (int i = 0; i < 120; ++i) text.push_back(int32_t(random() % kVocab));

  SamplingParams params;
  params.repetition_penalty = 1.3f;
  params.presence_penalty = 0.4f;
  params.frequency_penalty = 0.2f;
  params.logit_bias = {{ids[3], 2.0f}, {ids[3] + 1, 1.0f}, {ids.back(), -3.0f}};
  params.bad_words = {{text.back(), ids[7]}, {ids[8]}, {ids[8] + 1}};
  params.min_tokens = 200;
  params.stop_token_ids = {ids[11], ids[12] + 1};
  const auto backend = make_backend("cpu", {.threads = 1});
  for (const bool has_mask : {false, true}) {
    if (has_mask) params.constraint = std::make_shared<SomeTokens>();
    SamplingPlan first(params, 40, std::span(ids).first(2), kVocab), second(params, 20, {}, kVocab);
    first.follow(text);
    second.follow(std::span(text).first(60));
    LogitEdits edits;
    for (int32_t row = 0; row < 6; ++row) {
      std::vector<int32_t> drafts;
      for (int32_t i = 0; i < row % 3; ++i) drafts.push_back(row % 2 ? ids[size_t(9 + i)] : ids[size_t(9 + i)] + 1);
      (row < 3 ? first : second).add_row(drafts, row, edits);
    }
    std::vector<float> whole(6 * kVocab), columns;
    for (float& logit : whole) logit = float(int(random() % 1000)) / 100.0f - 5.0f;
    for (int row = 0; row < 6; ++row)
      for (const int32_t token : ids) columns.push_back(whole[size_t(row * kVocab + token)]);
    const int32_t num_columns = int32_t(ids.size());
    backend->edit_logits(edits.args(f32_view(whole.data(), 6, kVocab), kVocab));
    const LogitEdits by_column = to_columns(edits, ids);
    for (const EditRow& row : by_column.rows)
      EXPECT_TRUE(std::is_sorted(by_column.edits.begin() + row.first_own,
                                 by_column.edits.begin() + row.first_own + row.num_own,
                                 [](const TokenEdit& a, const TokenEdit& b) { return a.token < b.token; }));
    backend->edit_logits(by_column.args(f32_view(columns.data(), 6, num_columns), num_columns));
    for (int row = 0; row < 6; ++row)
      for (int32_t column = 0; column < num_columns; ++column)
        ASSERT_EQ(columns[size_t(row * num_columns + column)], whole[size_t(row * kVocab + ids[size_t(column)])])
            << "row " << row << ", column " << column;
  }
}

}  // namespace
}  // namespace paceline
