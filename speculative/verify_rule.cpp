#include "speculative/verify_rule.h"

#include "kernels/error.h"

namespace paceline {

VerifyRule parse_rule(std::string_view name, bool greedy_sampling) {
  if (name == "auto") return greedy_sampling ? VerifyRule::greedy : VerifyRule::rejection;
  if (name == "greedy") return VerifyRule::greedy;
  if (name == "rejection") return VerifyRule::rejection;
  if (name == "coupled") return VerifyRule::coupled;
  fail(ExitCode::usage, "speculation.verifier.rule: found \"{}\", expected auto, greedy, rejection or coupled", name);
}

}  // namespace paceline
