// Sampling plans through scheduler, windows, trees, preemption and steps in flight: the texts are those of one token at
// a time from rows that are edited plainly, as vLLM's sampler goes.

#include <random>
#include <set>

#include "fake_rig.h"
#include "kernels/math/verify.h"
#include "tests/support/expect_error.h"

namespace paceline {
namespace {

using namespace test;

constexpr int kVocab = 23;
constexpr int32_t kEos = 4;

/// A rule that every token before has a say in: what may follow depends on their sum, and now and then all may.
class SumConstraint final : public TokenConstraint {
 public:
  static bool may_follow(std::span<const int32_t> text, int32_t token) {
    int sum = token;
    for (const int32_t one : text) sum += one;
    return sum % 3 != 1 || text.size() % 7 == 6;
  }
  bool allow(std::span<const int32_t> output, std::span<const int32_t> drafts, std::span<uint32_t> mask) override {
    std::vector<int32_t> text(output.begin(), output.end());
    text.insert(text.end(), drafts.begin(), drafts.end());
    if (text.size() % 7 == 6) return false;
    for (int32_t token = 0; token < kVocab; ++token)
      if (may_follow(text, token)) mask[0] |= uint32_t{1} << token;
    return true;
  }
};

/// The row behind `text`, step by step.
void edit_row_plainly(const SamplingParams& params, size_t num_prompt, const std::vector<int32_t>& text,
                      std::vector<float>& logit) {
  const std::vector<int32_t> output(text.begin() + std::ptrdiff_t(num_prompt), text.end());
  const auto forbid = [&](int32_t token) { logit[size_t(token)] = -INFINITY; };
  if (params.constraint)
    for (int32_t token = 0; token < kVocab; ++token)
      if (!SumConstraint::may_follow(output, token)) forbid(token);
  for (const auto& word : params.bad_words) {
    if (word.size() > text.size() + 1) continue;
    if (std::equal(word.begin(), word.end() - 1, text.end() - std::ptrdiff_t(word.size() - 1))) forbid(word.back());
  }
  if (int(output.size()) < params.min_tokens) {
    forbid(kEos);
    for (const int32_t token : params.stop_token_ids) forbid(token);
  }
  for (const LogitBias& bias : params.logit_bias) logit[size_t(bias.token)] += bias.bias;
  const std::set<int32_t> seen(text.begin(), text.end());
  for (const int32_t token : seen) {
    float& one = logit[size_t(token)];
    one = one > 0 ? one / params.repetition_penalty : one * params.repetition_penalty;
  }
  for (int32_t token = 0; token < kVocab; ++token) {
    const auto count = float(std::count(output.begin(), output.end(), token));
    if (count > 0) logit[size_t(token)] -= params.frequency_penalty * count + params.presence_penalty;
  }
}

std::vector<int32_t> plain_text(const FakeModel& model, const std::vector<int32_t>& prompt,
                                const SamplingParams& params, int max_model_len) {
  std::vector<int32_t> text = prompt;
  const int room = std::min(params.max_tokens, max_model_len - int(prompt.size()));
  math::DistributionScratch<float> scratch;
  math::PhiloxChance chance;
  for (int i = 0; i < room; ++i) {
    std::vector<float> logit = model.logits_behind(text);
    edit_row_plainly(params, prompt.size(), text, logit);
    const int32_t token =
        math::sample_token({logit.data(), kVocab, params.sampler},
                           {params.sampler.seed, NoisePurpose::target, int32_t(text.size()), 0}, scratch, chance)
            .token;
    text.push_back(token);
    const auto& stops = params.stop_token_ids;
    if ((!params.ignore_eos && token == kEos) || std::find(stops.begin(), stops.end(), token) != stops.end()) break;
  }
  return {text.begin() + std::ptrdiff_t(prompt.size()), text.end()};
}

/// Chains or trees about the right text; drafts past its end, too, such as behind a token that min_tokens forbids.
class PlannedProposer final : public Proposer {
 public:
  PlannedProposer(std::vector<std::vector<int32_t>> answers, bool trees, int64_t& num_offered)
      : answers_(std::move(answers)), trees_(trees), num_offered_(num_offered) {}
  std::string_view name() const override { return "planned"; }
  bool branches() const override { return trees_; }
  void end(const Sequence&) override {}
  void preempt(SeqId) override {}
  void propose(std::span<const DraftRequest> requests, std::span<Proposal> out) override {
    for (size_t i = 0; i < requests.size(); ++i) {
      const Sequence& seq = *requests[i].seq;
      out[i] = {.committed = seq.length(), .draft = {}, .probs = {}};
      grow(seq, requests[i], out[i].draft);
      num_offered_ += out[i].draft.size();
    }
  }

