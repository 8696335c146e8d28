// The law of the emitted tokens under sampling plans, by enumeration of the shipped plan, edits, draft sampler and
// verifier in double; and that classic faults of plans change it.

#include <map>
#include <memory>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "engine/grammar/grammar_constraint.h"
#include "engine/grammar/grammar_sources.h"
#include "engine/sampling_plan.h"
#include "kernels/backend.h"
#include "tests/speculative/statistics/step.h"

namespace paceline {
namespace {

constexpr double kPlanTolerance = 1e-12;
constexpr double kSeen = 1e-3;  // what a fault must change at least
constexpr int32_t kEos = 1;

using Text = std::vector<int32_t>;

/// What may follow depends on the sum of all tokens before.
bool may_follow(const Text& output, int32_t token) {
  int sum = token;
  for (const int32_t one : output) sum += one;
  return sum % 3 != 1;
}

class SumMask final : public TokenConstraint {
 public:
  explicit SumMask(int vocab_size) : vocab_size_(vocab_size) {}
  bool allow(std::span<const int32_t> output, std::span<const int32_t> drafts, std::span<uint32_t> mask) override {
    Text text(output.begin(), output.end());
    text.insert(text.end(), drafts.begin(), drafts.end());
    for (int32_t token = 0; token < vocab_size_; ++token)
      if (may_follow(text, token)) mask[0] |= uint32_t{1} << token;
    return true;
  }

 private:
  const int vocab_size_;
};

/// (aa?b)* over the tokens a, the end, b and ab: what may follow, as a table of states.
bool may_follow_in_grammar(const Text& output, int32_t token) {
  enum State { kComplete, kOne, kTwo, kEnded, kDead };
  constexpr State kNext[][4] = {{kOne, kEnded, kDead, kComplete},
                                {kTwo, kDead, kComplete, kComplete},
                                {kDead, kDead, kComplete, kDead},
                                {kDead, kEnded, kDead, kDead},
                                {kDead, kDead, kDead, kDead}};
  State state = kComplete;
  for (const int32_t one : output) state = kNext[state][one];
  return kNext[state][token] != kDead;
}

std::shared_ptr<TokenConstraint> grammar_mask(int vocab_size) {
  std::vector<std::string> tokens = {"a", "", "b", "ab"};
  tokens.resize(size_t(vocab_size));
  return make_grammar_constraint(
      std::make_shared<CompiledGrammar>(regex_grammar("(aa?b)*"), std::make_shared<TokenTrie>(tokens, false)), {kEos});
}

enum class Fault : uint8_t { none, rows_miss_drafts, bonus_without_mask, forbidden_drafts_are_cut };

/// A drafter that sees the plan, one that knows nothing of it, and such a one whose forbidden drafts are cut.
enum class Drafter : uint8_t { planned, unplanned, cut };

struct PlanCase {
  const char* name;
  SamplingParams params;
  bool (*rule)(const Text& output, int32_t token) = may_follow;  // as params.constraint has it
};

std::vector<PlanCase> plan_cases(int vocab_size) {
  std::vector<PlanCase> cases;
  const auto add = [&](const char* name, auto&& set) {
    PlanCase made{.name = name, .params = {}};
    made.params.sampler.temperature = 1.0f;
    set(made.params);
    cases.push_back(std::move(made));
  };
  const auto penalties = [](SamplingParams& params) {
    params.repetition_penalty = 1.6f;
    params.presence_penalty = 0.8f;
    params.frequency_penalty = -0.5f;
  };
  const auto words = [](SamplingParams& params) {
    params.bad_words = {{0, 2}, {2, 1}, {1, 0, 0}};
    params.logit_bias = {{2, 0.7f}, {0, -0.4f}};
    params.min_tokens = 2;
  };
  const auto mask = [&](SamplingParams& params) { params.constraint = std::make_shared<SumMask>(vocab_size); };
  add("penalties", penalties);
  add("words", words);
  add("mask", mask);
  add("grammar", [&](SamplingParams& params) { params.constraint = grammar_mask(vocab_size); });
  cases.back().rule = may_follow_in_grammar;
  add("all", [&](SamplingParams& params) { penalties(params), words(params), mask(params); });
  add("all, filtered", [&](SamplingParams& params) {
    penalties(params), words(params), mask(params);
    params.sampler.temperature = 0.7f;
    params.sampler.top_p = 0.9f;
  });
  return cases;
}

class PlanLaw {
 public:
  PlanLaw(const ToyModels& models, const PlanCase& of) : models_(models), params_(of.params), may_follow_(of.rule) {}

