// Sampling plans under every proposer, as chains and as trees: the tokens are those of plain decoding with the same
// plan, and drafts that are drawn from edited logits are kept.

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "engine/grammar/grammar_constraint.h"
#include "engine/grammar/grammar_sources.h"
#include "engine/tokenizer/tokenizer.h"
#include "kernels/fnv1a.h"
#include "tests/speculative/lossless/workload.h"
#include "tests/support/paths.h"

namespace paceline::test {
namespace {

/// Tokens of one of three classes, by the number of tokens before; sometimes all.
class ClassConstraint final : public TokenConstraint {
 public:
  explicit ClassConstraint(int vocab_size) : vocab_size_(vocab_size) {}
  bool allow(std::span<const int32_t> output, std::span<const int32_t> drafts, std::span<uint32_t> mask) override {
    const size_t place = output.size() + drafts.size();
    if (place % 3 == 2) return false;
    for (int32_t token = 0; token < vocab_size_; ++token)
      if (token % 3 != int32_t(place % 3)) mask[size_t(token) / 32] |= uint32_t{1} << (token % 32);
    return true;
  }

 private:
  const int vocab_size_;
};

/// Words of at most four letters, numbers, and what stands between them. Of target-7m's vocabulary.
std::shared_ptr<TokenConstraint> short_words(const std::vector<int32_t>& ends) {
  static const std::shared_ptr<const TokenTrie> kTrie = TokenTrie::make(*Tokenizer::load(builtin_model("target-7m")));
  const char* source = R"(
root ::= blank? (word | number) (blank (word | number))*
word ::= [A-Za-z]{1,4} ("'" [a-z])?
number ::= [0-9]+ ("." [0-9]{1,2})?
blank ::= [,.:;?!]? [ \n]+)";
  return make_grammar_constraint(std::make_shared<CompiledGrammar>(ebnf_grammar(source), kTrie), ends);
}

struct PlanOption {
  const char* name;
  void (*set)(SamplingParams& params, const ModelSpec& spec, const std::vector<int32_t>& plain);
};

/// plain: the request's text without a plan.
constexpr PlanOption kPlanOptions[] = {
    {"repetition", [](auto& params, auto&, auto&) { params.repetition_penalty = 1.2f; }},
    {"presence", [](auto& params, auto&, auto&) { params.presence_penalty = 0.9f; }},
    {"frequency", [](auto& params, auto&, auto&) { params.frequency_penalty = 0.4f; }},
    {"logit_bias",
     [](auto& params, auto&, auto& plain) {
       params.logit_bias = {{plain[0], 1.5f}};
       for (const int32_t token : plain)
         if (token != plain[0]) params.logit_bias.resize(1), params.logit_bias.push_back({token, -2.0f});
     }},
    {"bad_words",
     [](auto& params, auto&, auto& plain) {  // each third pair of the text, and one of its tokens
       for (size_t i = 0; i + 1 < plain.size(); i += 3) params.bad_words.push_back({plain[i], plain[i + 1]});
       params.bad_words.push_back({plain[plain.size() / 2]});
     }},
    {"min_tokens",
     [](auto& params, auto&, auto& plain) {  // of a text that would stop early
       params.stop_token_ids = {plain[plain.size() / 4]};
       params.ignore_eos = false;
       params.min_tokens = params.max_tokens * 3 / 4;
     }},
    {"grammar",
     [](auto& params, const ModelSpec& spec, auto&) { params.constraint = short_words(spec.eos_token_ids); }},
    {"constraint", [](auto& params, const ModelSpec& spec,
                      auto&) { params.constraint = std::make_shared<ClassConstraint>(spec.vocab_size); }},
};

struct PlanRig {
  static constexpr int kNumRequests = int(std::size(kPlanOptions)) + 2;
  static constexpr int kMaxTokens = 16;
  PlanRig() : workload(Workload::trained(3, 2, kMaxTokens)) {}

