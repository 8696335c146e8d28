#pragma once
// The only list of the names of rules.

#include <string_view>

#include "kernels/sampling_types.h"

namespace paceline {

/// "auto": greedy for temperature 0, else rejection. Throws Error(usage) listing the names for an unknown one.
VerifyRule parse_rule(std::string_view name, bool greedy_sampling);

}  // namespace paceline
