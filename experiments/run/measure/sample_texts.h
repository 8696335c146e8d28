#pragma once
// Texts of the first requests, for the readers of a run: prompts, and the tokens that answered them.

#include <span>
#include <vector>

#include "engine/tokenizer/tokenizer.h"
#include "experiments/results/results.h"
#include "experiments/workload/dataset.h"

namespace paceline {

/// Adds to `all`, to the entry of the cell's model, which it makes where there is none: the first kMaxSamplePrompts
/// prompts by index, and the texts of the tokens that the cell's first repetition answered them with. A cell without
/// a repetition adds nothing. One thread.
void keep_sample_texts(const CellResult& cell, std::span<const Prompt> prompts, const Tokenizer& tokenizer,
                       std::vector<SampleTexts>& all);

}  // namespace paceline