  /// Sup-norm distance between the law of `length` tokens, a step of `shape` and then plain sampling, and the plan's.
  double distance(const TreeShape& shape, int length, DraftProbKind kind, VerifyRule rule, Drafter drafter,
                  Fault fault = Fault::none) const {
    const size_t vocab = size_t(models_.vocab_size());
    std::map<Text, double> emitted;
    Enumeration paths;
    StepScratch<double> scratch;
    do {
      const Text text = step(shape, kind, rule, drafter, fault, scratch, paths);
      emitted[text] += paths.path_probability();
    } while (paths.next_path());
    std::vector<double> law(size_t(std::pow(vocab, length)), 0.0), want = law;
    for (const auto& [text, probability] : emitted) go_on(text, probability, length, law);
    go_on({}, 1.0, length, want);
    double distance = 0.0;
    for (size_t i = 0; i < law.size(); ++i) distance = std::max(distance, std::fabs(law[i] - want[i]));
    return distance;
  }

 private:
  std::vector<float> target_row(const Text& output) const {
    return models_.target_logit(int32_t(output.size()), output.empty() ? ToyModels::kFirstPrevious : output.back());
  }

  /// The target's distribution behind `output`, edited step by step.
  std::vector<double> plain_law(const Text& output) const {
    std::vector<float> logit = target_row(output);
    Text text = output;
    text.insert(text.begin(), ToyModels::kFirstPrevious);
    for (int32_t token = 0; token < models_.vocab_size(); ++token) {
      float& one = logit[size_t(token)];
      if (params_.constraint && !may_follow_(output, token)) one = -INFINITY;
      for (const auto& word : params_.bad_words)
        if (word.back() == token && word.size() <= text.size() + 1 &&
            std::equal(word.begin(), word.end() - 1, text.end() - std::ptrdiff_t(word.size() - 1)))
          one = -INFINITY;
      if (token == kEos && int(output.size()) < params_.min_tokens) one = -INFINITY;
      for (const LogitBias& bias : params_.logit_bias)
        if (bias.token == token) one += bias.bias;
      if (std::count(text.begin(), text.end(), token) > 0)
        one = one > 0 ? one / params_.repetition_penalty : one * params_.repetition_penalty;
      const auto count = std::count(output.begin(), output.end(), token);
      if (count > 0) one -= params_.frequency_penalty * float(count) + params_.presence_penalty;
    }
    return reference_distribution(logit, params_.sampler);
  }

  /// Adds the law of `length` tokens that begin with `text`, digits in base vocab_size.
  void go_on(const Text& text, double probability, int length, std::vector<double>& law) const {
    if (int(text.size()) >= length) {
      size_t index = 0;
      for (int i = 0; i < length; ++i) index = index * size_t(models_.vocab_size()) + size_t(text[size_t(i)]);
      law[index] += probability;
      return;
    }
    const std::vector<double> next = plain_law(text);
    for (int32_t token = 0; token < models_.vocab_size(); ++token) {
      if (!(next[size_t(token)] > 0.0)) continue;
      Text longer = text;
      longer.push_back(token);
      go_on(longer, probability * next[size_t(token)], length, law);
    }
  }

  /// The tokens that one step emits.
  Text step(const TreeShape& parent, DraftProbKind kind, VerifyRule rule, Drafter drafter, Fault fault,
            StepScratch<double>& scratch, Enumeration& chance) const {
    const int32_t vocab = models_.vocab_size();
    const Text prompt = {ToyModels::kFirstPrevious}, ends = {kEos};
    SamplingPlan plan(params_, 1, ends, vocab);
    plan.follow(prompt);
    DraftTree tree;
    std::vector<Text> path;  // of each node
    scratch.draft_prob.assign((parent.size() + 1) * size_t(vocab), 0.0);
    double* prob = scratch.draft_prob.data() - vocab;
    for (size_t node = 0; node < parent.size(); ++node) {
      const int32_t above = parent[node];
      const Text before = above < 0 ? Text{} : path[size_t(above)];
      std::vector<float> logit =
          models_.draft_logit(int32_t(before.size()), before.empty() ? prompt[0] : before.back());
      if (drafter == Drafter::planned) {
        LogitEdits edits;
        plan.add_row(before, 0, edits);
        edit(edits, logit);
      }
      const auto is_taken = [&](int32_t id) {
        for (int32_t other = 0; other < tree.size(); ++other)
          if (parent[size_t(other)] == above && tree.token[size_t(other)] == id) return true;
        return false;
      };
      const bool is_first = node == 0 || parent[node - 1] != above;
      int32_t token = -1;
      if (kind == DraftProbKind::point_mass) {
        for (int32_t id = 0; id < vocab; ++id)
          if (!is_taken(id) && (token < 0 || logit[size_t(id)] > logit[size_t(token)])) token = id;
      } else if (is_first) {
        prob += vocab;
        const math::SampledRow<double> sampled = math::sample_token(
            {logit.data(), vocab, params_.sampler}, {0, NoisePurpose::draft, 0, int32_t(node)}, scratch.draft, chance);
        write_dense(sampled.handed_on, prob, vocab);
        token = sampled.token;
      } else {
        token = chance.draw(
            vocab, [](int32_t i) { return i; }, [&](int32_t i) { return is_taken(i) ? 0.0 : prob[i]; },
            {0, NoisePurpose::draft, 0, int32_t(node)});
      }
      if (token < 0) break;  // nothing is left to draw
      if (fault == Fault::forbidden_drafts_are_cut && plain_law(before)[size_t(token)] == 0.0) break;
      tree.add(token, above);
      path.push_back(before);
      path.back().push_back(token);
    }
    if (drafter == Drafter::cut) {
      tree = plan.allowed(tree);
      path.clear();
      for (int32_t node = 0; node < tree.size(); ++node) {
        const int32_t above = tree.parent[size_t(node)];
        path.push_back(above < 0 ? Text{} : path[size_t(above)]);
        path.back().push_back(tree.token[size_t(node)]);
      }
    }
    std::vector<float>& rows = scratch.target_logit;
    rows = target_row({});
    for (const Text& text : path) {
      const std::vector<float> row = target_row(text);
      rows.insert(rows.end(), row.begin(), row.end());
    }
    LogitEdits edits;
    if (fault == Fault::rows_miss_drafts)
      for (int32_t row = 0; row <= tree.size(); ++row) plan.add_row({}, row, edits);
    else
      plan.add_window(tree, 0, edits);
    if (fault == Fault::bonus_without_mask) edits.rows.back().mask = -1;
    edit(edits, rows);
    StepResult result;
    verify_drafts(models_, params_.sampler, 0, tree.token.data(), tree.is_chain() ? nullptr : tree.parent.data(),
                  tree.size(), kind, rule, scratch, chance, result);
    return {result.token, result.token + result.num_accepted + 1};
  }

