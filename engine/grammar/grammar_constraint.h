#pragma once
// A request's tokens stay within a grammar.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/grammar/compiled_grammar.h"
#include "engine/sampling.h"

namespace paceline {

inline constexpr size_t kMaxWorkOfAText = 100'000'000;  // about three seconds

/// Of one request (of several choices, one each), with what it shares. The output begins where the grammar does, with
/// what the prompt ends with left aside. Tokens without bytes (special ones) are forbidden.
/// ends: the model's eos ids and the request's stop tokens, one at least. They may follow where the text is complete
/// and nowhere else, whatever bytes they stand for; behind one (ignore_eos) only they may follow, so that a request
/// that ignores them has its text and then ends up to max_tokens. Where a text has too many readings to follow, or its
/// masks together took more than max_work steps (CompiledGrammar::work()), no token is allowed: the request ends with
/// numerical_error. Drafts do not count: takes_drafts() is false while they took more than the text and a twentieth of
/// max_work.
std::shared_ptr<TokenConstraint> make_grammar_constraint(std::shared_ptr<CompiledGrammar> grammar,
                                                         std::vector<int32_t> ends, size_t max_work = kMaxWorkOfAText);

}  // namespace paceline