 private:
  void grow(const Sequence& seq, const DraftRequest& request, DraftTree& tree) const {
    const std::vector<int32_t>& answer = answers_[size_t(seq.id - 1)];
    const size_t done = size_t(seq.num_output());
    std::mt19937 random(unsigned(seq.id) * 7919u + unsigned(done));
    int32_t parent = DraftTree::kRoot;
    for (int depth = 0; depth < request.max_depth && tree.size() < request.max_drafts; ++depth) {
      const size_t at = done + size_t(depth);
      const int32_t right = at < answer.size() ? answer[at] : kEos;
      const int32_t wrong = (right + 1 + int32_t(random() % (kVocab - 1))) % kVocab;
      if (trees_ && random() % 2 && tree.size() + 1 < request.max_drafts) {
        const int32_t sibling = tree.add(wrong, parent);
        if (random() % 2 && depth + 1 < request.max_depth && tree.size() + 1 < request.max_drafts)
          tree.add(right, sibling);
        parent = tree.add(right, parent);
      } else {
        parent = tree.add(random() % 5 ? right : wrong, parent);
      }
    }
  }

  const std::vector<std::vector<int32_t>> answers_;
  const bool trees_;
  int64_t& num_offered_;
};

enum class Option : uint8_t { none, repetition, presence, frequency, bias, bad_words, min_tokens, constraint, all };

constexpr const char* kOptionNames[] = {"none",      "repetition", "presence",   "frequency", "bias",
                                        "bad_words", "min_tokens", "constraint", "all"};
void PrintTo(Option option, std::ostream* out) { *out << kOptionNames[size_t(option)]; }

SamplingParams planned(Option option, VerifyRule rule, int i) {
  SamplingParams params = greedy_params(8 + i * 7 % 37, i % 3 != 0);
  if (rule == VerifyRule::coupled)
    params.sampler = {.temperature = 0.8f, .top_k = i % 2 ? 12 : 0, .top_p = 0.95f, .seed = uint64_t(i)};
  const auto has = [option](Option one) { return option == one || option == Option::all; };
  if (has(Option::repetition)) params.repetition_penalty = i % 2 ? 1.4f : 0.8f;
  if (has(Option::presence)) params.presence_penalty = i % 2 ? 1.5f : -1.0f;
  if (has(Option::frequency)) params.frequency_penalty = i % 2 ? 0.7f : -0.4f;
  if (has(Option::bias)) params.logit_bias = {{int32_t(i % kVocab), 3.0f}, {int32_t((i + 5) % kVocab), -100.0f}};
  if (has(Option::bad_words))
    for (int32_t token = 0; token < kVocab; ++token) {  // most of what may follow a token, and some pairs
      params.bad_words.push_back({token, (token * 3 + i) % kVocab});
      params.bad_words.push_back({token, (token * 5 + i) % kVocab, (token * 7) % kVocab});
      params.bad_words.push_back({token, (token * 11 + 2) % kVocab});
      if (token % 9 == 2) params.bad_words.push_back({token});
    }
  if (has(Option::min_tokens)) {
    params.ignore_eos = i % 4 == 1;
    params.min_tokens = params.max_tokens / 2;
    params.stop_token_ids = {7, 9};
  }
  if (has(Option::constraint)) params.constraint = std::make_shared<SumConstraint>();
  return params;
}

struct PlanTotal {
  EngineCounters counters;
  int64_t hits = 0, num_changed = 0;
};

void run_plans(FakeRigOptions options, Option option, bool trees, PlanTotal& total) {
  options.model.vocab_size = kVocab;
  options.model.eos = {kEos};
  const FakeModel model(options.model);
  std::vector<std::vector<int32_t>> prompts, answers;
  std::vector<SamplingParams> all;
  for (int i = 0; i < 12; ++i) {
    prompts.push_back(some_prompt(3 + i * 5 % 23, i % 5));
    all.push_back(planned(i % 6 == 5 ? Option::all : option, options.rule, i));
    if (i % 6 == 4) all.back() = planned(Option::none, options.rule, i);  // without a plan, among others
    answers.push_back(plain_text(model, prompts.back(), all.back(), options.max_model_len));
    const SamplingParams without = planned(Option::none, options.rule, i);
    total.num_changed += answers.back() != plain_text(model, prompts.back(), without, options.max_model_len);
  }
  int64_t num_offered = 0;
  options.make_proposer = [&]() -> std::unique_ptr<Proposer> {
    if (options.draft_len == 0) return nullptr;
    return std::make_unique<PlannedProposer>(answers, trees, num_offered);
  };
  FakeRig rig(options);
  for (size_t i = 0; i < all.size(); ++i) rig.submit_expecting(answers[i], prompts[i], all[i]);
  rig.run();
  rig.expect_all_texts();
  const EngineCounters& c = rig.engine->counters();
  EXPECT_EQ(c.drafted, num_offered) << "a draft that is forbidden is refused, not cut";
  total.counters.accepted += c.accepted;
  total.counters.drafted += c.drafted;
  total.counters.preemptions += c.preemptions;
  total.counters.swapped_blocks += c.swapped_blocks;
  total.counters.accepted_at[3] += c.accepted_at[3];
  total.hits += rig.engine->pool().prefix_hit_tokens();
}

class PlanEngine : public testing::TestWithParam<Option> {};

TEST_P(PlanEngine, TextsAreThoseOfOneTokenAtATime) {
  PlanTotal total;
  for (const VerifyRule rule : {VerifyRule::greedy, VerifyRule::coupled})
    for (const int draft_len : {0, 1, 5, 12})
      for (const bool trees : {false, true})
        for (const auto& [run_ahead, micro_batches] : {std::pair{0, 1}, {1, 1}, {0, 2}, {0, 3}})
          for (const bool tight : {false, true}) {
            if (trees && draft_len < 5) continue;
            FakeRigOptions options;
            options.rule = rule;
            options.draft_len = draft_len;
            options.run_ahead = run_ahead;
            options.micro_batches = micro_batches;
            options.budget = tight ? 24 : 96;
            options.caching = draft_len % 2 ? PrefixCaching::on : PrefixCaching::off;
            options.model.num_blocks = tight ? 26 : 128;
            options.model.num_host_blocks = tight && micro_batches != 2 ? 40 : 0;
            SCOPED_TRACE(fmt::format("rule {} k {} trees {} run_ahead {} micro {} tight {}", int(rule), draft_len,
                                     trees, run_ahead, micro_batches, tight));
            run_plans(options, GetParam(), trees, total);
          }
  EXPECT_GT(total.num_changed, 300) << "plans that change nothing show nothing";
  EXPECT_GT(total.counters.accepted, 3000);
  EXPECT_GT(total.counters.drafted, total.counters.accepted * 5 / 4);
  EXPECT_GT(total.counters.accepted_at[3], 100);
  EXPECT_GT(total.counters.preemptions, 100);
  EXPECT_GT(total.counters.swapped_blocks, 100);
  EXPECT_GT(total.hits, 100);
}

INSTANTIATE_TEST_SUITE_P(Options, PlanEngine,
                         testing::Values(Option::repetition, Option::presence, Option::frequency, Option::bias,
                                         Option::bad_words, Option::min_tokens, Option::constraint, Option::all),
                         [](const auto& each) { return std::string(kOptionNames[size_t(each.param)]); });

/// What each emitted token of a request must bring.
struct WantedLogprobs {
  std::vector<double> logprob;          // of the token
  std::vector<std::vector<int>> order;  // all tokens, the likeliest first
  std::vector<std::vector<double>> row;
};

WantedLogprobs wanted_logprobs(const FakeModel& model, const std::vector<int32_t>& prompt, const SamplingParams& params,
                               const std::vector<int32_t>& answer) {
  WantedLogprobs want;
  std::vector<int32_t> text = prompt;
  for (const int32_t token : answer) {
    std::vector<float> logit = model.logits_behind(text);
    double sum = 0.0;
    for (const float one : logit) sum += std::exp(double(one));
    std::vector<double> row;
    std::vector<int> order;
    for (int id = 0; id < kVocab; ++id) {
      row.push_back(double(logit[size_t(id)]) - std::log(sum));
      order.push_back(id);
    }
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return logit[size_t(a)] > logit[size_t(b)]; });
    want.logprob.push_back(row[size_t(token)]);
    want.order.push_back(std::move(order));
    want.row.push_back(std::move(row));
    text.push_back(token);
  }
  return want;
}

