#include "speculative/replay_proposer.h"

#include "speculative/proposer_entry.h"

namespace paceline {

DraftTree cut_tree(const DraftTree& tree, int max_nodes, int max_depth) {
  const std::vector<int32_t> depth = tree.depths();
  std::vector<int32_t> place(size_t(tree.size()), DraftTree::kRoot);
  DraftTree cut;
  for (int32_t node = 0; node < tree.size() && cut.size() < max_nodes; ++node) {
    if (depth[size_t(node)] >= max_depth) continue;
    const int32_t parent = tree.parent[size_t(node)];
    place[size_t(node)] =
        cut.add(tree.token[size_t(node)], parent == DraftTree::kRoot ? parent : place[size_t(parent)]);
  }
  return cut;
}

ReplayProposer::ReplayProposer(DraftRecord record, std::filesystem::path file)
    : record_(std::move(record)), file_(std::move(file)) {
  for (const auto& [key, request] : record_)
    for (const auto& [at, tree] : request.at) branches_ = branches_ || !tree.is_chain();
}

void ReplayProposer::propose(std::span<const DraftRequest> requests, std::span<Proposal> out) {
  for (size_t i = 0; i < requests.size(); ++i) {
    const Sequence& seq = *requests[i].seq;
    out[i] = {.committed = seq.length(), .draft = {}, .probs = {}};
    const auto recorded = record_.find(seq.key);
    if (recorded == record_.end() || requests[i].max_drafts == 0) continue;
    const RequestDrafts& request = recorded->second;
    if (request.prompt != prompt_digest(std::span(seq.tokens).first(size_t(seq.num_prompt))))
      fail(ExitCode::usage,
           "{}:{}: request {} has another prompt than when its drafts were recorded: replay them with the workload, "
           "tokenizer and chat template of that run",
           file_.string(), request.line, seq.key);
    if (const auto drafts = request.at.find(seq.length()); drafts != request.at.end())
      out[i].draft = cut_tree(drafts->second, requests[i].max_drafts, requests[i].max_depth);
  }
}

ProposerEntry replay_entry() {
  return {.name = "replay",
          .help = "drafts that another run recorded",
          .defaults = ReplayOptions{},
          .options = {proposer_path("file", &ReplayOptions::file,
                                    "drafts.jsonl of a cell that ran with measure.record_drafts.")},
          .replays = true,
          .find_conflict = [](const std::any& options) -> std::optional<OptionConflict> {
            if (!std::any_cast<const ReplayOptions&>(options).file.empty()) return std::nullopt;
            return OptionConflict{.option = "file",
                                  .involved = {"file"},
                                  .message =
                                      "proposer replay needs speculation.replay.file: the drafts.jsonl of a cell "
                                      "that ran with measure.record_drafts"};
          },
          .check =
              [](const ProposerSetup& setup) {
                read_draft_record(setup.options_as<ReplayOptions>().file, setup.target_vocab_size);
              },
          .make = [](const ProposerSetup& setup) -> std::unique_ptr<Proposer> {
            const std::filesystem::path file = setup.options_as<ReplayOptions>().file;
            return std::make_unique<ReplayProposer>(read_draft_record(file, setup.target_vocab_size), file);
          }};
}

}  // namespace paceline
