#include "speculative/draft_columns.h"

#include <algorithm>

#include "kernels/math/edit.h"

namespace paceline {

LogitEdits to_columns(const LogitEdits& edits, std::span<const int32_t> ids) {
  LogitEdits made{.rows = edits.rows, .words_of_mask = mask_words(int32_t(ids.size()))};
  std::vector<int32_t> num_before{0};  // edits that stay, ahead of each
  for (const TokenEdit& edit : edits.edits) {
    const auto found = std::lower_bound(ids.begin(), ids.end(), edit.token);
    if (found != ids.end() && *found == edit.token) {
      made.edits.push_back(edit);
      made.edits.back().token = int32_t(found - ids.begin());
    }
    num_before.push_back(int32_t(made.edits.size()));
  }
  const auto move = [&](int32_t& first, int32_t& count) {
    const int32_t end = num_before[size_t(first + count)];
    first = num_before[size_t(first)];
    count = end - first;
  };
  for (EditRow& row : made.rows) {
    move(row.first_shared, row.num_shared);
    move(row.first_own, row.num_own);
  }
  const size_t num_masks = edits.words_of_mask > 0 ? edits.masks.size() / size_t(edits.words_of_mask) : 0;
  made.masks.resize(num_masks * size_t(made.words_of_mask), 0);
  for (size_t mask = 0; mask < num_masks; ++mask) {
    const uint32_t* const from = edits.masks.data() + mask * size_t(edits.words_of_mask);
    uint32_t* const to = made.masks.data() + mask * size_t(made.words_of_mask);
    for (size_t column = 0; column < ids.size(); ++column)
      if (math::is_allowed(from, ids[column])) math::set_allowed(to, int32_t(column), true);
  }
  return made;
}

}  // namespace paceline
