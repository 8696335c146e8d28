#pragma once
// Which drafts are kept, and which token follows them.
//
// rejection: Leviathan, Kalman, Matias, "Fast inference from transformers via speculative decoding" (ICML 2023),
// algorithm 1; Chen et al., "Accelerating large language model decoding with speculative sampling" (2023),
// algorithm 2. Draft x is kept iff u * draft_prob(x) <= target_prob(x); the first draft that is not is replaced by
// a token from max(target_prob - draft_prob, 0), normalised; if all are kept, a bonus token from the row after them.
// The emitted tokens then follow the target's distribution exactly, whatever the drafter. Of several drafts behind one
// row each is decided where those before it were refused, against what they left: the normalised residual for the
// target, the draft's distribution without them for the drafter, which has drawn them one after another without
// replacement (recursive rejection: Miao et al. 2024, SpecInfer, section 4.3; Jeon et al. 2024, "Recursive speculative
// decoding", section 3). Certain drafts need no such order: each only takes itself away.
// block: a chain's drafts are kept up to the last one at which a draw of their own says so; each counts what those
// before it left unused (Sun et al. 2024, "Block verification accelerates speculative decoding", algorithm 2). As many
// tokens follow as with rejection, or more; with one draft both are the same.
// coupled: each position draws its token with the noise that plain sampling would use there; drafts are kept while
// they equal it. The output is the output of plain sampling, token for token.
//
// The control flow is written once, over
//   Real    the type of probabilities: float in the engine, double in enumeration tests;
//   Policy  the choices inside the algorithm, one member each: tests replace members to plant the classic bugs;
//   Chance  the randomness: Philox in the engine, enumeration of all outcomes in tests. It offers
//             bool accept(const NoiseKey&, predicate)          predicate(u), u uniform in (0, 1), 64-bit;
//             int32_t draw(size, id_at, weight_at, NoiseKey)   as race().
// Keys: purpose target has origin = absolute position of the emitted token, offset 0; draft, accept, recover, bonus
// have origin = absolute position of the step's first draft; offset = index of the draft for draft and accept, of the
// target's row for recover and bonus. An origin occurs in one step only, so no noise value decides twice.

#include <bit>
#include <cstdint>

#include "kernels/math/distribution.h"
#include "kernels/math/race.h"
#include "kernels/sampling_types.h"

namespace paceline::math {

struct PhiloxChance {
  template <class Predicate>
  bool accept(const NoiseKey& key, Predicate&& predicate) const {
    const PhiloxWords words = noise_words(key, 0);
    return predicate(uniform64(words.word[0], words.word[1]));
  }
  template <class IdAt, class WeightAt>
  int32_t draw(int32_t size, IdAt&& id_at, WeightAt&& weight_at, const NoiseKey& key) const {
    return race(size, id_at, weight_at, key);
  }
};

/// A token and the distribution that it was drawn from.
template <class Real>
struct Drawn {
  int32_t token = -1;
  Candidates<Real> from;
};

/// Draws from `from` with all its weights.
template <class Real, class Chance>
int32_t draw_from(const Candidates<Real>& from, const NoiseKey& key, Chance& chance) {
  return chance.draw(
      from.size, [&](int32_t i) { return from.id_at(i); }, [&](int32_t i) { return from.prob[i]; }, key);
}

/// The shipped choices. Every member is a place where an implementation can lose exactness.
struct ShippedPolicy {
  /// Temperature of the target's distribution in acceptance and residual, and of the bonus token.
  static float target_temperature(float temperature) { return temperature; }
  static float bonus_temperature(float temperature) { return temperature; }

  /// A draft is drawn from the distribution whose probabilities are handed on, from no other one.
  template <class Real, class Chance>
  static Drawn<Real> draw_draft(const LogitRow&, const Candidates<Real>& from, const NoiseKey& key, Chance& chance) {
    return {draw_from(from, key, chance), from};
  }

