#pragma once
// Bounds of what a proposer can gain or cost: drafts that are all right, and drafts that are all wrong. Both know how
// each request's text went on in an earlier pass over the same requests.

#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/speculation.h"

namespace paceline {

/// Texts of requests that have ended, by Sequence::key. Of one that ended more than once, the longest.
class KnownTexts {
 public:
  void learn(const Sequence& seq);
  /// At most max_len tokens behind those of `seq`; empty where its text is not known, or went another way.
  std::span<const int32_t> continuation(const Sequence& seq, int max_len) const;

 private:
  std::unordered_map<int64_t, std::vector<int32_t>> texts_;
};

struct ProposerSetup;
/// What setup.kept holds of them, made where it holds nothing.
std::shared_ptr<KnownTexts> known_texts(const ProposerSetup& setup);

enum class OracleDrafts : uint8_t {
  right,  // the text itself: what no proposer can exceed at k drafts
  wrong,  // other tokens at its places, of which none is kept: what k drafts cost
};

/// Drafts where the text is known, else nothing: a request is drafted for from its second pass on.
class OracleProposer final : public Proposer {
 public:
  OracleProposer(OracleDrafts drafts, int vocab_size, std::shared_ptr<KnownTexts> texts)
      : drafts_(drafts), vocab_size_(vocab_size), texts_(std::move(texts)) {}

  std::string_view name() const override { return drafts_ == OracleDrafts::right ? "oracle" : "reject_all"; }
  void propose(std::span<const DraftRequest> requests, std::span<Proposal> out) override;
  void end(const Sequence& seq) override { texts_->learn(seq); }
  void preempt(SeqId) override {}

 private:
  const OracleDrafts drafts_;
  const int vocab_size_;
  const std::shared_ptr<KnownTexts> texts_;
};

}  // namespace paceline
