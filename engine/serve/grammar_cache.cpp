#include "engine/serve/grammar_cache.h"

#include <algorithm>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "engine/grammar/grammar_sources.h"
#include "engine/grammar/json_schema.h"
#include "engine/serve/api_error.h"
#include "engine/util/printable.h"

namespace paceline {
namespace {

/// Different for grammars that differ.
std::string source_of(const StructuredOutput& output) {
  const auto dumped = [](const nlohmann::ordered_json& json) {
    return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  };
  std::string source(1, char('0' + int(output.form)));
  switch (output.form) {
    case StructuredOutput::Form::json_schema: return source + dumped(output.schema);
    case StructuredOutput::Form::choice: return source + dumped(output.choices);
    case StructuredOutput::Form::json_object:
    case StructuredOutput::Form::regex:
    case StructuredOutput::Form::grammar: break;
  }
  return source + output.text;
}

size_t bytes_of(CompiledGrammar& grammar) {
  const CompiledGrammar::Lock lock(grammar);
  return grammar.bytes();
}

}  // namespace

GrammarCache::GrammarCache(std::shared_ptr<const Tokenizer> tokenizer, const ServeLimits& limits,
                           std::shared_ptr<Failpoints> failpoints)
    : tokenizer_(std::move(tokenizer)), limits_(limits), failpoints_(std::move(failpoints)) {}

ByteGrammar GrammarCache::compile(const StructuredOutput& output) const {
  const GrammarLimits limits = {.max_bytes = size_t(limits_.max_grammar_bytes), .max_ms = int(limits_.max_grammar_ms)};
  switch (output.form) {
    case StructuredOutput::Form::json_schema: return json_schema_grammar(output.schema, limits);
    case StructuredOutput::Form::json_object: return json_object_grammar(limits);
    case StructuredOutput::Form::regex: return regex_grammar(output.text, limits);
    case StructuredOutput::Form::choice: return choice_grammar(output.choices, limits);
    case StructuredOutput::Form::grammar: break;
  }
  return ebnf_grammar(output.text, limits);
}

std::shared_ptr<CompiledGrammar> GrammarCache::find(const StructuredOutput& output) {
  std::string source = source_of(output);
  if (int64_t(source.size()) - 1 > limits_.max_grammar_source_bytes)
    throw ApiError{.message = fmt::format("{}: found {} bytes, expected at most {}", output.param, source.size() - 1,
                                          limits_.max_grammar_source_bytes),
                   .param = output.param};
  const auto known = std::find_if(kept_.begin(), kept_.end(), [&](const Kept& kept) { return kept.source == source; });
  if (known != kept_.end()) {
    kept_.splice(kept_.begin(), kept_, known);
    const auto grammar = known->grammar;
    trim();  // masks may have been made since
    return grammar;
  }
  if (fails_at(failpoints_, Failpoint::compile)) throw std::bad_alloc();
  if (!trie_) trie_ = TokenTrie::make(*tokenizer_);
  try {
    kept_.push_front({std::move(source), std::make_shared<CompiledGrammar>(compile(output), trie_)});
  } catch (const GrammarError& error) {
    const bool is_pointer = error.where().starts_with('/');
    throw ApiError{.message = message_text(output.param + (is_pointer ? "" : ": ") + error.what()),
                   .param = is_pointer ? output.param + error.where() : output.param};
  }
  const auto found = kept_.front().grammar;
  trim();
  const auto is_over = [&] { return live_bytes() + bytes_of(*found) > size_t(limits_.max_live_grammar_bytes); };
  while (is_over() && !kept_.empty()) kept_.pop_back();
  if (is_over())
    throw ApiError{.status = 503,
                   .message = fmt::format("{}: the forms of open requests hold {} MiB, all that there is for them",
                                          output.param, live_bytes() >> 20),
                   .param = output.param};
  live_.push_back(found);
  return found;
}

size_t GrammarCache::live_bytes() {
  std::erase_if(live_, [](const auto& grammar) { return grammar.expired(); });
  size_t bytes = 0;
  for (const auto& each : live_)
    if (const auto grammar = each.lock()) bytes += bytes_of(*grammar);
  return bytes;
}

void GrammarCache::trim() {
  size_t bytes = 0;
  int64_t count = 0;
  kept_.remove_if([&](const Kept& kept) {
    bytes += kept.source.size() + bytes_of(*kept.grammar);
    return ++count > limits_.max_grammars || bytes > size_t(limits_.max_kept_grammar_bytes);
  });
}

}  // namespace paceline
