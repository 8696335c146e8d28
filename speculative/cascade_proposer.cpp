#include "speculative/cascade_proposer.h"

#include <algorithm>

#include "engine/util/suggest.h"
#include "speculative/proposer_entry.h"

namespace paceline {

CascadeProposer::CascadeProposer(std::vector<std::unique_ptr<Proposer>> stages, double min_score)
    : stages_(std::move(stages)), min_score_(min_score) {
  for (const auto& stage : stages_) counts_.push_back({.name = std::string(stage->name())});
}

bool CascadeProposer::branches() const {
  return std::any_of(stages_.begin(), stages_.end(), [](const auto& stage) { return stage->branches(); });
}

bool CascadeProposer::uses_target_pages() const {
  return std::any_of(stages_.begin(), stages_.end(), [](const auto& stage) { return stage->uses_target_pages(); });
}

bool CascadeProposer::is_confident(const DraftTree& draft) const {
  if (draft.empty()) return false;
  if (draft.score.empty()) return true;
  double best = 0;  // of those that may come first
  for (int node = 0; node < draft.size(); ++node)
    if (draft.parent[size_t(node)] == DraftTree::kRoot) best = std::max(best, double(draft.score[size_t(node)]));
  return best >= min_score_;
}

void CascadeProposer::propose(std::span<const DraftRequest> requests, std::span<Proposal> out) {
  std::vector<size_t> asked;  // nobody is confident for
  for (size_t i = 0; i < requests.size(); ++i) {
    out[i] = {.committed = requests[i].seq->length(), .draft = {}, .probs = {}};
    drafted_by_.erase(requests[i].seq->id);
    if (requests[i].max_drafts > 0) asked.push_back(i);
  }
  for (size_t stage = 0; stage < stages_.size() && !asked.empty(); ++stage) {
    std::vector<DraftRequest> wanted;
    for (const size_t i : asked) {
      wanted.push_back(requests[i]);
      if (!stages_[stage]->branches())
        wanted.back().max_drafts = std::min(requests[i].max_drafts, requests[i].max_depth);
    }
    std::vector<Proposal> given(wanted.size());
    stages_[stage]->propose(wanted, given);
    std::vector<size_t> left;
    for (size_t i = 0; i < asked.size(); ++i) {
      const bool is_taken = is_confident(given[i].draft);
      if (!given[i].draft.empty()) {
        drafted_by_[wanted[i].seq->id] = stage;
        out[asked[i]] = std::move(given[i]);
      }
      if (!is_taken) left.push_back(asked[i]);
    }
    asked = std::move(left);
  }
}

void CascadeProposer::count(const Sequence& seq, const Verdict& verdict) {
  const auto drafted = drafted_by_.find(seq.id);
  if (drafted == drafted_by_.end() || verdict.num_drafts == 0) return;
  StageStats& counts = counts_[drafted->second];
  ++counts.proposals;
  counts.drafted += verdict.num_drafts;
  counts.accepted += int64_t(verdict.path.size());
}

void CascadeProposer::observe(const Sequence& seq, const Verdict& verdict) {
  count(seq, verdict);
  for (const auto& stage : stages_) stage->observe(seq, verdict);
}

void CascadeProposer::observe_last(const Sequence& seq, const Verdict& verdict) {
  count(seq, verdict);
  for (const auto& stage : stages_) stage->observe_last(seq, verdict);
}

void CascadeProposer::prefill(std::span<const Sequence* const> sequences) {
  for (const auto& stage : stages_) stage->prefill(sequences);
}

void CascadeProposer::launched(const std::shared_ptr<const Batch>& batch, std::span<const Sequence* const> sequences) {
  for (const auto& stage : stages_) stage->launched(batch, sequences);
}

void CascadeProposer::settled() {
  for (const auto& stage : stages_) stage->settled();
}

void CascadeProposer::swap_kv(std::span<const BlockSwap> swaps) {
  for (const auto& stage : stages_) stage->swap_kv(swaps);
}

void CascadeProposer::end(const Sequence& seq) {
  drafted_by_.erase(seq.id);
  for (const auto& stage : stages_) stage->end(seq);
}

void CascadeProposer::preempt(SeqId seq) {
  drafted_by_.erase(seq);
  for (const auto& stage : stages_) stage->preempt(seq);
}

ProposerStats CascadeProposer::stats() const {
  ProposerStats sum;
  for (const auto& stage : stages_) sum.catchup_tokens += stage->stats().catchup_tokens;
  sum.stages = counts_;
  return sum;
}

namespace {

std::optional<OptionConflict> fault_of_stages(const CascadeOptions& options) {
  const auto refuse = [](std::string message) {
    return OptionConflict{.option = "stages", .involved = {"stages"}, .message = std::move(message)};
  };
  std::vector<std::string> known;
  for (const ProposerEntry& entry : proposer_list())
    if (entry.drafts() && !entry.stages && !entry.knows_texts()) known.emplace_back(entry.name);
  const std::vector<std::string_view> names = split_at_commas(options.stages);
  std::vector<std::string_view> with_model;
  for (size_t i = 0; i < names.size(); ++i) {
    if (std::find(known.begin(), known.end(), names[i]) == known.end())
      return refuse(fmt::format("speculation.cascade.stages: no stage is called \"{}\"{}: there are {}", names[i],
                                did_you_mean(names[i], known), fmt::join(known, ", ")));
    if (std::find(names.begin(), names.begin() + std::ptrdiff_t(i), names[i]) != names.begin() + std::ptrdiff_t(i))
      return refuse(fmt::format("speculation.cascade.stages names {} twice: drop one", names[i]));
    if (find_proposer(names[i])->has_second_model()) with_model.push_back(names[i]);
  }
  if (with_model.size() > 1)
    return refuse(
        fmt::format("speculation.cascade.stages: {} each need a second model, and one is loaded: drop all "
                    "but one",
                    fmt::join(with_model, " and ")));
  return std::nullopt;
}

}  // namespace

ProposerEntry cascade_entry() {
  return {
      .name = "cascade",
      .help = "the first confident one of several proposers",
      .defaults = CascadeOptions{},
      .options = {proposer_text("stages", &CascadeOptions::stages,
                                "Names of proposers, apart by commas: the first that is confident drafts. Each has its "
                                "own section's options."),
                  proposer_option("min_score", &CascadeOptions::min_score, {.min = 0, .max = 1},
                                  "A stage that scores its drafts is confident from this score of the first on; one "
                                  "without scores always is.")},
      .remembers_texts = true,
      .stages =
          [](const std::any& options) { return split_at_commas(std::any_cast<const CascadeOptions&>(options).stages); },
      .find_conflict =
          [](const std::any& options) { return fault_of_stages(std::any_cast<const CascadeOptions&>(options)); },
      .make = [](const ProposerSetup& setup) -> std::unique_ptr<Proposer> {
        std::vector<std::unique_ptr<Proposer>> stages;
        ProposerSetup of_stage = setup;
        for (const ProposerStage& stage : setup.stages) {
          stages.push_back(make_stage(of_stage, stage));
          of_stage.may_be_passed_over = true;
        }
        return std::make_unique<CascadeProposer>(std::move(stages), setup.options_as<CascadeOptions>().min_score);
      }};
}

}  // namespace paceline
