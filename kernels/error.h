#pragma once
// Errors of the whole project: one exception type, one list of exit codes.

#include <stdexcept>
#include <string>

#include <fmt/format.h>

namespace paceline {

/// Exit codes of `runexp`; stable, printed by `runexp explain exit-codes`.
enum class ExitCode : int {
  ok = 0,
  failed_cells = 1,   // the sweep finished, some cells failed
  usage = 2,          // command line or config file
  model_file = 3,     // model, tokenizer or data file
  device = 4,         // device or memory
  comm = 5,           // rank or communication
  store = 6,          // results store
  correctness = 7,    // a correctness gate said no
  timing = 8,         // a timing gate said no
  inconclusive = 9,   // under --strict
  internal = 10,      // a check of Paceline's own failed: a bug
  interrupted = 130,  // SIGINT
  terminated = 143,   // SIGTERM
};

/// What every Paceline library throws. `what()` is one line that names the file or field, what was
/// found, what was expected and the fix. Breaches of a contract (internal) carry file:line of the check.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode code() const noexcept { return code_; }

 private:
  ExitCode code_;
};

template <class... Args>
[[noreturn]] void fail(ExitCode code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

namespace detail {
template <class... Args>
[[noreturn]] void check_failed(const char* expression, const char* file, int line, fmt::format_string<Args...> format,
                               Args&&... args) {
  throw Error(ExitCode::internal, fmt::format("{}:{}: check `{}` failed: {}", file, line, expression,
                                              fmt::format(format, std::forward<Args>(args)...)));
}
}  // namespace detail

}  // namespace paceline

/// Throws Error(internal) when `condition` is false; the message must show the values: PACELINE_CHECK(a == b, "a {} b
/// {}", a, b).
#define PACELINE_CHECK(condition, ...)                                               \
  do {                                                                               \
    if (!(condition)) [[unlikely]]                                                   \
      ::paceline::detail::check_failed(#condition, __FILE__, __LINE__, __VA_ARGS__); \
  } while (false)
