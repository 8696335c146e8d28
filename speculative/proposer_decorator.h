#pragma once
// A proposer around another, for those that look on or change what it says.

#include <memory>
#include <span>
#include <utility>

#include "engine/speculation.h"

namespace paceline {

/// Passes everything on.
class ProposerDecorator : public Proposer {
 public:
  explicit ProposerDecorator(std::unique_ptr<Proposer> inner) : inner_(std::move(inner)) {}
  std::string_view name() const override { return inner_->name(); }
  bool branches() const override { return inner_->branches(); }
  bool uses_target_pages() const override { return inner_->uses_target_pages(); }
  void propose(std::span<const DraftRequest> requests, std::span<Proposal> out) override {
    inner_->propose(requests, out);
  }
  void prefill(std::span<const Sequence* const> sequences) override { inner_->prefill(sequences); }
  void launched(const std::shared_ptr<const Batch>& batch, std::span<const Sequence* const> sequences) override {
    inner_->launched(batch, sequences);
  }
  void observe(const Sequence& seq, const Verdict& verdict) override { inner_->observe(seq, verdict); }
  void observe_last(const Sequence& seq, const Verdict& verdict) override { inner_->observe_last(seq, verdict); }
  void settled() override { inner_->settled(); }
  void swap_kv(std::span<const BlockSwap> swaps) override { inner_->swap_kv(swaps); }
  void end(const Sequence& seq) override { inner_->end(seq); }
  void preempt(SeqId seq) override { inner_->preempt(seq); }
  ProposerStats stats() const override { return inner_->stats(); }

 protected:
  Proposer& inner() const { return *inner_; }

 private:
  std::unique_ptr<Proposer> inner_;
};

}  // namespace paceline
