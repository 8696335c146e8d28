#pragma once
// A command line in one text.

#include <string>
#include <string_view>
#include <vector>

namespace paceline {

struct ShellWords {
  std::vector<std::string> words;
  char open_quote = '\0';  // one that is never closed, whose word is the last
};

/// As a POSIX shell would split it: blanks separate; '...', "..." and backslash quote. Nothing is expanded, and |, >,
/// $X and ~ are plain text.
ShellWords split_shell_words(std::string_view text);

}  // namespace paceline
