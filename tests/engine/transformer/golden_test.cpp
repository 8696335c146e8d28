// What Hugging Face computed: logits of the small goldens, greedy text of all committed models.

#include "check_golden.h"
#include "engine/weights/role_weights.h"
#include "kernels/cuda/cuda_backend.h"
#include "tests/support/paths.h"

namespace paceline {
namespace {

using test::check_golden;
using test::greedy;
using test::ModelRig;
using test::ModelRigOptions;
using test::read_json;

class Golden : public testing::TestWithParam<std::string> {};

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

/// A variant of each family, tiny, with random weights. The first goldens lie beside the project, which they would
/// double.
class FamilyGolden : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(folder())) GTEST_SKIP() << "no folder " << folder();
  }
  static std::string folder() {
    const auto in_tree = source_dir() / "tests/data" / GetParam();
    return (std::filesystem::exists(in_tree) ? in_tree : shared_dir() / "goldens" / GetParam()).string();
  }
  /// The model on these ranks, where its heads allow it.
  static std::optional<ModelRigOptions> on_ranks(int tp, int pp) {
    try {
      validate_parallel(load_model_spec(folder()), tp, pp);
    } catch (const Error&) {
      return std::nullopt;
    }
    return ModelRigOptions{.folder = folder(), .tp = tp, .pp = pp};
  }
};

TEST_P(FamilyGolden, LogitsAndGreedyText) { check_golden({.folder = folder()}); }

TEST_P(FamilyGolden, LogitsAndGreedyTextOnCuda) {
  if (num_cuda_devices() == 0) GTEST_SKIP() << "no CUDA device here";
  check_golden({.folder = folder(), .device = "cuda"}, 1e-3);
}

TEST_P(FamilyGolden, WeightsInBfloat16) { EXPECT_LE(test::mean_kl({.folder = folder(), .dtype = DType::bf16}), 1e-3); }

TEST_P(FamilyGolden, WeightsInBfloat16OnCuda) {
  if (num_cuda_devices() == 0) GTEST_SKIP() << "no CUDA device here";
  EXPECT_LE(test::mean_kl({.folder = folder(), .dtype = DType::bf16, .device = "cuda"}), 1e-3);
}

TEST_P(FamilyGolden, BitsOfOneRankOnAllRanksAndInChunks) {
  ModelRig one({.folder = folder()});
  const auto tokens = test::sample_text(60, one.spec().vocab_size);
  const auto reference = one.run({{tokens, one.pages(60), 0, 60}});
  int num_tried = 0;
  for (const auto& [tp, pp] : {std::pair{1, 1}, {2, 1}, {1, 2}, {2, 2}}) {
    const auto options = on_ranks(tp, pp);
    if (!options) continue;
    SCOPED_TRACE(fmt::format("tp {} pp {}", tp, pp));
    ++num_tried;
    ModelRig rig(*options);
    for (const int chunk : {60, 17, 1}) {
      for (int begin = 0; begin < 60; begin += chunk) {
        const int end = std::min(60, begin + chunk);
        const auto logits = rig.run({{tokens, rig.pages(60), begin, end}});
        ASSERT_EQ(test::first_difference(reference, begin, logits, one.spec().vocab_size), -1)
            << "rows from " << begin << " in chunks of " << chunk;
      }
      const auto last = rig.run({{tokens, rig.pages(60), 50, 60}}, true);
      ASSERT_EQ(test::first_difference(reference, 59, last, one.spec().vocab_size), -1) << "the last row alone";
    }
  }
  EXPECT_EQ(num_tried, one.spec().num_heads % 2 == 0 ? 4 : 2);
}

TEST(RoleWeights, NamesTheTensorOfTheHead) {
  const auto folder = source_dir() / "tests/data/stablelm-parallel";
  const Checkpoint checkpoint = Checkpoint::open(folder);
  const ModelSpec spec = load_model_spec(folder);
  EXPECT_EQ(RoleWeights(checkpoint, spec).where(TensorRole::q_norm, TensorPiece::weight, 1, 0, spec.head_dim + 3),
            "tensor \"model.layers.1.self_attn.q_layernorm.norms.1.weight\" at [3]");
}

TEST_P(FamilyGolden, EstimateIsWhatIsHeld) {
  for (const auto& [tp, pp] : {std::pair{1, 1}, {2, 2}}) {
    const auto options = on_ranks(tp, pp);
    if (!options) continue;
    const Checkpoint checkpoint = Checkpoint::open(folder());
    const ModelSpec spec = load_model_spec(folder());
    const auto backend = make_backend("cpu", {});
    for (int rank = 0; rank < tp * pp; ++rank) {
      const ShardPlan plan =
          shard_plan(spec, {.stage = rank / tp, .num_stages = pp, .shard = rank % tp, .tp = tp}, DType::f32);
      EXPECT_EQ(load_shard(checkpoint, spec, plan, *backend).bytes, weight_bytes(spec, plan)) << "rank " << rank;
    }
  }
}

std::string test_name(const testing::TestParamInfo<std::string>& model) {
  std::string name;
  for (const char c : model.param) name += std::isalnum(c) ? c : '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(InTree, FamilyGolden,
                         testing::Values("gpt2-unscaled", "gpt-neox-no-bias", "opt-no-bias", "opt-no-affine",
                                         "llama-dynamic", "llama-yarn", "llama-longrope", "qwen2-windows", "phi3",
                                         "phi3-longrope", "stablelm", "stablelm-parallel", "gemma2", "gemma3",
                                         "falcon-multi-query", "falcon-new", "falcon-sequential"),
                         test_name);
INSTANTIATE_TEST_SUITE_P(Families, FamilyGolden,
                         testing::Values("gpt2", "gpt2-inverse-layer-scale", "gpt-bigcode-mqa", "gpt-bigcode-mha",
                                         "gpt-neox", "gpt-neox-sequential", "opt-pre-norm", "opt-post-norm-proj",
                                         "mistral-sliding-window", "qwen2", "qwen3"),
                         test_name);

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
