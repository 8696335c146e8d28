#pragma once
// The only list of the names of rules.

#include <string_view>
#include <vector>

#include "kernels/sampling_types.h"

namespace paceline {

/// "rejection"
std::string_view rule_word(VerifyRule rule);
/// The words of speculation.verifier.rule, "auto" first.
std::vector<std::string_view> rule_words();
/// "auto": greedy for temperature 0, else rejection. Throws Error(usage) listing the names for an unknown one.
VerifyRule parse_rule(std::string_view word, bool greedy_sampling);

}  // namespace paceline
