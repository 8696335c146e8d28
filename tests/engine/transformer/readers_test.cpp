// Ops may leave unwritten what only the next product reads (GemmArgs::reader): in every family the next product is that
// one.

#include "model_rig.h"
#include "tests/support/checkpoint_writer.h"
#include "tests/support/family_cases.h"
#include "tests/support/recording_backend.h"

namespace paceline {
namespace {

using test::FamilyCase;

/// Computes nothing, and looks at what reads what.
class ReaderWatch : public test::RecordingBackend {
 public:
  void gemm(const GemmArgs& args) override {
    look("a product", args.w, args.x.data);
    expect(args.reader, args.y);
  }
  void norm(const NormArgs& args) override { look("a norm", nullptr, args.residual.data); }
  void gather_rows(const GatherRowsArgs&) override { look("gathering", nullptr, nullptr); }
  void activation(const ActivationArgs& args) override { look("an activation", nullptr, args.x.data); }
  void attention(const AttentionArgs& args) override {
    look("attention", nullptr, args.q.data);
    expect(args.reader, args.out);
  }

  int num_readers = 0;

 private:
  void expect(const PackedWeight* reader, const MatView& rows) {
    reader_ = reader, rows_ = rows.data;
    num_readers += reader != nullptr;
  }
  void look(const char* op, const PackedWeight* weight, const void* rows) {
    const bool is_it = !reader_ || (weight == reader_ && rows == rows_);
    EXPECT_TRUE(is_it) << op << " comes before the product that was announced";
    reader_ = nullptr;
  }

  const PackedWeight* reader_ = nullptr;
  const void* rows_ = nullptr;
};

class Readers : public testing::TestWithParam<FamilyCase> {};

TEST_P(Readers, ComeNext) {
  const test::TempDir dir;
  test::write_random_model(dir / "model", GetParam().config);
  RankTeam team({.placement = {.devices = {"cpu"}, .tp = 1, .pp = 1}, .threads_per_rank = 1, .timeout_s = 60});
  ReaderWatch* watch = nullptr;
  std::unique_ptr<Backend> computes;  // what the team's communicators know
  team.run_on_all([&](Rank& rank) {
    auto watching = std::make_unique<ReaderWatch>();
    watch = watching.get();
    computes = std::exchange(rank.backend, std::move(watching));
  });
  const ModelSpec spec = load_model_spec(dir / "model");
  const SharedWeights weights = load_weights(Checkpoint::open(dir / "model"), spec, team, RankSet::all, DType::f32);
  const auto model = make_transformer(spec, weights, team,
                                      {.dtype = DType::f32,
                                       .num_blocks = 4,
                                       .num_host_blocks = 0,
                                       .block_size = 16,
                                       .max_num_seqs = 1,
                                       .max_num_rows = 16,
                                       .max_num_logit_rows = 16,
                                       .max_model_len = spec.max_position,
                                       .taps = {},
                                       .ranks = RankSet::all,
                                       .order = StreamOrder::in_order});
  const std::vector<int32_t> tokens = test::sample_text(9, spec.vocab_size), pages = {0};
  for (const int first_logit : {0, 8}) {  // all rows have logits; the last one alone
    auto batch = std::make_shared<Batch>();
    batch->step = uint64_t(1 + first_logit);
    add_rows(*batch, {.state = {.seq = 0, .cached = 0, .length = 9, .last_token = tokens.back()},
                      .tokens = tokens,
                      .pages = pages,
                      .block_size = 16,
                      .end = 9,
                      .reset = true});
    batch->logit_row.clear();
    for (int row = first_logit; row < 9; ++row) batch->logit_row.push_back(row);
    batch->digest = digest_of(batch->expected);
    model->launch(batch);
    model->wait(model->post([](Rank&) {}));
  }
  const bool is_parallel = spec.layer(0).block == BlockLayout::parallel;
  EXPECT_EQ(watch->num_readers == 0, is_parallel);
}

INSTANTIATE_TEST_SUITE_P(Families, Readers, testing::ValuesIn(test::family_cases()),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace paceline
