#include <algorithm>

#include "kernels/cuda/draw.h"
#include "kernels/math/accept.h"

namespace paceline::cuda {
namespace {

/// Rows of its window.
int num_rows(const AcceptRow& row) { return row.draft_len + 1; }

/// Its rows decide about drafts, and do not only draw.
bool decides(const AcceptRow& row, VerifyRule rule) {
  return row.rule == rule && row.draft_len > 0 && !row.params.greedy();
}

int32_t* cell_at(int32_t* cells, int32_t cell) { return cells && cell >= 0 ? cells + cell : nullptr; }

/// Positions from the window's first to that of row j.
int depth_of(const AcceptRow& row, int j) {
  if (!row.parent) return j;
  int depth = 0;
  for (int node = j - 1; node >= 0; node = row.parent[node]) ++depth;
  return depth;
}

/// Of row j; its drafts go behind `drafts`.
DrawRow draw_of(const AcceptRow& row, int j, const math::Branches& branches, int32_t* cells,
                std::vector<StagedDraft>& drafts) {
  using Policy = math::ShippedPolicy;
  DrawRow draw{.logits_row = row.logits_row + j,
               .token_cell = row.draft_len == 0 ? cell_at(cells, row.token_cell) : nullptr,
               .params = row.params,
               .key = {row.params.seed, NoisePurpose::target, row.first_position + depth_of(row, j), 0}};
  if (row.rule == VerifyRule::greedy && row.draft_len > 0) draw.params.temperature = 0.0f;
  draw.is_of_block = decides(row, VerifyRule::block);
  if (!draw.is_of_block && !decides(row, VerifyRule::rejection)) return draw;
  draw.place = j;
  draw.key = {row.params.seed, NoisePurpose::bonus, row.first_position, j};
  draw.first_draft = int32_t(drafts.size());
  const int32_t last = j - 1;
  for (int32_t node = branches.next_behind(last, last); node >= 0; node = branches.next_behind(last, node))
    drafts.push_back({.token = row.draft[node], .node = node, .accept_offset = Policy::accept_offset(node, j)});
  draw.num_drafts = int32_t(drafts.size()) - draw.first_draft;
  if (draw.num_drafts == 0) return draw;
  draw.key.purpose = Policy::residual_purpose();
  draw.kind = row.kind;
  if (row.kind == DraftProbKind::dense) {
    draw.draft_prob = static_cast<const float*>(row.draft_prob.f32_row(branches.prob_row(last)));
    draw.draft_cols = row.draft_prob.cols;
  }
  return draw;
}

}  // namespace

Draws draws_of(const SampleArgs& args) {
  Draws draws;
  draws.row.reserve(args.rows.size());
  for (const SampleRow& row : args.rows)
    draws.row.push_back({.logits_row = row.logits_row,
                         .probs_row = args.probs.data ? args.probs_row(draws.row.size()) : -1,
                         .token_cell = cell_at(args.token_cells, row.token_cell),
                         .ids = args.ids,
                         .params = row.params,
                         .key = {row.params.seed, row.purpose, row.origin, row.offset}});
  return draws;
}

Draws draws_of(const TopKArgs& args) {
  Draws draws;
  draws.row.reserve(size_t(args.logits.rows) * size_t(args.k));
  for (int32_t row = 0; row < args.logits.rows; ++row)
    for (int32_t rank = 0; rank < args.k; ++rank)
      draws.row.push_back({.logits_row = row, .ids = args.ids, .params = {.temperature = 0.0f}, .rank = rank});
  return draws;
}

Draws draws_of(const AcceptArgs& args) {
  Draws draws;
  for (const AcceptRow& row : args.rows) {
    const math::Branches branches(row.parent, row.draft_len);
    for (int j = 0; j < num_rows(row); ++j)
      draws.row.push_back(draw_of(row, j, branches, args.token_cells, draws.draft));
  }
  return draws;
}

DrawParts parts_of(std::span<const DrawRow> row, size_t most_rows) {
  const auto splits_block = [&](size_t at) { return row[at].is_of_block && row[at].place > 0; };
  DrawParts parts;
  for (size_t begin = 0, end; begin < row.size(); begin = end) {
    end = std::min(begin + std::max<size_t>(most_rows, 1), row.size());
    while (end < row.size() && end > begin && splits_block(end)) --end;
    if (end == begin)
      for (++end; end < row.size() && splits_block(end);) ++end;
    parts.part.push_back(row.subspan(begin, end - begin));
    parts.widest = std::max(parts.widest, end - begin);
  }
  parts.need_scratch = std::any_of(row.begin(), row.end(), needs_scratch);
  parts.have_blocks = std::any_of(row.begin(), row.end(), [](const DrawRow& of) { return of.is_of_block; });
  return parts;
}

void verdicts_of(const AcceptArgs& args, std::span<const DrawResult> drawn) {
  for (size_t i = 0; i < args.rows.size(); ++i) {
    const AcceptRow& row = args.rows[i];
    const auto at = [&](int32_t j) { return drawn[size_t(j)]; };
    const auto token_at = [&](int32_t j, int32_t) { return at(j).token; };
    if (decides(row, VerifyRule::rejection)) {
      args.result[i] = math::verify_rows([&](int32_t last) -> math::RowVerdict {
        const DrawResult& row_of = at(last + 1);
        return {.kept = row_of.kept, .next = row_of.token};
      });
    } else if (decides(row, VerifyRule::block)) {
      int32_t last = row.draft_len;
      while (last > 0 && at(last).kept < 0) --last;
      args.result[i] = math::verdict(last, at(last).token);
    } else {
      args.result[i] = math::verify_by_equality(row.draft, row.parent, row.draft_len, token_at);
    }
    drawn = drawn.subspan(size_t(num_rows(row)));
  }
}

}  // namespace paceline::cuda
