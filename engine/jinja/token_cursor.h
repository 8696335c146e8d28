#pragma once
// Reads the tokens of a chat template one by one, and says what was found where something else was expected.

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/jinja/ast.h"
#include "engine/util/json_io.h"

namespace paceline::jinja {

class TokenCursor {
 public:
  explicit TokenCursor(const Source& source) : source_name_(source.name), tokens_(tokenize(source)) {}

 protected:
  const std::string& source_name() const { return source_name_; }

  const Token& peek(size_t ahead = 0) const { return tokens_[std::min(pos_ + ahead, tokens_.size() - 1)]; }
  const Token& take() {
    const Token& token = peek();
    if (pos_ + 1 < tokens_.size()) ++pos_;
    return token;
  }
  bool is_symbol(std::string_view symbol, size_t ahead = 0) const {
    return peek(ahead).kind == TokenKind::symbol && peek(ahead).text == symbol;
  }
  bool is_name(std::string_view name, size_t ahead = 0) const {
    return peek(ahead).kind == TokenKind::name && peek(ahead).text == name;
  }
  bool accept_symbol(std::string_view symbol) { return is_symbol(symbol) && (take(), true); }
  bool accept_name(std::string_view name) { return is_name(name) && (take(), true); }

  std::string found() const {
    switch (peek().kind) {
      case TokenKind::end: return "the end of the template";
      case TokenKind::block_end: return "\"%}\"";
      case TokenKind::expression_end: return "\"}}\"";
      case TokenKind::text:
      case TokenKind::expression_begin:
      case TokenKind::block_begin: return "the end of the tag";
      case TokenKind::string: return "a string";
      default: return json_literal(peek().text);
    }
  }
  template <class... Args>
  [[noreturn]] void error(fmt::format_string<Args...> format, Args&&... args) const {
    fail_at(source_name_, peek().position, format, std::forward<Args>(args)...);
  }
  void expect_symbol(std::string_view symbol) {
    if (!accept_symbol(symbol)) error("expected \"{}\", found {}", symbol, found());
  }
  std::string expect_name() {
    if (peek().kind != TokenKind::name) error("expected a name, found {}", found());
    return take().text;
  }
  void expect_block_end() {
    if (peek().kind != TokenKind::block_end) error("expected \"%}}\", found {}", found());
    take();
  }

  /// Counts the recursion of one kind while it lives.
  class Nesting {
   public:
    Nesting(const TokenCursor& cursor, int& depth, const char* what) : depth_(depth) {
      if (++depth_ > kMaxDepth) {
        --depth_;  // no destructor runs
        cursor.error("{} nested deeper than the limit of depth {}", what, kMaxDepth);
      }
    }
    ~Nesting() { --depth_; }
    Nesting(const Nesting&) = delete;

   private:
    int& depth_;
  };

 private:
  std::string source_name_;
  std::vector<Token> tokens_;
  size_t pos_ = 0;
};

}  // namespace paceline::jinja