  void edit(const LogitEdits& edits, std::vector<float>& rows) const {
    const int32_t vocab = models_.vocab_size();
    cpu_->edit_logits(edits.args(f32_view(rows.data(), int32_t(rows.size()) / vocab, vocab), vocab));
  }

  const ToyModels& models_;
  const SamplingParams params_;
  bool (*const may_follow_)(const Text& output, int32_t token);
  const std::unique_ptr<Backend> cpu_ = make_backend("cpu", {.threads = 1});
};

const TreeShape kChain = {-1, 0}, kLongChain = {-1, 0, 1};

TEST(PlanLawTest, WindowsAndTreesEmitThePlansLaw) {
  for (const int vocab : {3, 4}) {
    const ToyModels models(vocab, {.temperature = 1.0f}, uint64_t(50 + vocab));
    for (const PlanCase& each : plan_cases(vocab)) {
      const PlanLaw law(models, each);
      for (const Drafter drafter : {Drafter::planned, Drafter::unplanned, Drafter::cut})
        for (const DraftProbKind kind : {DraftProbKind::dense, DraftProbKind::point_mass}) {
          if (drafter == Drafter::cut && kind == DraftProbKind::dense) continue;  // a fault: below
          SCOPED_TRACE(
              fmt::format("{}, vocabulary {}, drafter {}, kind {}", each.name, vocab, int(drafter), int(kind)));
          EXPECT_LE(law.distance({}, 3, kind, VerifyRule::rejection, drafter), kPlanTolerance);
          for (const VerifyRule rule : {VerifyRule::rejection, VerifyRule::block}) {
            EXPECT_LE(law.distance(kChain, 3, kind, rule, drafter), kPlanTolerance);
            if (vocab == 3) {
              EXPECT_LE(law.distance(kLongChain, 4, kind, rule, drafter), kPlanTolerance);
            }
          }
          EXPECT_LE(law.distance(kSmallTree, 3, kind, VerifyRule::rejection, drafter), kPlanTolerance);
        }
    }
  }
}

TEST(PlanLawTest, FaultsChangeTheLaw) {
  const ToyModels models(4, {.temperature = 1.0f}, 61);
  const auto cases = plan_cases(4);
  for (const PlanCase& each : cases) {
    const PlanLaw law(models, each);
    const bool has_mask = each.params.constraint != nullptr;
    const auto seen = [&](Fault fault, Drafter drafter) {
      return law.distance(kChain, 3, DraftProbKind::dense, VerifyRule::rejection, drafter, fault);
    };
    SCOPED_TRACE(each.name);
    EXPECT_GT(seen(Fault::rows_miss_drafts, Drafter::planned), kSeen);  // counts, words, min_tokens, masks
    if (has_mask) {
      EXPECT_GT(seen(Fault::bonus_without_mask, Drafter::planned), kSeen);
      if (each.params.sampler.top_p < 1.0f) continue;  // here the drafter's filters leave it nothing that is forbidden
      EXPECT_GT(seen(Fault::forbidden_drafts_are_cut, Drafter::unplanned), kSeen);  // the residual is lost
      EXPECT_GT(seen(Fault::none, Drafter::cut), kSeen);                            // what may be done to no draw
    }
  }
}

}  // namespace
}  // namespace paceline
