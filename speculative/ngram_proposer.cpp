#include "speculative/ngram_proposer.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "speculative/proposer_entry.h"
#include "speculative/token_corpus.h"
#include "speculative/tree_growth.h"

namespace paceline {
namespace {

/// Length, at most max_n, of the common suffix of tokens[0, end) and the whole text.
int match_length(std::span<const int32_t> tokens, int end, int max_n) {
  const int size = int(tokens.size());
  int n = 0;
  while (n < max_n && n < end && tokens[size_t(end - 1 - n)] == tokens[size_t(size - 1 - n)]) ++n;
  return n;
}

constexpr size_t kMostOccurrences = 4096;  // of a suffix in a corpus that are looked at

/// Of `ends`, in any order: the latest of those that the most go on like.
int most_frequent(std::span<const int32_t> tokens, std::span<const int32_t> ends) {
  struct Seen {
    int count = 0;
    int latest_end = 0;
  };
  std::unordered_map<int32_t, Seen> seen;  // by continuation token
  for (const int32_t end : ends) {
    Seen& entry = seen[tokens[size_t(end)]];
    ++entry.count;
    entry.latest_end = std::max(entry.latest_end, int(end));
  }
  Seen best;
  for (const auto& [token, entry] : seen) {
    if (entry.count > best.count || (entry.count == best.count && entry.latest_end > best.latest_end)) best = entry;
  }
  return best.latest_end;
}

/// The most frequent paths behind `ends`, each up to the end of its text.
DraftTree tree_behind(std::span<const int32_t> tokens, std::vector<int32_t> ends, int max_nodes, int max_depth) {
  using Child = LikelyChild<std::vector<int32_t>>;  // and the ends of the occurrences that go on so
  DraftTree tree;
  grow_likeliest_first(tree, ends, max_nodes, max_depth, 0.0, [&](const std::vector<int32_t>& from, int, auto&& add) {
    std::vector<Child> children;  // in order of occurrence
    for (const int32_t end : from) {
      if (size_t(end) >= tokens.size() || tokens[size_t(end)] == TokenCorpus::kEnd) continue;
      const int32_t token = tokens[size_t(end)];
      auto child = std::find_if(children.begin(), children.end(), [&](const Child& c) { return c.token == token; });
      if (child == children.end()) child = children.insert(child, {token, 0, {}});
      child->state.push_back(end + 1);
    }
    for (Child& child : children) {
      child.share = double(child.state.size()) / double(from.size());
      add(std::move(child));
    }
  });
  return tree;
}

/// At most max_len tokens from `end` on, of one text.
std::vector<int32_t> text_from(std::span<const int32_t> tokens, int end, int max_len) {
  const auto begin = tokens.begin() + end;
  const auto last = begin + std::min<std::ptrdiff_t>(max_len, tokens.end() - begin);
  return {begin, std::find(begin, last, TokenCorpus::kEnd)};
}

}  // namespace

std::vector<int32_t> ngram_continuation(std::span<const int32_t> tokens, int max_len, const NgramOptions& options) {
  const int size = int(tokens.size());
  if (max_len <= 0 || size <= options.min_n) return {};
  // An occurrence of the suffix is named by its end: the position of the token that followed it.
  int best_end = -1;
  int best_n = 0;
  if (options.match == NgramMatch::full_continuation) {
    for (int n = std::min(options.max_n, size - 1); n >= options.min_n && best_end < 0; --n) {
      for (int end = n; end + max_len <= size; ++end) {
        if (match_length(tokens, end, n) == n) {
          best_end = end;
          break;
        }
      }
    }
  } else {
    const int32_t last = tokens[size_t(size - 1)];
    for (int end = 1; end < size; ++end) {
      if (tokens[size_t(end - 1)] != last) continue;
      const int n = match_length(tokens, end, options.max_n);
      const bool better = options.match == NgramMatch::first ? n > best_n : n >= best_n;
      if (n >= options.min_n && better) {
        best_n = n;
        best_end = end;
      }
    }
    if (options.match == NgramMatch::most_frequent && best_end >= 0) {
      std::vector<int32_t> ends;
      for (int end = best_n; end < size; ++end)
        if (tokens[size_t(end - 1)] == last && match_length(tokens, end, best_n) == best_n) ends.push_back(end);
      best_end = most_frequent(tokens, ends);
    }
  }
  return best_end < 0 ? std::vector<int32_t>() : text_from(tokens, best_end, max_len);
}

NgramOptions effective(const NgramOptions& options) {
  NgramOptions out = options;
  out.policy = NgramPolicy::own;
  const auto looks_up = [&](int min_n, int max_n, NgramMatch match) {
    out.min_n = min_n;
    out.max_n = max_n;
    out.match = match;
  };
  switch (options.policy) {
    case NgramPolicy::own: break;
    case NgramPolicy::vllm: looks_up(5, 5, NgramMatch::first); break;
    case NgramPolicy::llama_cpp: looks_up(12, 12, NgramMatch::last); break;
    case NgramPolicy::transformers: looks_up(1, 2, NgramMatch::first); break;
    case NgramPolicy::spec_bench: looks_up(1, 3, NgramMatch::full_continuation); break;
  }
  return out;
}

DraftTree ngram_tree(std::span<const int32_t> tokens, int max_nodes, int max_depth, const NgramOptions& options) {
  const int size = int(tokens.size());
  std::vector<int32_t> ends;  // of the longest suffix's occurrences: places of the tokens that followed them
  int longest = options.min_n;
  for (int end = 1; end < size; ++end) {
    const int n = match_length(tokens, end, options.max_n);
    if (n < longest) continue;
    if (n > longest) ends.clear();
    longest = n;
    ends.push_back(end);
  }
  return tree_behind(tokens, std::move(ends), max_nodes, max_depth);
}

DraftTree corpus_drafts(const NgramCorpus& corpus, std::span<const int32_t> text, int max_nodes, int max_depth,
                        const NgramOptions& options) {
  const auto found = corpus.find(text, options.max_n);
  const std::span<const int32_t> tokens = corpus.tokens();
  const int longest = int(found.size());
  const auto ends_of = [&](int n) {
    const auto& all = found[size_t(n) - 1];
    return all.first(std::min(all.size(), kMostOccurrences));
  };
  if (longest < options.min_n) return {};
  const std::span<const int32_t> ends = ends_of(longest);
  const auto chain_from = [&](int end) { return DraftTree::chain(text_from(tokens, end, max_nodes)); };
  switch (options.match) {
    case NgramMatch::first: return chain_from(*std::min_element(ends.begin(), ends.end()));
    case NgramMatch::last: return chain_from(*std::max_element(ends.begin(), ends.end()));
    case NgramMatch::most_frequent: return chain_from(most_frequent(tokens, ends));
    case NgramMatch::tree: return tree_behind(tokens, {ends.begin(), ends.end()}, max_nodes, max_depth);
    case NgramMatch::full_continuation: break;
  }
  for (int n = longest; n >= options.min_n; --n) {
    int32_t first = -1;
    for (const int32_t end : ends_of(n))
      if ((first < 0 || end < first) && int(text_from(tokens, end, max_nodes).size()) == max_nodes) first = end;
    if (first >= 0) return chain_from(first);
  }
  return {};
}

void NgramProposer::propose(std::span<const DraftRequest> requests, std::span<Proposal> out) {
  for (size_t i = 0; i < requests.size(); ++i) {
    const Sequence& seq = *requests[i].seq;
    const int most = requests[i].max_drafts;
    out[i] = {.committed = seq.length(), .draft = {}, .probs = {}};
    if (most == 0) continue;
    out[i].draft = branches() ? ngram_tree(seq.tokens, most, requests[i].max_depth, options_)
                              : DraftTree::chain(ngram_continuation(seq.tokens, most, options_));
    if (seq.plan) out[i].draft = seq.plan->allowed(out[i].draft);
    if (corpus_ && out[i].draft.empty()) {
      out[i].draft = corpus_drafts(*corpus_, seq.tokens, most, requests[i].max_depth, options_);
      if (seq.plan) out[i].draft = seq.plan->allowed(out[i].draft);
    }
  }
}

namespace {

/// Throws what read_corpus and check_vocabulary throw.
TokenCorpus fitting_corpus(const ProposerSetup& setup) {
  const std::filesystem::path file = setup.options_as<NgramOptions>().corpus;
  TokenCorpus corpus = read_corpus(file);
  check_vocabulary(file, corpus, setup.vocabulary);
  return corpus;
}

/// Sorted once for all repetitions.
std::shared_ptr<const NgramCorpus> corpus_of(const ProposerSetup& setup) {
  using Kept = std::shared_ptr<const NgramCorpus>;
  if (setup.kept && setup.kept->has_value()) return std::any_cast<Kept>(*setup.kept);
  const int max_n = effective(setup.options_as<NgramOptions>()).max_n;
  Kept corpus = std::make_shared<NgramCorpus>(fitting_corpus(setup).tokens, max_n);
  if (setup.kept) *setup.kept = corpus;
  return corpus;
}

}  // namespace

ProposerEntry ngram_entry() {
  constexpr OptionRange kLength{.min = 1, .max = 64, .unit = "tokens"};
  return {.name = "ngram",
          .help = "lookup in the sequence's own text",
          .defaults = NgramOptions(),
          .options = {proposer_option("min", &NgramOptions::min_n, kLength, "Shortest suffix looked up."),
                      proposer_option("max", &NgramOptions::max_n, kLength, "Longest suffix looked up."),
                      proposer_choice("match", &NgramOptions::match,
                                      {"first", "last", "most_frequent", "full_continuation", "tree"},
                                      "Which of several earlier occurrences is continued; tree: all, by frequency."),
                      newer(proposer_choice("policy", &NgramOptions::policy,
                                            {"own", "vllm", "llama_cpp", "transformers", "spec_bench"},
                                            "Whose min, max and match are taken: those written here, or another "
                                            "program's.")),
                      newer(proposer_path("corpus", &NgramOptions::corpus,
                                          "File of token ids, written by runexp tokenize --corpus, that is looked up "
                                          "where the text has no match; empty: none."))},
          .find_conflict = [](const std::any& options) -> std::optional<OptionConflict> {
            const auto& chosen = std::any_cast<const NgramOptions&>(options);
            const NgramOptions usual;
            if (chosen.policy != NgramPolicy::own &&
                (chosen.min_n != usual.min_n || chosen.max_n != usual.max_n || chosen.match != usual.match))
              return OptionConflict{.option = "policy",
                                    .involved = {"policy", "min", "max", "match"},
                                    .message =
                                        "another program's speculation.ngram.policy sets min, max and match: leave "
                                        "them out, or write policy own"};
            if (chosen.min_n <= chosen.max_n) return std::nullopt;
            return OptionConflict{
                .option = "min",
                .involved = {"min", "max"},
                .message = fmt::format("speculation.ngram.min {} is larger than speculation.ngram.max {}", chosen.min_n,
                                       chosen.max_n)};
          },
          .form = [](const std::any& options) -> DraftForm {
            const bool branches = effective(std::any_cast<const NgramOptions&>(options)).match == NgramMatch::tree;
            return {.width = branches ? 2 : 1, .option = "match"};
          },
          .check =
              [](const ProposerSetup& setup) {
                if (!setup.options_as<NgramOptions>().corpus.empty()) fitting_corpus(setup);
              },
          .make = [](const ProposerSetup& setup) -> std::unique_ptr<Proposer> {
            const auto& options = setup.options_as<NgramOptions>();
            return std::make_unique<NgramProposer>(options, options.corpus.empty() ? nullptr : corpus_of(setup));
          }};
}

}  // namespace paceline
