#include "engine/comm/rank_team.h"

#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "engine/comm/work_scope.h"
#include "kernels/cpu/cores.h"

namespace paceline {
namespace {

using Clock = std::chrono::steady_clock;

TeamOptions team_options(int tp, int pp, double timeout_s = 30.0) {
  return {.placement = {.devices = {}, .tp = tp, .pp = pp}, .timeout_s = timeout_s};
}

TEST(RankTeam, LaysRanksOutByStageAndShard) {
  RankTeam team(team_options(2, 2));
  EXPECT_EQ(team.num_ranks(), 4);
  EXPECT_EQ(team.deciding_rank(), 2);
  EXPECT_EQ(team.oversubscribed(), usable_cores() < 4);
  for (int index = 0; index < 4; ++index) {
    Rank& rank = team.rank(index);
    EXPECT_EQ(rank.index, index);
    EXPECT_EQ(rank.stage, index / 2);
    EXPECT_EQ(rank.shard, index % 2);
    EXPECT_EQ(rank.world->size(), 4);
    EXPECT_EQ(rank.world->rank(), index);
    EXPECT_EQ(rank.shards->size(), 2);
    EXPECT_EQ(rank.shards->rank(), index % 2);
    EXPECT_EQ(rank.alone->size(), 1);
    EXPECT_NE(rank.backend, nullptr);
  }
}

TEST(RankTeam, JobsRunInOrderOnEachRank) {
  for (const auto& [tp, pp] : {std::pair{1, 1}, {2, 1}, {1, 2}, {2, 2}}) {
    RankTeam team(team_options(tp, pp));
    std::vector<std::vector<int>> seen(size_t(team.num_ranks()));
    std::vector<int> posted(size_t(team.num_ranks()), 0);
    std::mt19937 random(5);
    uint64_t deciding_job = 0;
    for (int i = 0; i < 400; ++i) {
      const int rank = int(random() % unsigned(team.num_ranks()));
      const int number = posted[size_t(rank)]++;
      const uint64_t job = team.post(rank, [&seen, number](Rank& mine) { seen[size_t(mine.index)].push_back(number); });
      if (rank == team.deciding_rank()) deciding_job = job;
      if (random() % 50 == 0) team.wait_deciding(deciding_job);
    }
    team.wait_all();
    for (int rank = 0; rank < team.num_ranks(); ++rank) {
      ASSERT_EQ(int(seen[size_t(rank)].size()), posted[size_t(rank)]);
      for (int i = 0; i < posted[size_t(rank)]; ++i) ASSERT_EQ(seen[size_t(rank)][size_t(i)], i);
    }
  }
}

// The deciding rank's jobs run inside wait, on the caller's thread, no further than asked.
TEST(RankTeam, DecidingRankRunsOnTheCaller) {
  RankTeam team(team_options(1, 2));
  int ran = 0;
  std::thread::id where;
  const auto job = [&](Rank&) {
    ++ran;
    where = std::this_thread::get_id();
  };
  const uint64_t first = team.post(1, job);
  team.post(1, job);
  const uint64_t third = team.post(1, job);
  EXPECT_EQ(ran, 0);
  team.wait_deciding(first);
  EXPECT_EQ(ran, 1);
  EXPECT_EQ(where, std::this_thread::get_id());
  team.run_inline([&](Rank& rank) {
    EXPECT_EQ(rank.index, 1);
    ran += 10;
  });
  EXPECT_EQ(ran, 11);  // ahead of the two that still wait
  team.wait_deciding(third);
  EXPECT_EQ(ran, 13);
  team.wait_deciding(first);  // long done
  EXPECT_EQ(ran, 13);
}

TEST(RankTeam, CollectivesBetweenJobs) {
  for (const auto& [tp, pp] : {std::pair{2, 1}, {4, 1}, {2, 2}, {1, 4}, {2, 4}}) {  // up to 8 ranks on few cores
    RankTeam team(team_options(tp, pp));
    const int size = team.num_ranks();
    for (int round = 0; round < 50; ++round) {
      team.run_on_all([&](Rank& rank) {
        float x = float(rank.index + round);
        rank.world->all_reduce(f32_view(&x, 1, 1));
        if (x != float(size * round + size * (size - 1) / 2)) fail(ExitCode::comm, "world sum {}", x);
        x = 1.0f;
        rank.shards->all_reduce(f32_view(&x, 1, 1));
        if (x != float(rank.world->size() / team.options().placement.pp)) fail(ExitCode::comm, "shard sum {}", x);
      });
    }
    for (int index = 0; index < size; ++index) EXPECT_GT(team.rank(index).busy_s, 0.0);
  }
}

TEST(WorkScope, WaitsForOtherRanksAreNoWork) {
  RankTeam team(team_options(2, 1));
  constexpr auto kLate = std::chrono::milliseconds(60);
  team.run_on_all([&](Rank& rank) {
    const WorkScope work(rank, WorkKind::target);
    if (rank.index == 0) std::this_thread::sleep_for(kLate);
    rank.shards->barrier();
    rank.world->barrier();
  });
  const std::chrono::duration<double> late = kLate;
  EXPECT_GE(team.rank(0).backend->work(WorkKind::target).seconds, late.count());
  EXPECT_LT(team.rank(1).backend->work(WorkKind::target).seconds, 0.5 * late.count());
  EXPECT_EQ(team.rank(0).backend->work(WorkKind::draft).seconds, 0.0);
  EXPECT_GE(comm_stats(team.rank(1)).collective_wait_s, 0.5 * late.count());
}

// Micro-batches through stages: the caller posts ahead and then waits for them one by one.
TEST(RankTeam, PipelineOfPostedJobs) {
  RankTeam team(team_options(1, 3));
  std::vector<uint64_t> tickets;
  std::vector<float> arrived;
  for (int i = 0; i < 40; ++i) {
    team.post(0, [i](Rank& rank) {
      float x = float(i);
      rank.world->send(f32_view(&x, 1, 1), 1);
    });
    team.post(1, [](Rank& rank) {
      float x = 0;
      rank.world->recv(f32_view(&x, 1, 1), 0);
      x *= 2;
      rank.world->send(f32_view(&x, 1, 1), 2);
    });
    tickets.push_back(team.post(2, [&arrived](Rank& rank) {
      float x = 0;
      rank.world->recv(f32_view(&x, 1, 1), 1);
      arrived.push_back(x);
    }));
    if (i >= 3) team.wait_deciding(tickets[size_t(i - 3)]);
  }
  team.wait_all();
  for (int i = 0; i < 40; ++i) ASSERT_EQ(arrived[size_t(i)], float(2 * i));
}

TEST(RankTeam, AnErrorWakesTheOthersAndIsTheOneRethrown) {
  for (int guilty = 0; guilty < 4; ++guilty) {
    RankTeam team(team_options(2, 2, 30.0));
    const auto start = Clock::now();
    std::string text;
    try {
      team.run_on_all([&](Rank& rank) {
        if (rank.index == guilty) {
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
          fail(ExitCode::model_file, "shard {} is broken", rank.index);
        }
        rank.world->barrier();
      });
    } catch (const Error& error) {
      text = error.what();
      EXPECT_EQ(error.code(), ExitCode::model_file);
    }
    EXPECT_EQ(text, fmt::format("shard {} is broken", guilty));
    EXPECT_LT(Clock::now() - start, std::chrono::seconds(2));
    // final: every later call says the same
    EXPECT_THROW(team.post(0, [](Rank&) {}), Error);
    EXPECT_THROW(team.wait_all(), Error);
    EXPECT_THROW(team.run_inline([](Rank&) {}), Error);
  }
}

TEST(RankTeam, AForeignExceptionTravelsToo) {
  RankTeam team(team_options(2, 1));
  EXPECT_THROW(team.run_on_all([](Rank& rank) {
    if (rank.index == 1) throw std::bad_alloc();
    rank.world->barrier();
  }),
               std::bad_alloc);
}

/// Two stages: the first works on its piece, then sends; the deciding rank receives.
double run_stages(RankTeam& team, const std::function<void(Rank&)>& work) {
  const auto start = Clock::now();
  team.post(0, [work](Rank& rank) {  // which may outlive this call
    work(rank);
    float x = 2.0f;
    rank.world->send(f32_view(&x, 1, 1), 1);
  });
  const uint64_t last = team.post(1, [](Rank& rank) {
    float x = 0.0f;
    rank.world->recv(f32_view(&x, 1, 1), 0);
    PACELINE_CHECK(x == 2.0f, "{}", x);
  });
  team.wait_deciding(last);
  return std::chrono::duration<double>(Clock::now() - start).count();
}

TEST(RankTeam, AStageThatWorksThreeTimesTheTimeoutInMarkedPiecesFinishes) {
  constexpr double kTimeout_s = 0.4;
  RankTeam team(team_options(1, 2, kTimeout_s));
  const double took = run_stages(team, [](Rank& rank) {
    for (int layer = 0; layer < 12; ++layer) {
      rank.mark({.step = 1, .layer = layer});
      std::this_thread::sleep_for(std::chrono::duration<double>(kTimeout_s / 4));
    }
  });
  EXPECT_GE(took, 3 * kTimeout_s);
}

TEST(RankTeam, AStageThatStopsEndsTheRunWithinTheTimeout) {
  constexpr double kTimeout_s = 0.4;
  std::atomic<bool> ends{false};
  RankTeam team(team_options(1, 2, kTimeout_s));
  const auto start = Clock::now();
  double took = 0.0;
  try {
    run_stages(team, [&](Rank& rank) {
      rank.mark({.step = 5, .layer = 2});
      while (!ends) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    });
    FAIL() << "no error";
  } catch (const Error& error) {
    took = std::chrono::duration<double>(Clock::now() - start).count();
    EXPECT_EQ(error.code(), ExitCode::comm);
    for (const char* piece : {"rank 1: recv 1", "rank 0", "0.4 s", "step 5, layer 2"})
      EXPECT_NE(std::string(error.what()).find(piece), std::string::npos) << error.what();
  }
  ends = true;
  EXPECT_GE(took, kTimeout_s);
  EXPECT_LT(took, kTimeout_s + 5);
}

// Many short jobs make the marks that one long job would have to make itself.
TEST(RankTeam, EachJobIsAMark) {
  constexpr double kTimeout_s = 0.4;
  RankTeam team(team_options(2, 1, kTimeout_s));
  for (int i = 0; i < 12; ++i)
    team.post(1, [](Rank&) { std::this_thread::sleep_for(std::chrono::duration<double>(kTimeout_s / 4)); });
  EXPECT_NO_THROW(team.run_on_all([](Rank& rank) { rank.world->barrier(); }));
}

// The caller may free what the job uses as soon as the call has thrown: no rank may still be inside it.
TEST(RankTeam, NoJobRunsOnAfterTheErrorIsOut) {
  for (int round = 0; round < 20; ++round) {
    RankTeam team(team_options(4, 1));
    std::atomic<int> inside{0};
    EXPECT_THROW(team.run_on_all([&](Rank& rank) {
      ++inside;
      if (rank.index == round % 4) {
        --inside;
        fail(ExitCode::device, "rank {}", rank.index);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(3));
      --inside;
    }),
                 Error);
    EXPECT_EQ(inside.load(), 0);
  }
}

// After an error of one rank the others may take their time, as long as they make marks.
TEST(RankTeam, ARankThatComesOutLateIsWaitedFor) {
  constexpr double kTimeout_s = 0.4;
  std::atomic<bool> is_in{false}, is_out{false};
  RankTeam team(team_options(1, 2, kTimeout_s));
  team.post(0, [&](Rank& rank) {
    is_in = true;
    for (int layer = 0; layer < 16; ++layer) {
      rank.mark({.step = 1, .layer = layer});
      std::this_thread::sleep_for(std::chrono::duration<double>(kTimeout_s / 4));
    }
    is_out = true;
  });
  const uint64_t last = team.post(1, [&](Rank&) {
    while (!is_in) std::this_thread::yield();  // or the job would be dropped
    fail(ExitCode::device, "broken");
  });
  EXPECT_THROW(team.wait_deciding(last), Error);
  EXPECT_THROW(team.wait_all(), Error);
  EXPECT_TRUE(is_out);
  EXPECT_FALSE(team.has_lost_rank());
}

/// What a test's rank is stuck in, until the test ends it.
struct StuckWork {
  std::atomic<bool> ends{false};
  void run() const {
    while (!ends) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
};

/// Lets the rank go, and waits until its thread has given back what it holds.
void release(const std::shared_ptr<StuckWork>& work) {
  work->ends = true;
  for (int i = 0; i < 1000 && work.use_count() > 1; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(work.use_count(), 1);
}

TEST(RankTeam, ALostRankHoldsUpNobodyAndKeepsWhatItUses) {
  constexpr double kTimeout_s = 0.4;
  const auto work = std::make_shared<StuckWork>();
  const auto start = Clock::now();
  {
    RankTeam team(team_options(1, 2, kTimeout_s));
    EXPECT_FALSE(team.has_lost_rank());
    EXPECT_THROW(run_stages(team, [work](Rank&) { work->run(); }), Error);
    EXPECT_THROW(team.wait_all(), Error);
    EXPECT_TRUE(team.has_lost_rank());
  }
  EXPECT_LT(Clock::now() - start, std::chrono::duration<double>(kTimeout_s + 5));
  EXPECT_EQ(work.use_count(), 2);
  release(work);
}

TEST(RankTeam, TheEndOfJobsIsAWaitForRanksToo) {
  constexpr double kTimeout_s = 0.4;
  const auto work = std::make_shared<StuckWork>();
  {
    RankTeam team(team_options(2, 1, kTimeout_s));
    team.post(1, [work](Rank& rank) {
      rank.mark({.step = 3, .layer = 7});
      work->run();
    });
    const auto start = Clock::now();
    try {
      team.post_on_all([](Rank&) {});
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::comm);
      for (const char* piece : {"the engine waits for rank 1", "no mark for 0.4 s", "step 3, layer 7"})
        EXPECT_NE(std::string(error.what()).find(piece), std::string::npos) << error.what();
    }
    const std::chrono::duration<double> took = Clock::now() - start;
    EXPECT_GE(took.count(), kTimeout_s);
    EXPECT_LT(took.count(), kTimeout_s + 5);
    EXPECT_TRUE(team.has_lost_rank());
  }
  release(work);
}

// make_backend fails on every rank: the constructor throws, it does not end the process.
TEST(RankTeam, ABadDeviceIsAnErrorOfTheConstructor) {
  TeamOptions options = team_options(2, 2);
  options.placement.devices = {"abacus:0", "abacus:1", "abacus:2", "abacus:3"};
  try {
    RankTeam team(options);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("abacus"), std::string::npos) << error.what();
  }
}

// What a job owns may need the ranks' backends, which go with the team.
TEST(RankTeam, JobsBehindAnErrorGoWithWhatTheyOwn) {
  RankTeam team(team_options(2, 1));
  auto owned = std::make_shared<int>(1);
  const std::weak_ptr<int> seen = owned;
  team.post(team.deciding_rank(), [](Rank&) { fail(ExitCode::comm, "broken"); });
  team.post(team.deciding_rank(), [owned](Rank&) {});
  owned.reset();
  EXPECT_THROW(team.wait_all(), Error);
  EXPECT_TRUE(seen.expired());
}

TEST(RankTeam, DestroyedWithJobsThatNobodyWaitedFor) {
  std::atomic<int> ran{0};
  {
    RankTeam team(team_options(3, 1));
    for (int i = 0; i < 10; ++i) {
      for (int rank = 0; rank < 3; ++rank) team.post(rank, [&ran](Rank&) { ++ran; });
    }
  }
  EXPECT_GE(ran.load(), 20);  // the threads' own; the deciding rank's may be dropped
}

}  // namespace
}  // namespace paceline
