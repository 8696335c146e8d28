#include "kernels/cpu/edit_logits.h"

#include <algorithm>
#include <limits>

#include "kernels/error.h"
#include "kernels/math/edit.h"

namespace paceline {
namespace {

constexpr float kForbidden = -std::numeric_limits<float>::infinity();

void apply_mask(const uint32_t* mask, float* logit, int32_t vocab_size) {
  for (int32_t begin = 0; begin < vocab_size; begin += 32) {
    if (mask[begin / 32] == ~uint32_t{0}) continue;
    const int32_t end = std::min(begin + 32, vocab_size);
    for (int32_t token = begin; token < end; ++token)
      if (!math::is_allowed(mask, token)) logit[token] = kForbidden;
  }
}

void edit_row(const EditArgs& args, const EditRow& row) {
  float* const logit = args.logits.f32_row(row.logits_row);
  if (row.mask >= 0) apply_mask(args.masks.data() + int64_t{row.mask} * args.words_of_mask, logit, args.vocab_size);
  const auto apply = [&](const TokenEdit& edit) {
    if (edit.token < args.vocab_size) logit[edit.token] = math::edited(logit[edit.token], edit);
  };
  const TokenEdit* const own = args.edits.data() + row.first_own;
  for (const TokenEdit& edit : args.edits.subspan(size_t(row.first_shared), size_t(row.num_shared)))
    if (!math::has_edit_of(own, row.num_own, edit.token)) apply(edit);
  std::for_each(own, own + row.num_own, apply);
}

}  // namespace

void cpu_edit_logits(const EditArgs& args, ThreadPool& pool) {
  constexpr int64_t kMinRowsToShare = 4;  // a row is some µs
  PACELINE_CHECK(args.masks.empty() || args.words_of_mask >= mask_words(args.vocab_size), "masks of {} words for {}",
                 args.words_of_mask, args.vocab_size);
  pool.parallel_ranges(int64_t(args.rows.size()), kMinRowsToShare, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) edit_row(args, args.rows[size_t(row)]);
  });
}

}  // namespace paceline
