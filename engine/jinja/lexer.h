#pragma once
// Cuts a chat template into text and the tokens of its tags, with the white-space rules that Hugging Face's
// apply_chat_template uses (trim_blocks and lstrip_blocks on, one final newline dropped).

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/error.h"

namespace paceline::jinja {

struct Position {
  int line = 1, column = 1;  // from 1, columns in bytes
};

/// Where a template came from, for messages.
struct Source {
  std::string name;  // "models/x/tokenizer_config.json"
  std::string text;
};

template <class... Args>
[[noreturn]] void fail_at(const std::string& source_name, Position position, fmt::format_string<Args...> format,
                          Args&&... args) {
  fail(ExitCode::model_file, "{}: chat template {}:{}: {}", source_name, position.line, position.column,
       fmt::format(format, std::forward<Args>(args)...));
}

enum class TokenKind {
  text,
  expression_begin,
  expression_end,
  block_begin,
  block_end,
  name,
  string,
  integer,
  real,
  symbol,
  end
};

struct Token {
  TokenKind kind = TokenKind::end;
  std::string text;  // text, name, decoded string or symbol
  int64_t integer = 0;
  double real = 0;
  Position position;
};

/// The last token is `end`. {% raw %} is resolved here. Throws Error(model_file) with the position.
std::vector<Token> tokenize(const Source& source);

}  // namespace paceline::jinja
