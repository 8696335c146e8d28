#include "engine/grammar/compiled_grammar.h"

#include <utility>

#include "kernels/error.h"
#include "kernels/math/edit.h"

namespace paceline {

namespace {

// All is forgotten above these, so that a walk has the rest of kMaxBytes for its states.
constexpr size_t kKeptBytes = size_t(32) << 20, kKeptStates = size_t(8) << 20;
constexpr size_t kMostWork = 20'000'000;  // steps of a walk, about half a second

}  // namespace

CompiledGrammar::CompiledGrammar(ByteGrammar grammar, std::shared_ptr<const TokenTrie> trie)
    : trie_(std::move(trie)), machine_(std::move(grammar), {.max_bytes = kMaxBytes - kKeptBytes}) {
  PACELINE_CHECK(trie_ != nullptr, "a grammar needs a vocabulary");
}

size_t CompiledGrammar::remembered_bytes() const {
  return machine_.bytes() + masks_.size() * (size_t(mask_words(trie_->vocab_size())) * sizeof(uint32_t) + 80);
}

void CompiledGrammar::make_room() {
  if (remembered_bytes() <= kKeptBytes && machine_.bytes() <= kKeptStates) return;
  masks_.clear();
  machine_.clear();
  ++generation_;
}

CompiledGrammar::Place CompiledGrammar::advance(Place place, int32_t token) {
  std::string_view bytes = trie_->bytes(token);
  if (bytes.empty()) return {};
  if (place.begins && bytes.front() == ' ') bytes.remove_prefix(1);
  StackMachine::State state = place.state;
  for (const char byte : bytes) state = machine_.advance(state, uint8_t(byte));
  return {state, false};
}

std::span<const uint32_t> CompiledGrammar::mask(Place place) {
  if (const auto found = masks_.find(place.key()); found != masks_.end()) return found->second.bits;
  Mask mask{.bits = std::vector<uint32_t>(size_t(mask_words(trie_->vocab_size())), 0), .work = machine_.work()};
  walk(place, mask.bits);
  mask.work = machine_.work() - mask.work;
  return masks_.emplace(place.key(), std::move(mask)).first->second.bits;
}

// In depth-first order: a node's state comes from the one above it, and a subtree is left out where that is dead.
void CompiledGrammar::walk(Place place, std::span<uint32_t> mask) {
  ++num_walks_;
  const size_t work = machine_.work();
  const std::span<const TokenTrie::Node> nodes = trie_->nodes();
  path_.assign(1, place.state);
  for (int32_t at = 0; at < int32_t(nodes.size());) {
    const TokenTrie::Node& node = nodes[size_t(at)];
    const StackMachine::State before = path_[size_t(node.depth) - 1];
    const bool is_left_out = place.begins && node.depth == 1 && node.byte == ' ';
    const StackMachine::State state = is_left_out ? before : machine_.advance(before, node.byte);
    if (state == StackMachine::kDead) {
      at = node.after;
      continue;
    }
    for (int32_t token = node.first; token >= 0; token = trie_->next_of(token))
      math::set_allowed(mask.data(), token, true);
    if (node.after > at + 1) {
      if (path_.size() <= node.depth) path_.resize(size_t(node.depth) + 1);
      path_[node.depth] = state;
    }
    ++at;
    if (machine_.work() - work > kMostWork) throw GrammarError("", "the grammar is too ambiguous to find its tokens");
  }
}

}  // namespace paceline