TEST(PlanLogprobs, AreThoseOfTheRowBeforeTheEdits) {
  int64_t num_seen = 0, num_kept = 0;
  for (const VerifyRule rule : {VerifyRule::greedy, VerifyRule::coupled})
    for (const int draft_len : {0, 6})
      for (const bool trees : {false, true})
        for (const auto& [run_ahead, micro_batches] : {std::pair{0, 1}, {1, 1}, {0, 2}}) {
          if (trees && draft_len == 0) continue;
          FakeRigOptions options;
          options.rule = rule;
          options.draft_len = draft_len;
          options.run_ahead = run_ahead;
          options.micro_batches = micro_batches;
          options.model.num_blocks = 40;
          options.model.eos = {kEos};
          const FakeModel model(options.model);
          std::vector<std::vector<int32_t>> prompts, answers;
          std::vector<SamplingParams> all;
          std::vector<WantedLogprobs> wanted;
          for (int i = 0; i < 10; ++i) {
            prompts.push_back(some_prompt(3 + i * 5 % 23, i % 5));
            all.push_back(planned(i % 3 ? Option::all : Option::none, rule, i));
            all.back().logprobs = {.num_top = i == 9 ? LogprobParams::kNone : i % 4 * 7 % 20};
            answers.push_back(plain_text(model, prompts.back(), all.back(), options.max_model_len));
            wanted.push_back(wanted_logprobs(model, prompts.back(), all.back(), answers.back()));
          }
          int64_t num_offered = 0;
          options.make_proposer = [&]() -> std::unique_ptr<Proposer> {
            if (draft_len == 0) return nullptr;
            return std::make_unique<PlannedProposer>(answers, trees, num_offered);
          };
          FakeRig rig(options);
          for (size_t i = 0; i < all.size(); ++i) rig.submit_expecting(answers[i], prompts[i], all[i]);
          std::vector<size_t> done(all.size(), 0);
          while (!rig.engine->idle())
            for (const Emitted& emitted : rig.step()) {
              const size_t i = size_t(emitted.seq - 1);
              const LogprobParams& asked = all[i].logprobs;
              ASSERT_EQ(emitted.logprobs.size(), asked.any() ? emitted.token.size() : 0);
              for (const TokenLogprobs& got : emitted.logprobs) {
                const size_t at = done[i]++;
                ASSERT_LT(at, wanted[i].row.size());
                EXPECT_NEAR(got.logprob, wanted[i].logprob[at], 2e-6) << "request " << i << ", token " << at;
                const auto& row = wanted[i].row[at];
                const auto num_finite = std::count_if(row.begin(), row.end(), [](double p) { return p > -INFINITY; });
                ASSERT_EQ(got.top.size(), size_t(std::min<int64_t>(asked.num_top, num_finite)));
                for (size_t rank = 0; rank < got.top.size(); ++rank) {
                  EXPECT_EQ(got.top[rank].token, wanted[i].order[at][rank]);
                  EXPECT_NEAR(got.top[rank].logprob, row[size_t(got.top[rank].token)], 2e-6);
                }
              }
              num_seen += int64_t(emitted.logprobs.size());
              num_kept += emitted.logprobs.empty() ? 0 : emitted.num_accepted;
            }
          rig.expect_all_texts();
        }
  EXPECT_GT(num_seen, 2000);
  EXPECT_GT(num_kept, 500);
}

