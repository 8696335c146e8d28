#pragma once
// YAML with the same tree as jsonc.h.

#include <memory>

#include "experiments/config/file/tree.h"

namespace paceline {

/// Reads one YAML document. Plain scalars follow YAML 1.2's core schema: true/false are booleans, `yes` and `no` are
/// strings. Aliases are copied within kMaxConfigNodes in all, so that an alias bomb is an error. Never throws for bad
/// text: complaints go to `diagnostics`.
ConfigNode parse_yaml(std::shared_ptr<const SourceText> source, Diagnostics& diagnostics);

}  // namespace paceline
