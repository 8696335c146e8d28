#include "engine/grammar/json_text.h"

#include <algorithm>
#include <map>

#include "engine/grammar/grammar_sources.h"
#include "engine/text/utf8.h"

namespace paceline {
namespace {

using Expr = GrammarBuilder::Expr;

ByteSet byte_set(std::string_view bytes) {
  ByteSet set;
  for (const char byte : bytes) set.add(uint8_t(byte));
  return set;
}

/// What may stand in a string as it is, without `but`.
std::vector<CodeRange> plain_codes(std::span<const char32_t> but) {
  std::vector<CodeRange> gaps = {{0, 0x1F}, {'"', '"'}, {'\\', '\\'}};
  for (const char32_t code : but) gaps.push_back({code, code});
  return other_codes(gaps);
}

bool needs_escape(char32_t code) { return code < 0x20 || code == '"' || code == '\\'; }

/// One character of the ranges, as it stands in a string of JSON.
Expr spelled(GrammarBuilder& to, std::span<const CodeRange> ranges) {
  std::vector<CodeRange> plain;
  std::vector<Expr> parts;
  for (auto [first, last] : ranges) {
    for (char32_t code = 0; code <= '\\' && code <= last; ++code) {  // the last that needs an escape
      if (code < first || !needs_escape(code)) continue;
      const std::string quoted = json_string(std::string(1, char(code)));
      parts.push_back(to.text(std::string_view(quoted).substr(1, quoted.size() - 2)));
      if (first < code) plain.push_back({first, code - 1});
      first = code + 1;
    }
    if (first <= last) plain.push_back({first, last});
  }
  parts.push_back(to.characters(plain));
  return to.any_of(parts);
}

struct NameTrie {
  struct Node {
    std::map<char32_t, size_t> next;  // behind this node in `nodes`
    bool is_name = false;
  };
  std::vector<Node> nodes = std::vector<Node>(1);

