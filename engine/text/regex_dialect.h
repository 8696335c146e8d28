#pragma once
// The regular expressions of tokenizer files are Oniguruma's (Ruby's syntax, Unicode); PCRE2 runs them here.

#include <string>
#include <string_view>

namespace paceline {

/// A pattern that PCRE2 matches (PCRE2_UTF, PCRE2_UCP, PCRE2_MULTILINE) as Oniguruma matches `pattern`:
/// - \w, \b, \s and POSIX classes have Unicode's sets (UTS #18: marks are part of words, symbols punctuation);
/// - \p{Han} is the script of a character, not one of its script extensions;
/// - a quantifier in braces is repeated by a "+" behind it, not made possessive, and {,n} is one;
/// - (?m) lets the dot match line ends.
/// Throws Error(model_file), naming `where`, for what is not rewritten: set operations in classes (a class within one
/// is a union there, a bracket here), \h (a hex digit there, a blank here), negated sets of these kinds within a class.
std::string from_oniguruma(std::string_view pattern, const std::string& where);

}  // namespace paceline
