#include <chrono>
#include <cstring>
#include <random>

#include <gtest/gtest.h>

#include "group_threads.h"
#include "kernels/rank_marks.h"

namespace paceline {
namespace {

using Clock = std::chrono::steady_clock;
using test::RankError;
using test::run_group;

void expect_no_errors(const std::vector<RankError>& errors) {
  for (size_t rank = 0; rank < errors.size(); ++rank)
    EXPECT_FALSE(errors[rank].thrown) << rank << ": " << errors[rank].text;
}

/// What rank `rank` contributes at (row, col) of round `round`: magnitudes differ, so that the order of the sum shows.
float part(int round, int rank, int row, int col) {
  std::minstd_rand random(unsigned(1 + round * 7919 + rank * 104729 + row * 31 + col * 1299709));
  random.discard(2);
  const float value = float(random()) / 2147483648.0f - 0.5f;
  return std::ldexp(value, int(random() % 24) - 12);
}

/// The rank tree: neighbours in pairs, level by level, an odd one out moves up.
float tree(std::vector<float> level) {
  while (level.size() > 1) {
    std::vector<float> next;
    for (size_t i = 0; i + 1 < level.size(); i += 2) next.push_back(level[i] + level[i + 1]);
    if (level.size() % 2 == 1) next.push_back(level.back());
    level = next;
  }
  return level[0];
}

struct Shape {
  int rows, cols, gap;  // of what a root gathers: stride = all columns + gap
};

Shape shape_of(int round) {
  std::minstd_rand random(unsigned(round + 17));
  random.discard(3);
  if (round % 9 == 4) return {0, int(random() % 30), 2};
  return {int(random() % 7), 1 + int(random() % 67), int(random() % 3)};
}

void nap(std::mt19937& random) {
  if (random() % 16 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
}

class ThreadCommTest : public testing::TestWithParam<std::tuple<int, bool>> {
 protected:
  ThreadGroupOptions options() const {
    return {.size = std::get<0>(GetParam()), .timeout_s = 30.0, .may_spin = std::get<1>(GetParam())};
  }
};

TEST_P(ThreadCommTest, AllReduceFollowsTheRankTreeBitwise) {
  const int size = options().size;
  expect_no_errors(run_group(options(), [&](Communicator& comm) {
    std::mt19937 random(unsigned(comm.rank()));
    ASSERT_EQ(comm.size(), size);
    for (int round = 0; round < 300; ++round) {
      const Shape shape = shape_of(round);
      std::vector<float> data(size_t(shape.rows * shape.cols) + 1);
      for (int row = 0; row < shape.rows; ++row) {
        for (int col = 0; col < shape.cols; ++col)
          data[size_t(row * shape.cols + col)] = part(round, comm.rank(), row, col);
      }
      nap(random);
      comm.all_reduce(f32_view(data.data(), shape.rows, shape.cols));
      for (int row = 0; row < shape.rows; ++row) {
        for (int col = 0; col < shape.cols; ++col) {
          std::vector<float> parts;
          for (int rank = 0; rank < size; ++rank) parts.push_back(part(round, rank, row, col));
          const float want = tree(parts);
          ASSERT_EQ(std::memcmp(&data[size_t(row * shape.cols + col)], &want, sizeof(float)), 0)
              << "round " << round << " row " << row << " col " << col;
        }
      }
    }
  }));
}

TEST_P(ThreadCommTest, GatherColumnsInRankOrder) {
  const int size = options().size;
  expect_no_errors(run_group(options(), [&](Communicator& comm) {
    std::mt19937 random(unsigned(comm.rank()));
    for (int round = 0; round < 100; ++round) {
      const Shape shape = shape_of(round);
      const int root = round % size;
      std::vector<float> mine(size_t(shape.rows * shape.cols) + 1);
      for (int row = 0; row < shape.rows; ++row) {
        for (int col = 0; col < shape.cols; ++col)
          mine[size_t(row * shape.cols + col)] = part(round, comm.rank(), row, col);
      }
      const int out_stride = size * shape.cols + shape.gap;
      std::vector<float> all(size_t(shape.rows * out_stride) + 1, -7.0f);
      nap(random);
      const MatView out =
          comm.rank() == root ? f32_view(all.data(), shape.rows, size * shape.cols, out_stride) : MatView{};
      comm.gather_columns(f32_view(mine.data(), shape.rows, shape.cols), out, root);
      for (int row = 0; row < shape.rows; ++row) {
        for (int col = 0; col < out_stride; ++col) {
          const bool inside = comm.rank() == root && col < size * shape.cols;
          ASSERT_EQ(all[size_t(row * out_stride + col)],
                    inside ? part(round, col / shape.cols, row, col % shape.cols) : -7.0f);
        }
      }
    }
  }));
}

TEST_P(ThreadCommTest, BroadcastOfAnyLength) {
  const int size = options().size;
  expect_no_errors(run_group(options(), [&](Communicator& comm) {
    const size_t lengths[] = {0, 1, 3, size_t{1} << 20, 0, 17, (size_t{1} << 20) + 5, 2};
    for (int round = 0; round < 32; ++round) {
      const size_t length = lengths[round % 8];
      const int root = (round * 5) % size;
      std::vector<std::byte> message(comm.rank() == root ? length : 11, std::byte{0xee});
      const auto byte_at = [&](size_t i) { return std::byte(uint8_t(i * 31 + size_t(round))); };
      if (comm.rank() == root) {
        for (size_t i = 0; i < length; ++i) message[i] = byte_at(i);
      }
      comm.broadcast(message, root);
      ASSERT_EQ(message.size(), length);
      for (size_t i = 0; i<length; i += length> 100 ? 997 : 1) ASSERT_EQ(message[i], byte_at(i));
    }
  }));
}

// A ring of messages of different lengths, sent ahead of their receivers: order per pair is kept.
TEST_P(ThreadCommTest, SendRecvKeepOrder) {
  const int size = options().size;
  expect_no_errors(run_group(options(), [&](Communicator& comm) {
    const int to = (comm.rank() + 1) % size;
    const int from = (comm.rank() + size - 1) % size;
    constexpr int kMessages = 60;
    const auto rows_of = [](int i) { return i % 5; };
    const auto cols_of = [](int i) { return 1 + i % 13; };
    for (int i = 0; i < kMessages; ++i) {
      std::vector<float> data(size_t(rows_of(i) * cols_of(i)) + 1);
      for (int row = 0; row < rows_of(i); ++row) {
        for (int col = 0; col < cols_of(i); ++col)
          data[size_t(row * cols_of(i) + col)] = part(i, comm.rank(), row, col);
      }
      comm.send(f32_view(data.data(), rows_of(i), cols_of(i)), to);  // the copy is taken at once
    }
    for (int i = 0; i < kMessages; ++i) {
      std::vector<float> data(size_t(rows_of(i) * cols_of(i)) + 1);
      comm.recv(f32_view(data.data(), rows_of(i), cols_of(i)), from);
      for (int row = 0; row < rows_of(i); ++row) {
        for (int col = 0; col < cols_of(i); ++col)
          ASSERT_EQ(data[size_t(row * cols_of(i) + col)], part(i, from, row, col));
      }
    }
  }));
}

// Everything mixed for many rounds: the staging buffers rotate, and a fast rank runs ahead of a slow one.
TEST_P(ThreadCommTest, MixedCallsManyRounds) {
  const int size = options().size;
  expect_no_errors(run_group(options(), [&](Communicator& comm) {
    std::mt19937 random(unsigned(comm.rank() * 91 + 5));
    std::mt19937 plan(4711);  // the same on every rank
    for (int round = 0; round < 1500; ++round) {
      const unsigned call = plan() % 8;
      const int cols = 1 + int(plan() % 40);
      if (random() % 64 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
      if (call < 4) {
        std::vector<float> data(static_cast<size_t>(cols), float(comm.rank() + round));
        comm.all_reduce(f32_view(data.data(), 1, cols));
        for (float value : data) ASSERT_EQ(value, float(size * round + size * (size - 1) / 2));
      } else if (call == 4) {
        comm.barrier();
      } else if (call == 5) {
        std::vector<std::byte> message(comm.rank() == 0 ? size_t(cols) * 8 : 0, std::byte(uint8_t(round)));
        comm.broadcast(message, 0);
        ASSERT_EQ(message, std::vector<std::byte>(size_t(cols) * 8, std::byte(uint8_t(round))));
      } else if (call == 6) {
        float mine = float(round + comm.rank());
        std::vector<float> all(static_cast<size_t>(size));
        comm.gather_columns(f32_view(&mine, 1, 1), f32_view(all.data(), 1, size), size - 1);
        if (comm.rank() == size - 1) {
          for (int rank = 0; rank < size; ++rank) ASSERT_EQ(all[size_t(rank)], float(round + rank));
        }
      } else {
        float token = float(round);
        if (comm.rank() == 0) comm.send(f32_view(&token, 1, 1), size - 1);
        if (comm.rank() == size - 1) {
          token = -1;
          comm.recv(f32_view(&token, 1, 1), 0);
          ASSERT_EQ(token, float(round));
        }
      }
    }
    EXPECT_GT(comm.stats().collectives, 1000u);
    EXPECT_GT(comm.stats().bytes, 0u);
  }));
}

TEST_P(ThreadCommTest, AbortWakesEveryWaitingRankWithTheReason) {
  const int size = options().size;
  std::vector<double> waited(static_cast<size_t>(size), 0.0);
  const auto errors = run_group(options(), [&](Communicator& comm) {
    auto half = comm.split(comm.rank() % 2, comm.rank());
    if (comm.rank() == size - 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      comm.abort("disk on fire");
      return;
    }
    const auto start = Clock::now();
    try {
      float x = 0;
      if (comm.rank() % 3 == 0)
        comm.recv(f32_view(&x, 1, 1), size - 1);
      else if (comm.rank() % 3 == 1)
        comm.barrier();
      else
        half->recv(f32_view(&x, 1, 1), 0);  // a sub-group of the same family
    } catch (const Error&) {
      waited[size_t(comm.rank())] = std::chrono::duration<double>(Clock::now() - start).count();
      throw;
    }
  });
  for (int rank = 0; rank + 1 < size; ++rank) {
    ASSERT_TRUE(errors[size_t(rank)].thrown) << rank;
    EXPECT_EQ(errors[size_t(rank)].code, ExitCode::comm);
    EXPECT_NE(errors[size_t(rank)].text.find("disk on fire"), std::string::npos) << errors[size_t(rank)].text;
    EXPECT_NE(errors[size_t(rank)].text.find("rank " + std::to_string(rank)), std::string::npos);
    EXPECT_LT(waited[size_t(rank)], 1.0);
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, ThreadCommTest, testing::Combine(testing::Values(2, 3, 4, 8), testing::Bool()));

// GPUs send a message as one piece: rows with holes between them are refused here, too, where every test sees it.
TEST(ThreadComm, MessagesHaveNoHoles) {
  std::vector<float> data(64, 0.0f);
  const MatView holes = f32_view(data.data(), 4, 8, 16);
  const auto refused = [&](const char* name, auto&& call) {
    for (const RankError& error : run_group({.size = 2}, call)) EXPECT_NE(error.text.find(name), std::string::npos);
  };
  refused("all_reduce: rows of 8 floats, 16 apart", [&](Communicator& comm) { comm.all_reduce(holes); });
  refused("gather_columns: rows of 8 floats", [&](Communicator& comm) { comm.gather_columns(holes, holes, 0); });
  refused("send: rows of 8 floats", [&](Communicator& comm) { comm.send(holes, 1 - comm.rank()); });
}

TEST(ThreadComm, OneRankNeedsNoPeer) {
  auto ends = make_thread_group({.size = 1});
  float x[2] = {1, 2}, y[2] = {0, 0};
  ends[0]->all_reduce(f32_view(x, 1, 2));
  EXPECT_EQ(x[1], 2.0f);
  ends[0]->gather_columns(f32_view(x, 1, 2), f32_view(y, 1, 2), 0);
  EXPECT_EQ(y[1], 2.0f);
  std::vector<std::byte> message(3);
  ends[0]->broadcast(message, 0);
  ends[0]->barrier();
  auto alone = ends[0]->split(5, 0);
  EXPECT_EQ(alone->size(), 1);
  alone->barrier();
}

TEST(ThreadComm, AMessageOfAnotherLengthIsAnError) {
  const auto errors = run_group({.size = 2, .timeout_s = 10.0}, [](Communicator& comm) {
    std::vector<float> data(12);
    if (comm.rank() == 0)
      comm.send(f32_view(data.data(), 3, 4), 1);
    else
      comm.recv(f32_view(data.data(), 2, 4), 0);
  });
  EXPECT_FALSE(errors[0].thrown);
  ASSERT_TRUE(errors[1].thrown);
  EXPECT_EQ(errors[1].code, ExitCode::comm);
  for (const char* piece : {"rank 1", "recv 1", "rank 0", "12 floats", "2 x 4"})
    EXPECT_NE(errors[1].text.find(piece), std::string::npos) << errors[1].text;
}

struct HangCase {
  const char* call;
  std::function<void(Communicator&)> body;
};

TEST(ThreadComm, DeadlineNamesRankAndCall) {
  float x = 0, y[2];
  std::vector<std::byte> message;
  const HangCase cases[] = {
      {"all_reduce 2", [&](Communicator& comm) { comm.all_reduce(f32_view(&x, 1, 1)); }},
      {"gather_columns 2", [&](Communicator& comm) { comm.gather_columns(f32_view(&x, 1, 1), f32_view(y, 1, 2), 0); }},
      {"broadcast 2", [&](Communicator& comm) { comm.broadcast(message, 1); }},
      {"barrier 2", [](Communicator& comm) { comm.barrier(); }},
      {"split 2", [](Communicator& comm) { comm.split(0, 0); }},
      {"recv 1", [&](Communicator& comm) { comm.recv(f32_view(&x, 1, 1), 1); }}};
  for (const HangCase& hang : cases) {
    const auto start = Clock::now();
    const auto errors = run_group({.size = 2, .timeout_s = 0.2}, [&](Communicator& comm) {
      comm.barrier();
      if (comm.rank() == 0) hang.body(comm);  // rank 1 never comes
    });
    const double took = std::chrono::duration<double>(Clock::now() - start).count();
    ASSERT_TRUE(errors[0].thrown) << hang.call;
    EXPECT_EQ(errors[0].code, ExitCode::comm);
    for (const char* piece : {"rank 0", hang.call, "0.2 s", "for rank 1"})
      EXPECT_NE(errors[0].text.find(piece), std::string::npos) << errors[0].text;
    EXPECT_GE(took, 0.19);
    EXPECT_LT(took, 2.0);
  }
}

// A rank that times out takes the others with it: they learn who was missing.
TEST(ThreadComm, DeadlineOfOneRankEndsAll) {
  const auto errors = run_group({.size = 4, .timeout_s = 0.3}, [](Communicator& comm) {
    if (comm.rank() == 2) return;
    if (comm.rank() != 0) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    comm.barrier();
  });
  for (const int rank : {0, 1, 3}) {
    ASSERT_TRUE(errors[size_t(rank)].thrown) << rank;
    EXPECT_NE(errors[size_t(rank)].text.find("for rank 2"), std::string::npos) << errors[size_t(rank)].text;
  }
}

constexpr double kSilence_s = 0.5;  // longest, of the tests below

/// Works for `count` times kSilence_s / 4, with a mark before each.
void work_in_pieces(RankMarks& marks, int rank, int count) {
  for (int piece = 0; piece < count; ++piece) {
    marks.mark(rank, {.step = 3, .layer = piece});
    std::this_thread::sleep_for(std::chrono::duration<double>(kSilence_s / 4));
  }
}

struct Timed {
  std::vector<RankError> errors;
  double took_s = 0.0;
};

Timed run_timed(int size, RankMarks& marks, const std::function<void(Communicator&)>& body) {
  const auto start = Clock::now();
  Timed timed{run_group({.size = size, .timeout_s = kSilence_s, .marks = &marks}, body), 0.0};
  timed.took_s = std::chrono::duration<double>(Clock::now() - start).count();
  return timed;
}

TEST(ThreadComm, ASlowRankThatMakesMarksIsWaitedFor) {
  RankMarks marks(3);
  const Timed timed = run_timed(3, marks, [&](Communicator& comm) {
    if (comm.rank() == 1) work_in_pieces(marks, 1, 13);
    comm.barrier();
  });
  expect_no_errors(timed.errors);
  EXPECT_GT(timed.took_s, 3 * kSilence_s);
}

// The last stage waits for the one before, which waits as well: both live from the marks of the first.
TEST(ThreadComm, AChainOfWaitsLives) {
  RankMarks marks(4);
  const Timed timed = run_timed(4, marks, [&](Communicator& comm) {
    float x = 1.0f;
    if (comm.rank() == 0)
      work_in_pieces(marks, 0, 13);
    else
      comm.recv(f32_view(&x, 1, 1), comm.rank() - 1);
    if (comm.rank() < 3) comm.send(f32_view(&x, 1, 1), comm.rank() + 1);
  });
  expect_no_errors(timed.errors);
  EXPECT_GT(timed.took_s, 3 * kSilence_s);
}

TEST(ThreadComm, ACircleOfWaitsEnds) {
  for (const int size : {2, 3}) {
    RankMarks marks(size + 1);
    const Timed timed = run_timed(size + 1, marks, [&](Communicator& comm) {
      float x = 0;
      const int from = comm.rank() == size ? 0 : (comm.rank() + 1) % size;  // the last one waits for the circle
      comm.recv(f32_view(&x, 1, 1), from);
    });
    for (const RankError& error : timed.errors) {
      ASSERT_TRUE(error.thrown);
      EXPECT_EQ(error.code, ExitCode::comm);
      EXPECT_NE(error.text.find("they wait for each other"), std::string::npos) << error.text;
    }
    EXPECT_LT(timed.took_s, kSilence_s + 1.0);
  }
}

TEST(ThreadComm, ARankThatStopsEndsAllAndItsPlaceIsNamed) {
  RankMarks marks(3);
  const Timed timed = run_timed(3, marks, [&](Communicator& comm) {
    float x = 0;
    if (comm.rank() == 0) return work_in_pieces(marks, 0, 3);  // and sends nothing
    comm.recv(f32_view(&x, 1, 1), comm.rank() - 1);
  });
  for (const int rank : {1, 2}) {
    ASSERT_TRUE(timed.errors[size_t(rank)].thrown) << rank;
    EXPECT_EQ(timed.errors[size_t(rank)].code, ExitCode::comm);
    for (const char* piece : {"rank 0 has made no mark for 0.5 s", "step 3, layer 2"})
      EXPECT_NE(timed.errors[size_t(rank)].text.find(piece), std::string::npos) << timed.errors[size_t(rank)].text;
  }
  EXPECT_GE(timed.took_s, 1.5 * kSilence_s - 0.01);
  EXPECT_LT(timed.took_s, 1.5 * kSilence_s + 1.0);
}

// One silence for all of a collective's ranks: slow ones before it give the dead one no more time.
TEST(ThreadComm, ADeadRankIsNoticedBehindSlowOnes) {
  RankMarks marks(4);
  const auto start = Clock::now();
  double noticed_s = 0.0;
  const Timed timed = run_timed(4, marks, [&](Communicator& comm) {
    if (comm.rank() == 3) return;
    if (comm.rank() > 0) work_in_pieces(marks, comm.rank(), 14);
    try {
      comm.barrier();
    } catch (const Error&) {
      if (comm.rank() == 0) noticed_s = std::chrono::duration<double>(Clock::now() - start).count();
      throw;
    }
  });
  EXPECT_LT(noticed_s, 2 * kSilence_s);  // the others are at work until 3.5
  ASSERT_TRUE(timed.errors[0].thrown);
  EXPECT_NE(timed.errors[0].text.find("for rank 3"), std::string::npos) << timed.errors[0].text;
  for (const int rank : {1, 2}) {
    ASSERT_TRUE(timed.errors[size_t(rank)].thrown);
    EXPECT_NE(timed.errors[size_t(rank)].text.find("rank 0: barrier 1 waits for rank 3"), std::string::npos)
        << timed.errors[size_t(rank)].text;
  }
}

// rank = stage * tp + shard, as RankTeam splits.
TEST(ThreadComm, SplitByStageAndByShard) {
  static constexpr int kTp = 2, kPp = 3;
  expect_no_errors(run_group({.size = kTp * kPp, .timeout_s = 20.0}, [](Communicator& comm) {
    const int stage = comm.rank() / kTp, shard = comm.rank() % kTp;
    auto shards = comm.split(stage, shard);
    auto stages = comm.split(100 + shard, -stage);  // key reversed: the last stage is rank 0
    ASSERT_EQ(shards->size(), kTp);
    ASSERT_EQ(shards->rank(), shard);
    ASSERT_EQ(stages->size(), kPp);
    ASSERT_EQ(stages->rank(), kPp - 1 - stage);
    for (int round = 0; round < 100; ++round) {
      float x = float(comm.rank());
      shards->all_reduce(f32_view(&x, 1, 1));
      ASSERT_EQ(x, float(2 * stage * kTp + 1));
      x = float(comm.rank());
      stages->all_reduce(f32_view(&x, 1, 1));
      ASSERT_EQ(x, float(kTp * (0 + 1 + 2) + kPp * shard));
      if (round % 10 == 0) comm.barrier();
    }
    auto third = stages->split(stages->rank() == 0 ? 1 : 2, 0);  // groups of groups, equal keys: by rank
    ASSERT_EQ(third->size(), stages->rank() == 0 ? 1 : 2);
    third->barrier();
  }));
}

}  // namespace
}  // namespace paceline
