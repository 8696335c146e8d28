#pragma once
// The limits of one rendering, and the place in the template that messages name.

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/jinja/ast.h"
#include "engine/jinja/value.h"

namespace paceline::jinja {

inline constexpr int64_t kMaxSteps = 1'000'000;
inline constexpr size_t kMaxTextBytes = size_t{1} << 20;  // of the output, and of any string on the way
inline constexpr int64_t kMaxRange = 10'000;
inline constexpr size_t kTextSteps = 4;        // of a text made: it is allocated, and freed again
inline constexpr int kMaxNativeDepth = 1'000;  // calls of evaluator, filters, tests and methods that are open at once

/// Work is counted in steps: one per node, item and 16 bytes of text touched, kTextSteps per text made. That bounds
/// time (about 0.1 s) and memory (about 64 MB) of any template. One rendering, one thread.
class Context {
 public:
  Context(const std::string& source_name, std::optional<std::time_t> fixed_now)
      : now(fixed_now), source_name_(source_name) {}

  template <class... Args>
  [[noreturn]] void error(fmt::format_string<Args...> format, Args&&... args) const {
    fail_at(source_name_, position, format, std::forward<Args>(args)...);
  }
  const std::string& source_name() const { return source_name_; }

  void charge(size_t steps) {
    steps_left_ -= static_cast<int64_t>(steps);
    if (steps_left_ < 0) [[unlikely]]
      error("limit of {} steps reached", kMaxSteps);
  }
  void charge_bytes(size_t bytes, size_t base = 1) { charge(base + bytes / 16); }
  void check_text_bytes(size_t bytes) const {
    if (bytes > kMaxTextBytes) error("limit of 1 MiB of output or text reached");
  }

  /// Values of the template's own making: within the limits, or an error.
  Value text(std::string value) {
    check_text_bytes(value.size());
    charge_bytes(value.size(), kTextSteps);
    return make_string(std::move(value));
  }
  Value list(std::vector<Value> items, bool tuple = false) {
    charge(items.size());
    return checked(make_list(std::move(items), tuple));
  }
  Value generator(std::vector<Value> items) {
    charge(items.size());
    return checked(make_generator(std::move(items)));
  }
  /// `keys`: as Dict::keys.
  Value dict(std::vector<std::pair<std::string, Value>> entries, std::vector<Value> keys = {}) {
    charge(entries.size());
    for (const auto& entry : entries) charge_bytes(entry.first.size());
    return checked(make_dict(std::move(entries), std::move(keys)));
  }
  Value macro(Macro made) {
    charge(made.around.size());
    return checked(make_macro(std::move(made)));
  }

  Position position;
  std::optional<std::time_t> now;  // what strftime_now tells; absent: the clock

  /// A call that is open while the object lives. Whatever a template can make call itself holds one: expressions,
  /// blocks, macros, filters, tests and methods.
  class OpenCall {
   public:
    explicit OpenCall(Context& context) : depth_(context.depth_) {
      if (depth_ >= kMaxNativeDepth) context.error("calls nested deeper than the limit of depth {}", kMaxNativeDepth);
      ++depth_;
    }
    ~OpenCall() { --depth_; }
    OpenCall(const OpenCall&) = delete;

   private:
    int& depth_;
  };

 private:
  Value checked(Value value) const {
    if (value.depth() > kMaxDepth) error("lists, dicts or macros nested deeper than the limit of depth {}", kMaxDepth);
    return value;
  }

  const std::string& source_name_;
  int64_t steps_left_ = kMaxSteps;
  int depth_ = 0;
};

}  // namespace paceline::jinja
