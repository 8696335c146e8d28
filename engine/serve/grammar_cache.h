#pragma once
// The grammars of requests, compiled once and kept, with the masks that they have made, while they are asked for.

#include <cstddef>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "engine/grammar/compiled_grammar.h"
#include "engine/serve/limits.h"
#include "engine/serve/request/structured_output.h"
#include "engine/tokenizer/tokenizer.h"
#include "engine/util/failpoints.h"

namespace paceline {

/// Of one model. The grammars that were asked for last stay, within max_grammars and max_kept_grammar_bytes; a request
/// keeps its own as long as it lives. A new one is refused where all that live, with their masks so far, would take
/// more than max_live_grammar_bytes; those that no request has go first. Threads: one.
class GrammarCache {
 public:
  /// failpoints: of tests; compile.
  GrammarCache(std::shared_ptr<const Tokenizer> tokenizer, const ServeLimits& limits,
               std::shared_ptr<Failpoints> failpoints = nullptr);

  /// Throws ApiError: 400 for what the grammar's source is refused for, with its place in `param`; 503 where a new
  /// grammar finds no room beside those that live.
  std::shared_ptr<CompiledGrammar> find(const StructuredOutput& output);

  size_t num_kept() const { return kept_.size(); }

 private:
  struct Kept {
    std::string source;  // with its form
    std::shared_ptr<CompiledGrammar> grammar;
  };
  ByteGrammar compile(const StructuredOutput& output) const;
  /// Those that nobody has any more are forgotten first.
  size_t live_bytes();
  void trim();

  const std::shared_ptr<const Tokenizer> tokenizer_;
  const ServeLimits limits_;
  const std::shared_ptr<Failpoints> failpoints_;
  std::shared_ptr<const TokenTrie> trie_;  // null until the first grammar
  std::list<Kept> kept_;                   // the last one asked for in front
  std::vector<std::weak_ptr<CompiledGrammar>> live_;
};

}  // namespace paceline