  template <class Real>
  static bool accepts(double u, Real target_prob, Real draft_prob) {
    return accepts_draft(u, target_prob, draft_prob);
  }
  static int32_t accept_offset(int32_t node, [[maybe_unused]] int32_t row) { return node; }
  /// Of the draft's distributions, where `row` is the target's.
  static int32_t draft_row(int32_t prob_row, [[maybe_unused]] int32_t row) { return prob_row; }

  /// Of several drafts behind a row: what a refused one leaves of the draft's distribution (masses: of all of it, of
  /// what was left, its own); what is left of that, normalised; and whether the target's is what refusals have left.
  static uint64_t left_without([[maybe_unused]] uint64_t all, uint64_t left, uint64_t own) { return left - own; }
  template <class Real>
  static Real sibling_prob(Real draft_prob, double left) {
    return math::sibling_prob(draft_prob, left);
  }
  static bool refusals_leave_residual() { return true; }
  static double residual_total(double total) { return total; }

  template <class Real>
  static Real residual(Real target_prob, Real draft_prob, [[maybe_unused]] bool is_draft) {
    return residual_prob(target_prob, draft_prob);
  }
  static int32_t residual_draft_row(int32_t prob_row, [[maybe_unused]] int32_t draft_len) { return prob_row; }
  static NoisePurpose residual_purpose() { return NoisePurpose::recover; }

  static int32_t bonus_row(int32_t row) { return row; }

  /// Of blocks; and whether a draft that may not be the last one is that for those behind it, too.
  template <class Real>
  static double block_prob(double before, Real target_prob, Real draft_prob) {
    return math::block_prob(before, target_prob, draft_prob);
  }
  static bool accepts_block(double u, double left, double block_prob) {
    return math::accepts_block(u, left, block_prob);
  }
  static double residual_block_prob(double block_prob) { return block_prob; }
  static bool refusal_ends_block() { return false; }
};

/// The drafts of one step.
template <class Real>
struct DraftWindow {
  const int32_t* token = nullptr;   // [len]; ids outside the vocabulary are never kept
  const int32_t* parent = nullptr;  // as in AcceptRow
  int32_t len = 0;
  DraftProbKind kind = DraftProbKind::point_mass;
  const Real* prob = nullptr;  // dense: row j at prob + j * stride, [cols]; tokens at and beyond cols have 0
  int64_t stride = 0;
  int32_t cols = 0;

  /// Dense: the mass of row `row`. What drafts leave of it is a difference of integers: a confident drafter leaves less
  /// than the rounding of 1 minus a float.
  uint64_t mass_of_row(int32_t row) const {
    uint64_t mass = 0;
    for (int32_t id = 0; id < cols; ++id) mass += fine_mass_of(prob[row * stride + id]);
    return mass;
  }

  /// Of `id`, under what draft `node` was drawn from: row `row` of the distributions.
  Real prob_of(int32_t node, int32_t row, int32_t id) const {
    return draft_prob_of(kind, token[node], prob ? prob + row * stride : nullptr, cols, id);
  }
};

/// Which drafts stand behind which: a chain, or a tree of at most 64 (AcceptRow::parent).
class Branches {
 public:
  Branches(const int32_t* parent, int32_t len) : parent_(parent), len_(len) {
    for (int32_t node = 0; parent && node < len; ++node)
      if (parent[node] >= 0) inner_ |= uint64_t{1} << parent[node];
  }
  /// The first draft after `after` that stands behind draft `last` (-1: the verified text); -1: none. The first of all
  /// with `after` = `last`.
  int32_t next_behind(int32_t last, int32_t after) const {
    if (!parent_) return after == last && last + 1 < len_ ? last + 1 : -1;
    for (int32_t node = after + 1; node < len_; ++node)
      if (parent_[node] == last) return node;
    return -1;
  }
  /// Row of the distribution that the drafts behind `last` were drawn from: there is one for the verified text and one
  /// for each draft with drafts behind it, in order.
  int32_t prob_row(int32_t last) const {
    if (!parent_ || last < 0) return last + 1;
    return 1 + std::popcount(inner_ & ((uint64_t{1} << last) - 1));
  }

