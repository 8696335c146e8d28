#pragma once
// Known faults of speculative decoding, planted as wrappers around what an engine is made of, so that a check that
// finds nothing can be told from a check that sees nothing. No part of the shipped engine knows of them.

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "speculative/eagle3_proposer.h"
#include "speculative/selftest/engine_rig.h"

namespace paceline {

/// What a fault shows in: the text, or drafts alone, since a lossless verifier hides a proposer's faults.
enum class SeenBy : uint8_t { text, drafts };

/// The set-up in which a fault can strike.
enum class SelfTestSetting : uint8_t {
  draft_chain,         // a draft model
  draft_tree,          // the same, in trees
  head_chain,          // an EAGLE-3 head
  head_tree,           // the same, in trees
  head_tree_swapping,  // and so few pages that preempted sequences are swapped
  shared_prefixes,     // n-grams, prompts that come again
};
inline constexpr int kNumSelfTestSettings = 6;

/// A fault that is being planted: what `setup` names instead of the rig's parts lives here, for the engine's time.
struct Plant {
  EngineRig& rig;
  EngineSetup& setup;
  std::vector<std::shared_ptr<void>> parts;
  int64_t num_strikes = 0;  // times that it has changed something

  template <class Part, class... Arguments>
  Part& put(Arguments&&... arguments) {
    auto part = std::make_shared<Part>(std::forward<Arguments>(arguments)...);
    parts.push_back(part);
    return *part;
  }
};

struct Sabotage {
  std::string_view name;
  std::string_view fault;  // a clause: "after a refused draft its KV row stays"
  SeenBy seen_by = SeenBy::text;
  SelfTestSetting setting = SelfTestSetting::draft_chain;
  std::string_view void_if_greedy = {};  // why it cannot strike there; empty: it can
  void (*plant)(Plant& plant) = nullptr;
};

/// All of them, those seen in the text first.
const std::vector<Sabotage>& sabotages();

/// The deciding clauses of a set-up: proposer, drafts, sequences, pages. blocks: pages that all sequences fill at once.
EngineSetup setup_of(SelfTestSetting setting, VerifyRule rule, int blocks, const EngineRig& rig);
Eagle3DraftOptions head_options_of(SelfTestSetting setting);

}  // namespace paceline
