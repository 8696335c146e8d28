// Ranks on GPUs: sums along the rank tree, and a rank that stays away.

#include "engine/comm/nccl_comm.h"

#include <gtest/gtest.h>

#include "engine/comm/rank_team.h"
#include "kernels/cuda/cuda_backend.h"

namespace paceline {
namespace {

class NcclComm : public testing::Test {
 protected:
  void SetUp() override {
    if (num_cuda_devices() < 2 || !has_nccl()) GTEST_SKIP() << "fewer than two CUDA devices, or no NCCL here";
  }
  static TeamOptions options(int tp, int pp, double timeout_s = 60.0) {
    TeamOptions team{.placement = {.tp = tp, .pp = pp}, .timeout_s = timeout_s};
    for (int rank = 0; rank < tp * pp; ++rank) team.placement.devices.push_back(fmt::format("cuda:{}", rank));
    return team;
  }
};

struct Rows {
  Backend& backend;
  MatView view;
  Rows(Backend& owner, int rows, int cols, float first) : backend(owner) {
    std::vector<float> values(size_t(rows) * size_t(cols));
    for (size_t i = 0; i < values.size(); ++i) values[i] = first + float(i) * 0.1f;
    auto* const data = static_cast<float*>(backend.alloc(values.size() * sizeof(float)));
    backend.upload(data, values.data(), values.size() * sizeof(float));
    view = f32_view(data, rows, cols);
  }
  ~Rows() { backend.free(view.data); }
  std::vector<float> read() { return download_rows(backend, view, view.cols); }
};

TEST_F(NcclComm, SumsGathersAndSends) {
  RankTeam team(options(2, 1));
  for (const auto& [rows, cols] : {std::pair{1, 7}, {6, 512}, {300, 1000}}) {
    team.run_on_all([&, num_rows = rows, num_cols = cols](Rank& rank) {
      Rows x(*rank.backend, num_rows, num_cols, float(rank.shard) + 0.3f);
      rank.shards->all_reduce(x.view);
      const std::vector<float> sum = x.read();
      for (size_t i = 0; i < sum.size(); ++i)
        EXPECT_EQ(sum[i], (0.3f + float(i) * 0.1f) + (1.3f + float(i) * 0.1f)) << "rank " << rank.index << " " << i;

      Rows part(*rank.backend, num_rows, num_cols, float(100 * rank.shard));
      Rows all(*rank.backend, num_rows, 2 * num_cols, -1.0f);
      rank.shards->gather_columns(part.view, rank.shard == 0 ? all.view : MatView{}, 0);
      if (rank.shard == 0) {
        const std::vector<float> got = all.read();
        for (int row = 0; row < num_rows; ++row)
          for (int col = 0; col < 2 * num_cols; ++col)
            EXPECT_EQ(got[size_t(row * 2 * num_cols + col)],
                      float(col / num_cols * 100) + float(row * num_cols + col % num_cols) * 0.1f);
      }

      Rows message(*rank.backend, num_rows, num_cols, rank.shard == 0 ? 5.0f : 0.0f);
      if (rank.shard == 0)
        rank.world->send(message.view, 1);
      else
        rank.world->recv(message.view, 0);
      EXPECT_EQ(message.read().back(), 5.0f + float(num_rows * num_cols - 1) * 0.1f);
    });
  }
}

TEST_F(NcclComm, ARankThatStaysAwayIsAnError) {
  for (const auto& [throws, num_cols] : {std::pair{false, 16}, {true, 16}, {false, 100'000}, {true, 100'000}}) {
    RankTeam team(options(2, 1, 3.0));
    try {
      team.run_on_all([&, fails = throws, cols = num_cols](Rank& rank) {
        if (rank.shard == 1) {
          if (fails) fail(ExitCode::usage, "planted");
          return;
        }
        Rows x(*rank.backend, 4, cols, 0.0f);  // by peer memory, or by NCCL
        rank.shards->all_reduce(x.view);
        x.read();
      });
      ADD_FAILURE() << "no error, throws " << throws;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), throws ? ExitCode::usage : ExitCode::comm) << error.what();
    }
  }
}

}  // namespace
}  // namespace paceline
