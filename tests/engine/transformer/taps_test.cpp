// The residual that enters a layer: that of a model of the layers before, the same bits however it is computed, and on
// the deciding rank whichever stage has the layer.

#include <gtest/gtest.h>

#include "engine/comm/work_scope.h"
#include "model_rig.h"
#include "tests/support/checkpoint_writer.h"
#include "tests/support/family_cases.h"
#include "tests/support/reference_model.h"

namespace paceline {
namespace {

using namespace test;

constexpr int kLength = 60;
constexpr int kChunk = 23;

using Rows = std::vector<std::vector<float>>;  // [taps][rows * hidden]

std::vector<int> all_taps(const std::string& folder) {
  std::vector<int> taps(size_t(load_model_spec(source_path(folder)).num_layers) + 1);
  std::iota(taps.begin(), taps.end(), 0);
  return taps;
}

struct Found {
  Rows taps;
  std::vector<float> logits;
};

void append(std::vector<float>& to, const std::vector<float>& more) { to.insert(to.end(), more.begin(), more.end()); }

/// The text in chunks of at most `chunk` rows.
Found run_text(const ModelRigOptions& options, int chunk, bool last_only = false) {
  ModelRig rig(options);
  const std::vector<int32_t> tokens = sample_text(kLength, rig.spec().vocab_size);
  Found found{.taps = Rows(options.taps.size()), .logits = {}};
  for (int begin = 0; begin < kLength; begin += chunk) {
    append(found.logits, rig.run({{tokens, rig.pages(kLength), begin, std::min(kLength, begin + chunk)}}, last_only));
    const Rows taps = rig.taps();
    for (size_t i = 0; i < taps.size(); ++i) append(found.taps[i], taps[i]);
  }
  return found;
}

/// All ways to compute them; `folder` has a model of at least two layers.
void check_taps(const std::string& folder) {
  ModelRigOptions options{.folder = folder, .dtype = DType::f32, .taps = all_taps(folder)};
  const int num_layers = options.taps.back();
  const Found whole = run_text(options, kLength);
  for (int layer = 0; layer < num_layers; ++layer)
    EXPECT_NE(whole.taps[size_t(layer)], whole.taps[size_t(layer) + 1]) << layer;

  ModelRigOptions plain = options;
  plain.taps.clear();
  EXPECT_EQ(run_text(plain, kLength).logits, whole.logits);

  EXPECT_EQ(run_text(options, kChunk).taps, whole.taps);
  EXPECT_EQ(run_text(options, kLength, true).taps, whole.taps);  // though the last layer looks at one row only
  for (int layer = 1; layer < num_layers; ++layer) {
    ModelRigOptions cut = options;
    cut.num_layers = layer;
    cut.taps = {layer};
    EXPECT_EQ(run_text(cut, kLength).taps.front(), whole.taps[size_t(layer)]) << layer << " layers";
  }
  for (const auto& [tp, pp] : {std::pair{2, 1}, {1, 2}, {2, 2}}) {
    ModelRigOptions ranks = options;
    ranks.tp = tp;
    ranks.pp = pp;
    const Found found = run_text(ranks, kChunk);
    EXPECT_EQ(found.taps, whole.taps) << "tp " << tp << " pp " << pp;
    EXPECT_EQ(found.logits, whole.logits) << "tp " << tp << " pp " << pp;
    ranks.taps = {1};  // of the first stage
    EXPECT_EQ(run_text(ranks, kChunk, true).taps.front(), whole.taps[1]) << "tp " << tp << " pp " << pp;
  }
}

class FamilyTaps : public testing::TestWithParam<FamilyCase> {};

TEST_P(FamilyTaps, AreTheResidualOnTheDecidingRank) {
  const TempDir dir;
  write_random_model(dir.path(), GetParam().config);
  check_taps(dir.path().string());
}

INSTANTIATE_TEST_SUITE_P(Architectures, FamilyTaps, testing::ValuesIn(one_case_a_family()),
                         [](const auto& param) { return param.param.name; });

TEST(Taps, OfTrainedModelsAreThoseOfTheReference) {
  for (const std::string folder : {"configs/models/target-7m", "tests/data/llama-linear-rope-bias"}) {
    SCOPED_TRACE(folder);
    check_taps(folder);
    const Checkpoint checkpoint = Checkpoint::open(source_path(folder));
    const ModelSpec spec = load_model_spec(source_path(folder));
    const ReferenceModel reference(checkpoint, spec);
    const std::vector<int32_t> tokens = sample_text(kLength, spec.vocab_size);
    const Rows found = run_text({.folder = folder, .dtype = DType::f32, .taps = all_taps(folder)}, kLength).taps;
    for (int layer = 0; layer <= spec.num_layers; ++layer) {
      const Matrix want = reference.residual(tokens, layer);
      double worst = 0;
      for (long i = 0; i < want.size(); ++i)
        worst = std::max(worst, std::abs(want.data()[i] - double(found[size_t(layer)][size_t(i)])));
      EXPECT_LT(worst, 1e-4 * (1 + want.cwiseAbs().maxCoeff())) << layer;
    }
  }
}

// A stage hands on what it has of the stages before; shards but the first keep nothing.
TEST(Taps, AreSharedOut) {
  const ModelSpec spec = load_model_spec(source_path("configs/models/target-7m"));
  const auto stages = split_layers(spec, 2);
  const int second = stages[1].first, last = spec.num_layers;
  const std::vector<int> taps = {1, second, last};
  const auto share = [&](int stage, int shard) {
    const TapShare found = tap_share(spec, {.stage = stage, .num_stages = 2, .shard = shard, .tp = 2}, taps);
    return std::pair(found.before, found.count);
  };
  EXPECT_EQ(share(0, 0), std::pair(0, 1));
  EXPECT_EQ(share(1, 0), std::pair(1, 3));
  EXPECT_EQ(share(0, 1), std::pair(0, 0));
  EXPECT_EQ(share(1, 1), std::pair(0, 0));

  const ModelRank first{.stage = 0, .num_stages = 2, .shard = 0, .tp = 1};
  const size_t row = sizeof(float) * size_t(spec.hidden_size);
  EXPECT_EQ(comm_bytes(spec, first, 10, 1, taps) - comm_bytes(spec, first, 10, 1), 10 * row);
  TransformerOptions options{.max_num_rows = 10};
  const size_t without = workspace_bytes(spec, options, first);
  options.taps = taps;
  EXPECT_EQ(workspace_bytes(spec, options, first) - without, 10 * row);
}

// Messages of a batch, counted by the communicator: what comm_bytes says, and no more.
TEST(Taps, TravelWithTheResidual) {
  for (const auto& [tp, pp] : {std::pair{1, 2}, {2, 2}, {2, 1}}) {
    const std::string folder = "configs/models/target-7m";
    ModelRig rig(
        {.folder = folder, .tp = tp, .pp = pp, .taps = {0, 3, load_model_spec(source_path(folder)).num_layers}});
    const std::vector<int32_t> tokens = sample_text(kLength, rig.spec().vocab_size);
    std::vector<uint64_t> before;
    for (int rank = 0; rank < tp * pp; ++rank) before.push_back(comm_stats(rig.team().rank(rank)).bytes);
    rig.run({{tokens, rig.pages(kLength), 0, kLength}}, true);
    rig.team().wait_all();
    for (int rank = 0; rank < tp * pp; ++rank) {
      const ModelRank place{.stage = rank / tp, .num_stages = pp, .shard = rank % tp, .tp = tp};
      const std::vector<int> taps = {0, 3, rig.spec().num_layers};
      EXPECT_EQ(comm_stats(rig.team().rank(rank)).bytes - before[size_t(rank)],
                comm_bytes(rig.spec(), place, kLength, 1, taps))
          << "tp " << tp << " pp " << pp << " rank " << rank;
    }
  }
}

}  // namespace
}  // namespace paceline
