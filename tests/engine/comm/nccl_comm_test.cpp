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

// The sum that a norm carries out has the bits of a sum and a norm, message after message.
TEST_F(NcclComm, SumsWithinNorms) {
  RankTeam team(options(2, 1));
  for (const auto& [num_rows, num_cols] : {std::pair{1, 64}, {6, 2048}, {3, 4096}, {8, 8192}, {1, 5000}, {2, 9000}}) {
    team.run_on_all([&, rows = num_rows, cols = num_cols](Rank& rank) {
      Rows weight(*rank.backend, 1, cols, 0.5f);
      for (int message = 0; message < 20; ++message) {
        const float first = float(rank.shard) + float(message);
        Rows x(*rank.backend, rows, cols, first), residual(*rank.backend, rows, cols, 0.25f),
            out(residual.backend, rows, cols, 0);
        const auto normed = [&](const PeerSum* sum) {
          rank.backend->norm({.residual = residual.view,
                              .delta = x.view,
                              .sum = sum,
                              .weight = weight.view.f32_row(0),
                              .out = out.view});
          std::vector<float> both = residual.read();
          const std::vector<float> normed_rows = out.read();
          both.insert(both.end(), normed_rows.begin(), normed_rows.end());
          return both;
        };
        const PeerSum* const sum = rank.shards->next_sum(x.view);
        EXPECT_EQ(sum == nullptr, cols > 8192) << cols;
        if (!sum) rank.shards->all_reduce(x.view);
        const std::vector<float> together = normed(sum);
        Rows again(*rank.backend, rows, cols, first), start(*rank.backend, rows, cols, 0.25f);
        rank.shards->all_reduce(again.view);
        std::swap(x.view, again.view);
        std::swap(residual.view, start.view);
        EXPECT_EQ(together, normed(nullptr)) << "rank " << rank.index << " " << rows << " x " << cols;
      }
    });
  }
}

// The product that makes a part hands it over itself, in a pass or not; the bits are those of a product, a sum and a
// norm.
TEST_F(NcclComm, ProductsHandTheirPartsOver) {
  RankTeam team(options(2, 1));
  for (const auto& [num_rows, num_cols] : {std::pair{1, 64}, {6, 2048}, {17, 1024}, {40, 512}, {100, 512}, {8, 8192}}) {
    team.run_on_all([&, rows = num_rows, cols = num_cols](Rank& rank) {
      constexpr int kInputs = 256;
      std::vector<float> values(size_t(cols) * kInputs);
      for (size_t i = 0; i < values.size(); ++i) values[i] = float(int(i * 2654435761u % 1000) - 500) * 0.001f;
      const Weight w = rank.backend->pack(std::vector{HostWeight{values.data(), DType::f32, cols, kInputs, kInputs}},
                                          {.k_chunks = 4});
      Rows norm_weight(*rank.backend, 1, cols, 0.5f);
      enum class Way { apart, together, in_pass, apart_in_pass };
      for (int message = 0; message < 9; ++message) {
        Rows x(*rank.backend, rows, kInputs, float(rank.shard) + float(message)), y(x.backend, rows, cols, 0);
        const auto normed = [&](Way way) {
          Rows residual(*rank.backend, rows, cols, 0.25f), out(residual.backend, rows, cols, 0);
          const auto give_out = [&] {
            const bool apart = way == Way::apart || way == Way::apart_in_pass;
            const PeerSum* const sum = apart ? nullptr : rank.shards->next_sum(y.view);
            EXPECT_TRUE(apart || sum);
            rank.backend->gemm({.x = x.view, .w = w.get(), .y = y.view, .sum = sum});
            if (apart) rank.shards->all_reduce(y.view);
            rank.backend->norm({.residual = residual.view,
                                .delta = y.view,
                                .sum = sum,
                                .weight = norm_weight.view.f32_row(0),
                                .out = out.view});
          };
          if (way == Way::in_pass ||
              way == Way::apart_in_pass)  // two sums, the second of which must find the residual of the first
            rank.backend->run(uint64_t(way) * 1000 + uint64_t(rows), [&] { give_out(), give_out(); });
          else
            give_out(), give_out();
          return out.read();
        };
        const std::vector<float> apart = normed(Way::apart);
        EXPECT_EQ(normed(Way::together), apart) << "rank " << rank.index << " " << rows << " x " << cols;
        EXPECT_EQ(normed(Way::apart_in_pass), apart) << "rank " << rank.index << " " << rows << " x " << cols;
        EXPECT_EQ(normed(Way::in_pass), apart) << "rank " << rank.index << " " << rows << " x " << cols;
      }
    });
  }
}

// One after another, on either rank, small ones by peer memory and large ones by NCCL.
TEST_F(NcclComm, GathersAgainAndAgain) {
  RankTeam team(options(2, 1));
  team.run_on_all([](Rank& rank) {
    for (int gather = 0; gather < 40; ++gather) {
      const int root = gather % 3 == 0, rows = gather % 5 + 1, cols = gather == 7 ? 600'000 : 1 + gather * 977;
      Rows part(*rank.backend, rows, cols, float(gather + 1000 * rank.shard));
      Rows all(*rank.backend, rows, 2 * cols, -1.0f);
      rank.shards->gather_columns(part.view, rank.shard == root ? all.view : MatView{}, root);
      if (rank.shard != root) continue;
      const std::vector<float> got = all.read();
      for (int row = 0; row < rows; ++row)
        for (int col = 0; col < 2 * cols; ++col)
          ASSERT_EQ(got[size_t(row) * 2 * size_t(cols) + size_t(col)],
                    float(gather + col / cols * 1000) + float(row * cols + col % cols) * 0.1f)
              << "gather " << gather << " row " << row << " column " << col;
    }
  });
}

TEST_F(NcclComm, ARankThatStaysAwayIsAnError) {
  for (const auto& [throws, num_cols, in_norm] : {std::tuple{false, 16, false},
                                                  {true, 16, false},
                                                  {false, 16, true},
                                                  {true, 16, true},
                                                  {false, 100'000, false},
                                                  {true, 100'000, false}}) {
    RankTeam team(options(2, 1, 3.0));
    try {
      team.run_on_all([&, fails = throws, cols = num_cols, norm = in_norm](Rank& rank) {
        if (rank.shard == 1) {
          if (fails) fail(ExitCode::usage, "planted");
          return;
        }
        Rows x(*rank.backend, 4, cols, 0.0f);  // by peer memory, or by NCCL
        if (norm)
          rank.backend->norm({.residual = x.view, .delta = x.view, .sum = rank.shards->next_sum(x.view)});
        else
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