// Where nothing may follow, that request ends, and no other.
class NothingConstraint final : public TokenConstraint {
 public:
  bool allow(std::span<const int32_t> output, std::span<const int32_t> drafts, std::span<uint32_t> mask) override {
    if (output.size() + drafts.size() < 5) mask[0] = ~uint32_t{0};
    return true;
  }
};

TEST(PlanLimits, ARowWhereNothingIsAllowedEndsItsRequest) {
  FakeRig rig({});
  SamplingParams params = greedy_params(20);
  const std::vector<int32_t> prompt = some_prompt(6, 1);
  const auto text = rig.model.greedy_text(prompt, 5);
  params.constraint = std::make_shared<NothingConstraint>();
  const SeqId ended = rig.submit_expecting(text, prompt, params);
  rig.submit(some_prompt(9, 2), greedy_params(20));
  rig.run();
  rig.expect_all_texts();
  EXPECT_EQ(rig.finish.at(ended), FinishReason::numerical_error);
}

// A text that may go on with its end alone ends, though min_tokens are not reached.
class FourTokensConstraint final : public TokenConstraint {
 public:
  bool allow(std::span<const int32_t> output, std::span<const int32_t> drafts, std::span<uint32_t> mask) override {
    mask[0] = output.size() + drafts.size() < 4 ? ~uint32_t{0} : uint32_t{1} << kEos;
    return true;
  }
};

