#pragma once
// What a run leaves about the tokens of a cell: its certificate, and the logits that it rests on in fast numerics.

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "experiments/results/fields.h"

namespace paceline {

enum class CertificateStatus { pass, fail, baseline, unverified };
inline const char* to_string(CertificateStatus status) {
  return std::array{"pass", "fail", "baseline", "unverified"}[size_t(status)];
}

/// Fast numerics: requests whose tokens part from the reference's, and what recomputed logits say about them
/// (experiments/analysis/outputs/flips.h).
struct FlipCount {
  int64_t found = 0, explained = 0, positions = 0;
  std::optional<double> noise;

  template <class Visit>
  static void fields(Visit&& visit) {
    visit("found", &FlipCount::found, "requests whose tokens part from the reference's");
    visit("explained", &FlipCount::explained, "of these, by noise");
    visit("positions", &FlipCount::positions, "at which logits were computed again");
    visit("noise", &FlipCount::noise, "the largest there");
  }
};

/// What the run proved about a cell's tokens.
struct CertificateResult {
  CertificateStatus status = CertificateStatus::unverified;
  std::string method;
  int64_t tokens_checked = 0, mismatches = 0;
  std::string detail;
  std::optional<FlipCount> flips;  // fast numerics only

  template <class Visit>
  static void fields(Visit&& visit) {
    using R = CertificateResult;
    visit(
        "status", [](const R& r) { return std::string(to_string(r.status)); },
        R"("pass", "fail", "baseline", "unverified")");
    visit("method", &R::method, R"("token-exact against tp1_pp1_none_c1")");
    visit("tokens_checked", &R::tokens_checked, "");
    visit("mismatches", &R::mismatches, "requests with a difference, in fast numerics one that noise does not explain");
    visit("flips", &R::flips, "in fast numerics; else null");
    visit("detail", &R::detail, "the first difference, or why nothing was checked");
  }
};

/// The target's logits at one output position of a request, computed again in passes of many rows and in passes of few,
/// which differ in fast numerics.
struct LogitCheck {
  int64_t dataset_index = 0;
  std::string request;
  int64_t repetition = 0, position = 0;
  int32_t token = -1, reference_token = -1;  // -1: the request agrees here
  std::optional<double> gap;
  double noise = std::numeric_limits<double>::quiet_NaN(), largest = noise;  // not finite: explains nothing

  template <class Visit>
  static void fields(Visit&& visit) {
    using enum FieldRule;
    visit("dataset_index", &LogitCheck::dataset_index, "", required);
    visit("id", &LogitCheck::request, "of the request", required);
    visit("repetition", &LogitCheck::repetition, "of the reference");
    visit("position", &LogitCheck::position, "of its output", required);
    visit("token", &LogitCheck::token, "a flip's; null: the request agrees here", null_if_default);
    visit("reference_token", &LogitCheck::reference_token, "likewise", null_if_default);
    visit("gap", &LogitCheck::gap, "of these two, the larger of both ways; null: says nothing about the flip");
    visit("noise", &LogitCheck::noise, "largest |difference| of a logit");
    visit("largest", &LogitCheck::largest, "|logit|");
  }
};
struct LogitEvidence {
  std::string reference;  // id of the cell whose tokens it is about; empty: nothing was computed
  std::vector<LogitCheck> checks;
};

}  // namespace paceline
