#pragma once
// What a run proves about its cells' tokens: greedy and coupled runs are compared with the cell that does not
// speculate, token by token in strict numerics, up to flips within noise in fast ones.

#include "experiments/analysis/outputs/output_comparison.h"
#include "experiments/results/results.h"

namespace paceline {

/// Output tokens of every repetition of `cell` against its match of `reference` (repetition_to_match()), request by
/// request (dataset index and id). pass: all equal; fail: the first difference in `detail`.
CertificateResult token_exact_certificate(const CellResult& cell, const CellResult& reference);

/// The same in fast numerics, up to the first token of each request that differs: what follows has another prefix.
/// pass: noise explains all of these (flips.h) by cell.logits; fail: not one of them; unverified: none is refuted, and
/// one was not or cannot be examined. The first of that kind in `detail`.
CertificateResult flip_certificate(const CellResult& cell, const CellResult& reference);

/// Texts of every repetition of `cell`, from a server that is not ours, against its match of `reference`. `required`:
/// the share that must be equal, else it fails; none: less than all of them is unverified.
CertificateResult text_certificate(const CellResult& cell, const CellResult& reference, std::optional<double> required);

/// The reference of a cell whose tokens certify() compares; null where it compares none. The cell itself: its
/// repetitions, of which there is nothing to compare where each draws anew.
const CellResult* compared_with(const References& references, const CellResult& cell);

/// Fills the certificates of all finished cells: of each kind (References), the first finished cell that does
/// not speculate is the baseline, the others are compared with the baseline of their own placement where there is one,
/// else with that first one. Cells whose rule gives the same law but other tokens (rejection) stay
/// unverified, with the reason. Cells of a server that is not ours are compared by text with their baseline_id.
void certify(RunResult& run);

/// "3 flips, 3 explained by noise of up to 0.0312 at 11 positions"
std::string flips_text(const FlipCount& flips);

}  // namespace paceline