 private:
  const int32_t* parent_;
  int32_t len_;
  uint64_t inner_ = 0;  // bit i: others stand behind draft i
};

/// The target's rows of one window; row j is the distribution of absolute position first_position + j. Rows are
/// computed when asked for: rows behind the first rejection cost nothing and their values do not matter.
template <class Real>
class TargetWindow {
 public:
  /// logit: row j at logit + j * stride.
  TargetWindow(const float* logit, int64_t stride, int32_t vocab_size, const DrawParams& params,
               DistributionScratch<Real>& scratch)
      : logit_(logit), stride_(stride), vocab_size_(vocab_size), params_(params), scratch_(scratch) {}

  const DrawParams& params() const { return params_; }

  /// Valid until the next call.
  Candidates<Real> distribution_of(int32_t window_index, float temperature) {
    LogitRow row{logit_ + window_index * stride_, vocab_size_, params_};
    row.params.temperature = temperature;
    return distribution<Real>(row, scratch_);
  }

  /// `from` with these weights, normalised; as it is where they are all 0. Valid as long as `from`. total_to_use: the
  /// identity (Policy).
  template <class WeightAt>
  Candidates<Real> reweighted(const Candidates<Real>& from, WeightAt&& weight_at, double (*total_to_use)(double)) {
    uint64_t mass = 0;
    for (int32_t i = 0; i < from.size; ++i) mass += fine_mass_of(weight_at(i));
    const double total = total_of(mass);
    if (!(total > 0.0)) return from;
    Real* const prob = scratch_.left.ensure(size_t(from.size));
    const Real share = Real(1.0 / total_to_use(total));
    for (int32_t i = 0; i < from.size; ++i) prob[i] = weight_at(i) * share;
    return {from.size, from.id, prob};
  }

  /// -1 for a row without a maximum.
  int32_t argmax_of(int32_t window_index) const { return row_max(logit_ + window_index * stride_, vocab_size_).id; }

