#pragma once
// A pushdown automaton over sets of stacks that reads a byte grammar.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/grammar/byte_grammar.h"

namespace paceline {

/// A state is the set of all stacks that the bytes so far may have left; a stack's top is the place in the grammar
/// where the next byte is read, below it are the places to go on at where a rule ends. Stacks of one top share it, so
/// that an ambiguous grammar costs what its places are and not what its readings are; the last item of an alternative
/// leaves no place behind, so that repetitions need no deeper stacks. Equal sets have equal numbers, and what follows a
/// state by a byte is looked up where it was asked for before: a finite automaton that comes into being as it is used.
/// Threads: one at a time.
class StackMachine {
 public:
  using State = int32_t;
  static constexpr State kDead = 0;  // no text goes on from here

  struct Limits {
    size_t max_bytes = size_t(32) << 20;  // of states
    size_t max_frames = 4096;             // of a state
    int max_depth = 8192;                 // of stacks that are united
    size_t max_steps = 200'000;           // from one byte to the next
  };

  explicit StackMachine(ByteGrammar grammar) : StackMachine(std::move(grammar), Limits()) {}
  StackMachine(ByteGrammar grammar, const Limits& limits);

  /// Before the first byte. Changed by clear().
  State start() const { return start_; }
  /// Throws GrammarError beyond the limits; the state before stays as it is.
  State advance(State state, uint8_t byte) { return advance_class(state, classes_[byte]); }
  /// Whether the text so far is within the grammar.
  bool complete(State state) const { return sets_[size_t(state)].ends; }
  /// Whether any byte may follow.
  bool open(State state) const { return sets_[size_t(state)].count > 0; }

  /// Of states, so far.
  size_t bytes() const;
  size_t grammar_bytes() const;
  /// Steps of all advance() calls that were not looked up.
  size_t work() const { return work_; }
  /// Forgets all states.
  void clear();

 private:
  // A set of stacks: frames, sorted by place, each place once, and whether the empty stack is a member.
  struct Frame {
    int32_t place;
    State below;
    bool operator==(const Frame&) const = default;
    auto operator<=>(const Frame&) const = default;
  };
  struct Set {
    uint32_t begin = 0, count = 0;  // of frames_
    int32_t row = -1;               // of transitions_
    bool ends = false;
  };
  static constexpr int32_t kEnd = INT32_MIN;  // a place at the end of an alternative
  static constexpr int32_t kUnknown = -1;

  State advance_class(State state, uint8_t byte_class) {
    const int32_t row = sets_[size_t(state)].row;
    if (row >= 0) {
      const State next = transitions_[size_t(row) * size_t(num_classes_) + byte_class];
      if (next != kUnknown) return next;
    }
    return find_next(state, byte_class);
  }
  State find_next(State state, uint8_t byte_class);
  void open_rule(int32_t rule, State below);
  std::span<const Frame> frames_of(State state) const {
    const Set& set = sets_[size_t(state)];
    return std::span(frames_).subspan(set.begin, set.count);
  }
  /// Goes on from `open_` to where bytes are read: the state of all that is found.
  State close();
  State normal(std::vector<Frame>& frames, bool ends, int depth);
  State unite(State a, State b, int depth);
  State intern(std::span<const Frame> frames, bool ends);
  void check_size() const;

  const Limits limits_;
  // The grammar: a place is an index of code_.
  std::vector<int32_t> code_;                     // a rule; -1 - set; kEnd
  std::vector<ByteGrammar::Range> alternatives_;  // of each rule: of first_place_
  std::vector<int32_t> first_place_;
  std::vector<std::array<uint64_t, 4>> class_sets_;  // of each set of bytes: bits of classes
  std::array<uint8_t, 256> classes_{};               // bytes that all sets have both or neither are of one class
  int num_classes_ = 0;
  int32_t root_ = 0;

  std::vector<Set> sets_;
  std::vector<Frame> frames_;
  std::vector<State> transitions_;                 // [rows, num_classes]
  std::unordered_multimap<uint64_t, State> seen_;  // hash of a set
  std::unordered_map<uint64_t, State> united_;     // of two states
  std::vector<Frame> open_;                        // places that close() is to go on from
  State start_ = kDead;
  size_t work_ = 0;
};

}  // namespace paceline
