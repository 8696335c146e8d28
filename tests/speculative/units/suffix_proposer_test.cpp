// Drafts from the request's own text and from answers of others; what is kept, for how long; recorded answers, where
// they are there.

#include "speculative/suffix_proposer.h"

#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "speculative/ngram_proposer.h"
#include "speculative/proposer_entry.h"
#include "tests/support/paths.h"

namespace paceline::test {
namespace {

using Tokens = std::vector<int32_t>;

Sequence sequence(SeqId id, Tokens prompt, const Tokens& output) {
  Sequence seq;
  seq.id = id;
  seq.num_prompt = int(prompt.size());
  seq.tokens = std::move(prompt);
  seq.tokens.insert(seq.tokens.end(), output.begin(), output.end());
  return seq;
}

Tokens drafts(Proposer& proposer, const Sequence& seq, int max_drafts = 8) {
  const DraftRequest request{.seq = &seq, .max_drafts = max_drafts, .max_depth = max_drafts};
  Proposal out;
  proposer.propose(std::span(&request, 1), std::span(&out, 1));
  EXPECT_EQ(out.committed, seq.length());
  EXPECT_EQ(out.probs.kind, DraftProbKind::point_mass);
  return out.draft.token;
}

std::unique_ptr<Proposer> made_of(const SuffixOptions& options, std::any* kept = nullptr) {
  const std::any any = options;
  return proposer_entry("suffix").make({.options = &any, .kept = kept});
}

TEST(SuffixProposer, GoesOnAsTheTextDid) {
  const auto proposer = made_of({.factor = 2});
  Sequence seq = sequence(1, {5, 6, 7, 8, 9, 5, 6}, {});
  EXPECT_EQ(drafts(*proposer, seq), (Tokens{7, 8, 9, 5}));
  EXPECT_EQ(drafts(*proposer, seq, 3), (Tokens{7, 8, 9}));
  EXPECT_TRUE(drafts(*proposer, seq, 0).empty());
  seq.tokens.push_back(1);
  EXPECT_TRUE(drafts(*proposer, seq).empty());
}

/// Lets token 8 never follow.
class NoEight final : public TokenConstraint {
 public:
  bool allow(std::span<const int32_t>, std::span<const int32_t>, std::span<uint32_t> mask) override {
    mask[0] = ~(uint32_t{1} << 8);
    return true;
  }
};

TEST(SuffixProposer, StopsBeforeAForbiddenToken) {
  const auto proposer = made_of({.factor = 2});
  Sequence seq = sequence(1, {5, 6, 7, 8, 9, 5, 6}, {});
  SamplingParams params;
  params.constraint = std::make_shared<NoEight>();
  seq.plan = std::make_shared<SamplingPlan>(params, seq.num_prompt, Tokens{}, 32);
  seq.plan->follow(seq.tokens);
  EXPECT_EQ(drafts(*proposer, seq), (Tokens{7}));
}

TEST(SuffixProposer, AnswersOfOthersAreKeptAsLongAsTheStoreSays) {
  const Sequence first = sequence(1, {1, 2, 3}, {40, 41, 42, 43});
  const Sequence second = sequence(2, {9, 40, 41}, {});
  for (const SuffixStore store : {SuffixStore::request, SuffixStore::run, SuffixStore::warm}) {
    std::any kept;
    const auto proposer = made_of({.store = store}, &kept);
    drafts(*proposer, first);
    EXPECT_TRUE(drafts(*proposer, second).empty()) << "an answer under way is nobody's";
    proposer->end(first);
    EXPECT_EQ(drafts(*proposer, second), store == SuffixStore::request ? Tokens{} : (Tokens{42, 43}));
    const auto later = made_of({.store = store}, &kept);
    EXPECT_EQ(drafts(*later, second), store == SuffixStore::warm ? (Tokens{42, 43}) : Tokens{});
    EXPECT_TRUE(drafts(*later, sequence(3, {7, 2}, {})).empty()) << "prompts are no answers";
  }
}

TEST(SuffixProposer, TheOldestAnswersGoFirst) {
  const auto proposer = made_of({.requests = 2});
  for (SeqId id = 1; id <= 3; ++id) proposer->end(sequence(id, {1}, {int32_t(10 * id), int32_t(10 * id + 1)}));
  EXPECT_TRUE(drafts(*proposer, sequence(4, {10}, {})).empty());
  EXPECT_EQ(drafts(*proposer, sequence(5, {20}, {})), Tokens{21});
  EXPECT_EQ(drafts(*proposer, sequence(6, {30}, {})), Tokens{31});
}

struct Played {
  int64_t tokens = 0, steps = 0, drafted = 0;
  double per_step() const { return double(tokens) / double(steps); }
};

/// The recorded answers, drafted for as if a target wrote them.
Played play(const std::filesystem::path& file, const std::function<std::unique_ptr<Proposer>()>& make) {
  Played played;
  std::ifstream in(file);
  std::string line;
  for (SeqId id = 1; std::getline(in, line); ++id) {
    const nlohmann::json record = nlohmann::json::parse(line);
    const Tokens answer = record.at("generated_token_ids").get<Tokens>();
    if (answer.empty()) continue;
    const auto proposer = make();
    Sequence seq = sequence(id, record.at("prompt_token_ids").get<Tokens>(), {answer[0]});
    for (size_t at = 1; at < answer.size();) {
      const Tokens drafted = drafts(*proposer, seq, int(std::min<size_t>(5, answer.size() - at)));
      size_t kept = 0;
      while (kept < drafted.size() && at + kept < answer.size() && drafted[kept] == answer[at + kept]) ++kept;
      const size_t gained = std::min(kept + 1, answer.size() - at);
      seq.tokens.insert(seq.tokens.end(), answer.begin() + std::ptrdiff_t(at),
                        answer.begin() + std::ptrdiff_t(at + gained));
      at += gained;
      played.tokens += int64_t(gained);
      played.drafted += int64_t(drafted.size());
      ++played.steps;
    }
  }
  return played;
}

TEST(SuffixTraces, DraftsFewerTokensThanLookupAndKeepsNearlyAsMany) {
  const std::filesystem::path traces = source_dir().parent_path() / "shared" / "traces";
  if (!std::filesystem::exists(traces)) GTEST_SKIP() << "no recorded answers in " << traces;
  for (const char* const name : {"combined_cnn.jsonl", "combined_instructcoder.jsonl"}) {
    const Played lookup = play(traces / name, [] {
      return std::make_unique<NgramProposer>(NgramOptions{.min_n = 1, .max_n = 4, .match = NgramMatch::first});
    });
    const Played suffix = play(traces / name, [] { return made_of({.store = SuffixStore::request}); });
    EXPECT_GE(suffix.per_step(), 0.90 * lookup.per_step()) << name;
    EXPECT_LE(double(suffix.drafted) / double(suffix.steps), 0.6 * double(lookup.drafted) / double(lookup.steps))
        << name;
    std::printf("%s: suffix %.2f tokens a step with %.2f drafts, lookup %.2f with %.2f\n", name, suffix.per_step(),
                double(suffix.drafted) / double(suffix.steps), lookup.per_step(),
                double(lookup.drafted) / double(lookup.steps));
  }
}

}  // namespace
}  // namespace paceline::test
