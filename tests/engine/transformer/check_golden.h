#pragma once
// A checkpoint against the golden.json beside it: logits after each prompt, and its greedy text.

#include <algorithm>
#include <cmath>

#include "tests/engine/transformer/greedy_text.h"

namespace paceline::test {

/// tolerance: of a logit.
inline void check_golden(const ModelRigOptions& options, double tolerance = 1e-4) {
  const nlohmann::json golden = read_json(options.folder + "/golden.json");
  ModelRig rig(options);
  for (size_t i = 0; i < golden["prompts"].size(); ++i) {
    const auto prompt = golden["prompts"][i].get<std::vector<int32_t>>();
    const auto want = golden["last_logits"][i].get<std::vector<double>>();
    const auto logits = rig.run({{prompt, rig.pages(int(prompt.size())), 0, int(prompt.size())}}, true);
    ASSERT_EQ(logits.size(), want.size());
    double largest = 0;
    for (size_t id = 0; id < want.size(); ++id) largest = std::max(largest, std::abs(double(logits[id]) - want[id]));
    EXPECT_LE(largest, tolerance) << "prompt " << i;
    const auto text = golden["greedy"][i].get<std::vector<int32_t>>();
    EXPECT_EQ(greedy(rig, prompt, int(text.size()), 512), text) << "prompt " << i;
  }
}

/// log softmax, in place.
inline void normalise_logits(std::vector<double>& logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit - largest);
  for (double& logit : logits) logit -= largest + std::log(sum);
}

/// KL divergence of our next token's distribution from the golden one, in nats: the mean over the prompts.
inline double mean_kl(const ModelRigOptions& options) {
  const nlohmann::json golden = read_json(options.folder + "/golden.json");
  ModelRig rig(options);
  double sum = 0;
  for (size_t i = 0; i < golden["prompts"].size(); ++i) {
    const auto prompt = golden["prompts"][i].get<std::vector<int32_t>>();
    auto want = golden["last_logits"][i].get<std::vector<double>>();
    const auto logits = rig.run({{prompt, rig.pages(int(prompt.size())), 0, int(prompt.size())}}, true);
    std::vector<double> ours(logits.begin(), logits.end());
    normalise_logits(want);
    normalise_logits(ours);
    for (size_t id = 0; id < want.size(); ++id) sum += std::exp(want[id]) * (want[id] - ours[id]);
  }
  return sum / double(golden["prompts"].size());
}

}  // namespace paceline::test
