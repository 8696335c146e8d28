#pragma once
// Rotary positions: the table of inverse frequencies, and how far they reach.

#include <cstdint>
#include <string>
#include <vector>

#include "engine/model/model_spec.h"

namespace paceline {

/// Inverse frequencies [rotary_dim / 2] for a sequence limit of `max_len` positions, in double (formulas of HF
/// modeling_rope_utils, which rounds to float32). Dynamic scaling and longrope look at max_len: base or factors are
/// chosen once for the longest sequence that the engine serves, as vLLM does, where HF changes them as a sequence
/// grows. A cached K must not depend on how long its sequence gets later: otherwise chunking, prefix hits and recompute
/// would change results.
std::vector<double> rope_inv_freq(const RopeSpec& rope, int max_len);

/// What that makes different from Hugging Face for texts of up to the original length, and what to set so that it does
/// not; empty: nothing.
std::string rope_difference(const ModelSpec& spec, int max_len);

/// Longest sequence the positions allow: max_position, times the factor under dynamic scaling.
int64_t longest_sequence(const ModelSpec& spec);

}  // namespace paceline
