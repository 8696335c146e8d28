#include "speculative/eagle3_proposer.h"

#include <algorithm>
#include <utility>

#include "engine/cache/kv_slot.h"
#include "speculative/proposer_entry.h"
#include "speculative/tree_growth.h"

namespace paceline {
namespace {

/// Of batch.seqs[index].
std::span<const int32_t> pages_of(const Batch& batch, size_t index) {
  const size_t begin = size_t(batch.block_begin[index]);
  const size_t end = index + 1 < batch.block_begin.size() ? size_t(batch.block_begin[index + 1]) : batch.block.size();
  return std::span(batch.block).subspan(begin, end - begin);
}

}  // namespace

class Eagle3Proposer::Extension {
 public:
  explicit Extension(Eagle3Model& model) : model_(model) {}

  /// The rows of `seq` that wait, which wait no more, and then `token.size()` more from its position `position` on,
  /// whose features are `feature`.
  void add(Followed& seq, int32_t position, std::span<const int32_t> token, std::span<const int32_t> feature) {
    const int num_waiting = int(seq.token.size());
    if (rows_.size() + num_waiting + int(token.size()) > model_.options().max_pass_rows()) run();
    rows_.begin_sequence(seq.pages);
    for (int i = 0; i < num_waiting; ++i)
      add_row(seq, seq.position + i, seq.token[size_t(i)], model_.options().waiting_feature(seq.slot, i));
    for (size_t i = 0; i < token.size(); ++i) add_row(seq, position + int32_t(i), token[i], feature[i]);
    seq.token.clear();
    last_row_.push_back(rows_.size() - 1);
    slots_.push_back(seq.slot);
  }

  void run() {
    if (rows_.size() > 0) model_.extend(rows_, last_row_, slots_);
    rows_ = {};
    last_row_.clear();
    slots_.clear();
  }

 private:
  void add_row(const Followed& seq, int32_t position, int32_t token, int32_t feature) {
    rows_.add(token, position, kv_slot(seq.pages, model_.options().block_size, position), feature);
  }

