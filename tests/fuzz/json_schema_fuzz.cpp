// JSON Schemas of any kind: a grammar, or an error with its place. Texts that the grammar makes are JSON. The input's
// first 8 bytes choose one of them.

#include <limits>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/grammar/json_schema.h"
#include "engine/util/json_io.h"
#include "tests/fuzz/fuzz_input.h"

namespace {

using namespace paceline;

constexpr int64_t kNever = std::numeric_limits<int32_t>::max();

/// Makes a text: alternatives by chance for a while, then the shortest.
class TextMaker {
 public:
  TextMaker(const ByteGrammar& grammar, uint64_t seed)
      : grammar_(grammar), state_(seed), shortest_(grammar.rules.size(), kNever) {
    for (bool shrinks = true; shrinks;) {
      shrinks = false;
      for (size_t rule = grammar.rules.size(); rule-- > 0;)
        for (int32_t i = grammar.rules[rule].begin; i < grammar.rules[rule].end; ++i)
          if (const int64_t length = length_of(i); length < shortest_[rule]) {
            shortest_[rule] = length;
            shrinks = true;
          }
    }
  }

  std::string make() {
    std::string text;
    std::vector<ByteGrammar::Item> left = {{.rule = grammar_.root}};
    while (!left.empty()) {
      const ByteGrammar::Item item = left.back();
      left.pop_back();
      if (item.rule == ByteGrammar::Item::kBytes) {
        text += byte_of(grammar_.sets[size_t(item.bytes)]);
        continue;
      }
      const ByteGrammar::Range items = grammar_.alternatives[size_t(chosen(grammar_.rules[size_t(item.rule)]))];
      for (int32_t at = items.end; at-- > items.begin;) left.push_back(grammar_.items[size_t(at)]);
    }
    return text;
  }

 private:
  int64_t length_of(int32_t alternative) const {
    int64_t length = 1;  // of the alternative itself: what makes nothing in turns is not free
    const ByteGrammar::Range items = grammar_.alternatives[size_t(alternative)];
    for (int32_t at = items.begin; at < items.end; ++at) {
      const ByteGrammar::Item& item = grammar_.items[size_t(at)];
      length += item.rule == ByteGrammar::Item::kBytes ? 1 : shortest_[size_t(item.rule)];
    }
    return std::min(length, kNever);
  }
  int32_t chosen(const ByteGrammar::Range& alternatives) {
    if (alternatives.begin == alternatives.end) __builtin_trap();  // a rule without an end
    if (--chances_ > 0) return alternatives.begin + int32_t(next() % uint64_t(alternatives.end - alternatives.begin));
    int32_t best = alternatives.begin;
    for (int32_t i = alternatives.begin; i < alternatives.end; ++i)
      if (length_of(i) < length_of(best)) best = i;
    if (length_of(best) >= kNever) __builtin_trap();
    return best;
  }
  char byte_of(const ByteSet& set) {
    const int start = int(next() % 256);
    for (int i = 0; i < 256; ++i)
      if (const auto byte = uint8_t(start + i); set.contains(byte)) return char(byte);
    __builtin_trap();
  }
  uint64_t next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return state_ >> 33;
  }

  const ByteGrammar& grammar_;
  uint64_t state_;
  int chances_ = 200;
  std::vector<int64_t> shortest_;  // by rule
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 8) return 0;
  uint64_t seed = 0;
  for (int i = 0; i < 8; ++i) seed = seed << 8 | data[i];
  const GrammarLimits limits = {.max_bytes = size_t{1} << 20, .max_ms = 1000};
  fuzz::expect_answer([&] {
    const auto schema = parse_ordered_json(fuzz::text_of(data + 8, size - 8), "schema", ExitCode::usage);
    try {
      const ByteGrammar grammar = json_schema_grammar(schema, limits);
      if (grammar.items.size() > 4000) return;
      const std::string text = TextMaker(grammar, seed).make();
      if (!nlohmann::json::accept(text)) __builtin_trap();
    } catch (const GrammarError& error) {
      if (std::string_view(error.what()).find('\n') != std::string_view::npos) __builtin_trap();
    }
  });
  return 0;
}
