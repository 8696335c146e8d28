#define PCRE2_CODE_UNIT_WIDTH 8
#include "engine/text/regex.h"

#include <cstdint>
#include <pcre2.h>
#include <time.h>
#include <utility>

#include "engine/util/json_io.h"
#include "kernels/error.h"

namespace paceline {

namespace {

constexpr size_t kMaxPatternBytes = size_t{64} << 10;
constexpr uint32_t kMatchLimit = 5'000'000;
constexpr uint32_t kHeapLimitKib = 64 << 10;
constexpr size_t kJitStackStart = 32 << 10, kJitStackMax = size_t{64} << 20;
constexpr int kMatchesPerClockRead = 16;  // reading the thread clock is a system call

double thread_cpu_s() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

std::string pcre2_message(int code) {
  char buffer[160] = {};
  pcre2_get_error_message(code, reinterpret_cast<PCRE2_UCHAR*>(buffer), sizeof(buffer));
  return buffer;
}

/// White_Space of Unicode, for use inside a class. PCRE2's own \s also takes U+180E, which left that set in
/// Unicode 6.3.
constexpr const char* kWhiteSpaceRanges =
    R"(\x{9}-\x{D}\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";

/// Rewrites what Oniguruma and PCRE2 read differently. Set operations in classes and \h (a hex digit there, a blank
/// here) are refused: they would match other text without a word.
std::string translate_dialect(std::string_view pattern, const std::string& where) {
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char next = pattern[++i];
      if (next == 'h' || next == 'H')
        fail(ExitCode::model_file, "{}: pattern {} uses \\{}, which means different things in different libraries",
             where, json_literal(pattern), next);
      if (next == 's') {
        out += in_class ? kWhiteSpaceRanges : fmt::format("[{}]", kWhiteSpaceRanges);
      } else if (next == 'S' && !in_class) {
        out += fmt::format("[^{}]", kWhiteSpaceRanges);
      } else {
        out.append({c, next});
      }
      continue;
    }
    out.push_back(c);
    if (c == '[' && !in_class) {
      in_class = true;
      for (const char leading : {'^', ']'}) {
        if (i + 1 < pattern.size() && pattern[i + 1] == leading) out.push_back(pattern[++i]);
      }
    } else if (c == ']' && in_class) {
      in_class = false;
    } else if (c == '&' && in_class && pattern.substr(i, 2) == "&&") {
      fail(ExitCode::model_file, "{}: pattern {} intersects classes with &&, which is not supported", where,
           json_literal(pattern));
    }
  }
  return out;
}

}  // namespace

Regex::Regex(const std::string& pattern, std::string where) : where_(std::move(where)) {
  if (pattern.size() > kMaxPatternBytes)
    fail(ExitCode::model_file, "{}: pattern of {} bytes, expected at most {}", where_, pattern.size(),
         kMaxPatternBytes);
  const std::string translated = translate_dialect(pattern, where_);
  int error = 0;
  PCRE2_SIZE offset = 0;
  // Anchored: the caller walks the text itself, so that one call never scans the rest of the text start by start.
  pcre2_code* code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED | PCRE2_NEVER_BACKSLASH_C, &error, &offset, nullptr);
  if (code == nullptr)
    fail(ExitCode::model_file, "{}: pattern {} is not supported at offset {}: {}", where_, json_literal(pattern),
         offset, pcre2_message(error));
  code_ = std::shared_ptr<const void>(
      code, [](const void* pointer) { pcre2_code_free(static_cast<pcre2_code*>(const_cast<void*>(pointer))); });
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // without JIT the interpreter matches the same text, only slower
}

struct RegexMatcher::State {
  pcre2_match_data* data = nullptr;
  pcre2_match_context* context = nullptr;
  pcre2_jit_stack* stack = nullptr;
  double deadline_s = 0;
  int matches_to_clock_read = kMatchesPerClockRead;
};

RegexMatcher::RegexMatcher(size_t text_bytes) : state_(std::make_unique<State>()) {
  state_->data = pcre2_match_data_create(1, nullptr);
  state_->context = pcre2_match_context_create(nullptr);
  PACELINE_CHECK(state_->data != nullptr && state_->context != nullptr, "out of memory for {} bytes of text",
                 text_bytes);
  pcre2_set_match_limit(state_->context, kMatchLimit);
  pcre2_set_heap_limit(state_->context, kHeapLimitKib);
  state_->stack = pcre2_jit_stack_create(kJitStackStart, kJitStackMax, nullptr);
  if (state_->stack != nullptr) pcre2_jit_stack_assign(state_->context, nullptr, state_->stack);
  state_->deadline_s = thread_cpu_s() + 0.1 + 0.7 * static_cast<double>(text_bytes) / (1 << 20);
}

RegexMatcher::~RegexMatcher() {
  pcre2_match_data_free(state_->data);
  pcre2_match_context_free(state_->context);
  if (state_->stack != nullptr) pcre2_jit_stack_free(state_->stack);
}

std::optional<size_t> RegexMatcher::match_at(const Regex& regex, std::string_view text, size_t pos) {
  if (--state_->matches_to_clock_read == 0) {
    state_->matches_to_clock_read = kMatchesPerClockRead;
    if (thread_cpu_s() > state_->deadline_s)
      fail(ExitCode::model_file,
           "{}: the pattern takes more than 0.7 s per MiB on this text (catastrophic backtracking)", regex.where_);
  }
  const auto* code = static_cast<const pcre2_code*>(regex.code_.get());
  const int rc = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), pos,
                             PCRE2_NOTEMPTY | PCRE2_NO_UTF_CHECK, state_->data, state_->context);
  if (rc == PCRE2_ERROR_NOMATCH) return std::nullopt;
  if (rc < 0)
    fail(ExitCode::model_file, "{}: the pattern cannot be matched on this text (catastrophic backtracking): {}",
         regex.where_, pcre2_message(rc));
  const PCRE2_SIZE* offsets = pcre2_get_ovector_pointer(state_->data);
  // \K and lookbehind tricks could report a start elsewhere; such a match does not cover `pos`.
  if (offsets[0] != pos || offsets[1] <= pos) return std::nullopt;
  return offsets[1] - pos;
}

}  // namespace paceline