TEST(PlanLimits, MinTokensWaitsForNoTextThatMustEnd) {
  FakeRigOptions options;
  options.model.vocab_size = kVocab;
  options.model.eos = {kEos};
  FakeRig rig(options);
  SamplingParams params = greedy_params(20, false);
  const std::vector<int32_t> prompt = some_prompt(6, 1);
  params.min_tokens = 10;
  params.stop_token_ids = {kEos, 7};
  auto text = plain_text(rig.model, prompt, params, 96);
  ASSERT_GE(text.size(), 10u);
  text.resize(4);
  text.push_back(kEos);
  params.constraint = std::make_shared<FourTokensConstraint>();
  const SeqId ended = rig.submit_expecting(text, prompt, params);
  rig.run();
  rig.expect_all_texts();
  EXPECT_EQ(rig.finish.at(ended), FinishReason::stop);
}

TEST(PlanLimits, OptionsOutsideTheirRangesAreRefusedInOneLine) {
  FakeRig rig({});
  const auto refused = [&](const char* message, auto&& change) {
    SamplingParams params = greedy_params(20);
    change(params);
    expect_error(ExitCode::usage, {message}, [&] { rig.engine->submit(some_prompt(6, 1), params); });
  };
  refused("repetition_penalty: found 0", [](auto& p) { p.repetition_penalty = 0.0f; });
  refused("repetition_penalty: found nan", [](auto& p) { p.repetition_penalty = NAN; });
  refused("presence_penalty: found 2.5, expected a number from -2 to 2", [](auto& p) { p.presence_penalty = 2.5f; });
  refused("frequency_penalty: found nan", [](auto& p) { p.frequency_penalty = NAN; });
  refused("logit_bias: token 23 is outside the vocabulary of 23", [](auto& p) { p.logit_bias = {{23, 1.0f}}; });
  refused("logit_bias: found -101", [](auto& p) { p.logit_bias = {{2, -101.0f}}; });
  refused("logit_bias: found token 2 twice", [](auto& p) { p.logit_bias = {{2, 1.0f}, {2, 1.0f}}; });
  refused("bad_words: found an entry of 0 tokens", [](auto& p) { p.bad_words = {{1}, {}}; });
  refused("bad_words: token -1 is outside the vocabulary of 23", [](auto& p) { p.bad_words = {{1, -1}}; });
  refused("min_tokens: found 21, expected 0 to max_tokens, which is 20", [](auto& p) { p.min_tokens = 21; });
  refused("logprobs: found 21, expected at most 20", [](auto& p) { p.logprobs.num_top = 21; });
  refused("logprobs: found -2", [](auto& p) { p.logprobs.num_top = -2; });
  refused("min_tokens: found -1", [](auto& p) { p.min_tokens = -1; });
  EXPECT_TRUE(rig.engine->idle());
}

}  // namespace
}  // namespace paceline
