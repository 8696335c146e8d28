#include "experiments/config/shell_words.h"

namespace paceline {

ShellWords split_shell_words(std::string_view text) {
  ShellWords split;
  bool is_open = false;  // a word has begun, an empty one too
  const auto add = [&](std::string_view piece) {
    if (!is_open) split.words.emplace_back();
    is_open = true;
    split.words.back() += piece;
  };
  char& quote = split.open_quote;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const char next = i + 1 < text.size() ? text[i + 1] : '\0';
    if (quote ? c == quote : c == '\'' || c == '"') {
      quote = quote ? '\0' : c;
      add("");
    } else if (c == '\\' && next && (!quote || (quote == '"' && (next == '"' || next == '\\')))) {
      if (next != '\n') add(text.substr(i + 1, 1));
      ++i;
    } else if (!quote && (c == ' ' || c == '\t' || c == '\n')) {
      is_open = false;
    } else {
      add(text.substr(i, 1));
    }
  }
  return split;
}

}  // namespace paceline
