#pragma once
// The pieces that texts of JSON are made of, as expressions; json_schema.h says how they are written.

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "engine/grammar/grammar_builder.h"

namespace paceline {

/// Threads: one.
class JsonText {
 public:
  using Expr = GrammarBuilder::Expr;
  static constexpr int kMostIndent = 20;

  /// REQUIRES that `to` outlives it.
  explicit JsonText(GrammarBuilder& to);

  GrammarBuilder& to() { return to_; }
  Expr all(std::initializer_list<Expr> parts) { return to_.sequence({parts.begin(), parts.size()}); }
  Expr one(std::initializer_list<Expr> parts) { return to_.any_of({parts.begin(), parts.size()}); }

  Expr space();  // may be empty
  Expr comma();  // with space
  /// {...} or [...] around `inside`, which is not empty, with space.
  Expr enclosed(char open, Expr inside, char close);

  /// A string of `least` to `most` (kUnbounded) code points.
  Expr string(int least, int most);
  /// A string in which the pattern is found. Throws GrammarError for what add_regex does not take.
  Expr pattern(std::string_view pattern);
  Expr number();
  Expr integer(int64_t least, int64_t most);  // both included; least > most: nothing
  Expr boolean() { return one({to_.text("true"), to_.text("false")}); }

  /// A property's name with its colon and space: this one; any without escapes but these.
  Expr name(std::string_view name);
  Expr other_name(std::span<const std::string> but);

  Expr literal(const nlohmann::ordered_json& value);

 private:
  Expr characters_of_strings();
  Expr digits(int count);                                              // any `count` of them
  Expr digits_between(std::string_view least, std::string_view most);  // of one length
  Expr whole(uint64_t least, uint64_t most);                           // without a sign
  Expr colon();

  GrammarBuilder& to_;
};

/// `value` as a string of JSON, with its quotes.
std::string json_string(std::string_view value);

}  // namespace paceline
