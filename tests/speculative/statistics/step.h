#pragma once
// One speculative step on the toy models through the draft sampler and the verifier that the program is linked with,
// and two ways to supply its randomness: Philox, or every outcome in turn with its probability.

#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/math/verify.h"
#include "tests/speculative/statistics/toy_models.h"

namespace paceline {

/// Visits every path of a random procedure: run it, read path_probability(), call next_path(), until that is false.
class Enumeration {
 public:
  /// The probability of acceptance is the length of {u in (0, 1): predicate(u)}, found by bisection: accepting
  /// larger u is harder.
  template <class Predicate>
  bool accept(const math::NoiseKey&, Predicate&& predicate) {
    double inside = 0.0, outside = 1.0;
    if (predicate(1.0 - 1e-16)) inside = 1.0;
    for (int i = 0; i < 80 && inside < outside; ++i) {
      const double middle = 0.5 * (inside + outside);
      (predicate(middle) ? inside : outside) = middle;
    }
    return choose({inside, 1.0 - inside}) == 0;
  }

  template <class IdAt, class WeightAt>
  int32_t draw(int32_t size, IdAt&& id_at, WeightAt&& weight_at, const math::NoiseKey&) {
    std::vector<double> probability;
    double total = 0.0;
    for (int32_t i = 0; i < size; ++i) {
      probability.push_back(double(weight_at(i)));
      total += probability.back();
    }
    if (!(total > 0.0)) return -1;
    for (double& p : probability) p /= total;
    return id_at(int32_t(choose(std::move(probability))));
  }

  double path_probability() const { return path_probability_; }

  /// False when every path has been visited.
  bool next_path() {
    depth_ = 0;
    path_probability_ = 1.0;
    while (!choices_.empty()) {
      Choice& last = choices_.back();
      while (++last.option < last.probability.size()) {
        if (last.probability[last.option] > 0.0) return true;
      }
      choices_.pop_back();
    }
    return false;
  }

 private:
  struct Choice {
    size_t option = 0;
    std::vector<double> probability;
  };

  size_t choose(std::vector<double> probability) {
    if (depth_ == choices_.size()) {
      choices_.push_back({0, std::move(probability)});
      Choice& last = choices_.back();
      while (!(last.probability[last.option] > 0.0)) ++last.option;
    }
    const Choice& choice = choices_[depth_++];
    path_probability_ *= choice.probability[choice.option];
    return choice.option;
  }

