#pragma once
// What a run proves about its cells' tokens: strict greedy and coupled runs are compared token by token with the cell
// that does not speculate.

#include "experiments/results.h"

namespace paceline {

/// Output tokens of every repetition of `cell` against the first repetition of `reference`, request by request
/// (dataset index and id). pass: all equal; fail: the first difference in `detail`.
CertificateResult token_exact_certificate(const CellResult& cell, const CellResult& reference);

/// Fills the certificates of all finished cells: of each model, the first finished cell that does not speculate is the
/// baseline, the others must equal the baseline of their own placement where there is one, else that first one. Cells
/// whose rule gives the same law but other tokens (rejection) and forced ones stay unverified, with the reason.
void certify(RunResult& run);

}  // namespace paceline
