// Grammars of each source, and their masks: on a few tokens made of the input's own bytes, a mask is what walking each
// token's bytes alone gives, and a text that the masks lead through is never without a way on.

#include <string>
#include <vector>

#include "engine/grammar/grammar_constraint.h"
#include "engine/grammar/grammar_sources.h"
#include "tests/fuzz/fuzz_input.h"

namespace {

using namespace paceline;

constexpr int32_t kEnd = 0;
constexpr GrammarLimits kLimits{.max_bytes = size_t(1) << 20, .max_ms = 2000};

ByteGrammar grammar_of(uint8_t kind, std::string_view source) {
  if (kind % 3 == 0) return regex_grammar(source, kLimits);
  if (kind % 3 == 1) return ebnf_grammar(source, kLimits);
  std::vector<std::string> choices;
  for (size_t begin = 0; begin <= source.size();) {
    const size_t end = std::min(source.find('\n', begin), source.size());
    choices.emplace_back(source.substr(begin, end - begin));
    begin = end + 1;
  }
  return choice_grammar(choices, kLimits);
}

/// One byte tokens of the source and its neighbours, and pieces of it.
std::vector<std::string> tokens_of(std::string_view source) {
  std::vector<std::string> tokens = {""};
  for (size_t i = 0; i < source.size() && tokens.size() < 24; ++i) {
    tokens.emplace_back(source.substr(i, 1));
    tokens.emplace_back(source.substr(i, 2 + i % 3));
  }
  for (const char* more : {"a", "0", " ", "\xC3", "\xA9", "aa"}) tokens.emplace_back(more);
  return tokens;
}

void check_masks(const ByteGrammar& grammar, std::string_view source, uint8_t choice) {
  const std::vector<std::string> tokens = tokens_of(source);
  const auto constraint = make_grammar_constraint(
      std::make_shared<CompiledGrammar>(grammar, std::make_shared<TokenTrie>(tokens, false)), {kEnd});
  StackMachine machine(grammar);
  StackMachine::State state = machine.start();
  std::vector<int32_t> output;
  for (int step = 0; step < 12; ++step) {
    uint32_t mask[2] = {};
    if (!constraint->allow(output, {}, mask)) ::abort();
    std::vector<int32_t> allowed;
    for (int32_t token = 0; token < int32_t(tokens.size()); ++token) {
      StackMachine::State next = state;
      for (const char byte : tokens[size_t(token)]) next = machine.advance(next, uint8_t(byte));
      const bool expected = token == kEnd ? machine.complete(state) : next != StackMachine::kDead;
      if (expected != bool(mask[token / 32] >> (token % 32) & 1)) ::abort();
      if (expected && token != kEnd) allowed.push_back(token);
    }
    if (!machine.complete(state) && !machine.open(state)) ::abort();
    if (allowed.empty()) return;
    output.push_back(allowed[(choice + size_t(step) * 7) % allowed.size()]);
    for (const char byte : tokens[size_t(output.back())]) state = machine.advance(state, uint8_t(byte));
  }
}

}  // namespace

// The first byte says which source, the second which tokens the text goes on with.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2 || size > 4096) return 0;
  const std::string_view source = fuzz::text_of(data, size).substr(2);
  try {
    check_masks(grammar_of(data[0], source), source, data[1]);
  } catch (const GrammarError&) {
  }
  return 0;
}
