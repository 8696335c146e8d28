#include "engine/sampling_plan.h"

#include <algorithm>
#include <limits>

#include "kernels/error.h"
#include "kernels/math/edit.h"

namespace paceline {
namespace {

constexpr float kForbid = -std::numeric_limits<float>::infinity();
constexpr int32_t kCut = -2;  // no place in a tree

/// The drafts from the root to `node`; none for the root.
std::vector<int32_t> path_to(const DraftTree& drafts, int32_t node) {
  std::vector<int32_t> path;
  for (int32_t at = node; at != DraftTree::kRoot; at = drafts.parent[size_t(at)])
    path.push_back(drafts.token[size_t(at)]);
  std::reverse(path.begin(), path.end());
  return path;
}

/// Whether some token is allowed, and only some of these.
bool has_only(std::span<const uint32_t> mask, std::span<const int32_t> tokens) {
  std::vector<uint32_t> others(mask.begin(), mask.end());
  for (const int32_t token : tokens) math::set_allowed(others.data(), token, false);
  const auto is_zero = [](uint32_t word) { return word == 0; };
  return std::all_of(others.begin(), others.end(), is_zero) && !std::all_of(mask.begin(), mask.end(), is_zero);
}

}  // namespace

SamplingPlan::SamplingPlan(const SamplingParams& params, int num_prompt, std::span<const int32_t> ends, int vocab_size)
    : params_(params), num_prompt_(num_prompt), words_of_mask_(mask_words(vocab_size)) {
  const auto change = [&](int32_t token, float bias) {
    Known& known = known_of(token);
    known.bias += bias;
    shared_[place_.at(token)] = edit_of(token, known);
  };
  for (const LogitBias& bias : params.logit_bias) change(bias.token, bias.bias);
  for (const std::vector<int32_t>& word : params.bad_words)
    if (word.size() == 1) change(word[0], kForbid);
  if (params.min_tokens == 0) return;
  early_ends_.assign(ends.begin(), ends.end());
  for (const int32_t token : params.stop_token_ids)
    if (token >= 0 && token < vocab_size) early_ends_.push_back(token);
}

bool SamplingPlan::counts() const {
  return params_.repetition_penalty != 1.0f || params_.presence_penalty != 0.0f || params_.frequency_penalty != 0.0f;
}

TokenEdit SamplingPlan::edit_of(int32_t token, const Known& known) const {
  TokenEdit edit{.token = token, .add = known.bias};
  if (known.in_text) edit.repetition = params_.repetition_penalty;
  if (known.count > 0) edit.subtract = params_.frequency_penalty * float(known.count) + params_.presence_penalty;
  return edit;
}

SamplingPlan::Known& SamplingPlan::known_of(int32_t token) {
  const auto [found, is_new] = place_.try_emplace(token, known_.size());
  if (is_new) {
    known_.emplace_back();
    shared_.push_back({.token = token});
  }
  return known_[found->second];
}

void SamplingPlan::note(int32_t token, bool is_output) {
  if (!is_output && params_.repetition_penalty == 1.0f) return;
  Known& known = known_of(token);
  known.in_text = true;
  known.count += is_output;
  shared_[place_.at(token)] = edit_of(token, known);
}

void SamplingPlan::follow(std::span<const int32_t> text) {
  PACELINE_CHECK(text.size() >= text_.size(), "a text of {} tokens, {} were followed", text.size(), text_.size());
  for (size_t i = text_.size(); i < text.size(); ++i) {
    if (counts()) note(text[i], i >= size_t(num_prompt_));
    text_.push_back(text[i]);
  }
}

bool SamplingPlan::ends_with(std::span<const int32_t> drafts, std::span<const int32_t> tokens) const {
  if (tokens.size() > text_.size() + drafts.size()) return false;
  const size_t of_drafts = std::min(tokens.size(), drafts.size()), of_text = tokens.size() - of_drafts;
  return std::equal(tokens.begin(), tokens.begin() + std::ptrdiff_t(of_text), text_.end() - std::ptrdiff_t(of_text)) &&
         std::equal(tokens.begin() + std::ptrdiff_t(of_text), tokens.end(), drafts.end() - std::ptrdiff_t(of_drafts));
}

// Of tokens whose edits the path changes, in order.
std::vector<TokenEdit> SamplingPlan::own_edits(std::span<const int32_t> drafts, bool must_end) const {
  std::vector<TokenEdit> own;
  const auto add = [&](int32_t token, int num_more, float bias) {
    if (std::any_of(own.begin(), own.end(), [&](const TokenEdit& edit) { return edit.token == token; })) return;
    const auto found = place_.find(token);
    Known known = found != place_.end() ? known_[found->second] : Known{};
    known.count += num_more;
    known.in_text = known.in_text || num_more > 0;
    known.bias += bias;
    own.push_back(edit_of(token, known));
  };
  if (is_early(drafts) && !must_end)
    for (const int32_t token : early_ends_) add(token, 0, kForbid);
  for (const std::vector<int32_t>& word : params_.bad_words)
    if (word.size() > 1 && ends_with(drafts, std::span(word).first(word.size() - 1))) add(word.back(), 0, kForbid);
  if (counts())
    for (const int32_t token : drafts) add(token, int(std::count(drafts.begin(), drafts.end(), token)), 0.0f);
  std::sort(own.begin(), own.end(), [](const TokenEdit& a, const TokenEdit& b) { return a.token < b.token; });
  return own;
}

void SamplingPlan::add_row(std::span<const int32_t> drafts, int32_t logits_row, LogitEdits& to) const {
  EditRow row{.logits_row = logits_row, .num_shared = int32_t(shared_.size())};
  if (to.shared_by == this) {
    row.first_shared = to.rows.back().first_shared;
  } else {
    row.first_shared = int32_t(to.edits.size());
    to.edits.insert(to.edits.end(), shared_.begin(), shared_.end());
  }
  bool must_end = false;
  if (params_.constraint) {
    to.words_of_mask = words_of_mask_;
    const size_t begin = to.masks.size();
    to.masks.resize(begin + size_t(words_of_mask_), 0);
    const auto mask = std::span(to.masks).subspan(begin);
    if (params_.constraint->allow(output(), drafts, mask)) {
      row.mask = int32_t(begin) / words_of_mask_;
      must_end = is_early(drafts) && has_only(mask, early_ends_);
    } else {
      to.masks.resize(begin);
    }
  }
  const std::vector<TokenEdit> own = own_edits(drafts, must_end);
  row.first_own = int32_t(to.edits.size());
  row.num_own = int32_t(own.size());
  to.edits.insert(to.edits.end(), own.begin(), own.end());
  if (row.num_shared == 0 && row.num_own == 0 && row.mask < 0) return;
  to.rows.push_back(row);
  to.shared_by = this;
}

void SamplingPlan::add_window(const DraftTree& drafts, int32_t first_row, LogitEdits& to) const {
  add_row({}, first_row, to);
  for (int32_t node = 0; node < drafts.size(); ++node) add_row(path_to(drafts, node), first_row + 1 + node, to);
}

DraftTree SamplingPlan::allowed(const DraftTree& drafts) const {
  if (!params_.constraint) return drafts;
  DraftTree kept;
  std::vector<int32_t> place(size_t(drafts.size()), kCut);  // of each draft in `kept`
  std::vector<uint32_t> mask(static_cast<size_t>(words_of_mask_));
  for (int32_t node = 0; node < drafts.size(); ++node) {
    const int32_t token = drafts.token[size_t(node)], parent = drafts.parent[size_t(node)];
    const int32_t above = parent == DraftTree::kRoot ? parent : place[size_t(parent)];
    if (above == kCut || token < 0 || size_t(token) / 32 >= mask.size()) continue;
    std::fill(mask.begin(), mask.end(), 0u);
    const bool is_masked = params_.constraint->allow(output(), path_to(drafts, parent), mask);
    if (is_masked && !math::is_allowed(mask.data(), token)) continue;
    place[size_t(node)] = kept.add(token, above);
    if (!drafts.score.empty()) kept.score.push_back(drafts.score[size_t(node)]);
  }
  return kept;
}

}  // namespace paceline
