// Families at widths where CUDA has kernels of their own for bfloat16: heads of 64 and 128, products of whole tiles.

#include "check_golden.h"
#include "kernels/cuda/cuda_backend.h"
#include "tests/support/checkpoint_writer.h"
#include "tests/support/family_cases.h"

namespace paceline {
namespace {

using test::FamilyCase;
using test::ModelRig;

/// The case's config with heads of `head_dim`, all else in proportion, and at most four layers.
nlohmann::json widened(nlohmann::json config, int head_dim) {
  for (auto& [key, value] : config.items()) {
    if (key == "hidden_size" || key == "n_embd") value = 4 * head_dim;
    if (key == "intermediate_size" || key == "ffn_hidden_size" || key == "n_inner") value = 6 * head_dim;
    if (key == "head_dim" || key == "query_pre_attn_scalar") value = head_dim;
    if (key == "max_position_embeddings" || key == "n_positions") value = 256;
    if (key == "num_hidden_layers" && value > 4) value = 4;
    if (key == "vocab_size") value = 150;
  }
  return config;
}

class WideFamily : public testing::TestWithParam<FamilyCase> {
 protected:
  static constexpr int kLength = 200;

  /// In nats, the mean over the rows: KL divergence of b's next tokens from a's. a, b: [rows * vocab_size].
  static double mean_kl(const std::vector<float>& a, const std::vector<float>& b, int vocab_size) {
    double sum = 0;
    for (size_t row = 0; row < a.size(); row += size_t(vocab_size)) {
      std::vector<double> want(a.begin() + long(row), a.begin() + long(row) + vocab_size);
      std::vector<double> ours(b.begin() + long(row), b.begin() + long(row) + vocab_size);
      test::normalise_logits(want);
      test::normalise_logits(ours);
      for (size_t id = 0; id < want.size(); ++id) sum += std::exp(want[id]) * (want[id] - ours[id]);
    }
    return sum * vocab_size / double(a.size());
  }
};

TEST_P(WideFamily, SameOnCudaInAllChunks) {
  if (num_cuda_devices() == 0) GTEST_SKIP() << "no CUDA device here";
  for (const int head_dim : {64, 128}) {
    const test::TempDir dir;
    test::write_random_model(dir / "model", widened(GetParam().config, head_dim));
    test::ModelRigOptions options{.folder = (dir / "model").string(), .threads = 2, .dtype = DType::bf16};
    ModelRig cpu(options);
    const int vocab_size = cpu.spec().vocab_size;
    const auto tokens = test::sample_text(kLength, vocab_size);
    const auto want = cpu.run({{tokens, cpu.pages(kLength), 0, kLength}});
    options.device = "cuda";
    ModelRig rig(options);
    const auto whole = rig.run({{tokens, rig.pages(kLength), 0, kLength}});
    EXPECT_LE(mean_kl(want, whole, vocab_size), 1e-3) << "heads of " << head_dim;
    for (const int chunk : {97, 40, 20, 5, 1}) {
      for (int begin = 0; begin < kLength; begin += chunk) {
        const int end = std::min(kLength, begin + chunk);
        const auto logits = rig.run({{tokens, rig.pages(kLength), begin, end}});
        ASSERT_EQ(test::first_difference(whole, begin, logits, vocab_size), -1)
            << "rows from " << begin << " in chunks of " << chunk << ", heads of " << head_dim;
      }
      const auto last = rig.run({{tokens, rig.pages(kLength), kLength - chunk, kLength}}, true);
      ASSERT_EQ(test::first_difference(whole, kLength - 1, last, vocab_size), -1) << "the last row alone";
    }
  }
}

/// Those whose config keeps its meaning at other widths: not factors of one number for each pair of a head's.
std::vector<FamilyCase> wide_cases() {
  auto cases = test::family_cases();
  std::erase_if(cases, [](const FamilyCase& each) { return each.name == "phi3_longrope"; });
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Families, WideFamily, testing::ValuesIn(wide_cases()),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace paceline
