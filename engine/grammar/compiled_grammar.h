#pragma once
// A grammar over a model's vocabulary: which tokens may follow a text, remembered by state.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/grammar/stack_machine.h"
#include "engine/grammar/token_trie.h"

namespace paceline {

/// Shared by all requests and choices with this grammar. What it remembers stays within 64 MiB; it forgets all of it
/// where that is not enough, and the places that it gave are then those of an earlier generation(). Threads: one at a
/// time, of those that hold a Lock.
class CompiledGrammar {
 public:
  static constexpr size_t kMaxBytes = size_t(64) << 20;

  /// Of a text within the grammar, or that left it. Equal where the same bytes may follow.
  struct Place {
    StackMachine::State state = StackMachine::kDead;
    bool begins = false;  // no byte came yet, and a blank would not be part of the text (TokenTrie::strips_blank)
    bool operator==(const Place&) const = default;
    int64_t key() const { return int64_t(state) * 2 + begins; }
  };

  CompiledGrammar(ByteGrammar grammar, std::shared_ptr<const TokenTrie> trie);

  class Lock {
   public:
    explicit Lock(CompiledGrammar& grammar) : lock_(grammar.mutex_) {}

   private:
    std::lock_guard<std::mutex> lock_;
  };

  // REQUIRE a Lock, and places of this generation. Throw GrammarError where a text has too many readings to follow
  // (StackMachine::Limits).
  /// Begins a generation if memory asks for it. To be called before mask(), once per Lock at least.
  void make_room();
  uint64_t generation() const { return generation_; }
  Place start() const { return {machine_.start(), trie_->strips_blank()}; }
  /// Behind one more token. A token that stands for no bytes, or is not in the vocabulary, leaves the grammar.
  Place advance(Place place, int32_t token);
  bool dead(Place place) const { return place.state == StackMachine::kDead; }
  bool complete(Place place) const { return machine_.complete(place.state); }
  /// The bits of the tokens whose bytes may follow, [mask_words(vocab_size)] of the trie; valid until the next call.
  std::span<const uint32_t> mask(Place place);
  /// Steps that its mask took when it was made, whoever asked first. Of a place whose mask is remembered.
  size_t work_of_mask(Place place) const { return masks_.at(place.key()).work; }

  const TokenTrie& trie() const { return *trie_; }
  size_t bytes() const { return machine_.grammar_bytes() + remembered_bytes(); }
  size_t num_walks() const { return num_walks_; }  // masks that were not remembered
  /// Steps of all calls so far that were not looked up.
  size_t work() const { return machine_.work(); }

 private:
  struct Mask {
    std::vector<uint32_t> bits;
    size_t work;
  };
  size_t remembered_bytes() const;
  void walk(Place place, std::span<uint32_t> mask);

  const std::shared_ptr<const TokenTrie> trie_;
  StackMachine machine_;
  std::unordered_map<int64_t, Mask> masks_;
  std::vector<StackMachine::State> path_;  // scratch of walk(): the state at each depth
  uint64_t generation_ = 0;
  size_t num_walks_ = 0;
  std::mutex mutex_;
};

}  // namespace paceline