  void add(std::string_view name) {
    size_t at = 0;
    for (size_t i = 0; i < name.size();) {
      const Utf8Char character = utf8_decode(name, i);
      i += size_t(character.num_bytes);
      const auto [found, is_new] = nodes[at].next.emplace(character.code, nodes.size());
      at = found->second;
      if (is_new) nodes.emplace_back();
    }
    nodes[at].is_name = true;
  }
};

}  // namespace

std::string json_string(std::string_view value) {
  return nlohmann::json(value).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

JsonText::JsonText(GrammarBuilder& to) : to_(to) {}

Expr JsonText::space() {
  return one({to_.text(""), to_.text(" "), all({to_.text("\n"), to_.repeat(to_.text(" "), 0, kMostIndent)})});
}

Expr JsonText::comma() { return all({to_.text(","), space()}); }

Expr JsonText::colon() { return all({to_.text(":"), space()}); }

Expr JsonText::enclosed(char open, Expr inside, char close) {
  return all({to_.text(std::string(1, open)), space(), inside, space(), to_.text(std::string(1, close))});
}

Expr JsonText::characters_of_strings() {
  const Expr hex = to_.bytes(byte_set("0123456789abcdefABCDEF"));
  const Expr hex2 = all({hex, hex});
  const Expr below = all({to_.bytes(byte_set("012345689abcefABCEF7")), hex, hex2});  // D: surrogates, too
  const Expr with_d = all({to_.bytes(byte_set("dD")), to_.bytes(byte_set("01234567")), hex2});
  const Expr escape =
      all({to_.text("\\"), one({to_.bytes(byte_set("\"\\/bfnrt")), all({to_.text("u"), one({below, with_d})})})});
  return one({to_.characters(plain_codes({})), escape});
}

Expr JsonText::string(int least, int most) {
  return all({to_.text("\""), to_.repeat(characters_of_strings(), least, most), to_.text("\"")});
}

Expr JsonText::pattern(std::string_view pattern) {
  const auto characters = [this](std::span<const CodeRange> ranges) { return spelled(to_, ranges); };
  return all({to_.text("\""), add_regex(to_, pattern, {.search = true, .characters = characters}), to_.text("\"")});
}

Expr JsonText::digits(int count) { return to_.repeat(to_.bytes(ByteSet::range('0', '9')), count, count); }

Expr JsonText::number() {
  constexpr int kMostDigits = 16, kMostExponent = 2;
  const Expr digit = to_.bytes(ByteSet::range('0', '9'));
  const Expr whole =
      one({to_.text("0"), all({to_.bytes(ByteSet::range('1', '9')), to_.repeat(digit, 0, kMostDigits - 1)})});
  const Expr fraction = all({to_.text("."), to_.repeat(digit, 1, kMostDigits)});
  const Expr exponent =
      all({to_.bytes(byte_set("eE")), to_.optional(to_.bytes(byte_set("+-"))), to_.repeat(digit, 1, kMostExponent)});
  return all({to_.optional(to_.text("-")), whole, to_.optional(fraction), to_.optional(exponent)});
}

Expr JsonText::digits_between(std::string_view least, std::string_view most) {
  const size_t count = least.size();
  if (least == std::string(count, '0') && most == std::string(count, '9')) return digits(int(count));
  const std::string_view least_rest = least.substr(1), most_rest = most.substr(1);
  if (least[0] == most[0])
    return all({to_.text(least.substr(0, 1)), count == 1 ? to_.text("") : digits_between(least_rest, most_rest)});
  if (count == 1) return to_.bytes(ByteSet::range(uint8_t(least[0]), uint8_t(most[0])));
  std::vector<Expr> parts = {
      all({to_.text(least.substr(0, 1)), digits_between(least_rest, std::string(count - 1, '9'))})};
  if (least[0] + 1 < most[0])
    parts.push_back(
        all({to_.bytes(ByteSet::range(uint8_t(least[0] + 1), uint8_t(most[0] - 1))), digits(int(count) - 1)}));
  parts.push_back(all({to_.text(most.substr(0, 1)), digits_between(std::string(count - 1, '0'), most_rest)}));
  return to_.any_of(parts);
}

Expr JsonText::whole(uint64_t least, uint64_t most) {
  std::vector<Expr> parts;
  while (least <= most) {
    const std::string from = std::to_string(least);
    const std::string last(from.size(), '9');  // the largest of this length
    const std::string to = std::to_string(most);
    const bool is_last = to.size() == from.size();
    parts.push_back(digits_between(from, is_last ? to : last));
    if (is_last) break;
    least = std::stoull(last) + 1;
  }
  return to_.any_of(parts);
}

Expr JsonText::integer(int64_t least, int64_t most) {
  std::vector<Expr> parts;
  const auto size_of = [](int64_t negative) { return uint64_t(-(negative + 1)) + 1; };
  if (least > most) return to_.any_of({});
  if (least < 0) parts.push_back(all({to_.text("-"), whole(most < 0 ? size_of(most) : 1, size_of(least))}));
  if (most >= 0) parts.push_back(whole(uint64_t(std::max<int64_t>(least, 0)), uint64_t(most)));
  return to_.any_of(parts);
}

Expr JsonText::name(std::string_view name) { return all({to_.text(json_string(name)), colon()}); }

Expr JsonText::other_name(std::span<const std::string> but) {
  NameTrie trie;
  for (const std::string& name : but) {
    to_.check_time();
    const auto escaped = [](char byte) { return needs_escape(uint8_t(byte)); };
    if (std::none_of(name.begin(), name.end(), escaped)) trie.add(name);
  }
  const Expr quote = to_.text("\"");
  const Expr rest = all({to_.repeat(to_.characters(plain_codes({})), 0, GrammarBuilder::kUnbounded), quote});
  std::vector<Expr> from(trie.nodes.size());
  for (size_t i = trie.nodes.size(); i-- > 0;) {
    const NameTrie::Node& node = trie.nodes[i];
    std::vector<Expr> parts;
    std::vector<char32_t> taken;
    if (!node.is_name) parts.push_back(quote);
    for (const auto& [code, next] : node.next) {
      const CodeRange alone = {code, code};
      parts.push_back(all({to_.characters({&alone, 1}), from[next]}));
      taken.push_back(code);
    }
    parts.push_back(all({to_.characters(plain_codes(taken)), rest}));
    from[i] = to_.any_of(parts);
  }
  return all({quote, from.front(), colon()});
}

Expr JsonText::literal(const nlohmann::ordered_json& value) {
  if (!value.is_structured() || value.empty())
    return to_.text(value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  std::vector<Expr> parts;
  for (const auto& [key, member] : value.items()) {
    if (!parts.empty()) parts.push_back(comma());
    if (value.is_object()) parts.push_back(name(key));
    parts.push_back(literal(member));
  }
  return value.is_object() ? enclosed('{', to_.sequence(parts), '}') : enclosed('[', to_.sequence(parts), ']');
}

}  // namespace paceline
