#include "engine/grammar/stack_machine.h"

#include <algorithm>
#include <unordered_set>

#include "kernels/error.h"

namespace paceline {

StackMachine::StackMachine(ByteGrammar grammar, const Limits& limits) : limits_(limits), root_(grammar.root) {
  class_sets_.resize(grammar.sets.size());
  std::vector<uint16_t> class_of(256, 0);
  // Each set parts the classes before into what it has and what it has not.
  int count = 1;
  for (const ByteSet& set : grammar.sets) {
    std::unordered_map<uint32_t, uint16_t> parts;
    for (int byte = 0; byte < 256; ++byte) {
      const uint32_t key = uint32_t(class_of[size_t(byte)]) * 2 + set.contains(uint8_t(byte));
      class_of[size_t(byte)] = parts.try_emplace(key, uint16_t(parts.size())).first->second;
    }
    count = int(parts.size());
  }
  num_classes_ = count;
  for (int byte = 0; byte < 256; ++byte) {
    classes_[size_t(byte)] = uint8_t(class_of[size_t(byte)]);
    for (size_t set = 0; set < grammar.sets.size(); ++set) {
      if (grammar.sets[set].contains(uint8_t(byte))) {
        class_sets_[set][class_of[size_t(byte)] / 64] |= uint64_t(1) << (class_of[size_t(byte)] % 64);
      }
    }
  }
  alternatives_.reserve(grammar.rules.size());
  for (const ByteGrammar::Range& rule : grammar.rules) {
    alternatives_.push_back({int32_t(first_place_.size()), int32_t(first_place_.size()) + rule.end - rule.begin});
    for (int32_t each = rule.begin; each < rule.end; ++each) {
      first_place_.push_back(int32_t(code_.size()));
      const ByteGrammar::Range alternative = grammar.alternatives[size_t(each)];
      for (int32_t item = alternative.begin; item < alternative.end; ++item) {
        const ByteGrammar::Item& of = grammar.items[size_t(item)];
        code_.push_back(of.rule >= 0 ? of.rule : -1 - of.bytes);
      }
      code_.push_back(kEnd);
    }
  }
  clear();
}

void StackMachine::clear() {
  sets_.clear();
  frames_.clear();
  transitions_.clear();
  seen_.clear();
  united_.clear();
  const State dead = intern({}, false), nothing_more = intern({}, true);
  PACELINE_CHECK(dead == kDead, "the dead state is number {}", dead);
  open_.clear();
  open_rule(root_, nothing_more);
  start_ = close();
}

size_t StackMachine::bytes() const {
  // A map's entry is a node of the heap and a share of its buckets.
  return sets_.size() * sizeof(Set) + frames_.size() * sizeof(Frame) + transitions_.size() * sizeof(State) +
         (seen_.size() + united_.size()) * 40;
}

size_t StackMachine::grammar_bytes() const {
  return code_.size() * sizeof(code_[0]) + alternatives_.size() * sizeof(alternatives_[0]) +
         first_place_.size() * sizeof(first_place_[0]) + class_sets_.size() * sizeof(class_sets_[0]);
}

void StackMachine::check_size() const {
  if (bytes() > limits_.max_bytes) {
    throw GrammarError("", "the grammar has states of more than " + std::to_string(limits_.max_bytes >> 20) + " MiB");
  }
}

StackMachine::State StackMachine::intern(std::span<const Frame> frames, bool ends) {
  uint64_t hash = ends ? 1 : 2;
  for (const Frame& frame : frames) {
    hash = (hash ^ (uint64_t(uint32_t(frame.place)) << 32 | uint32_t(frame.below))) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 29;
  }
  for (auto [it, end] = seen_.equal_range(hash); it != end; ++it) {
    if (sets_[size_t(it->second)].ends == ends && std::ranges::equal(frames_of(it->second), frames)) return it->second;
  }
  if (frames.size() > limits_.max_frames) {
    throw GrammarError("", "the grammar is too ambiguous: a text may go on in more than " +
                               std::to_string(limits_.max_frames) + " places");
  }
  check_size();
  const State state = State(sets_.size());
  sets_.push_back({.begin = uint32_t(frames_.size()), .count = uint32_t(frames.size()), .ends = ends});
  frames_.insert(frames_.end(), frames.begin(), frames.end());
  seen_.emplace(hash, state);
  return state;
}

StackMachine::State StackMachine::find_next(State state, uint8_t byte_class) {
  open_.clear();
  for (const Frame& frame : frames_of(state)) {
    const auto& set = class_sets_[size_t(-1 - code_[size_t(frame.place)])];
    if ((set[byte_class / 64] >> (byte_class % 64)) & 1) open_.push_back({frame.place + 1, frame.below});
  }
  const State next = close();
  if (sets_[size_t(state)].row < 0) {
    sets_[size_t(state)].row = int32_t(transitions_.size() / size_t(num_classes_));
    transitions_.resize(transitions_.size() + size_t(num_classes_), kUnknown);
  }
  transitions_[size_t(sets_[size_t(state)].row) * size_t(num_classes_) + byte_class] = next;
  return next;
}

void StackMachine::open_rule(int32_t rule, State below) {
  const ByteGrammar::Range places = alternatives_[size_t(rule)];
  for (int32_t i = places.begin; i < places.end; ++i) open_.push_back({first_place_[size_t(i)], below});
}

StackMachine::State StackMachine::close() {
  std::vector<Frame> found;
  bool ends = false;
  // A rule with the same stack below may be met by many ways that read nothing.
  std::unordered_set<uint64_t> opened;
  const size_t work = work_;
  while (!open_.empty()) {
    if (work_ - work > limits_.max_steps)
      throw GrammarError("", "the grammar is too ambiguous: it opens too many rules");
    const Frame at = open_.back();
    open_.pop_back();
    ++work_;
    const int32_t code = code_[size_t(at.place)];
    if (code == kEnd) {
      if (!opened.insert(uint64_t(uint32_t(at.below))).second) continue;
      ends = ends || sets_[size_t(at.below)].ends;
      const auto frames = frames_of(at.below);
      open_.insert(open_.end(), frames.begin(), frames.end());
    } else if (code < 0) {
      found.push_back(at);
    } else {
      State below = at.below;
      if (code_[size_t(at.place) + 1] != kEnd) {
        const Frame rest = {at.place + 1, at.below};
        below = intern(std::span(&rest, 1), false);
      }
      if (opened.insert(uint64_t(uint32_t(code) + 1) << 32 | uint32_t(below)).second) open_rule(code, below);
    }
  }
  return normal(found, ends, 0);
}

StackMachine::State StackMachine::normal(std::vector<Frame>& frames, bool ends, int depth) {
  std::sort(frames.begin(), frames.end());
  size_t kept = 0;
  for (const Frame& frame : frames) {
    if (kept > 0 && frames[kept - 1].place == frame.place) {
      frames[kept - 1].below = unite(frames[kept - 1].below, frame.below, depth + 1);
    } else {
      frames[kept++] = frame;
    }
  }
  frames.resize(kept);
  return intern(frames, ends);
}

StackMachine::State StackMachine::unite(State a, State b, int depth) {
  if (a == b) return a;
  const uint64_t key = uint64_t(uint32_t(std::min(a, b))) << 32 | uint32_t(std::max(a, b));
  if (const auto found = united_.find(key); found != united_.end()) return found->second;
  if (depth > limits_.max_depth) {
    throw GrammarError("", "the grammar is too ambiguous: readings differ below more than " +
                               std::to_string(limits_.max_depth) + " open rules");
  }
  std::vector<Frame> frames(frames_of(a).begin(), frames_of(a).end());
  frames.insert(frames.end(), frames_of(b).begin(), frames_of(b).end());
  work_ += frames.size();
  const State both = normal(frames, sets_[size_t(a)].ends || sets_[size_t(b)].ends, depth);
  united_.emplace(key, both);
  return both;
}

}  // namespace paceline
