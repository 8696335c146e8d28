#pragma once
// JSON for people: what fits stands on one line.

#include <string>

#include "experiments/config/config.h"

namespace paceline {

/// `{ "a": [1, 2] }`.
std::string one_line_json(const ConfigJson& json);

/// `json` printed with indents of two blanks; an object or list that fits into 120 columns stays on one line. Ends
/// without a newline.
std::string compact_json(const ConfigJson& json);

}  // namespace paceline