  /// One of each option, and two of all but the constraint, with the text of plain decoding alone.
  std::vector<CheckedRequest> requests(VerifyRule rule) {
    EngineRig plain_rig(workload.rig_options(1, 1));
    auto plain = workload.requests({.rule = rule, .seed = 5, .min_requests = kNumRequests});
    std::vector<CheckedRequest> made;
    for (size_t i = 0; i < size_t(kNumRequests); ++i) {
      CheckedRequest request = plain[i];
      request.params.max_tokens = kMaxTokens;
      request.params.ignore_eos = true;
      request.params.stop_token_ids.clear();
      const std::vector<int32_t> without = decode(plain_rig, request);
      for (size_t option = 0; option < std::size(kPlanOptions); ++option)
        if (i >= std::size(kPlanOptions) ? option + 1 < std::size(kPlanOptions) : i == option)
          kPlanOptions[option].set(request.params, plain_rig.spec(), without);
      request.expected = decode(plain_rig, request, &request.expected_finish);
      num_changed += request.expected != without;
      made.push_back(std::move(request));
    }
    return made;
  }

  /// Greedy, without a plan, and without stops.
  CheckedRequest bare_request() {
    CheckedRequest request = workload.requests({.rule = VerifyRule::greedy, .seed = 5, .min_requests = 1})[0];
    request.params.max_tokens = kMaxTokens;
    request.params.ignore_eos = true;
    request.params.stop_token_ids.clear();
    return request;
  }

  static std::vector<int32_t> decode(EngineRig& rig, const CheckedRequest& request, FinishReason* finish = nullptr,
                                     const EngineSetup& setup = {}) {
    const auto engine = rig.make_engine(setup);
    engine->submit(request.prompt, request.params);
    std::vector<int32_t> text;
    while (!engine->idle())
      for (const Emitted& emitted : engine->step()) {
        text.insert(text.end(), emitted.token.begin(), emitted.token.end());
        if (finish) *finish = emitted.finish;
      }
    return text;
  }

  Workload workload;
  int num_changed = 0;
};

constexpr int kFewPages = 13;  // of settings_of(): five sequences, eight drafts, few pages, KV to host memory

/// The number that a cell's settings follow from: by the proposer's name, so that one proposer more leaves those of the
/// others. Drafts of a model lack pages, on all ranks.
int settings_of(const RigProposer& proposer, VerifyRule rule) {
  if (proposer.name == RigProposer::draft.name && !proposer.branches) return kFewPages;
  Fnv1a hash;
  hash.add(proposer.name.data(), proposer.name.size());
  hash.add_word(uint64_t(proposer.branches));
  hash.add_word(uint64_t(rule));
  return int(hash.value() % 10007);
}

TEST(PlanLossless, TokensEqualPlainDecoding) {
  PlanRig plans;
  std::map<VerifyRule, std::vector<CheckedRequest>> requests;
  for (const VerifyRule rule : {VerifyRule::greedy, VerifyRule::coupled}) requests[rule] = plans.requests(rule);
  EXPECT_GE(plans.num_changed, 2 * PlanRig::kNumRequests - 6);
  int64_t preemptions = 0, swapped = 0, hits = 0;
  for (const auto& [tp, pp] : {std::pair{1, 1}, {2, 1}, {1, 2}}) {
    if (tp * pp > most_rig_ranks()) continue;
    EngineRig rig(plans.workload.rig_options(tp, pp));
    for (const RigProposer& proposer : drafting_rig_proposers())
      for (const auto& [rule, all] : requests) {
        const int cell = settings_of(proposer, rule);
        if (tp * pp > 1 && cell != kFewPages && cell % 6) continue;
        const bool tight = cell / 3 % 2 == 0;
        const int batch = cell % 5 == 2 ? 1 : 5;
        EngineSetup setup{.proposer = proposer,
                          .rule = rule,
                          .num_speculative_tokens = 1 + cell * 3 % 8,
                          .max_num_seqs = batch,
                          .max_num_batched_tokens = cell % 2 ? 512 : 64,
                          .prefix_caching = cell % 4 < 2 ? PrefixCaching::on : PrefixCaching::off};
        if (cell % 2) setup.draft_placement = DraftPlacement::last_stage;
        setup.num_blocks =
            std::min(blocks_for(all, batch, rig.options().block_size, tight ? 0.6 : 1.3), rig.options().num_blocks);
        if (cell % 4 < 2) setup.num_host_blocks = rig.options().num_host_blocks;
        std::any kept;
        if (proposer_entry(proposer.name).knows_texts()) kept = texts_of(all);
        setup.kept = &kept;
        SCOPED_TRACE(fmt::format("{} tp{} pp{} rule {} k {}", rig_proposer_name(proposer), tp, pp, int(rule),
                                 setup.num_speculative_tokens));
        const auto engine = rig.make_engine(setup);
        const RunReport report =
            run_checked(*engine, all, {.before_step = {}, .draft = rig.draft_proposer(), .cancelled = nullptr});
        EXPECT_TRUE(report.clean()) << report.describe();
        EXPECT_GT(report.counters.drafted, 0);
        if (proposer.self && !proposer.branches) {  // it draws what the target does, from logits edited as those are
          EXPECT_EQ(report.counters.accepted, report.counters.drafted);
        }
        preemptions += report.counters.preemptions;
        swapped += report.counters.swapped_blocks;
        hits += report.prefix_hit_tokens;
      }
  }
  if (most_rig_ranks() > 1) {  // the cells of one rank alone have no lack of pages
    EXPECT_GT(preemptions, 0);
    EXPECT_GT(swapped, 0);
  }
  EXPECT_GT(hits, 100);
}

/// All tokens up to a place of the output, none from there on.
class NothingFrom final : public TokenConstraint {
 public:
  explicit NothingFrom(size_t place) : place_(place) {}
  bool allow(std::span<const int32_t> output, std::span<const int32_t> drafts, std::span<uint32_t>) override {
    return output.size() + drafts.size() >= place_;
  }

