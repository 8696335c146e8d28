// What Hugging Face computed: logits of the small goldens, greedy text of all committed models.

#include "greedy_text.h"
#include "kernels/cuda/cuda_backend.h"

namespace paceline {
namespace {

using test::greedy;
using test::ModelRig;
using test::ModelRigOptions;
using test::read_json;

class Golden : public testing::TestWithParam<std::string> {};

void check_golden(const ModelRigOptions& options) {
  const nlohmann::json golden = read_json(options.folder + "/golden.json");
  ModelRig rig(options);
  for (size_t i = 0; i < golden["prompts"].size(); ++i) {
    const auto prompt = golden["prompts"][i].get<std::vector<int32_t>>();
    const auto want = golden["last_logits"][i].get<std::vector<double>>();
    const auto logits = rig.run({{prompt, rig.pages(int(prompt.size())), 0, int(prompt.size())}}, true);
    ASSERT_EQ(logits.size(), want.size());
    double largest = 0;
    for (size_t id = 0; id < want.size(); ++id) largest = std::max(largest, std::abs(double(logits[id]) - want[id]));
    EXPECT_LE(largest, 1e-4) << "prompt " << i;
    const auto text = golden["greedy"][i].get<std::vector<int32_t>>();
    EXPECT_EQ(greedy(rig, prompt, int(text.size()), 512), text) << "prompt " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Llamas, Golden,
                         testing::Values("llama", "llama-gqa-tied", "llama3-rope-scaling", "llama-linear-rope-bias"),
                         [](const auto& model) {
                           std::string name;
                           for (const char c : model.param) name += std::isalnum(c) ? c : '_';
                           return name;
                         });

TEST_P(Golden, LogitsAndGreedyText) {
  for (const auto& [tp, pp] : {std::pair{1, 1}, {1, 2}, {2, 2}})
    check_golden({.folder = "tests/data/" + GetParam(), .tp = tp, .pp = pp});
}

TEST_P(Golden, LogitsAndGreedyTextOnCuda) {
  if (num_cuda_devices() == 0) GTEST_SKIP() << "no CUDA device here";
  check_golden({.folder = "tests/data/" + GetParam(), .device = "cuda"});
}

class TrainedGolden : public testing::TestWithParam<std::string> {};

TEST_P(TrainedGolden, GreedyText) {
  const nlohmann::json golden = read_json("tests/data/models_golden.json").at(GetParam());
  ASSERT_GE(golden["cases"].size(), 5u);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    SCOPED_TRACE(dtype_name(dtype));
    ModelRig one({.folder = "configs/models/" + GetParam(), .threads = 2, .dtype = dtype});
    ModelRig two({.folder = "configs/models/" + GetParam(), .tp = 2, .dtype = dtype});
    for (const auto& entry : golden["cases"]) {
      const auto prompt = entry["prompt_ids"].get<std::vector<int32_t>>();
      const auto text = entry["greedy"].get<std::vector<int32_t>>();
      EXPECT_EQ(greedy(one, prompt, int(text.size()), 512), text);
      EXPECT_EQ(greedy(two, prompt, int(text.size()), 50), text);
    }
  }
}

TEST_P(TrainedGolden, GreedyTextOnCuda) {
  if (num_cuda_devices() == 0) GTEST_SKIP() << "no CUDA device here";
  const nlohmann::json golden = read_json("tests/data/models_golden.json").at(GetParam());
  for (const DType dtype : {DType::f32, DType::bf16}) {
    ModelRig rig({.folder = "configs/models/" + GetParam(), .dtype = dtype, .device = "cuda"});
    for (const auto& entry : golden["cases"]) {
      const auto text = entry["greedy"].get<std::vector<int32_t>>();
      EXPECT_EQ(greedy(rig, entry["prompt_ids"].get<std::vector<int32_t>>(), int(text.size()), 50), text)
          << dtype_name(dtype);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, TrainedGolden, testing::Values("target-7m", "draft-600k"), [](const auto& model) {
  return model.param == "target-7m" ? std::string("target_7m") : std::string("draft_600k");
});

}  // namespace
}  // namespace paceline
