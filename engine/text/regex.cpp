#define PCRE2_CODE_UNIT_WIDTH 8
#include "engine/text/regex.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <pcre2.h>
#include <time.h>
#include <utility>

#include "engine/text/regex_dialect.h"
#include "engine/util/json_io.h"
#include "kernels/error.h"

namespace paceline {

namespace {

constexpr size_t kMaxPatternBytes = size_t{64} << 10;
constexpr uint32_t kMatchLimit = 5'000'000;
constexpr uint32_t kHeapLimitKib = 64 << 10;
constexpr size_t kJitStackStart = 32 << 10, kJitStackMax = size_t{64} << 20;
constexpr int kMatchesPerClockRead = 8;
constexpr double kSecondsPerMiB = 0.5, kSecondsAtLeast = 0.1;

/// Backtracking points of the first try, for `bytes` of text: none scans more than the text, so that a try costs at
/// most 16 Mi steps of matching; words of real tokenizers need 8 to 24.
uint32_t first_match_limit(size_t bytes) {
  constexpr uint32_t kLeast = 16;
  return std::clamp<uint32_t>((1u << 24) >> std::bit_width(bytes >> 1), kLeast, kMatchLimit);
}

/// Callouts from one look at the clock to the next: between two of them one item scans the text at most once.
int callouts_per_clock_read(size_t bytes) {
  return static_cast<int>(std::clamp<size_t>((16u << 20) / (bytes + 1), 16, 1024));
}

double clock_s(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

std::string pcre2_message(int code) {
  char buffer[160] = {};
  pcre2_get_error_message(code, reinterpret_cast<PCRE2_UCHAR*>(buffer), sizeof(buffer));
  return buffer;
}

}  // namespace

Regex::Regex(const std::string& pattern, std::string where) : where_(std::move(where)) {
  if (pattern.size() > kMaxPatternBytes)
    fail(ExitCode::model_file, "{}: pattern of {} bytes, expected at most {}", where_, pattern.size(),
         kMaxPatternBytes);
  const std::string translated = from_oniguruma(pattern, where_);
  const auto compiled = [&](uint32_t options) {
    int error = 0;
    PCRE2_SIZE offset = 0;
    // Anchored: the caller walks the text itself, so that one call never scans the rest of the text start by start.
    pcre2_code* code =
        pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                      PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C | options,
                      &error, &offset, nullptr);
    if (code == nullptr)
      fail(ExitCode::model_file, "{}: pattern {} is not supported at offset {}: {}", where_, json_literal(pattern),
           offset, pcre2_message(error));
    pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // without JIT the interpreter matches the same text, only slower
    return std::shared_ptr<const void>(
        code, [](const void* pointer) { pcre2_code_free(static_cast<pcre2_code*>(const_cast<void*>(pointer))); });
  };
  code_ = compiled(0);
  stoppable_ = compiled(PCRE2_AUTO_CALLOUT);
}

struct RegexMatcher::State {
  bool is_late() {
    const double now = clock_s(CLOCK_MONOTONIC);  // no system call
    if (now < look_at_s) return false;
    const double spent = clock_s(CLOCK_THREAD_CPUTIME_ID);
    if (spent > deadline_s) return true;
    look_at_s = now + (deadline_s - spent);  // a thread's time does not run faster than the clock
    return false;
  }

  static int on_callout(pcre2_callout_block*, void* pointer) {
    State& state = *static_cast<State*>(pointer);
    if (--state.callouts_to_clock_read > 0) return 0;
    state.callouts_to_clock_read = state.callouts_per_read;
    return state.is_late() ? PCRE2_ERROR_CALLOUT : 0;
  }

