#include "engine/grammar/grammar_constraint.h"

#include <algorithm>
#include <atomic>
#include <new>
#include <span>
#include <unordered_set>
#include <utility>

#include "kernels/error.h"
#include "kernels/math/edit.h"

namespace paceline {

namespace {

class GrammarConstraint final : public TokenConstraint {
 public:
  GrammarConstraint(std::shared_ptr<CompiledGrammar> grammar, std::vector<int32_t> ends, size_t max_work)
      : grammar_(std::move(grammar)), ends_(std::move(ends)), max_work_(max_work) {
    PACELINE_CHECK(grammar_ != nullptr && !ends_.empty(), "a grammar's text needs a token that ends it");
    std::sort(ends_.begin(), ends_.end());
  }

  bool allow(std::span<const int32_t> output, std::span<const int32_t> drafts, std::span<uint32_t> mask) override {
    const CompiledGrammar::Lock lock(*grammar_);
    try {
      grammar_->make_room();
      Place place = follow(output);
      const size_t before = grammar_->work();
      for (const int32_t draft : drafts) {
        place = advance(place, draft);
        if (is_dead(place)) break;
      }
      const bool is_within = !is_dead(place) || drafts.empty();
      if (is_within) set_bits(place, mask);
      if (drafts.empty())
        charge_mask(place, output.size());
      else
        draft_work_ += grammar_->work() - before;
      takes_drafts_ = draft_work_ <= text_work_ + max_work_ / kShareOfDrafts;
      // drafts also make the grammar forget places that the text asks for again
      if (text_work_ > max_work_ + std::min(draft_work_, max_work_))
        throw GrammarError("", "the grammar is too ambiguous to be followed any longer");
      return is_within;
    } catch (const GrammarError&) {
    } catch (const std::bad_alloc&) {  // this request's trouble, not the engine's
    }
    places_.clear();
    std::fill(mask.begin(), mask.end(), 0u);
    return true;
  }

  bool takes_drafts() const override { return takes_drafts_; }

 private:
  static constexpr size_t kShareOfDrafts = 20;  // of max_work, beside what the text itself takes

  /// Of a text, or behind one that has ended.
  struct Place {
    CompiledGrammar::Place at;  // ended: dead
    bool ended = false;
  };

  bool is_end(int32_t token) const { return std::binary_search(ends_.begin(), ends_.end(), token); }
  bool is_dead(const Place& place) const { return !place.ended && grammar_->dead(place.at); }
  bool may_end(const Place& place) const { return place.ended || grammar_->complete(place.at); }

  Place advance(const Place& place, int32_t token) {
    if (is_end(token)) return may_end(place) ? Place{{}, true} : Place{};
    return {grammar_->advance(place.at, token), false};
  }

  /// Behind the output. Places of the output of the last call are known.
  Place follow(std::span<const int32_t> output) {
    if (places_.empty() || generation_ != grammar_->generation()) {
      generation_ = grammar_->generation();
      charged_.clear();
      followed_.clear();
      places_.assign(1, {grammar_->start()});
    }
    const size_t common = std::min(output.size(), followed_.size());
    const size_t same =
        size_t(std::mismatch(followed_.begin(), followed_.begin() + std::ptrdiff_t(common), output.begin()).first -
               followed_.begin());
    followed_.resize(same);
    places_.resize(same + 1);
    for (size_t i = same; i < output.size(); ++i) {
      const size_t before = grammar_->work();
      places_.push_back(advance(places_.back(), output[i]));
      followed_.push_back(output[i]);
      if (i < num_followed_) continue;
      num_followed_ = i + 1;
      text_work_ += grammar_->work() - before;
    }
    return places_.back();
  }

  /// Once for each place of the text, and once for equal ones. A text that drafts came to before, whose masks are
  /// remembered, costs what it would without them.
  void charge_mask(const Place& place, size_t position) {
    if (position < num_masks_) return;
    num_masks_ = position + 1;
    if (!place.ended && charged_.insert(place.at.key()).second) text_work_ += grammar_->work_of_mask(place.at);
  }

  void set_bits(const Place& place, std::span<uint32_t> mask) {
    if (!place.ended) {
      const std::span<const uint32_t> allowed = grammar_->mask(place.at);
      std::copy_n(allowed.begin(), std::min(allowed.size(), mask.size()), mask.begin());
    }
    for (const int32_t end : ends_) {
      if (end < 0 || size_t(end) / 32 >= mask.size()) continue;
      math::set_allowed(mask.data(), end, may_end(place));
    }
  }

  const std::shared_ptr<CompiledGrammar> grammar_;
  std::vector<int32_t> ends_;  // sorted
  const size_t max_work_;
  std::vector<int32_t> followed_;        // the output of the last call
  std::vector<Place> places_;            // before and behind each of its tokens; empty: none are known
  uint64_t generation_ = 0;              // that they are of
  std::unordered_set<int64_t> charged_;  // places of this generation whose masks are part of text_work_
  size_t num_followed_ = 0;              // tokens of the output whose places are, too
  size_t num_masks_ = 0;                 // of the output's places that have been asked for
  size_t text_work_ = 0;                 // of what plain decoding asks for
  size_t draft_work_ = 0;                // of drafts, some of it for the text's later places
  std::atomic<bool> takes_drafts_ = true;
};

}  // namespace

std::shared_ptr<TokenConstraint> make_grammar_constraint(std::shared_ptr<CompiledGrammar> grammar,
                                                         std::vector<int32_t> ends, size_t max_work) {
  return std::make_shared<GrammarConstraint>(std::move(grammar), std::move(ends), max_work);
}

}  // namespace paceline
