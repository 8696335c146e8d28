#pragma once
// Greedy text of one prompt alone, through the engine.

#include "engine/engine.h"
#include "speculative/chain_verifier.h"
#include "tests/engine/transformer/model_rig.h"

namespace paceline::test {

/// budget: rows of a step at most.
inline std::vector<int32_t> greedy(ModelRig& rig, const std::vector<int32_t>& prompt, int count, int budget = 512) {
  Engine engine(
      {.scheduler = {.max_num_seqs = 1, .max_num_batched_tokens = budget, .max_model_len = rig.spec().max_position},
       .pool = {.num_blocks = rig.num_blocks(), .block_size = rig.block_size()}},
      rig.model(), nullptr, std::make_unique<ChainVerifier>(VerifierOptions{}));
  SamplingParams params;
  params.max_tokens = count;
  params.ignore_eos = true;
  engine.submit(prompt, params);
  std::vector<int32_t> text;
  while (!engine.idle()) {
    for (const Emitted& emitted : engine.step()) text.insert(text.end(), emitted.token.begin(), emitted.token.end());
  }
  return text;
}

}  // namespace paceline::test
