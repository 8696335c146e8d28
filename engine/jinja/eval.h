#pragma once
// Runs a parsed chat template.

#include <ctime>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/jinja/ast.h"
#include "engine/jinja/value.h"

namespace paceline::jinja {

/// Bounds: 1,000,000 steps, 1 MiB of output, depth 64 (macros, blocks, expressions, lists in lists), range of 10,000.
/// Past one: Error(model_file) naming the template's line and column and the limit. raise_exception in the template:
/// Error(usage). `now`: what strftime_now tells instead of the clock (local time zone).
std::string evaluate(const Template& chat_template, const std::vector<std::pair<std::string, Value>>& variables,
                     std::optional<std::time_t> now);

}  // namespace paceline::jinja