 private:
  const size_t place_;
};

// What was accepted before a row without a distribution is the request's, as when it is decoded token by token.
TEST(PlanLossless, AnErrorTakesNoAcceptedTokens) {
  PlanRig plans;
  EngineRig rig(plans.workload.rig_options(1, 1));
  CheckedRequest request = plans.bare_request();
  const std::vector<int32_t> plain = PlanRig::decode(rig, request);
  const size_t stop = size_t(std::find(plain.begin(), plain.end(), plain[7]) - plain.begin());  // it may come before
  request.params.constraint = std::make_shared<NothingFrom>(stop + 1);
  for (const bool stops : {false, true}) {
    if (stops) request.params.stop_token_ids = {plain[stop]};
    for (const RigProposer& proposer : drafting_rig_proposers()) {
      SCOPED_TRACE(fmt::format("{}{}", rig_proposer_name(proposer), stops ? ", stop" : ""));
      std::any kept;
      if (proposer_entry(proposer.name).knows_texts()) kept = texts_of({request});
      FinishReason finish = FinishReason::none;
      const std::vector<int32_t> text = PlanRig::decode(
          rig, request, &finish,
          {.proposer = proposer, .rule = VerifyRule::greedy, .num_speculative_tokens = 8, .kept = &kept});
      EXPECT_EQ(text, std::vector(plain.begin(), plain.begin() + std::ptrdiff_t(stop) + 1));
      EXPECT_EQ(finish, stops ? FinishReason::stop : FinishReason::numerical_error);
    }
  }
}

/// Takes drafts up to a place of the output.
class EarlyDrafts final : public TokenConstraint {
 public:
  bool allow(std::span<const int32_t> output, std::span<const int32_t>, std::span<uint32_t>) override {
    length_ = output.size();
    return false;
  }
  bool takes_drafts() const override { return length_ < kUpTo; }
  static constexpr size_t kUpTo = 8;

 private:
  size_t length_ = 0;
};

TEST(PlanLossless, AConstraintMayTakeNoMoreDrafts) {
  PlanRig plans;
  EngineRig rig(plans.workload.rig_options(1, 1));
  CheckedRequest request = plans.bare_request();
  const std::vector<int32_t> plain = PlanRig::decode(rig, request);
  const auto constraint = std::make_shared<EarlyDrafts>();
  request.params.constraint = constraint;
  const auto engine =
      rig.make_engine({.proposer = RigProposer::draft, .rule = VerifyRule::greedy, .num_speculative_tokens = 2});
  engine->submit(request.prompt, request.params);
  std::vector<int32_t> text;
  while (!engine->idle()) {
    const bool may_draft = constraint->takes_drafts();
    for (const Emitted& emitted : engine->step()) {
      text.insert(text.end(), emitted.token.begin(), emitted.token.end());
      EXPECT_TRUE(may_draft || emitted.num_drafted == 0) << text.size();
    }
  }
  EXPECT_EQ(text, plain);
  EXPECT_GT(engine->counters().drafted, 2);
  EXPECT_LE(engine->counters().drafted, 2 * int64_t(EarlyDrafts::kUpTo));
}

}  // namespace
}  // namespace paceline::test