 private:
  const float* logit_;
  int64_t stride_;
  int32_t vocab_size_;
  DrawParams params_;
  DistributionScratch<Real>& scratch_;
};

/// The verdict that keeps num_accepted drafts and goes on with `next`, or with an error if next is -1.
inline AcceptResult verdict(int32_t num_accepted, int32_t next) {
  return {.num_accepted = num_accepted, .next = next, .numerical_error = next < 0, .last = num_accepted - 1};
}

/// The token of plain sampling at window row j, with the target noise of `position`, its own; non-greedy parameters.
template <class Real, class Policy, class Chance>
int32_t plain_token(TargetWindow<Real>& target, int32_t window_index, int32_t position, Chance& chance) {
  const Candidates<Real> from =
      target.distribution_of(window_index, Policy::target_temperature(target.params().temperature));
  return draw_from(from, {target.params().seed, NoisePurpose::target, position, 0}, chance);
}

/// What the row behind a draft, or behind the verified text, decided.
struct RowVerdict {
  int32_t kept = -1;  // a draft that stands behind it
  int32_t next = -1;  // none is kept: what stands there; -1: the row had no distribution
};

/// The verdict of row_at(last draft kept), from the verified text (-1) on, up to the first row that keeps none.
template <class RowAt>
AcceptResult verify_rows(RowAt&& row_at) {
  AcceptResult result{.last = -1};
  for (;;) {
    const RowVerdict row = row_at(result.last);
    if (row.kept < 0) {
      result.next = row.next;
      result.numerical_error = row.next < 0;
      return result;
    }
    result.last = row.kept;
    ++result.num_accepted;
  }
}

/// Keeps drafts, from the verified text on, while there is one that equals token_at(row, depth), the target's token of
/// the window's row, `depth` positions behind the first; that of the last row follows them.
template <class TokenAt>
AcceptResult verify_by_equality(const int32_t* draft, const int32_t* parent, int32_t draft_len, TokenAt&& token_at) {
  const Branches branches(parent, draft_len);
  int32_t depth = 0;
  return verify_rows([&](int32_t last) -> RowVerdict {
    const int32_t token = token_at(last + 1, depth++);
    for (int32_t node = branches.next_behind(last, last); token >= 0 && node >= 0;
         node = branches.next_behind(last, node))
      if (draft[node] == token) return {.kept = node};
    return {.next = token};
  });
}

/// Rejection rule for draft_len >= 1 and non-greedy parameters.
template <class Real, class Policy, class Chance>
AcceptResult verify_rejection(const DraftWindow<Real>& draft, TargetWindow<Real>& target, int32_t first_position,
                              Chance& chance) {
  const Branches branches(draft.parent, draft.len);
  const auto key = [&](NoisePurpose purpose, int32_t offset) {
    return NoiseKey{target.params().seed, purpose, first_position, offset};
  };
  return verify_rows([&](int32_t last) -> RowVerdict {
    const int32_t row = last + 1, first = branches.next_behind(last, last);
    if (first < 0) {
      const Candidates<Real> bonus =
          target.distribution_of(Policy::bonus_row(row), Policy::bonus_temperature(target.params().temperature));
      return {.next = draw_from(bonus, key(NoisePurpose::bonus, row), chance)};
    }
    Candidates<Real> left = target.distribution_of(row, Policy::target_temperature(target.params().temperature));
    if (left.size == 0) return {};
    const int32_t prob_row = Policy::draft_row(branches.prob_row(last), row);
    const int32_t residual_row = Policy::residual_draft_row(prob_row, draft.len);
    uint64_t draft_mass = 0, left_to_draft = 0;  // dense: from the first refusal on
    for (int32_t node = first;; node = branches.next_behind(last, node)) {
      const auto draft_prob_of = [&](int32_t of_row, int32_t id) {
        const Real whole = draft.prob_of(node, of_row, id);
        return node == first || draft.kind != DraftProbKind::dense
                   ? whole
                   : Policy::sibling_prob(whole, total_of(left_to_draft));
      };
      const int32_t token = draft.token[node];
      const Real target_prob = left.prob_of(token), draft_prob = draft_prob_of(prob_row, token);
      const auto accepts = [&](double u) { return Policy::accepts(u, target_prob, draft_prob); };
      if (chance.accept(key(NoisePurpose::accept, Policy::accept_offset(node, row)), accepts)) return {.kept = node};

      const auto residual_at = [&](int32_t i) {
        const int32_t id = left.id_at(i);
        return Policy::residual(left.prob[i], draft_prob_of(residual_row, id), id == token);
      };
      if (branches.next_behind(last, node) >= 0) {
        if (Policy::refusals_leave_residual()) left = target.reweighted(left, residual_at, Policy::residual_total);
        if (draft.kind != DraftProbKind::dense) continue;
        if (node == first) draft_mass = left_to_draft = draft.mass_of_row(prob_row);
        const uint64_t own = fine_mass_of(draft.prob_of(node, prob_row, token));
        left_to_draft = Policy::left_without(draft_mass, left_to_draft, own);
        continue;
      }
      const NoiseKey recover = key(Policy::residual_purpose(), row);
      const int32_t recovered = chance.draw(
          left.size, [&](int32_t i) { return left.id_at(i); }, residual_at, recover);
      // An empty residual means that both distributions are the same up to rounding.
      return {.next = recovered >= 0 ? recovered : draw_from(left, recover, chance)};
    }
  });
}

/// Block rule for a chain of draft_len >= 1 and non-greedy parameters. A row without a distribution ends the block: the
/// drafts before it are judged as if it were the last row.
template <class Real, class Policy, class Chance>
AcceptResult verify_block(const DraftWindow<Real>& draft, TargetWindow<Real>& target, int32_t first_position,
                          Chance& chance) {
  const auto key = [&](NoisePurpose purpose, int32_t offset) {
    return NoiseKey{target.params().seed, purpose, first_position, offset};
  };
  const auto distribution_of = [&](int32_t row) {
    return target.distribution_of(row, Policy::target_temperature(target.params().temperature));
  };
  const auto residual_of = [&](const Candidates<Real>& from, int32_t row, double block_prob) {
    return [&draft, from, row, block_prob](int32_t i) {
      return block_residual(block_prob, from.prob[i], draft.prob_of(row, row, from.id_at(i)));
    };
  };
  int32_t kept = 0;
  double block_prob = 1.0, prob_of_kept = 1.0;
  for (int32_t row = 0;; ++row) {
    const Candidates<Real> from = distribution_of(row);
    const bool is_last = row == draft.len || from.size == 0;
    if (row > 0) {
      double left = block_prob;
      if (!is_last) {
        const auto residual_at = residual_of(from, row, block_prob);
        uint64_t mass = 0;
        for (int32_t i = 0; i < from.size; ++i) mass += fine_mass_of(residual_at(i));
        left = total_of(mass);
      }
      const auto accepts = [&](double u) { return Policy::accepts_block(u, left, block_prob); };
      if (chance.accept(key(NoisePurpose::accept, Policy::accept_offset(row - 1, 0)), accepts)) {
        kept = row;
        prob_of_kept = block_prob;
      } else if (Policy::refusal_ends_block()) {
        break;
      }
    }
    if (is_last) break;
    const int32_t token = draft.token[row];
    block_prob = Policy::block_prob(block_prob, from.prob_of(token), draft.prob_of(row, row, token));
    if (!(block_prob > 0.0)) break;  // nor is any draft behind it kept
  }
  const Candidates<Real> from = distribution_of(kept);
  if (from.size == 0) return verdict(kept, -1);
  if (kept == draft.len) return verdict(kept, draw_from(from, key(NoisePurpose::bonus, kept), chance));
  const NoiseKey recover = key(Policy::residual_purpose(), kept);
  const int32_t recovered = chance.draw(
      from.size, [&](int32_t i) { return from.id_at(i); },
      residual_of(from, kept, Policy::residual_block_prob(prob_of_kept)), recover);
  // An empty residual means that both distributions are the same up to rounding.
  return verdict(kept, recovered >= 0 ? recovered : draw_from(from, recover, chance));
}

/// The verdict of one step. Under greedy parameters every rule compares with the argmax; every rule with draft_len == 0
/// is plain sampling at first_position.
template <class Real, class Policy, class Chance>
AcceptResult verify(VerifyRule rule, const DraftWindow<Real>& draft, TargetWindow<Real>& target, int32_t first_position,
                    Chance& chance) {
  const auto plain = [&](int32_t j, int32_t depth) {
    return plain_token<Real, Policy>(target, j, first_position + depth, chance);
  };
  const auto greedy = [&](int32_t j, int32_t) { return target.argmax_of(j); };
  if (target.params().greedy()) return verify_by_equality(draft.token, draft.parent, draft.len, greedy);
  if (draft.len == 0) return verdict(0, plain(0, 0));
  switch (rule) {
    case VerifyRule::greedy: return verify_by_equality(draft.token, draft.parent, draft.len, greedy);
    case VerifyRule::coupled: return verify_by_equality(draft.token, draft.parent, draft.len, plain);
    case VerifyRule::block: return verify_block<Real, Policy>(draft, target, first_position, chance);
    case VerifyRule::rejection: break;
  }
  return verify_rejection<Real, Policy>(draft, target, first_position, chance);
}

/// What the sample op made of one row.
template <class Real>
struct SampledRow {
  int32_t token = -1;          // -1: the row had no distribution
  Candidates<Real> from;       // what the token was drawn from
  Candidates<Real> handed_on;  // what `probs` receives: the same object
};

/// Purposes other than draft are plain draws. Valid until the scratch serves another row.
template <class Real, class Policy, class Chance>
SampledRow<Real> sample_row(const LogitRow& row, const NoiseKey& key, DistributionScratch<Real>& scratch,
                            Chance& chance) {
  const Candidates<Real> candidates = distribution<Real>(row, scratch);
  if (candidates.size == 0) return {};
  const Drawn<Real> drawn = key.purpose == NoisePurpose::draft
                                ? Policy::draw_draft(row, candidates, key, chance)
                                : Drawn<Real>{draw_from(candidates, key, chance), candidates};
  return {drawn.token, drawn.from, candidates};
}

}  // namespace paceline::math
