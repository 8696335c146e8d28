#pragma once
// JSON with comments (`//`, `#`, `/* */`) and trailing commas, read into a tree that knows its positions.

#include <memory>

#include "experiments/config/file/tree.h"

namespace paceline {

/// Scans one JSON value that fills `source`. Mistakes that leave the structure readable (a duplicate key, a missing
/// comma, a numeral that is not JSON, an unquoted word, ...) are added to `diagnostics` and scanning goes on, so that
/// one pass names them all; at the first mistake after which the structure is a guess it stops. What was read until
/// then is returned either way. Bounded: kMaxConfigBytes, kMaxConfigDepth, kMaxConfigNodes. Never throws for bad text.
ConfigNode parse_jsonc(std::shared_ptr<const SourceText> source, Diagnostics& diagnostics);

}  // namespace paceline
