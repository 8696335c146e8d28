#include "experiments/certificate.h"

#include <fmt/format.h>

#include "experiments/output_comparison.h"

namespace paceline {
namespace {

bool token_exact_rule(const CellResult& cell) {
  if (cell.axes.proposer == "none") return true;
  const auto rule = cell.effective.value("rule", std::string());
  return rule == "greedy" || rule == "coupled";
}

CertificateResult unverified(std::string reason) {
  return {.status = CertificateStatus::unverified, .method = "none", .detail = std::move(reason)};
}

}  // namespace

CertificateResult token_exact_certificate(const CellResult& cell, const CellResult& reference) {
  const Comparison comparison = compare_outputs(cell, reference);
  const bool equal = comparison.partings.empty() && comparison.complaint.empty();
  return {.status = equal ? CertificateStatus::pass : CertificateStatus::fail,
          .method = fmt::format("token-exact against {}", reference.id),
          .tokens_checked = comparison.tokens,
          .mismatches = int64_t(comparison.partings.size()),
          .detail = comparison.partings.empty() ? comparison.complaint : described(comparison.partings.front())};
}

void certify(RunResult& run) {
  const References references(run);
  for (CellResult& cell : run.cells) {
    if (!References::usable(cell)) continue;
    const CellResult* const reference = references.of(cell);
    if (!reference) {
      cell.certificate = unverified("no finished cell without speculation to compare with");
    } else if (reference != &cell && cell.forced) {
      cell.certificate = unverified("forced acceptance: the text is not the model's");
    } else if (reference != &cell && !token_exact_rule(cell)) {
      cell.certificate = unverified(
          "the rejection rule keeps the law, not the tokens; use rule coupled for a token-exact certificate");
    } else {
      cell.certificate = token_exact_certificate(cell, *reference);
      // A baseline's repetitions must agree with each other all the same.
      if (reference == &cell && cell.certificate.status == CertificateStatus::pass)
        cell.certificate.status = CertificateStatus::baseline;
    }
    if (cell.random_weights) cell.certificate.method += ", random weights";
  }
}

}  // namespace paceline