  pcre2_match_data* data = nullptr;
  pcre2_match_context *first_try = nullptr, *stoppable = nullptr;
  pcre2_jit_stack* stack = nullptr;
  double deadline_s = 0;  // of this thread's CPU time
  double look_at_s = 0;   // of the clock; earlier it cannot be late
  int matches_to_clock_read = kMatchesPerClockRead, callouts_to_clock_read = 1, callouts_per_read = 1;
};

RegexMatcher::RegexMatcher(size_t text_bytes) : state_(std::make_unique<State>()) {
  State& state = *state_;
  state.data = pcre2_match_data_create(1, nullptr);
  state.first_try = pcre2_match_context_create(nullptr);
  state.stoppable = pcre2_match_context_create(nullptr);
  PACELINE_CHECK(state.data != nullptr && state.first_try != nullptr && state.stoppable != nullptr,
                 "out of memory for {} bytes of text", text_bytes);
  state.stack = pcre2_jit_stack_create(kJitStackStart, kJitStackMax, nullptr);
  for (pcre2_match_context* context : {state.first_try, state.stoppable}) {
    pcre2_set_heap_limit(context, kHeapLimitKib);
    if (state.stack != nullptr) pcre2_jit_stack_assign(context, nullptr, state.stack);
  }
  pcre2_set_match_limit(state.first_try, first_match_limit(text_bytes));
  pcre2_set_match_limit(state.stoppable, kMatchLimit);
  pcre2_set_callout(state.stoppable, State::on_callout, &state);
  state.callouts_per_read = callouts_per_clock_read(text_bytes);
  state.deadline_s =
      clock_s(CLOCK_THREAD_CPUTIME_ID) + kSecondsAtLeast + kSecondsPerMiB * static_cast<double>(text_bytes) / (1 << 20);
}

RegexMatcher::~RegexMatcher() {
  pcre2_match_data_free(state_->data);
  pcre2_match_context_free(state_->first_try);
  pcre2_match_context_free(state_->stoppable);
  if (state_->stack != nullptr) pcre2_jit_stack_free(state_->stack);
}

void RegexMatcher::check_time(const Regex& regex) {
  if (state_->is_late())
    fail(ExitCode::model_file, "{}: the pattern takes more than {} s per MiB on this text (catastrophic backtracking)",
         regex.where_, kSecondsPerMiB);
}

int RegexMatcher::match_stoppably(const Regex& regex, std::string_view text, size_t pos, uint32_t options) {
  check_time(regex);
  const int rc =
      pcre2_match(static_cast<const pcre2_code*>(regex.stoppable_.get()), reinterpret_cast<PCRE2_SPTR>(text.data()),
                  text.size(), pos, options, state_->data, state_->stoppable);
  if (rc == PCRE2_ERROR_CALLOUT) check_time(regex);
  return rc;
}

std::optional<size_t> RegexMatcher::match_at(const Regex& regex, std::string_view text, size_t pos, Empty empty) {
  const uint32_t options = PCRE2_NO_UTF_CHECK | (empty == Empty::refused ? PCRE2_NOTEMPTY : 0);
  if (--state_->matches_to_clock_read == 0) {
    state_->matches_to_clock_read = kMatchesPerClockRead;
    check_time(regex);
  }
  int rc = pcre2_match(static_cast<const pcre2_code*>(regex.code_.get()), reinterpret_cast<PCRE2_SPTR>(text.data()),
                       text.size(), pos, options, state_->data, state_->first_try);
  if (rc == PCRE2_ERROR_MATCHLIMIT) rc = match_stoppably(regex, text, pos, options);
  if (rc == PCRE2_ERROR_NOMATCH) return std::nullopt;
  if (rc < 0)
    fail(ExitCode::model_file, "{}: the pattern cannot be matched on this text (catastrophic backtracking): {}",
         regex.where_, pcre2_message(rc));
  const PCRE2_SIZE* offsets = pcre2_get_ovector_pointer(state_->data);
  // \K and lookbehind tricks could report a start elsewhere; such a match does not cover `pos`.
  if (offsets[0] != pos || offsets[1] < pos) return std::nullopt;
  return offsets[1] - pos;
}

}  // namespace paceline