  std::vector<Choice> choices_;
  size_t depth_ = 0;
  double path_probability_ = 1.0;
};

namespace math {

/// The functions of kernels/math/verify.h over all outcomes, in double. A program that runs steps defines them with its
/// policy.
SampledRow<double> sample_token(const LogitRow& row, const NoiseKey& key, DistributionScratch<double>& scratch,
                                Enumeration& paths);
AcceptResult verify_window(VerifyRule rule, const DraftWindow<double>& draft, TargetWindow<double>& target,
                           int32_t first_position, Enumeration& paths);

}  // namespace math

inline constexpr int32_t kMostToyDrafts = 4;

struct StepResult {
  int32_t token[kMostToyDrafts + 1];  // [num_accepted + 1] emitted
  int32_t num_accepted = 0;
  bool identity = true;  // every draft's probabilities are those that it was drawn from, bit for bit
};

template <class Real>
struct StepScratch {
  math::DistributionScratch<Real> draft, target;
  std::vector<Real> draft_prob, drawn_prob;
  std::vector<float> target_logit;
};

template <class Real>
void write_dense(const math::Candidates<Real>& from, Real* prob, int32_t vocab_size) {
  std::fill_n(prob, vocab_size, Real(0));
  for (int32_t i = 0; i < from.size; ++i) prob[from.id_at(i)] = from.prob[i];
}

/// Verifies drafts whose rows lie in `scratch`. parent: as in AcceptRow.
template <class Real, class Chance>
void verify_drafts(const ToyModels& models, const DrawParams& params, int32_t position, const int32_t* token,
                   const int32_t* parent, int32_t len, DraftProbKind kind, VerifyRule rule, StepScratch<Real>& scratch,
                   Chance& chance, StepResult& result) {
  const int32_t vocab = models.vocab_size();
  const math::DraftWindow<Real> window{.token = token,
                                       .parent = parent,
                                       .len = len,
                                       .kind = kind,
                                       .prob = scratch.draft_prob.data(),
                                       .stride = vocab,
                                       .cols = vocab};
  math::TargetWindow<Real> target(scratch.target_logit.data(), vocab, vocab, params, scratch.target);
  const AcceptResult accepted = math::verify_window(rule, window, target, position, chance);
  result.num_accepted = accepted.num_accepted;
  int32_t at = accepted.num_accepted;
  result.token[at] = accepted.next;
  for (int32_t node = accepted.last; node >= 0; node = parent ? parent[node] : node - 1)
    result.token[--at] = token[node];
}

/// Drafts draft_len tokens after `previous` at `position` and verifies them. kind point_mass: drafts are the draft
/// model's most probable tokens.
template <class Real, class Chance>
StepResult run_step(const ToyModels& models, int32_t position, int32_t previous, int32_t draft_len, DraftProbKind kind,
                    uint64_t seed, StepScratch<Real>& scratch, Chance& chance,
                    VerifyRule rule = VerifyRule::rejection) {
  const size_t vocab = size_t(models.vocab_size());
  DrawParams params = models.params();
  params.seed = seed;
  scratch.draft_prob.resize(kMostToyDrafts * vocab);
  scratch.drawn_prob.resize(vocab);
  scratch.target_logit.resize((kMostToyDrafts + 1) * vocab);

  StepResult result;
  int32_t draft[kMostToyDrafts];
  int32_t context = previous;
  for (int32_t j = 0; j <= draft_len; ++j) {
    const std::vector<float>& target = models.target_logit(position + j, context);
    std::copy(target.begin(), target.end(), scratch.target_logit.begin() + std::ptrdiff_t(size_t(j) * vocab));
    if (j == draft_len) break;
    const math::LogitRow row{models.draft_logit(position + j, context).data(), models.vocab_size(), params};
    if (kind == DraftProbKind::point_mass) {
      draft[j] = math::row_max(row.logit, row.vocab_size).id;
    } else {
      Real* const handed_on = scratch.draft_prob.data() + size_t(j) * vocab;
      const math::SampledRow<Real> sampled =
          math::sample_token(row, {seed, NoisePurpose::draft, position, j}, scratch.draft, chance);
      write_dense(sampled.handed_on, handed_on, models.vocab_size());
      write_dense(sampled.from, scratch.drawn_prob.data(), models.vocab_size());
      result.identity &= memcmp(handed_on, scratch.drawn_prob.data(), vocab * sizeof(Real)) == 0;
      draft[j] = sampled.token;
    }
    context = draft[j];
  }

  verify_drafts(models, params, position, draft, nullptr, draft_len, kind, rule, scratch, chance, result);
  return result;
}

/// A tree of drafts: the parent of each, before it, children of one next to each other; -1: the verified text.
using TreeShape = std::vector<int32_t>;
/// A leaf before an inner node, two behind that; three, then two behind the second and the third.
inline const TreeShape kSmallTree = {-1, -1, 1, 1}, kWideTree = {-1, -1, -1, 1, 1, 2, 2};
inline constexpr int kTreeDepth = 2;

/// Drafts of this shape after `previous` at `position`, verified with the rejection rule. dense: drawn one after
/// another without replacement; point_mass: the draft model's most probable tokens.
template <class Real, class Chance>
StepResult run_tree_step(const ToyModels& models, int32_t position, int32_t previous, const TreeShape& parent,
                         DraftProbKind kind, uint64_t seed, StepScratch<Real>& scratch, Chance& chance) {
  const int32_t len = int32_t(parent.size());
  const size_t vocab = size_t(models.vocab_size());
  DrawParams params = models.params();
  params.seed = seed;
  std::vector<int32_t> token(parent.size()), depth(parent.size());
  scratch.draft_prob.assign((parent.size() + 1) * vocab, Real(0));
  scratch.target_logit.resize((parent.size() + 1) * vocab);
  const auto target_row = [&](int32_t row, int32_t at, int32_t context) {
    const std::vector<float>& logit = models.target_logit(at, context);
    std::copy(logit.begin(), logit.end(), scratch.target_logit.begin() + std::ptrdiff_t(size_t(row) * vocab));
  };
  target_row(0, position, previous);
  Real* prob = scratch.draft_prob.data() - vocab;
  for (int32_t node = 0; node < len; ++node) {
    const int32_t above = parent[size_t(node)];
    const bool is_first = node == 0 || parent[size_t(node) - 1] != above;
    depth[size_t(node)] = above < 0 ? 0 : depth[size_t(above)] + 1;
    const int32_t context = above < 0 ? previous : token[size_t(above)];
    const std::vector<float>& logit = models.draft_logit(position + depth[size_t(node)], context);
    const math::LogitRow row{logit.data(), models.vocab_size(), params};
    if (is_first) {
      prob += vocab;
      write_dense(math::distribution<Real>(row, scratch.draft), prob, models.vocab_size());
    }
    const auto is_taken = [&](int32_t id) {
      for (int32_t other = node - 1; other >= 0 && parent[size_t(other)] == above; --other)
        if (token[size_t(other)] == id) return true;
      return false;
    };
    if (kind == DraftProbKind::point_mass) {
      int32_t best = -1;
      for (int32_t id = 0; id < models.vocab_size(); ++id)
        if (!is_taken(id) && (best < 0 || logit[size_t(id)] > logit[size_t(best)])) best = id;
      token[size_t(node)] = best;
    } else {
      token[size_t(node)] = chance.draw(
          models.vocab_size(), [](int32_t i) { return i; }, [&](int32_t i) { return is_taken(i) ? Real(0) : prob[i]; },
          {seed, NoisePurpose::draft, position, node});
    }
    target_row(node + 1, position + depth[size_t(node)] + 1, token[size_t(node)]);
  }
  StepResult result;
  verify_drafts(models, params, position, token.data(), parent.data(), len, kind, VerifyRule::rejection, scratch,
                chance, result);
  return result;
}

}  // namespace paceline
