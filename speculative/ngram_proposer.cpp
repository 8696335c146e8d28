#include "speculative/ngram_proposer.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "speculative/proposer_entry.h"
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
      struct Seen {
        int count = 0;
        int latest_end = 0;
      };
      std::unordered_map<int32_t, Seen> seen;  // by continuation token
      for (int end = best_n; end < size; ++end) {
        if (tokens[size_t(end - 1)] != last || match_length(tokens, end, best_n) < best_n) continue;
        Seen& entry = seen[tokens[size_t(end)]];
        ++entry.count;
        entry.latest_end = end;
      }
      Seen best;
      for (const auto& [token, entry] : seen) {
        if (entry.count > best.count || (entry.count == best.count && entry.latest_end > best.latest_end)) best = entry;
      }
      best_end = best.latest_end;
    }
  }
  if (best_end < 0) return {};
  const auto continuation = tokens.subspan(size_t(best_end), size_t(std::min(max_len, size - best_end)));
  return {continuation.begin(), continuation.end()};
}

NgramOptions effective(const NgramOptions& options) {
  switch (options.policy) {
    case NgramPolicy::own: break;
    case NgramPolicy::vllm: return {.min_n = 5, .max_n = 5, .match = NgramMatch::first};
    case NgramPolicy::llama_cpp: return {.min_n = 12, .max_n = 12, .match = NgramMatch::last};
    case NgramPolicy::transformers: return {.min_n = 1, .max_n = 2, .match = NgramMatch::first};
    case NgramPolicy::spec_bench: return {.min_n = 1, .max_n = 3, .match = NgramMatch::full_continuation};
  }
  return options;
}

DraftTree ngram_tree(std::span<const int32_t> tokens, int max_nodes, int max_depth, const NgramOptions& options) {
  const int size = int(tokens.size());
  std::vector<int> ends;  // of the longest suffix's occurrences: places of the tokens that followed them
  int longest = options.min_n;
  for (int end = 1; end < size; ++end) {
    const int n = match_length(tokens, end, options.max_n);
    if (n < longest) continue;
    if (n > longest) ends.clear();
    longest = n;
    ends.push_back(end);
  }
  using Child = LikelyChild<std::vector<int>>;  // and the ends of the occurrences that go on so
  DraftTree tree;
  grow_likeliest_first(tree, ends, max_nodes, max_depth, 0.0, [&](const std::vector<int>& from, int, auto&& add) {
    std::vector<Child> children;  // in order of occurrence
    for (const int end : from) {
      if (end >= size) continue;
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

void NgramProposer::propose(std::span<const DraftRequest> requests, std::span<Proposal> out) {
  for (size_t i = 0; i < requests.size(); ++i) {
    const Sequence& seq = *requests[i].seq;
    const int most = requests[i].max_drafts;
    out[i] = {.seq = seq.id, .committed = seq.length(), .draft = {}, .probs = {}};
    if (most == 0) continue;
    out[i].draft = branches() ? ngram_tree(seq.tokens, most, requests[i].max_depth, options_)
                              : DraftTree::chain(ngram_continuation(seq.tokens, most, options_));
  }
}

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
                                            "program's."))},
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
          .make = [](const ProposerSetup& setup) -> std::unique_ptr<Proposer> {
            return std::make_unique<NgramProposer>(setup.options_as<NgramOptions>());
          }};
}

}  // namespace paceline
