#pragma once
// PCRE2 behind two small classes: an immutable compiled pattern, and the per-call matching state with its limits.

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace paceline {

class RegexMatcher;

/// A compiled pattern (UTF, Unicode properties, JIT where available). Immutable: any thread may match with it.
class Regex {
 public:
  /// `where` names file and entry in messages. Throws Error(model_file) when the pattern does not compile or uses
  /// syntax that Oniguruma (which wrote these files) and PCRE2 read differently.
  Regex(const std::string& pattern, std::string where);

 private:
  friend class RegexMatcher;
  std::shared_ptr<const void> code_;  // pcre2_code
  std::string where_;
};

/// Scratch memory and limits for matching, one per encode call (one thread).
/// Time stays linear in the text whatever the pattern: each match has PCRE2's match limit and stack limit, and all
/// matches together a budget of this thread's CPU time, 0.1 s + 0.7 s per MiB of text (ordinary patterns need a
/// tenth). Past a limit: Error(model_file) naming the pattern's place.
class RegexMatcher {
 public:
  explicit RegexMatcher(size_t text_bytes);
  ~RegexMatcher();
  RegexMatcher(const RegexMatcher&) = delete;
  RegexMatcher& operator=(const RegexMatcher&) = delete;

  /// Length in bytes of the non-empty match that starts exactly at `pos`, or nullopt.
  /// REQUIRES `text` well-formed UTF-8 and `pos` on a character boundary.
  std::optional<size_t> match_at(const Regex& regex, std::string_view text, size_t pos);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace paceline
