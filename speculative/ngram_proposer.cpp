#include "speculative/ngram_proposer.h"

#include <algorithm>
#include <unordered_map>

#include "speculative/proposer_entry.h"

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

void NgramProposer::propose(std::span<const DraftRequest> requests, std::span<Proposal> out) {
  for (size_t i = 0; i < requests.size(); ++i) {
    const Sequence& seq = *requests[i].seq;
    out[i] = {.seq = seq.id,
              .committed = seq.length(),
              .draft = DraftTree::chain(ngram_continuation(seq.tokens, requests[i].max_drafts, options_)),
              .probs = {}};
  }
}

ProposerEntry ngram_entry() {
  constexpr OptionRange kLength{.min = 1, .max = 64, .unit = "tokens"};
  return {
      .name = "ngram",
      .help = "lookup in the sequence's own text",
      .defaults = NgramOptions(),
      .options = {proposer_option("min", &NgramOptions::min_n, kLength, "Shortest suffix looked up."),
                  proposer_option("max", &NgramOptions::max_n, kLength, "Longest suffix looked up."),
                  proposer_choice("match", &NgramOptions::match,
                                  {"first", "last", "most_frequent", "full_continuation"},
                                  "Which of several earlier occurrences is continued.")},
      .find_conflict = [](const std::any& options) -> std::optional<OptionConflict> {
        const auto& [min_n, max_n, match] = std::any_cast<const NgramOptions&>(options);
        if (min_n <= max_n) return std::nullopt;
        return OptionConflict{
            .option = "min",
            .involved = {"min", "max"},
            .message = fmt::format("speculation.ngram.min {} is larger than speculation.ngram.max {}", min_n, max_n)};
      },
      .make = [](const ProposerSetup& setup) -> std::unique_ptr<Proposer> {
        return std::make_unique<NgramProposer>(setup.options_as<NgramOptions>());
      }};
}

}  // namespace paceline
