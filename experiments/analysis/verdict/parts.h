#pragma once
// What the verdict says of the run itself, whatever pays in it, and of open loops. Texts are empty where there is
// nothing to say.

#include <string>
#include <vector>

#include "experiments/analysis/verdict/verdict.h"

namespace paceline {

Validity validity_of(const VerdictView& view);
/// "VALID: …", "INVALID timings: …": whether to trust the run, and what is known of its outputs.
std::string validity_text(const VerdictView& view, const Validity& validity);

/// What a run that ended early leaves open, without a full stop.
std::string unfinished_text(const VerdictView& view);

/// "31 cells lossless (42408 tokens, 0 mismatches)", …, "1 of 32 cells failed" last
std::vector<std::string> certified_texts(const VerdictView& view);

/// Which concurrencies name cells that never had as many requests at once, and what they had.
std::vector<std::string> unreached_texts(const VerdictView& view);

/// That prompts are fewer than requests; empty: they are not. Whether a proposer ran that gains from it.
std::string repeated_prompts_text(const VerdictView& view);
bool remembers_texts(const VerdictView& view);

/// Of open loops: up to which rate report.slo is kept, and what each that was measured at several rates reaches; for
/// each load the lowest latency; for any load with report.slo the most good requests; which cells are saturated.
std::vector<std::string> kept_rates_texts(const VerdictView& view);
std::vector<std::string> latency_texts(const VerdictView& view);
std::vector<std::string> goodput_texts(const VerdictView& view);
std::vector<std::string> saturation_texts(const VerdictView& view);

/// "; 5 cells are not significantly slower than it". Empty: all that were tested are.
std::string ties_text(const Pick& pick);

/// Certificates that failed or are missing, then what to distrust.
void add_cautions(const VerdictView& view, const Validity& validity, std::vector<VerdictSentence>& out);

}  // namespace paceline
