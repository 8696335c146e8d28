#pragma once
// Everything a template may call: an allow-list of functions, methods, filters and tests. Any other name is an error.

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/jinja/context.h"

namespace paceline::jinja {

/// Arguments of one call, evaluated; a view of what the evaluator holds until the call returns.
struct CallArguments {
  std::span<const Value> positional;
  std::span<const std::pair<std::string, Value>> named;

  /// All but the first positional one. REQUIRES that there is one.
  CallArguments rest() const { return {positional.subspan(1), named}; }
};

/// Arguments in the order of `names`; absent ones are nullopt. Too many or unknown ones are an error naming `callee`.
/// The first `num_required` must be there.
std::vector<std::optional<Value>> bind(std::string_view callee, const CallArguments& arguments,
                                       std::initializer_list<std::string_view> names, size_t num_required,
                                       Context& context);

/// The global functions by name.
std::optional<Function> find_function(std::string_view name);
Value call_function(Function function, const CallArguments& arguments, Context& context);

/// object.name(arguments) for dicts and strings.
Value call_method(const Value& object, const std::string& name, const CallArguments& arguments, Context& context);

/// value | name(arguments)
Value apply_filter(const std::string& name, const Value& value, const CallArguments& arguments, Context& context);

/// value is name(arguments)
bool apply_test(const std::string& name, const Value& value, const CallArguments& arguments, Context& context);

/// An argument of a given type, or an error naming `callee` and `parameter`.
const std::string& string_argument(std::string_view callee, std::string_view parameter, const Value& value,
                                   Context& context);
int64_t integer_argument(std::string_view callee, std::string_view parameter, const Value& value, Context& context);
/// Of what is done so often at most; -1: without a limit, as each negative number says.
int64_t limit_argument(std::string_view callee, std::string_view parameter, const Value& value, Context& context);

}  // namespace paceline::jinja
