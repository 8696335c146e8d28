#include "speculative/draft_proposer.h"

#include <algorithm>
#include <utility>

#include "engine/batch_rows.h"
#include "engine/cache/kv_slot.h"
#include "engine/comm/work_scope.h"
#include "speculative/proposer_entry.h"
#include "speculative/tree_growth.h"

namespace paceline {
namespace {

/// Rows that the first drafting pass may carry per sequence: more missing tokens than this are fed beforehand.
constexpr int kFirstPassRows = 8;

}  // namespace

DraftSampling draft_sampling(VerifyRule rule, DraftDraws draws) {
  if (draws == DraftDraws::argmax) return DraftSampling::argmax;
  switch (rule) {
    case VerifyRule::coupled: return DraftSampling::shared_noise;
    case VerifyRule::rejection:
    case VerifyRule::block: return DraftSampling::own_noise;
    case VerifyRule::greedy: return DraftSampling::argmax;
  }
  return DraftSampling::argmax;
}

size_t draft_probs_bytes(const DraftOptions& options) {
  return size_t(options.max_draft_len) * size_t(options.max_num_seqs) * size_t(options.target_vocab_size) *
         sizeof(float);
}

DraftProposer::DraftProposer(Model& model, const DraftOptions& options)
    : model_(model), options_(options), pool_(options.pool) {
  const size_t drafts = size_t(options.max_num_seqs) * size_t(options.max_draft_len);
  drafted_.resize(drafts);
  if (options.sampling == DraftSampling::own_noise)
    model_.wait(model_.post([this](Rank& rank) {
      backend_ = rank.backend.get();
      probs_ = static_cast<float*>(backend_->alloc(draft_probs_bytes(options_)));
    }));
  PACELINE_CHECK(options.max_num_rows >= options.max_num_seqs, "{} rows for {} sequences", options.max_num_rows,
                 options.max_num_seqs);
}

DraftProposer::~DraftProposer() {
  try {  // draws write what is ours
    await_draws();
  } catch (...) {  // its team has failed and runs no job any more
  }
  if (probs_) backend_->free(probs_);
}

void DraftProposer::propose(std::span<const DraftRequest> requests, std::span<Proposal> out) {
  for (size_t i = 0; i < requests.size(); ++i)
    out[i] = {.committed = requests[i].seq->length(), .draft = {}, .probs = {}};
  std::vector<Active> active = select(requests);
  if (active.empty()) return;
  if (options_.branches())
    draft_trees(active, out);
  else
    draft_chains(active, out);
}

void DraftProposer::draft_chains(std::vector<Active>& active, std::span<Proposal> out) {
  sample(active, 0, feed_known(active));
  int longest = 0;
  for (const Active& seq : active) longest = std::max(longest, seq.draft_len);
  for (int index = 1; index < longest; ++index) next_pass(active, index);
  await_draws();
  std::vector<std::vector<int32_t>> drafts(active.size());
  for (int index = 0; index < longest; ++index) {
    const int32_t* next = drafted_of_pass(index);
    for (size_t i = 0; i < active.size(); ++i)
      if (active[i].draft_len > index) drafts[i].push_back(*next++);
  }
  for (size_t i = 0; i < active.size(); ++i) {
    const Active& seq = active[i];
    std::vector<int32_t>& made = drafts[i];
    Proposal& proposal = out[seq.request];
    // -1: the draft model's logits were not numbers there. That costs drafts, never the engine.
    proposal.draft = DraftTree::chain({made.begin(), std::find(made.begin(), made.end(), -1)});
    if (!seq.seq->params.sampler.greedy()) {
      if (options_.sampling == DraftSampling::shared_noise) proposal.probs.kind = DraftProbKind::shared_noise;
      if (options_.sampling == DraftSampling::own_noise) {
        proposal.probs = {
            DraftProbKind::dense,
            f32_view(probs_ + int64_t{probs_row(seq.seq->slot, 0)} * options_.target_vocab_size, seq.draft_len,
                     options_.target_vocab_size, int64_t{options_.max_num_seqs} * options_.target_vocab_size)};
      }
    }
    made.pop_back();  // was sampled, not fed
    fed_[seq.seq->id] = {.begin = seq.seq->length(), .drafts = DraftTree::chain(std::move(made))};
  }
}

void DraftProposer::draft_trees(std::vector<Active>& active, std::span<Proposal> out) {
  const size_t width = size_t(options_.width);
  std::vector<TreePasses> trees;
  for (const Active& seq : active)
    trees.emplace_back(GrowthLimits{.width = options_.width,
                                    .max_nodes = seq.draft_len,
                                    .max_depth = seq.max_depth,
                                    .max_parents = seq.max_parents});
  feed_known(active);
  LogitEdits edits;
  for (size_t i = 0; i < active.size(); ++i)
    if (active[i].seq->plan) active[i].seq->plan->add_row({}, int32_t(i), edits);
  std::vector<int32_t> tokens;
  std::vector<float> probs;
  for (size_t num_rows = active.size(); num_rows > 0;) {
    tokens.resize(num_rows * width);
    probs.resize(num_rows * width);
    likeliest(std::exchange(edits, {}), tokens, probs);
    size_t given = 0;
    auto batch = new_batch();
    for (size_t i = 0; i < active.size(); ++i) {
      TreePasses& tree = trees[i];
      const size_t count = size_t(tree.level_size()) * width;
      tree.add_children(std::span(tokens).subspan(given, count), std::span(probs).subspan(given, count));
      given += count;
      const Sequence& seq = *active[i].seq;
      std::vector<TreeRow> rows;
      for (const TreePasses::Row& row : tree.next_level()) {
        if (seq.plan) seq.plan->add_row(tree.tokens_of(row), int32_t(batch->num_rows() + int(rows.size())), edits);
        rows.push_back({.token = row.token, .depth = row.depth, .path = row.path});
      }
      if (!rows.empty()) add_tree_rows(*batch, seq.slot, seq.length(), pool_.pages(seq.id), pool_.block_size(), rows);
    }
    num_rows = size_t(batch->num_rows());
    batch->digest = digest_of(batch->expected);
    if (num_rows > 0) model_.launch(std::move(batch));
  }
  for (size_t i = 0; i < active.size(); ++i) {
    out[active[i].request].draft = trees[i].tree();
    fed_[active[i].seq->id] = {.begin = active[i].seq->length(), .drafts = trees[i].rows()};
  }
}

// Of the newest pass, for each row of logits: the most likely tokens. Waits for them.
void DraftProposer::likeliest(const LogitEdits& edits, std::span<int32_t> tokens, std::span<float> probs) {
  model_.wait(model_.post([&](Rank& rank) {
    const WorkScope work(rank, WorkKind::draft);
    if (!edits.empty()) rank.backend->edit_logits(edits.args(model_.logits().rows, options_.vocab_size));
    rank.backend->top_k({.logits = model_.logits().rows,
                         .vocab_size = options_.vocab_size,
                         .k = options_.width,
                         .token = tokens,
                         .prob = probs});
  }));
}

std::vector<DraftProposer::Active> DraftProposer::select(std::span<const DraftRequest> requests) {
  std::vector<Active> active;
  for (size_t i = 0; i < requests.size(); ++i) {
    const Sequence& seq = *requests[i].seq;
    const int length = seq.length();
    if (requests[i].max_drafts == 0) continue;
    if (!pool_.knows(seq.id)) pool_.attach(seq.id, seq.tokens);
    const int valid = settle_cache(seq);
    // Drafting feeds places up to that of position max_model_len - 1.
    const int room = model_.max_model_len() - length;
    Active chosen{.seq = &seq,
                  .request = i,
                  .draft_len = std::min(requests[i].max_drafts, options_.max_draft_len),
                  .next_row = valid};
    if (room < 0) continue;
    if (options_.branches()) {
      int parents = std::min(options_.max_parents(), room);
      while (parents >= 0 && !pool_.reserve(seq.id, length + parents)) --parents;
      if (parents < 0) continue;
      chosen.max_depth = std::min(requests[i].max_depth, options_.depth);
      chosen.max_parents = parents;
    } else {
      chosen.draft_len = std::min(chosen.draft_len, room + 1);
      while (chosen.draft_len > 0 && !pool_.reserve(seq.id, length + chosen.draft_len - 1)) --chosen.draft_len;
    }
    if (chosen.draft_len > 0) active.push_back(chosen);
  }
  move_kept();
  return active;
}

// Drafts that were fed and then verified are as good as any other cached token, once they lie in their places; the
// first that is not the verified text's ends the valid part. Returns its length, at least one short of the text.
int DraftProposer::settle_cache(const Sequence& seq) {
  int valid = pool_.cached(seq.id);
  if (const auto it = fed_.find(seq.id); it != fed_.end()) {
    const Fed& fed = it->second;
    const std::span<const int32_t> pages = pool_.pages(seq.id);
    const auto slot_of = [&](int position) { return kv_slot(pages, pool_.block_size(), position); };
    valid = std::min(fed.begin, seq.length() - 1);
    int32_t above = DraftTree::kRoot;
    for (int32_t node = 0; node < fed.drafts.size() && valid < seq.length() - 1; ++node) {
      if (fed.drafts.parent[size_t(node)] != above || fed.drafts.token[size_t(node)] != seq.tokens[size_t(valid)])
        continue;
      const int place = fed.begin + node;
      if (place != valid) moves_.push_back({.from = slot_of(place), .to = slot_of(valid)});
      above = node;
      ++valid;
    }
    fed_.erase(it);
    pool_.commit(seq.id, valid, seq.tokens);
  }
  return valid;
}

// To the places where settle_cache has counted them.
void DraftProposer::move_kept() {
  if (!moves_.empty()) model_.move_kv(moves_);
  moves_.clear();
}

std::shared_ptr<Batch> DraftProposer::new_batch() {
  auto batch = std::make_shared<Batch>();
  batch->step = next_step_++;
  batch->after = batch->step - 1;
  return batch;
}

void DraftProposer::feed(Batch& batch, Active& active, int end) const {
  const Sequence& seq = *active.seq;
  const SeqCommit state{.seq = seq.slot,
                        .cached = active.next_row,
                        .length = seq.length(),
                        .last_token = seq.tokens.back(),
                        .request = seq.id};
  add_rows(batch, {.state = state,
                   .tokens = seq.tokens,
                   .pages = pool_.pages(seq.id),
                   .block_size = pool_.block_size(),
                   .end = end,
                   .reset = active.reset});
  active.reset = false;
  active.next_row = end;
}

// Where more than max_left tokens are missing (a fresh prompt, steps without drafts, a lost cache) all but the last go
// through in chunks of max_num_rows.
void DraftProposer::catch_up(std::vector<Active>& active, int max_left) {
  std::shared_ptr<Batch> batch;
  const auto launch = [&] {
    if (!batch) return;
    batch->digest = digest_of(batch->expected);
    model_.launch(std::move(batch));
    batch = nullptr;
  };
  for (Active& seq : active) {
    const int length = seq.seq->length();
    stats_.catchup_tokens += length - 1 - seq.next_row;
    if (length - seq.next_row <= max_left) continue;
    while (seq.next_row < length - 1) {
      if (!batch) batch = new_batch();
      const int room = options_.max_num_rows - batch->num_rows();
      feed(*batch, seq, std::min(length - 1, seq.next_row + room));
      if (batch->num_rows() == options_.max_num_rows) launch();
    }
  }
  launch();
}

// All known tokens but the last: that one goes with the first drafting pass.
void DraftProposer::prefill(std::span<const Sequence* const> sequences) {
  std::vector<Active> active;
  for (const Sequence* seq : sequences) {
    if (seq->length() > model_.max_model_len()) continue;
    if (!pool_.knows(seq->id)) pool_.attach(seq->id, seq->tokens);
    const int valid = settle_cache(*seq);
    if (pool_.reserve(seq->id, seq->length() - 1)) active.push_back({.seq = seq, .next_row = valid});
  }
  move_kept();
  catch_up(active, 1);  // nothing is read back: later passes queue behind it
  for (const Active& seq : active)
    pool_.commit(seq.seq->id, std::max(pool_.cached(seq.seq->id), seq.next_row), seq.seq->tokens);
}

// What is missing of the known tokens, so that the newest pass has logits for the last of each. Returns how many of
// each went with that pass.
std::vector<int> DraftProposer::feed_known(std::vector<Active>& active) {
  catch_up(active, std::min(kFirstPassRows, options_.max_num_rows / int(active.size())));
  auto batch = new_batch();
  for (Active& seq : active) feed(*batch, seq, seq.seq->length());
  batch->digest = digest_of(batch->expected);
  std::vector<int> known_rows;
  for (const SeqRows& rows : batch->seqs) known_rows.push_back(rows.num_rows);
  model_.launch(batch);
  return known_rows;
}

void DraftProposer::next_pass(const std::vector<Active>& active, int index) {
  auto batch = new_batch();
  for (const Active& seq : active) {
    if (seq.draft_len <= index) continue;
    add_deferred_row(*batch, seq.seq->slot, pool_.pages(seq.seq->id));
  }
  batch->digest = digest_of(batch->expected);
  model_.launch(batch);
  sample(active, index, {});
}

// Draws draft `index` of every sequence that wants one and leaves it in SeqState for the next pass, which begins
// without the host where the model's SeqState has cells.
void DraftProposer::sample(const std::vector<Active>& active, int index, const std::vector<int>& known_rows) {
  struct Wanted {
    int32_t slot;
    int known_rows;
    SampleRow row;
    std::shared_ptr<const SamplingPlan> plan;
    std::vector<const int32_t*> path;  // with a plan: its drafts so far
  };
  std::vector<Wanted> wanted;
  std::vector<int32_t> num_before(size_t(index), 0);  // sequences with a draft of each earlier pass
  for (size_t i = 0; i < active.size(); ++i) {
    std::vector<const int32_t*> path;
    for (int pass = 0; pass < std::min(index, active[i].draft_len); ++pass) {
      const int32_t* const drafted = drafted_of_pass(pass) + num_before[size_t(pass)]++;
      if (active[i].seq->plan) path.push_back(drafted);
    }
    if (active[i].draft_len <= index) continue;
    const Sequence& seq = *active[i].seq;
    SampleRow row{.logits_row = int32_t(wanted.size()),
                  .params = seq.params.sampler,
                  .purpose = NoisePurpose::draft,
                  .origin = seq.length(),
                  .offset = index};
    if (options_.sampling == DraftSampling::argmax) row.params.temperature = 0.0f;
    if (options_.sampling == DraftSampling::shared_noise) {
      row.purpose = NoisePurpose::target;
      row.origin = seq.length() + index;
      row.offset = 0;
    }
    row.token_cell = seq.slot;
    wanted.push_back({seq.slot, known_rows.empty() ? 1 : known_rows[i], row, seq.plan, std::move(path)});
  }
  const uint64_t step = next_step_ - 1;
  model_.post([this, wanted = std::move(wanted), index, step](Rank& rank) {
    const Logits logits = model_.logits();
    const WorkScope work(rank, WorkKind::draft);
    std::vector<SampleRow> rows(wanted.size());
    const std::span<int32_t> token(drafted_of_pass(index), wanted.size());
    int32_t* const cells = model_.state().cells();
    for (size_t i = 0; i < wanted.size(); ++i) {
      rows[i] = wanted[i].row;
      rows[i].probs_row = probs_row(wanted[i].slot, index);
    }
    LogitEdits edits;
    for (const Wanted& one : wanted) {
      if (!one.plan) continue;
      if (edits.empty() && index > 0) rank.backend->await_draws(rank.backend->num_draws());  // the paths
      std::vector<int32_t> path;
      for (const int32_t* draft : one.path) path.push_back(*draft);
      const bool is_cut = std::find(path.begin(), path.end(), -1) != path.end();  // nobody looks at what follows
      if (!is_cut) one.plan->add_row(path, one.row.logits_row, edits);
    }
    if (!edits.empty()) rank.backend->edit_logits(edits.args(logits.rows, options_.vocab_size));
    MatView probs{};
    // of greedy requests nobody asks how likely a draft was
    if (probs_ && std::any_of(rows.begin(), rows.end(), [](const SampleRow& row) { return !row.params.greedy(); }))
      probs = f32_view(probs_, options_.max_draft_len * options_.max_num_seqs, options_.vocab_size,
                       options_.target_vocab_size);
    rank.backend->sample({.logits = logits.rows,
                          .vocab_size = options_.vocab_size,
                          .rows = rows,
                          .token = token,
                          .token_cells = cells,
                          .later = cells != nullptr,
                          .probs = probs});
    for (size_t i = 0; i < wanted.size(); ++i) {
      const Wanted& one = wanted[i];
      const int32_t next = cells ? token_in_cell(one.slot) : token[i];
      model_.state().accept(one.slot, one.known_rows, nullptr, 0, next, step);
    }
  });
}

void DraftProposer::await_draws() {
  model_.wait(model_.post([](Rank& rank) { rank.backend->await_draws(rank.backend->num_draws()); }));
}

void DraftProposer::drop(SeqId seq) {
  fed_.erase(seq);
  if (pool_.knows(seq)) pool_.release(seq, 0);
}

DraftOptions draft_options(const ProposerSetup& setup) {
  const auto& options = setup.options_as<DraftModelOptions>();
  const DraftDraws draws = options.width > 1 ? DraftDraws::argmax : options.sampling;
  return {.sampling = draft_sampling(setup.rule, draws),
          .pool = setup.pool,
          .max_num_seqs = setup.max_num_seqs,
          .max_num_rows = setup.max_num_rows,
          .max_draft_len = setup.max_draft_len,
          .vocab_size = std::min(setup.second_vocab_size, setup.target_vocab_size),
          .target_vocab_size = setup.target_vocab_size,
          .width = options.width,
          .depth = options.depth};
}

ProposerEntry draft_entry() {
  return {.name = "draft",
          .help = "a small model",
          .defaults = DraftModelOptions(),
          .options = {newer(proposer_choice(
                          "sampling", &DraftModelOptions::sampling, {"own", "argmax"},
                          "Drafts of requests that sample: own draws from the draft's distribution, argmax "
                          "takes its most likely token, as vLLM does unless told; void with width above 1.")),
                      newer(proposer_option("width", &DraftModelOptions::width, {.min = 1, .max = 16, .unit = "nodes"},
                                            "Children of a draft, and drafts of a level that get any; 1 drafts chains, "
                                            "more trees of num_speculative_tokens nodes, the most likely.")),
                      newer(proposer_option("depth", &DraftModelOptions::depth, {.min = 1, .max = 64, .unit = "tokens"},
                                            "Most levels of a tree; void with width 1."))},
          .second_model = {.kind = SecondModelKind::draft_model, .default_path = "builtin:draft-600k"},
          .form = [](const std::any& options) -> DraftForm {
            const auto& chosen = std::any_cast<const DraftModelOptions&>(options);
            return {.width = chosen.width, .max_depth = chosen.width > 1 ? chosen.depth : 0, .option = "width"};
          },
          .memory = [](const ProposerSetup& setup) -> ProposerMemory {
            const DraftOptions options = draft_options(setup);
            if (options.sampling != DraftSampling::own_noise) return {};
            return {.deciding_rank = draft_probs_bytes(options)};
          },
          .make = [](const ProposerSetup& setup) -> std::unique_ptr<Proposer> {
            PACELINE_CHECK(setup.second_model != nullptr, "proposer draft without a model");
            return std::make_unique<DraftProposer>(*setup.second_model, draft_options(setup));
          }};
}

}  // namespace paceline
