#include "speculative/selftest/fresh_drafts.h"

#include <algorithm>

namespace paceline {
namespace {

bool same_probs(const DraftProbs& a, const DraftProbs& b) {
  if (a.kind != b.kind || a.value.rows != b.value.rows) return false;
  for (int32_t row = 0; row < a.value.rows; ++row) {
    if (!std::equal(a.value.f32_row(row), a.value.f32_row(row) + a.value.cols, b.value.f32_row(row))) return false;
  }
  return true;
}

bool same_tree(const DraftTree& a, const DraftTree& b) {
  return a.token == b.token && a.parent == b.parent && a.score == b.score;
}

}  // namespace

ComparesWithFreshCache::ComparesWithFreshCache(std::unique_ptr<Proposer> inner, Model& fresh_model,
                                               const DraftOptions& options, Findings& findings, int every)
    : ProposerDecorator(std::move(inner)),
      pool_(dynamic_cast<const DraftProposer&>(this->inner()).pool()),
      fresh_model_(fresh_model),
      options_(options),
      findings_(findings),
      every_(every) {}

void ComparesWithFreshCache::propose(std::span<const DraftRequest> requests, std::span<Proposal> out) {
  inner().propose(requests, out);
  for (size_t i = 0; i < requests.size(); ++i) {
    if (out[i].draft.empty() || num_seen_++ % every_ != 0) continue;
    DraftRequest request = requests[i];
    // The inner pool may have been too full for more.
    DraftOptions options = options_;
    if (branches())
      options.pool.num_blocks = int(pool_.pages(request.seq->id).size());
    else
      request.max_drafts = out[i].draft.size();
    DraftProposer fresh(fresh_model_, options);
    Proposal expected;
    fresh.propose(std::span(&request, 1), std::span(&expected, 1));
    ++findings_.num_compared;
    findings_.num_tokens += int64_t(expected.draft.size());
    if (!same_tree(out[i].draft, expected.draft) || !same_probs(out[i].probs, expected.probs))
      ++findings_.num_different;
  }
}

void RecordsDrafts::propose(std::span<const DraftRequest> requests, std::span<Proposal> out) {
  inner().propose(requests, out);
  for (size_t i = 0; i < out.size(); ++i) {
    const Sequence& seq = *requests[i].seq;
    if (!out[i].draft.empty()) made_.push_back({seq.tokens, seq.params.sampler, out[i].draft, requests[i].max_depth});
  }
}

EngineSetup recording(std::vector<MadeDrafts>& made, EngineSetup setup) {
  setup.proposer = RigProposer::eagle3;
  setup.wrap_proposer = [&made](std::unique_ptr<Proposer> inner) {
    return std::make_unique<RecordsDrafts>(std::move(inner), made);
  };
  return setup;
}

MadeDrafts fresh_head_drafts(EngineRig& rig, const std::vector<int32_t>& prompt, int num_drafts,
                             const Eagle3DraftOptions& options, const DrawParams& sampler) {
  std::vector<MadeDrafts> made;
  auto engine = rig.make_engine(recording(made, {.rule = sampler.greedy() ? VerifyRule::greedy : VerifyRule::coupled,
                                                 .proposer_options = options,
                                                 .num_speculative_tokens = num_drafts}));
  SamplingParams params;
  params.sampler = sampler;
  params.max_tokens = num_drafts + 2;
  params.ignore_eos = true;
  engine->submit(prompt, params);
  while (!engine->idle() && made.empty()) engine->step();
  return made.empty() ? MadeDrafts{} : made.front();
}

HeadFindings compare_with_fresh_head(EngineRig& fresh, const std::vector<MadeDrafts>& made, int num_drafts,
                                     const Eagle3DraftOptions& options, int num_samples) {
  const bool is_tree = options.width > 1;
  HeadFindings findings;
  for (size_t i = 0; i < made.size(); i += made.size() / size_t(num_samples) + 1) {
    const MadeDrafts& found = made[i];
    if (is_tree && (found.drafts.size() < num_drafts || found.max_depth < options.depth)) continue;  // another tree
    std::vector<int32_t> prompt = found.text;
    prompt.pop_back();
    const MadeDrafts want = fresh_head_drafts(fresh, prompt, num_drafts, options, found.sampler);
    if (want.text != found.text) continue;
    DraftTree drafts = want.drafts;
    if (!is_tree && found.drafts.size() < drafts.size())
      drafts = DraftTree::chain({drafts.token.begin(), drafts.token.begin() + found.drafts.size()});
    ++findings.num_compared;
    if (found.drafts.token == drafts.token && found.drafts.parent == drafts.parent) continue;
    if (findings.num_different++ == 0)
      findings.first_difference = fmt::format("proposal {} behind {} tokens", i, found.text.size());
  }
  return findings;
}

}  // namespace paceline
