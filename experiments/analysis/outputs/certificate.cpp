#include "experiments/analysis/outputs/certificate.h"

#include <map>
#include <optional>

#include <fmt/format.h>

#include "engine/util/counted.h"
#include "engine/util/json_io.h"
#include "experiments/analysis/outputs/flips.h"

namespace paceline {
namespace {

bool token_exact_rule(const CellResult& cell) {
  if (!cell.axes.drafts()) return true;
  const auto rule = cell.effective.value("rule", std::string());
  return rule == "greedy" || rule == "coupled";
}

CertificateResult unverified(std::string reason) {
  return {.status = CertificateStatus::unverified, .method = "none", .detail = std::move(reason)};
}

/// Why the tokens of a finished cell are not compared with those of its reference; empty: they are.
std::string obstacle(const CellResult& cell, const CellResult* reference) {
  if (!reference) return "no finished cell without speculation that asks for the same text";
  if (reference == &cell) return {};
  if (!token_exact_rule(cell))
    return fmt::format("the rule {} keeps the law, not the tokens; use rule coupled for a token-exact certificate",
                       cell.effective.value("rule", std::string("?")));
  return {};
}

/// The plain cell of the same server: the one that ratios refer to, where that drafts nothing.
const CellResult* plain_cell_of(const RunResult& run, const CellResult& cell) {
  for (const CellResult& other : run.cells)
    if (other.id == cell.baseline_id && is_foreign(other) && !other.axes.drafts() && References::usable(other))
      return &other;
  return nullptr;
}

std::optional<double> required_share(const CellResult& cell) {
  const nlohmann::json* const share = find_value(cell.requested, "server.compare_text");
  return share && share->is_number() ? std::optional(share->get<double>()) : std::nullopt;
}

CertificateResult foreign_certificate(const RunResult& run, const CellResult& cell) {
  const CellResult* const plain = plain_cell_of(run, cell);
  if (!plain) return unverified("no finished cell of that server without speculation among the baselines");
  CertificateResult out = text_certificate(cell, *plain, required_share(cell));
  if (plain == &cell && out.status == CertificateStatus::pass) out.status = CertificateStatus::baseline;
  return out;
}

std::string numbers_text(const LogitCheck& flip, double noise) {
  return fmt::format("the logits of the two are {:.3g} apart, the noise is {:.3g}, the largest logit {:.3g}",
                     flip.gap.value_or(0), noise, flip.largest);
}

}  // namespace

const CellResult* compared_with(const References& references, const CellResult& cell) {
  if (!References::usable(cell) || is_foreign(cell)) return nullptr;
  const CellResult* const reference = references.of(cell);
  return obstacle(cell, reference).empty() ? reference : nullptr;
}

CertificateResult token_exact_certificate(const CellResult& cell, const CellResult& reference) {
  const Comparison comparison = compare_outputs(cell, reference);
  const bool equal = comparison.partings.empty() && comparison.complaint.empty();
  return {.status = equal ? CertificateStatus::pass : CertificateStatus::fail,
          .method = fmt::format("token-exact against {}", reference.id),
          .tokens_checked = comparison.tokens,
          .mismatches = int64_t(comparison.partings.size()),
          .detail = comparison.partings.empty() ? comparison.complaint : described(comparison.partings.front())};
}

CertificateResult text_certificate(const CellResult& cell, const CellResult& reference,
                                   std::optional<double> required) {
  CertificateResult out{.method = fmt::format("text against {}", reference.id)};
  int64_t requests = 0;
  bool any_text = false;
  std::string first;
  for (size_t rep = 0; rep < cell.repetitions.size(); ++rep) {
    const std::optional<size_t> match = repetition_to_match(cell, reference, rep);
    if (!match) continue;
    const std::map<RequestKey, const RequestRecord*> expected = requests_by_key(reference.repetitions[*match]);
    for (const RequestRecord& q : cell.repetitions[rep].requests) {
      ++requests;
      any_text |= !q.text.empty();
      out.tokens_checked += q.num_tokens();
      const auto found = expected.find(key_of(q));
      if (found != expected.end() && found->second->text == q.text) continue;
      ++out.mismatches;
      if (first.empty()) first = q.id;
    }
  }
  if (requests > 0 && !any_text) {
    out.status = CertificateStatus::unverified;
    out.detail = "no answer holds a text";
    return out;
  }
  const double share = requests > 0 ? double(requests - out.mismatches) / double(requests) : 0;
  if (out.mismatches > 0 || requests == 0)
    out.detail = fmt::format("the text of {} of {} is equal (share {:.3f}{}), not that of {}",
                             requests - out.mismatches, counted(requests, "request"), share,
                             required ? fmt::format(", asked for {}", *required) : "", first);
  out.status = out.detail.empty()                   ? CertificateStatus::pass
               : !required                          ? CertificateStatus::unverified
               : requests > 0 && share >= *required ? CertificateStatus::pass
                                                    : CertificateStatus::fail;
  return out;
}

CertificateResult flip_certificate(const CellResult& cell, const CellResult& reference) {
  const Comparison comparison = compare_outputs(cell, reference);
  const LogitEvidence none, &evidence = cell.logits.reference == reference.id ? cell.logits : none;
  const double noise = noise_of(evidence.checks), explaining = explaining_noise(evidence.checks);
  FlipCount flips{.found = int64_t(comparison.partings.size()), .positions = int64_t(evidence.checks.size())};
  if (!evidence.checks.empty()) flips.noise = noise;
  int64_t unexplained = 0;
  std::string first_explained, first_unexplained, first_unknown;
  const auto keep = [](std::string& first, const Parting& parting, const std::string& text) {
    if (first.empty()) first = fmt::format("{}: {}", described(parting), text);
  };
  for (const Parting& parting : comparison.partings) {
    const LogitCheck* const check = find_check(evidence, parting);
    if (parting.token() == Parting::kEnded || parting.reference_token() == Parting::kEnded) {
      ++unexplained;
      keep(first_unexplained, parting, "noise ends no output");
    } else if (!check) {
      keep(first_unknown, parting, "its logits were not computed again");
    } else if (!check->gap) {
      keep(first_unknown, parting, "noise may move the edge of top_k, top_p or min_p, which no gap tells");
    } else if (explains(explaining, *check)) {
      ++flips.explained;
      keep(first_explained, parting, numbers_text(*check, noise));
    } else {
      ++unexplained;
      keep(first_unexplained, parting, numbers_text(*check, noise));
    }
  }
  CertificateResult out{.status = CertificateStatus::pass,
                        .method = fmt::format("fast: flips within noise, against {}", reference.id),
                        .tokens_checked = comparison.tokens_until_parting,
                        .mismatches = unexplained,
                        .detail = first_explained,
                        .flips = flips};
  if (unexplained > 0 || !comparison.complaint.empty()) {
    out.status = CertificateStatus::fail;
    out.detail = unexplained > 0 ? first_unexplained : comparison.complaint;
  } else if (!first_unknown.empty()) {
    out.status = CertificateStatus::unverified;
    out.detail = first_unknown;
  }
  return out;
}

void certify(RunResult& run) {
  const References references(run);
  for (CellResult& cell : run.cells) {
    if (!References::usable(cell)) continue;
    if (is_foreign(cell)) {
      cell.certificate = foreign_certificate(run, cell);
      continue;
    }
    const CellResult* const reference = compared_with(references, cell);
    if (!reference) {
      cell.certificate = unverified(obstacle(cell, references.of(cell)));
    } else {
      cell.certificate =
          has_fast_numerics(cell) ? flip_certificate(cell, *reference) : token_exact_certificate(cell, *reference);
      // A baseline's repetitions must agree with each other all the same.
      if (reference == &cell && cell.certificate.status == CertificateStatus::pass)
        cell.certificate.status = CertificateStatus::baseline;
    }
    if (cell.random_weights) cell.certificate.method += ", random weights";
  }
}

std::string flips_text(const FlipCount& flips) {
  return fmt::format("{}, {} explained by noise of {} at {}", counted(flips.found, "flip"), flips.explained,
                     flips.noise ? fmt::format("up to {:.3g}", *flips.noise) : "unknown size",
                     counted(flips.positions, "position"));
}

}  // namespace paceline
