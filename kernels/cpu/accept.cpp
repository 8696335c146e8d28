#include "kernels/cpu/accept.h"

#include <algorithm>
#include <vector>

#include "kernels/math/verify.h"

namespace paceline {

void cpu_accept(const AcceptArgs& args, ThreadPool& pool) {
  constexpr int64_t kMinLogitsToShare = 16384;  // below, a fork and join costs more than it saves
  std::vector<math::DistributionScratch<float>> scratch(size_t(pool.num_threads()));
  int64_t num_logits = 0;
  for (const AcceptRow& row : args.rows) num_logits += int64_t{row.draft_len + 1} * args.vocab_size;
  const int64_t num_windows = int64_t(args.rows.size());
  const int64_t min_windows = num_logits < 2 * kMinLogitsToShare ? num_windows : 1;

  pool.parallel_ranges(num_windows, std::max<int64_t>(min_windows, 1), [&](int64_t begin, int64_t end, int worker) {
    for (int64_t r = begin; r < end; ++r) {
      const AcceptRow& row = args.rows[size_t(r)];
      const math::DraftWindow<float> draft{.token = row.draft,
                                           .parent = row.parent,
                                           .len = row.draft_len,
                                           .kind = row.kind,
                                           .prob = static_cast<const float*>(row.draft_prob.data),
                                           .stride = row.draft_prob.stride,
                                           .cols = row.draft_prob.cols};
      math::TargetWindow<float> target(args.logits.f32_row(row.logits_row), args.logits.stride, args.vocab_size,
                                       row.params, scratch[size_t(worker)]);
      math::PhiloxChance chance;
      args.result[size_t(r)] = math::verify_window(row.rule, draft, target, row.first_position, chance);
    }
  });
}

}  // namespace paceline
