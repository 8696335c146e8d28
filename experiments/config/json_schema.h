#pragma once
// A JSON Schema (draft 2020-12) of experiment files, from the table of keys: editors complete and check with it.

#include "experiments/config/config.h"

namespace paceline {

/// Accepts what the loader accepts of one file as written, so "+key", "-key", aliases in sweep, "=expression" and
/// "${...}" too. It knows nothing of several keys at once (find_conflict()) nor of inherited values.
ConfigJson experiment_json_schema();

}  // namespace paceline
