#pragma once
// The regular expressions of tokenizer files are Oniguruma's (Ruby's syntax, Unicode); PCRE2 runs them here.

#include <string>
#include <string_view>

namespace paceline {

/// A pattern that PCRE2 matches (PCRE2_UTF, PCRE2_UCP, PCRE2_MULTILINE) as Oniguruma matches `pattern`:
/// - \w, \b, \s and POSIX classes have Unicode's sets (UTS #18: marks are part of words, symbols punctuation);
/// - \p{Han} is the script of a character, not one of its script extensions;
/// - a quantifier in braces is repeated by a "+" behind it, not made possessive, {2}? is optional, and {,2} is one;
/// - (?m) lets the dot match line ends; \u has four digits; \v is U+000B.
/// Throws Error(model_file), naming `where`, for what is known to differ and is not rewritten: set operations in
/// classes (a class within one is a union there, a bracket here), \h (a hex digit there, a blank here), \Q, \E, \V, and
/// POSIX classes without a set above. What only one of the two knows may be taken.
std::string from_oniguruma(std::string_view pattern, const std::string& where);

}  // namespace paceline
