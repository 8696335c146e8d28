#pragma once
// Edits of logits cut into parts that the host can stage at once. No CUDA here: tests look at it everywhere.

#include <algorithm>
#include <vector>

#include "kernels/logit_edits.h"

namespace paceline::cuda {

/// Some rows of a call with what they use.
struct EditPart {
  std::vector<EditRow> rows;
  EditArgs args;  // all but the rows

  size_t bytes() const { return rows.size() * sizeof(EditRow) + args.edits.size_bytes() + args.masks.size_bytes(); }
};

/// Parts of at most `most_bytes`, or of one row. Few rows use far apart edits: those of a window lie together.
inline std::vector<EditPart> edit_parts(const EditArgs& args, size_t most_bytes) {
  struct Range {
    int32_t begin = INT32_MAX, end = 0;
    void cover(int32_t first, int32_t count) {
      if (count > 0) begin = std::min(begin, first), end = std::max(end, first + count);
    }
    size_t size() const { return end > begin ? size_t(end - begin) : 0; }
    size_t first() const { return size() > 0 ? size_t(begin) : 0; }
  };
  std::vector<EditPart> parts;
  const size_t mask_bytes = size_t(args.words_of_mask) * sizeof(uint32_t);
  for (size_t begin = 0, end; begin < args.rows.size(); begin = end) {
    Range edits, masks;
    for (end = begin; end < args.rows.size(); ++end) {
      const EditRow& row = args.rows[end];
      Range wider = edits, more = masks;
      wider.cover(row.first_shared, row.num_shared);
      wider.cover(row.first_own, row.num_own);
      if (row.mask >= 0) more.cover(row.mask, 1);
      const size_t bytes =
          (end - begin + 1) * sizeof(EditRow) + wider.size() * sizeof(TokenEdit) + more.size() * mask_bytes;
      if (end > begin && bytes > most_bytes) break;
      edits = wider, masks = more;
    }
    EditPart part{.rows = {args.rows.begin() + std::ptrdiff_t(begin), args.rows.begin() + std::ptrdiff_t(end)},
                  .args = args};
    for (EditRow& row : part.rows) {
      row.first_shared = row.num_shared > 0 ? row.first_shared - int32_t(edits.first()) : 0;
      row.first_own = row.num_own > 0 ? row.first_own - int32_t(edits.first()) : 0;
      if (row.mask >= 0) row.mask -= int32_t(masks.first());
    }
    part.args.rows = {};
    part.args.edits = args.edits.subspan(edits.first(), edits.size());
    part.args.masks =
        args.masks.subspan(masks.first() * size_t(args.words_of_mask), masks.size() * size_t(args.words_of_mask));
    parts.push_back(std::move(part));
  }
  return parts;
}

}  // namespace paceline::cuda
