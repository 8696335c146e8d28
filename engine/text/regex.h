#pragma once
// PCRE2 behind two small classes: an immutable compiled pattern, and the per-call matching state with its limits.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace paceline {

class RegexMatcher;

/// A compiled pattern (UTF, Unicode properties, JIT where available), twice: as it is, and with a callout before each
/// of its items, which can stop a match. Immutable: any thread may match with it.
class Regex {
 public:
  /// `where` names file and entry in messages. Throws Error(model_file) when the pattern does not compile or uses
  /// syntax that Oniguruma (which wrote these files) reads differently and that is not rewritten (regex_dialect.h).
  Regex(const std::string& pattern, std::string where);

 private:
  friend class RegexMatcher;
  std::shared_ptr<const void> code_, stoppable_;  // pcre2_code
  std::string where_;
};

/// Scratch memory and limits for matching, one per encode call (one thread).
/// Time stays linear in the text whatever the pattern: all matches together have a budget of this thread's CPU time,
/// 0.1 s + 0.5 s per MiB of text (ordinary patterns need a twentieth), and each PCRE2's match and stack limits. PCRE2
/// counts backtracking, not what one item scans, so that a match within its limit may take hours. A match is therefore
/// tried with a limit so low that limit times text is little; only what needs more runs with callouts, which look at
/// the clock. Past a limit: Error(model_file) naming the pattern's place.
class RegexMatcher {
 public:
  explicit RegexMatcher(size_t text_bytes);
  ~RegexMatcher();
  RegexMatcher(const RegexMatcher&) = delete;
  RegexMatcher& operator=(const RegexMatcher&) = delete;

  enum class Empty : uint8_t { refused, allowed };

  /// Length in bytes of the match that starts exactly at `pos`, or nullopt. Where empty matches are refused, another
  /// way to match is looked for. REQUIRES `text` well-formed UTF-8 and `pos` on a character boundary.
  std::optional<size_t> match_at(const Regex& regex, std::string_view text, size_t pos, Empty empty = Empty::refused);

 private:
  struct State;
  int match_stoppably(const Regex& regex, std::string_view text, size_t pos, uint32_t options);
  void check_time(const Regex& regex);
  std::unique_ptr<State> state_;
};

}  // namespace paceline
