#pragma once
// A text read into a tree that knows its positions: JSON with comments (`//`, `#`, `/* */`) and trailing commas, or
// YAML. Complaints go to `diagnostics`; bad text never throws. Bounded: kMaxConfigBytes, kMaxConfigDepth,
// kMaxConfigNodes.

#include <memory>

#include "experiments/config/file/tree.h"

namespace paceline {

/// Reads one JSON value that fills `source`. Mistakes that leave the structure readable (a duplicate key, a missing
/// comma, a numeral that is not JSON, an unquoted word, ...) are complained about and reading goes on, so that one pass
/// names them all; at the first mistake after which the structure is a guess it stops. What was read until then is
/// returned either way.
ConfigNode parse_jsonc(std::shared_ptr<const SourceText> source, Diagnostics& diagnostics);

/// Reads one YAML document. Plain scalars follow YAML 1.2's core schema: true/false are booleans, `yes` and `no` are
/// strings. Aliases are copied within kMaxConfigNodes in all, so that an alias bomb is an error.
ConfigNode parse_yaml(std::shared_ptr<const SourceText> source, Diagnostics& diagnostics);

}  // namespace paceline
