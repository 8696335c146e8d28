#include "speculative/ngram_proposer.h"

#include <fstream>
#include <map>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "engine/grammar/grammar_constraint.h"
#include "engine/grammar/grammar_sources.h"
#include "speculative/proposer_entry.h"
#include "speculative/token_corpus.h"
#include "tests/support/checkpoint_writer.h"
#include "tests/support/expect_error.h"

namespace paceline {
namespace {

using test::expect_error;
using test::TempDir;
using Tokens = std::vector<int32_t>;

constexpr NgramMatch kMatches[] = {NgramMatch::first, NgramMatch::last, NgramMatch::most_frequent,
                                   NgramMatch::full_continuation};

bool occurs(const Tokens& tokens, int n, int end) {
  return std::equal(tokens.end() - n, tokens.end(), tokens.begin() + (end - n));
}

/// The policies as docs/speculation.md states them, by trying everything.
Tokens brute_force(const Tokens& tokens, int max_len, const NgramOptions& options) {
  const int size = int(tokens.size());
  const auto continuation = [&](int end) {
    return Tokens(tokens.begin() + end, tokens.begin() + std::min(size, end + max_len));
  };
  if (max_len <= 0) return {};
  for (int n = std::min(options.max_n, size - 1); n >= options.min_n; --n) {
    std::vector<int> ends;  // of occurrences that something follows
    for (int end = n; end < size; ++end) {
      if (occurs(tokens, n, end) && (options.match != NgramMatch::full_continuation || end + max_len <= size))
        ends.push_back(end);
    }
    if (ends.empty()) continue;
    if (options.match == NgramMatch::last) return continuation(ends.back());
    if (options.match != NgramMatch::most_frequent) return continuation(ends.front());
    std::map<int32_t, std::pair<int, int>> seen;  // token -> (count, latest end)
    for (const int end : ends) seen[tokens[size_t(end)]] = {seen[tokens[size_t(end)]].first + 1, end};
    std::pair<int, int> best{0, 0};
    for (const auto& [token, entry] : seen) best = std::max(best, entry);
    return continuation(best.second);
  }
  return {};
}

TEST(Ngram, TheFixture) {
  const Tokens tokens{1, 2, 3, 4, 2, 3};
  for (const NgramMatch match : {NgramMatch::first, NgramMatch::last, NgramMatch::most_frequent}) {
    EXPECT_EQ(ngram_continuation(tokens, 4, {.min_n = 2, .max_n = 3, .match = match}), (Tokens{4, 2, 3}));
    EXPECT_EQ(ngram_continuation(tokens, 2, {.min_n = 2, .max_n = 3, .match = match}), (Tokens{4, 2}));
  }
  // three tokens follow, four were asked for: no full continuation
  EXPECT_EQ(ngram_continuation(tokens, 4, {.min_n = 2, .max_n = 3, .match = NgramMatch::full_continuation}), Tokens{});
  EXPECT_EQ(ngram_continuation(tokens, 3, {.min_n = 2, .max_n = 3, .match = NgramMatch::full_continuation}),
            (Tokens{4, 2, 3}));
  EXPECT_EQ(ngram_continuation(tokens, 4, {.min_n = 3, .max_n = 3}), Tokens{});
  EXPECT_EQ(ngram_continuation(tokens, 0, {.min_n = 1, .max_n = 3}), Tokens{});
}

TEST(Ngram, WhereThePoliciesDiffer) {
  //                    0  1  2  3  4  5  6  7  8  9  10 11
  const Tokens tokens{7, 1, 5, 7, 1, 6, 7, 1, 6, 7, 1, 8, 7, 1};
  const auto next = [&](NgramMatch match) {
    return ngram_continuation(tokens, 1, {.min_n = 1, .max_n = 2, .match = match});
  };
  EXPECT_EQ(next(NgramMatch::first), Tokens{5});
  EXPECT_EQ(next(NgramMatch::last), Tokens{8});
  EXPECT_EQ(next(NgramMatch::most_frequent), Tokens{6});
  EXPECT_EQ(next(NgramMatch::full_continuation), Tokens{5});
}

TEST(Ngram, TheLongestMatchWins) {
  const Tokens tokens{1, 2, 3, 9, 2, 3, 8, 3, 7, 1, 2, 3};
  EXPECT_EQ(ngram_continuation(tokens, 1, {.min_n = 1, .max_n = 4}), Tokens{9});
  EXPECT_EQ(ngram_continuation(tokens, 1, {.min_n = 1, .max_n = 2, .match = NgramMatch::last}), Tokens{8});
  EXPECT_EQ(ngram_continuation(tokens, 1, {.min_n = 1, .max_n = 1, .match = NgramMatch::last}), Tokens{7});
}

TEST(Ngram, AnOccurrenceMayOverlapTheSuffix) {
  const Tokens tokens{4, 4, 4, 4};
  for (const NgramMatch match : {NgramMatch::first, NgramMatch::last, NgramMatch::most_frequent}) {
    const Tokens found = ngram_continuation(tokens, 3, {.min_n = 1, .max_n = 3, .match = match});
    ASSERT_FALSE(found.empty());
    for (const int32_t token : found) EXPECT_EQ(token, 4);
  }
}

TEST(Ngram, ShortTexts) {
  for (const NgramMatch match : kMatches) {
    for (const Tokens& tokens : {Tokens{}, Tokens{1}, Tokens{1, 2}})
      EXPECT_EQ(ngram_continuation(tokens, 5, {.min_n = 1, .max_n = 4, .match = match}), Tokens{});
    EXPECT_EQ(ngram_continuation(Tokens{1, 1}, 1, {.min_n = 1, .max_n = 4, .match = match}), Tokens{1});
    EXPECT_EQ(ngram_continuation(Tokens{1, 1}, 1, {.min_n = 2, .max_n = 4, .match = match}), Tokens{});
  }
}

TEST(Ngram, AgreesWithBruteForce) {
  std::mt19937 random(17);
  int non_empty = 0;
  for (int round = 0; round < 40'000; ++round) {
    Tokens tokens(random() % 40);
    const unsigned alphabet = 1 + random() % 4;
    for (int32_t& token : tokens) token = int32_t(random() % alphabet);
    const int min_n = 1 + int(random() % 3);
    const NgramOptions options{.min_n = min_n, .max_n = min_n + int(random() % 4), .match = kMatches[random() % 4]};
    const int max_len = int(random() % 7);
    const Tokens found = ngram_continuation(tokens, max_len, options);
    ASSERT_EQ(found, brute_force(tokens, max_len, options))
        << testing::PrintToString(tokens) << " min " << options.min_n << " max " << options.max_n << " match "
        << int(options.match) << " len " << max_len;
    non_empty += !found.empty();
  }
  EXPECT_GT(non_empty, 10'000);
}

TEST(Ngram, ProposesForEverySequence) {
  NgramProposer proposer({.min_n = 2, .max_n = 3});
  Sequence with{.id = 1, .tokens = {1, 2, 3, 4, 2, 3}}, without{.id = 2, .tokens = {1, 2, 3}};
  const DraftRequest requests[] = {{.seq = &with, .max_drafts = 2}, {.seq = &without, .max_drafts = 5}};
  std::vector<Proposal> out(2);
  proposer.propose(requests, out);
  EXPECT_EQ(out[0].committed, 6);
  EXPECT_EQ(out[0].draft.token, (Tokens{4, 2}));
  EXPECT_EQ(out[0].probs.kind, DraftProbKind::point_mass);
  EXPECT_EQ(out[1].committed, 3);
  EXPECT_TRUE(out[1].draft.token.empty());
}

/// Token i is the letter 'a' + i; what follows the prompt matches.
std::shared_ptr<SamplingPlan> plan_of(const char* pattern, const Sequence& seq) {
  constexpr int kVocab = 10;
  std::vector<std::string> tokens;
  for (int i = 0; i + 1 < kVocab; ++i) tokens.emplace_back(1, char('a' + i));
  tokens.emplace_back();  // the end
  const auto grammar =
      std::make_shared<CompiledGrammar>(regex_grammar(pattern), std::make_shared<TokenTrie>(tokens, false));
  SamplingParams params;
  params.constraint = make_grammar_constraint(grammar, {kVocab - 1});
  const auto plan = std::make_shared<SamplingPlan>(params, seq.num_prompt, Tokens{kVocab - 1}, kVocab);
  plan->follow(seq.tokens);
  return plan;
}

TEST(Ngram, StopsBeforeWhatAGrammarForbids) {
  NgramProposer chains({.min_n = 2, .max_n = 3}), trees({.min_n = 2, .max_n = 3, .match = NgramMatch::tree});
  Sequence seq{.id = 1, .tokens = {1, 2, 3, 4, 5, 6, 1, 2}, .num_prompt = 6};  // bcdefg, then bc
  const auto drafted = [&](NgramProposer& proposer, const char* pattern) {
    seq.plan = pattern ? plan_of(pattern, seq) : nullptr;
    const DraftRequest request{.seq = &seq, .max_drafts = 5, .max_depth = 5};
    Proposal out;
    proposer.propose(std::span(&request, 1), std::span(&out, 1));
    EXPECT_EQ(out.draft.score.size(), out.draft.score.empty() ? 0 : out.draft.token.size());
    return out.draft.token;
  };
  for (NgramProposer* proposer : {&chains, &trees}) {
    EXPECT_EQ(drafted(*proposer, nullptr), (Tokens{3, 4, 5, 6, 1}));
    EXPECT_EQ(drafted(*proposer, "[a-i]*"), (Tokens{3, 4, 5, 6, 1}));
    EXPECT_EQ(drafted(*proposer, "bcde[^f]*"), (Tokens{3, 4}));
    EXPECT_EQ(drafted(*proposer, "bc"), Tokens{});
  }
}

// Of siblings, those that may follow stay, with what grows from them.
TEST(SamplingPlan, ATreeKeepsItsAllowedBranches) {
  Sequence seq{.id = 1, .tokens = {0, 1}, .num_prompt = 1};
  const auto plan = plan_of("b(c[de]|d(e|f)g)", seq);
  const DraftTree drafts{.token = {2, 3, 4, 5, 3, 5, 6, 6},
                         .parent = {-1, -1, -1, 0, 0, 1, 5, 4},
                         .score = {0.1f, 0.2f, 0.3f, 0.4f, 0.5f, 0.6f, 0.7f, 0.8f}};
  const DraftTree kept = plan->allowed(drafts);
  EXPECT_EQ(kept.token, (Tokens{2, 3, 3, 5, 6}));
  EXPECT_EQ(kept.parent, (Tokens{-1, -1, 0, 1, 3}));
  EXPECT_EQ(kept.score, (std::vector<float>{0.1f, 0.2f, 0.5f, 0.6f, 0.7f}));
  EXPECT_EQ(tree_fault(kept), "");
}

TEST(NgramEntry, SetsEveryOptionOfItsStruct) {
  const ProposerEntry& entry = proposer_entry("ngram");
  std::any options = entry.defaults;
  const auto& set = std::any_cast<const NgramOptions&>(options);
  ASSERT_EQ(entry.options.size(), 5u);
  entry.options[0].set(options, int64_t{3});
  entry.options[1].set(options, int64_t{5});
  EXPECT_EQ(set.min_n, 3);
  EXPECT_EQ(set.max_n, 5);
  const char* names[] = {"first", "last", "most_frequent", "full_continuation"};
  for (int i = 0; i < 4; ++i) {
    entry.options[2].set(options, std::string(names[i]));
    EXPECT_EQ(set.match, kMatches[i]);
    EXPECT_EQ(entry.options[2].get(options), OptionValue(std::string(names[i])));
  }
  EXPECT_THROW(entry.options[2].set(options, std::string("middle")), Error);
  entry.options[3].set(options, std::string("spec_bench"));
  EXPECT_EQ(set.policy, NgramPolicy::spec_bench);
  entry.options[3].set(options, std::string("own"));
  EXPECT_TRUE(entry.files_of(options).empty());
  entry.options[4].set(options, std::string("texts"));
  EXPECT_EQ(set.corpus, "texts");
  EXPECT_EQ(entry.files_of(options), (std::vector<std::string>{"texts"}));
  EXPECT_FALSE(entry.find_conflict(options));
  entry.options[0].set(options, int64_t{6});
  EXPECT_EQ(entry.find_conflict(options)->message, "speculation.ngram.min 6 is larger than speculation.ngram.max 5");
}

TEST(Ngram, TheTreeOfWhatFollowed) {
  //                    0  1  2  3  4  5  6  7  8  9 10 11 12
  const Tokens tokens{1, 2, 5, 6, 1, 2, 5, 7, 1, 2, 9, 1, 2};
  const NgramOptions options{.min_n = 1, .max_n = 2, .match = NgramMatch::tree};
  const DraftTree tree = ngram_tree(tokens, 4, 8, options);
  EXPECT_EQ(tree.token, (Tokens{5, 9, 6, 7}));  // 2/3; then 1/3 each: 9, and what followed 5, before what followed 9
  EXPECT_EQ(tree.parent, (Tokens{-1, -1, 0, 0}));
  EXPECT_FLOAT_EQ(tree.score[0], 2.0f / 3);
  EXPECT_FLOAT_EQ(tree.score[2], 0.5f);
  EXPECT_EQ(ngram_tree(tokens, 9, 1, options).token, (Tokens{5, 9}));
  EXPECT_TRUE(ngram_tree(tokens, 0, 8, options).empty());
  EXPECT_TRUE(ngram_tree(Tokens{1, 2, 3}, 4, 8, options).empty());
  EXPECT_EQ(tree_fault(ngram_tree(tokens, 64, 64, options)), "");
}

TEST(Ngram, TheTreesFirstPathIsTheMostFrequentContinuation) {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    Tokens tokens;
    for (int i = 0; i < 40; ++i) tokens.push_back(int32_t(random() % 4));
    const NgramOptions options{.min_n = 1, .max_n = 3, .match = NgramMatch::tree};
    const DraftTree tree = ngram_tree(tokens, 12, 5, options);
    EXPECT_EQ(tree_fault(tree), "");
    EXPECT_LE(tree.depth(), 5);
    const Tokens chain = ngram_continuation(tokens, 1, {.min_n = 1, .max_n = 3, .match = NgramMatch::most_frequent});
    ASSERT_FALSE(tree.empty());
    // Ties of frequency go to the latest there, to the first here: the shares are equal.
    const auto same = std::find(tree.token.begin(), tree.token.end(), chain[0]);
    ASSERT_TRUE(same != tree.token.end());
    EXPECT_EQ(tree.parent[size_t(same - tree.token.begin())], DraftTree::kRoot);
    EXPECT_EQ(tree.score[size_t(same - tree.token.begin())], tree.score[0]);
  }
}

TEST(Ngram, PoliciesOfOthersHaveTheirOwnLengths) {
  const NgramOptions llama = effective({.policy = NgramPolicy::llama_cpp});
  EXPECT_EQ(llama.min_n, 12);
  EXPECT_EQ(llama.match, NgramMatch::last);
  EXPECT_EQ(effective({.policy = NgramPolicy::vllm}).max_n, 5);
  EXPECT_EQ(effective({.policy = NgramPolicy::transformers}).max_n, 2);
  EXPECT_EQ(effective({.policy = NgramPolicy::spec_bench}).match, NgramMatch::full_continuation);
  EXPECT_EQ(effective({.min_n = 3, .max_n = 7}).max_n, 7);
  const ProposerEntry& entry = proposer_entry("ngram");
  EXPECT_FALSE(entry.find_conflict(std::any(NgramOptions{.policy = NgramPolicy::vllm})));
  const auto conflict = entry.find_conflict(std::any(NgramOptions{.min_n = 1, .policy = NgramPolicy::vllm}));
  ASSERT_TRUE(conflict);
  EXPECT_EQ(conflict->option, "policy");
}

/// The corpus as one text, of which `text` is the end, looked up by brute force.
std::vector<int> brute_force_ends(const Tokens& corpus, const Tokens& text, int n) {
  std::vector<int> ends;
  for (int end = n; end < int(corpus.size()); ++end)
    if (corpus[size_t(end)] != TokenCorpus::kEnd && std::equal(text.end() - n, text.end(), corpus.begin() + end - n))
      ends.push_back(end);
  return ends;
}

TEST(NgramCorpus, FindsAllOccurrencesOfEachLength) {
  std::mt19937 random(3);
  for (int round = 0; round < 100; ++round) {
    Tokens corpus, text;
    for (int i = 0; i < 120; ++i) corpus.push_back(random() % 9 == 0 ? TokenCorpus::kEnd : int32_t(random() % 3));
    for (int i = 0; i < 6; ++i) text.push_back(int32_t(random() % 3));
    const NgramCorpus index(corpus, 4);
    const auto found = index.find(text, 5);
    EXPECT_LE(found.size(), 4u);
    for (int n = 1; n <= 4; ++n) {
      std::vector<int> ends;
      if (size_t(n) <= found.size()) ends.assign(found[size_t(n) - 1].begin(), found[size_t(n) - 1].end());
      std::sort(ends.begin(), ends.end());
      EXPECT_EQ(ends, brute_force_ends(corpus, text, n)) << n;
    }
  }
}

TEST(NgramCorpus, IsContinuedByEachRule) {
  constexpr int32_t kEnd = TokenCorpus::kEnd;
  //                  0  1  2  3     4  5  6  7  8     9 10 11     12 13 14
  const NgramCorpus corpus({1, 2, 5, kEnd, 1, 2, 6, 7, kEnd, 1, 2, 5, kEnd, 9, 2, 8, kEnd}, 3);
  const Tokens text{3, 1, 2};
  const auto drafts = [&](NgramMatch match, int most) {
    return corpus_drafts(corpus, text, most, 8, {.min_n = 1, .max_n = 3, .match = match});
  };
  EXPECT_EQ(drafts(NgramMatch::first, 4).token, (Tokens{5}));
  EXPECT_EQ(drafts(NgramMatch::last, 4).token, (Tokens{5}));
  EXPECT_EQ(drafts(NgramMatch::most_frequent, 4).token, (Tokens{5}));
  EXPECT_EQ(drafts(NgramMatch::full_continuation, 2).token, (Tokens{6, 7}));
  EXPECT_TRUE(drafts(NgramMatch::full_continuation, 3).empty());
  const DraftTree tree = drafts(NgramMatch::tree, 8);
  EXPECT_EQ(std::set<int32_t>(tree.token.begin(), tree.token.end()), (std::set<int32_t>{5, 6, 7}));
  EXPECT_EQ(tree.token[0], 5);
  EXPECT_TRUE(corpus_drafts(corpus, Tokens{4, 4}, 4, 8, {.min_n = 1, .max_n = 3}).empty());
  EXPECT_TRUE(corpus_drafts(corpus, Tokens{4, 2}, 4, 8, {.min_n = 2, .max_n = 3}).empty());
}

TEST(NgramCorpus, IsAskedWhereTheTextHasNoMatch) {
  const auto corpus = std::make_shared<NgramCorpus>(Tokens{1, 2, 5, TokenCorpus::kEnd}, 4);
  NgramProposer proposer({.min_n = 1, .max_n = 4}, corpus);
  const auto drafts_of = [&](Tokens tokens) {
    Sequence seq;
    seq.tokens = std::move(tokens);
    const DraftRequest request{.seq = &seq, .max_drafts = 3, .max_depth = 3};
    Proposal out;
    proposer.propose(std::span(&request, 1), std::span(&out, 1));
    return out.draft.token;
  };
  EXPECT_EQ(drafts_of({7, 1, 2}), (Tokens{5}));
  EXPECT_EQ(drafts_of({1, 2, 9, 1, 2}), (Tokens{9, 1, 2}));  // its own text goes first
}

TEST(NgramCorpus, StopsBeforeWhatAGrammarForbids) {
  NgramProposer proposer({.min_n = 2, .max_n = 3},
                         std::make_shared<NgramCorpus>(Tokens{1, 2, 3, 4, TokenCorpus::kEnd}, 3));
  Sequence seq{.id = 1, .tokens = {0, 1, 2}, .num_prompt = 1};
  const DraftRequest request{.seq = &seq, .max_drafts = 5, .max_depth = 5};
  Proposal out;
  proposer.propose(std::span(&request, 1), std::span(&out, 1));
  EXPECT_EQ(out.draft.token, (Tokens{3, 4}));
  seq.plan = plan_of("bcd[^e]*", seq);
  proposer.propose(std::span(&request, 1), std::span(&out, 1));
  EXPECT_EQ(out.draft.token, (Tokens{3}));
}

TEST(NgramCorpus, IsReadOnceForAllRepetitions) {
  const TempDir dir;
  const std::filesystem::path file = dir.path() / "corpus";
  std::ofstream(file, std::ios::binary) << corpus_header({.digest = 1, .size = 100}) << "1 2 5\n";
  const std::any options = NgramOptions{.corpus = file.string()};
  std::any kept;
  const ProposerSetup setup{.options = &options, .kept = &kept};
  const ProposerEntry& entry = *find_proposer("ngram");
  entry.make(setup);
  std::filesystem::remove(file);
  const auto proposer = entry.make(setup);
  const Sequence seq{.tokens = {1, 2}};
  const DraftRequest request{.seq = &seq, .max_drafts = 3, .max_depth = 3};
  Proposal out;
  proposer->propose(std::span(&request, 1), std::span(&out, 1));
  EXPECT_EQ(out.draft.token, (Tokens{5}));
}

TEST(TokenCorpus, IsReadAsItIsWritten) {
  const TempDir dir;
  const std::filesystem::path file = dir.path() / "corpus";
  const auto write = [&](const std::string& text) { std::ofstream(file, std::ios::binary) << text; };
  const VocabularyId vocabulary{.digest = 0x1234abcd, .size = 100};
  const std::string header = corpus_header(vocabulary);
  write(header + "1 2 99\r\n\n  7 \n8");
  const TokenCorpus corpus = read_corpus(file);
  EXPECT_EQ(corpus.vocabulary, vocabulary);
  EXPECT_EQ(corpus.tokens, (Tokens{1, 2, 99, -1, 7, -1, 8, -1}));
  check_vocabulary(file, corpus, vocabulary);
  check_vocabulary(file, corpus, {});
  expect_error(ExitCode::model_file, {"corpus:1", "another tokenizer", "000000001234abcd, 100 tokens", "--corpus"},
               [&] { check_vocabulary(file, corpus, {.digest = 1, .size = 100}); });
  for (const char* const bad : {"1 2 100", "1 x", "1 -2", "1 2x", "1 99999999999", "1,2"}) {
    write(header + "5\n" + bad + "\n");
    expect_error(ExitCode::model_file, {"corpus:3:", "0 to 99"}, [&] { read_corpus(file); });
  }
  for (const char* const bad : {"", "1 2 3\n", "# token ids, vocabulary 12, 100 tokens\n1\n",
                                "# token ids, vocabulary 0000000000000012, 0 tokens\n1\n"}) {
    write(bad);
    expect_error(ExitCode::model_file, {"corpus:1", "expected \"# token ids", "runexp tokenize"},
                 [&] { read_corpus(file); });
  }
  write(header + "\n\n");
  expect_error(ExitCode::model_file, {"without a text"}, [&] { read_corpus(file); });
  std::filesystem::remove(file);
  expect_error(ExitCode::model_file, {"corpus"}, [&] { read_corpus(file); });
}

}  // namespace
}  // namespace paceline
