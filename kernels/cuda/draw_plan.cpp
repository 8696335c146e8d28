#include "kernels/cuda/draw.h"
#include "kernels/error.h"
#include "kernels/math/accept.h"

namespace paceline::cuda {
namespace {

/// Rows of its window that a verdict may look at.
struct Window {
  int first = 0;
  int count = 0;
};

Window window_of(const AcceptRow& row) {
  if (row.rule == VerifyRule::forced) return {std::clamp(row.forced_accept, int32_t{0}, row.draft_len), 1};
  return {0, row.draft_len + 1};
}

bool is_rejection(const AcceptRow& row) {
  return row.rule == VerifyRule::rejection && row.draft_len > 0 && !row.params.greedy();
}

int32_t* cell_at(int32_t* cells, int32_t cell) { return cells && cell >= 0 ? cells + cell : nullptr; }

/// Positions from the window's first to that of row j.
int depth_of(const AcceptRow& row, int j) {
  if (!row.parent) return j;
  int depth = 0;
  for (int node = j - 1; node >= 0; node = row.parent[node]) ++depth;
  return depth;
}

DrawRow draw_of(const AcceptRow& row, int j, int32_t* cells) {
  using Policy = math::ShippedPolicy;
  DrawRow draw{.logits_row = row.logits_row + j,
               .cell = row.draft_len == 0 ? cell_at(cells, row.cell) : nullptr,
               .params = row.params,
               .key = {row.params.seed, NoisePurpose::target, row.first_position + depth_of(row, j), 0}};
  if (row.rule == VerifyRule::greedy && row.draft_len > 0) draw.params.temperature = 0.0f;
  if (!is_rejection(row)) return draw;
  PACELINE_CHECK(!row.parent, "rejection of drafts that branch, on a GPU");  // a row decides about one draft
  draw.key = {row.params.seed, NoisePurpose::bonus, row.first_position, j};
  if (j == row.draft_len) return draw;
  draw.key.purpose = Policy::residual_purpose();
  draw.has_draft = true;
  draw.draft = row.draft[j];
  draw.kind = row.kind;
  if (row.kind == DraftProbKind::dense) {
    draw.draft_prob = static_cast<const float*>(row.draft_prob.f32_row(j));
    draw.draft_cols = row.draft_prob.cols;
  }
  draw.accept_key = {row.params.seed, NoisePurpose::accept, row.first_position, Policy::accept_offset(j, j)};
  return draw;
}

}  // namespace

std::vector<DrawRow> draws_of(const SampleArgs& args) {
  std::vector<DrawRow> draws;
  draws.reserve(args.rows.size());
  for (const SampleRow& row : args.rows)
    draws.push_back({.logits_row = row.logits_row,
                     .probs_row = args.probs.data ? args.probs_row(draws.size()) : -1,
                     .cell = cell_at(args.cells, row.cell),
                     .params = row.params,
                     .key = {row.params.seed, row.purpose, row.origin, row.offset}});
  return draws;
}

std::vector<DrawRow> draws_of(const AcceptArgs& args) {
  std::vector<DrawRow> draws;
  for (const AcceptRow& row : args.rows) {
    const Window window = window_of(row);
    for (int j = window.first; j < window.first + window.count; ++j) draws.push_back(draw_of(row, j, args.cells));
  }
  return draws;
}

void verdicts_of(const AcceptArgs& args, std::span<const DrawResult> drawn) {
  for (size_t i = 0; i < args.rows.size(); ++i) {
    const AcceptRow& row = args.rows[i];
    const Window window = window_of(row);
    const auto at = [&](int32_t j) { return drawn[size_t(j - window.first)]; };
    const auto token_at = [&](int32_t j, int32_t) { return at(j).token; };
    if (is_rejection(row))
      args.result[i] = math::verify_rows([&](int32_t last) -> math::RowVerdict {
        const DrawResult& row_of = at(last + 1);
        return {.kept = row_of.is_kept ? last + 1 : -1, .next = row_of.token};
      });
    else if (row.rule == VerifyRule::forced)
      args.result[i] = math::verdict(window.first, at(window.first).token);
    else
      args.result[i] = math::verify_by_equality(row.draft, row.parent, row.draft_len, token_at);
    drawn = drawn.subspan(size_t(window.count));
  }
}

}  // namespace paceline::cuda
