#include "experiments/certificate.h"

#include <algorithm>
#include <map>
#include <tuple>

#include <fmt/format.h>

namespace paceline {
namespace {

using RequestKey = std::pair<int64_t, std::string>;

bool token_exact_rule(const CellResult& cell) {
  if (cell.axes.proposer == "none") return true;
  const auto rule = cell.effective.value("rule", std::string());
  return rule == "greedy" || rule == "coupled";
}

}  // namespace

CertificateResult token_exact_certificate(const CellResult& cell, const CellResult& reference) {
  CertificateResult certificate{
      .status = CertificateStatus::pass, .method = fmt::format("token-exact against {}", reference.id), .detail = {}};
  std::map<RequestKey, const std::vector<int32_t>*> expected;
  for (const RequestRecord& request : reference.repetitions.front().requests)
    expected[{request.dataset_index, request.id}] = &request.output;
  for (size_t rep = 0; rep < cell.repetitions.size(); ++rep) {
    const auto& requests = cell.repetitions[rep].requests;
    if (requests.size() != expected.size()) {
      certificate.status = CertificateStatus::fail;
      certificate.detail =
          fmt::format("repetition {}: {} requests, the reference has {}", rep, requests.size(), expected.size());
    }
    for (const RequestRecord& request : requests) {
      const auto found = expected.find({request.dataset_index, request.id});
      if (found == expected.end()) {
        certificate.status = CertificateStatus::fail;
        certificate.detail = fmt::format("repetition {}: request {} is not in the reference", rep, request.id);
        continue;
      }
      const std::vector<int32_t>& want = *found->second;
      certificate.tokens_checked += int64_t(std::max(want.size(), request.output.size()));
      const auto [got_at, want_at] =
          std::mismatch(request.output.begin(), request.output.end(), want.begin(), want.end());
      if (got_at == request.output.end() && want_at == want.end()) continue;
      if (certificate.mismatches++ == 0) {
        certificate.detail = fmt::format("repetition {}, request {}: output token {} is {}, expected {}", rep,
                                         request.id, got_at - request.output.begin(),
                                         got_at == request.output.end() ? "absent" : std::to_string(*got_at),
                                         want_at == want.end() ? "none" : std::to_string(*want_at));
      }
      certificate.status = CertificateStatus::fail;
    }
  }
  return certificate;
}

void certify(RunResult& run) {
  const auto usable = [](const CellResult& cell) {
    return cell.status == CellStatus::done && !cell.repetitions.empty();
  };
  std::map<std::string, const CellResult*> firsts;  // by model
  std::map<std::tuple<std::string, int, int>, const CellResult*> by_placement;
  for (const CellResult& cell : run.cells) {
    if (!usable(cell) || cell.axes.proposer != "none") continue;
    firsts.try_emplace(cell.model, &cell);
    by_placement.try_emplace({cell.model, cell.axes.tp, cell.axes.pp}, &cell);
  }
  for (CellResult& cell : run.cells) {
    if (!usable(cell)) continue;
    const auto placement = by_placement.find({cell.model, cell.axes.tp, cell.axes.pp});
    const auto of_model = firsts.find(cell.model);
    const CellResult* const first = of_model == firsts.end() ? nullptr : of_model->second;
    // Sums follow one tree at tp 1, 2, 4 and 8; at others a placement has bits of its own.
    const bool own_bits = cell.axes.tp != 1 && cell.axes.tp != 2 && cell.axes.tp != 4 && cell.axes.tp != 8;
    if (&cell == first || (own_bits && placement != by_placement.end() && placement->second == &cell)) {
      // Its repetitions must agree with each other all the same.
      cell.certificate = token_exact_certificate(cell, cell);
      if (cell.certificate.status == CertificateStatus::pass) cell.certificate.status = CertificateStatus::baseline;
    } else if (!first) {
      cell.certificate = {.status = CertificateStatus::unverified,
                          .method = "none",
                          .detail = "no finished cell without speculation to compare with"};
    } else if (cell.forced) {
      cell.certificate = {.status = CertificateStatus::unverified,
                          .method = "none",
                          .detail = "forced acceptance: the text is not the model's"};
    } else if (!token_exact_rule(cell)) {
      cell.certificate = {
          .status = CertificateStatus::unverified,
          .method = "none",
          .detail = "the rejection rule keeps the law, not the tokens; use rule coupled for a token-exact certificate"};
    } else {
      const CellResult& reference =
          placement != by_placement.end() && placement->second != &cell ? *placement->second : *first;
      cell.certificate = token_exact_certificate(cell, reference);
    }
    if (cell.random_weights) cell.certificate.method += ", random weights";
  }
}

}  // namespace paceline