  Eagle3Model& model_;
  Eagle3Rows rows_;
  std::vector<int32_t> last_row_, slots_;  // of its sequences
};

Eagle3Proposer::Eagle3Proposer(Eagle3Model& model, int max_draft_len, const Eagle3DraftOptions& options,
                               Eagle3Reading reading)
    : model_(model), max_draft_len_(max_draft_len), options_(options), reading_(reading) {
  PACELINE_CHECK(options.width <= model.options().max_width, "trees {} wide, the head has room for {}", options.width,
                 model.options().max_width);
  drafted_.resize(size_t(max_draft_len) * size_t(model.options().max_num_seqs));
}

Eagle3Proposer::~Eagle3Proposer() {
  try {  // draws write what is ours
    model_.await_drafts();
  } catch (...) {  // the team has failed and runs no job any more
  }
}

void Eagle3Proposer::launched(const std::shared_ptr<const Batch>& batch, std::span<const Sequence* const> sequences) {
  auto rows = std::make_shared<Eagle3Rows>();
  for (size_t i = 0; i < sequences.size(); ++i) {
    const SeqRows& of = batch->seqs[i];
    const Sequence& seq = *sequences[i];
    const int num_known = of.num_rows - of.num_drafts - (of.wants_logits ? 1 : 0);  // with a known token behind them
    if (num_known == 0) continue;
    rows->begin_sequence(pages_of(*batch, i));
    for (int32_t row = of.first_row; row < of.first_row + num_known; ++row) {
      const int32_t position = batch->position[size_t(row)];
      rows->add(seq.tokens[size_t(position) + 1], position, batch->slot[size_t(row)], row);
    }
    stats_.catchup_tokens += num_known;
  }
  in_flight_.push_back(batch);
  model_.take_features(batch->step, std::move(rows));
}

void Eagle3Proposer::observe(const Sequence& seq, const Verdict& verdict) {
  const int kept = int(verdict.path.size());
  Observed observed{.slot = seq.slot, .seq = seq.id, .length = seq.length(), .path = verdict.path, .token = {}};
  observed.token.assign(seq.tokens.end() - kept - 1, seq.tokens.end());
  observed_.push_back(std::move(observed));
}

void Eagle3Proposer::settled() {
  const std::shared_ptr<const Batch> batch = std::move(in_flight_.front());
  in_flight_.pop_front();
  std::vector<int32_t> kept_from, kept_to;
  Extension extension(model_);
  for (const Observed& observed : observed_) {
    const auto found = std::find_if(batch->seqs.begin(), batch->seqs.end(),
                                    [&](const SeqRows& of) { return of.seq == observed.slot; });
    PACELINE_CHECK(found != batch->seqs.end(), "a verdict for slot {}, of which step {} has no row", observed.slot,
                   batch->step);
    const auto pages = pages_of(*batch, size_t(found - batch->seqs.begin()));
    Followed& seq = followed_[observed.seq];
    seq.length = observed.length;
    seq.slot = observed.slot;
    seq.pages.assign(pages.begin(), pages.end());
    const int32_t known = found->first_row + found->num_rows - found->num_drafts - 1;  // the last that was
    const int32_t position = batch->position[size_t(known)];
    std::vector<int32_t> feature{model_.options().feature_of(batch->step, known)};
    for (const int32_t node : observed.path) feature.push_back(feature[0] + 1 + node);
    const int32_t num_waiting = int32_t(seq.token.size()), num_new = int32_t(observed.token.size());
    if (can_wait(num_waiting > 0 ? seq.position : position, position + num_new)) {
      if (num_waiting == 0) seq.position = position;
      for (int32_t i = 0; i < num_new; ++i) {
        kept_from.push_back(feature[size_t(i)]);
        kept_to.push_back(model_.options().waiting_feature(seq.slot, num_waiting + i));
      }
      seq.token.insert(seq.token.end(), observed.token.begin(), observed.token.end());
    } else {
      extension.add(seq, position, observed.token, feature);
    }
  }
  observed_.clear();
  if (!kept_from.empty()) model_.keep(kept_from, kept_to);
  extension.run();
}

bool Eagle3Proposer::can_wait(int32_t first, int32_t end) const {
  if (reading_ == Eagle3Reading::at_once || end - first > model_.options().max_waiting) return false;
  return reading_ == Eagle3Reading::when_asked || first / block_size() == end / block_size();
}

void Eagle3Proposer::preempt(SeqId seq) {
  if (const auto found = followed_.find(seq); found != followed_.end() && !found->second.token.empty()) {
    Extension extension(model_);
    extension.add(found->second, 0, {}, {});
    extension.run();
  }
  followed_.erase(seq);
}

void Eagle3Proposer::propose(std::span<const DraftRequest> requests, std::span<Proposal> out) {
  std::vector<Active> active;
  Extension extension(model_);
  for (size_t i = 0; i < requests.size(); ++i) {
    const Sequence& seq = *requests[i].seq;
    out[i] = {.committed = seq.length(), .draft = {}, .probs = {}};
    const auto found = followed_.find(seq.id);
    if (found == followed_.end() || found->second.length != seq.length()) continue;
    // What is drafted at depth d is read at position length - 2 + d.
    const int depth = std::min(requests[i].max_depth, model_.max_position() - seq.length() + 2);
    if (depth <= 0 || requests[i].max_drafts <= 0) continue;
    active.push_back({.request = &requests[i], .out = &out[i], .max_depth = depth});
    if (!found->second.token.empty()) extension.add(found->second, 0, {}, {});
  }
  if (active.empty()) return;
  extension.run();
  if (branches())
    draft_trees(active);
  else
    draft_chains(active);
}

void Eagle3Proposer::draft_chains(std::vector<Active>& active) {
  const auto length_of = [&](const Active& one) {
    return std::min({one.request->max_drafts, one.max_depth, max_draft_len_});
  };
  std::stable_sort(active.begin(), active.end(),
                   [&](const Active& a, const Active& b) { return length_of(a) > length_of(b); });
  std::vector<int32_t> slots;
  std::vector<int> num_drafts;
  std::vector<const SamplingPlan*> plans;
  bool any_plan = false;
  std::vector<Eagle3Rows> rows(size_t(length_of(active[0])) - 1);
  for (const Active& one : active) {
    const DraftRequest& request = *one.request;
    slots.push_back(request.seq->slot);
    num_drafts.push_back(length_of(one));
    plans.push_back(request.seq->plan.get());
    any_plan = any_plan || plans.back();
    for (int j = 1; j < num_drafts.back(); ++j) {
      Eagle3Rows& pass = rows[size_t(j) - 1];
      const int32_t position = request.seq->length() - 2 + j;
      pass.begin_sequence(request.pages);
      pass.add(token_in_cell(request.seq->slot), position, kv_slot(request.pages, block_size(), position), 0);
    }
  }
  if (!any_plan) plans.clear();
  model_.draft(slots, num_drafts, rows, plans, drafted_);
  model_.await_drafts();
  for (size_t i = 0; i < active.size(); ++i) {
    std::vector<int32_t> chain;
    for (int j = 0; j < num_drafts[i]; ++j) {
      const int32_t token = drafted_[size_t(j) * active.size() + i];
      if (token < 0) break;  // the head's logits were not numbers there: that costs drafts, never the engine
      chain.push_back(token);
    }
    active[i].out->draft = DraftTree::chain(std::move(chain));
  }
}

std::vector<int32_t> Eagle3Proposer::tree_pages(const DraftRequest& request) const {
  const size_t begin = size_t((request.seq->length() - 1) / block_size());  // the block where the first node lies
  std::vector<int32_t> pages(request.pages.begin(), request.pages.begin() + std::ptrdiff_t(begin) + 1);
  const Eagle3Options& options = model_.options();
  for (int i = 0; i < options.num_spare_blocks(); ++i) pages.push_back(options.spare_block(request.seq->slot) + i);
  return pages;
}

void Eagle3Proposer::draft_trees(std::span<const Active> active) {
  struct Growing {
    TreePasses passes;
    std::vector<int32_t> pages;  // the sequence's up to its last known row, then its slot's own
    int32_t first_row = 0;       // of its rows in the newest pass
  };
  const int width = options_.width;
  std::vector<Growing> trees;
  std::vector<int32_t> from, tokens;
  std::vector<float> probs;
  LogitEdits edits;
  for (const Active& one : active) {
    trees.push_back({.passes = TreePasses({.width = width,
                                           .max_nodes = std::min(one.request->max_drafts, max_draft_len_),
                                           .max_depth = std::min(one.max_depth, options_.depth),
                                           .max_parents = kMaxDraftLen}),
                     .pages = tree_pages(*one.request)});
    if (const auto& plan = one.request->seq->plan) plan->add_row({}, int32_t(from.size()), edits);
    from.push_back(one.request->seq->slot);
  }
  Eagle3Rows rows;
  while (!from.empty()) {
    tokens.resize(from.size() * size_t(width));
    probs.resize(tokens.size());
    model_.draft_level(from, rows, std::exchange(edits, {}), width, tokens, probs);
    size_t drawn = 0;
    from.clear();
    rows = {};
    for (size_t i = 0; i < trees.size(); ++i) {
      Growing& tree = trees[i];
      const size_t given = size_t(tree.passes.level_size()) * size_t(width);
      tree.passes.add_children(std::span(tokens).subspan(drawn, given), std::span(probs).subspan(drawn, given));
      drawn += given;
      const int32_t above = tree.first_row;
      tree.first_row = rows.size();
      const std::span<const TreePasses::Row> next = tree.passes.next_level();
      if (next.empty()) continue;
      const int32_t tree_begin = active[i].request->seq->length() - 1;  // position of the first node's row, its place
      rows.begin_sequence(tree.pages, tree_begin);
      for (const TreePasses::Row& row : next) {
        if (const auto& plan = active[i].request->seq->plan)
          plan->add_row(tree.passes.tokens_of(row), int32_t(from.size()), edits);
        from.push_back(row.parent == DraftTree::kRoot ? int32_t(i) : above + row.above);
        rows.add(row.token, tree_begin + row.depth, kv_slot(tree.pages, block_size(), tree_begin + row.number), 0);
        std::vector<int32_t> path(row.path.begin(), row.path.end());
        for (int32_t& place : path) place += tree_begin;
        rows.set_path(path);
      }
    }
  }
  for (size_t i = 0; i < trees.size(); ++i) active[i].out->draft = trees[i].passes.tree();
}

ProposerEntry eagle3_entry() {
  return {.name = "eagle3",
          .help = "an EAGLE-3 head over the target's states",
          .defaults = Eagle3DraftOptions{},
          .options = {proposer_option("width", &Eagle3DraftOptions::width, {.min = 1, .max = 16, .unit = "nodes"},
                                      "Children of a draft, and drafts of a level that get any; 1 drafts chains, more "
                                      "trees of num_speculative_tokens nodes."),
                      proposer_option("depth", &Eagle3DraftOptions::depth, {.min = 1, .max = 64, .unit = "tokens"},
                                      "Most levels of a tree; void with width 1.")},
          .second_model = {.kind = SecondModelKind::eagle3_head, .default_path = "builtin:eagle3-target-7m"},
          .form = [](const std::any& options) -> DraftForm {
            const auto& chosen = std::any_cast<const Eagle3DraftOptions&>(options);
            return {.width = chosen.width, .max_depth = chosen.width > 1 ? chosen.depth : 0, .option = "width"};
          },
          .make = [](const ProposerSetup& setup) -> std::unique_ptr<Proposer> {
            PACELINE_CHECK(setup.head != nullptr, "proposer eagle3 without a head");
            const bool shares = setup.pool.prefix_caching == PrefixCaching::on;
            return std::make_unique<Eagle3Proposer>(*setup.head, setup.max_draft_len,
                                                    setup.options_as<Eagle3DraftOptions>(),
                                                    !setup.may_be_passed_over ? Eagle3Reading::at_once
                                                    : shares                  ? Eagle3Reading::by_block
                                                                              : Eagle3Reading::when_asked);
          }};
}

}  // namespace paceline
