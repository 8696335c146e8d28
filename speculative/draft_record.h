#pragma once
// Drafts of a run in a file, so that the same ones can be verified again: JSON Lines, {"paceline_drafts": 1} first,
// then a request a line.

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>

#include "engine/draft_tree.h"
#include "speculative/proposer_decorator.h"

namespace paceline {

/// What was drafted for one request.
struct RequestDrafts {
  uint64_t prompt = 0;            // prompt_digest()
  std::map<int, DraftTree> at{};  // by the verified tokens that they follow; without scores
  int64_t line = 0;               // of the file that it was read from
};

/// By Sequence::key.
using DraftRecord = std::map<int64_t, RequestDrafts>;

/// FNV-1a of the ids.
uint64_t prompt_digest(std::span<const int32_t> tokens);

std::string draft_record_text(const DraftRecord& record);

/// Throws Error(model_file), one line with file, line and field: no such file, no such form, ids outside a vocabulary
/// of vocab_size (0: any), drafts that are no tree, a request twice.
DraftRecord read_draft_record(const std::filesystem::path& file, int vocab_size);

/// Notes what its proposer drafts for requests that have a key; for positions that come again, the newest drafts.
class RecordsProposals final : public ProposerDecorator {
 public:
  /// `record` outlives this.
  RecordsProposals(std::unique_ptr<Proposer> inner, DraftRecord& record)
      : ProposerDecorator(std::move(inner)), record_(record) {}
  void propose(std::span<const DraftRequest> requests, std::span<Proposal> out) override;

 private:
  DraftRecord& record_;
};

}  // namespace paceline
