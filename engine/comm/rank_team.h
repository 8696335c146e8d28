#pragma once
// The ranks of one engine: a thread, a Backend and communicators each, and a FIFO of jobs (a stream).
//
// rank = stage * tp + shard. The deciding rank (last stage, shard 0) has no thread of its own: its jobs run on
// the caller's thread inside wait(). So one rank costs no hand-over at all, and with pipeline stages the caller
// can post several micro-batches before it turns to its own share.
//
// A rank is *lost* when, after a failure, it does not come out of its job: its chain has made no mark for timeout_s.
// Nobody waits for it any more, the destructor neither. Its thread stays, owns the ranks with their backends, and ends
// if the job ever does. So a posted job owns what it uses, and what a lost rank uses lives as long as it. The deciding
// rank cannot be lost: a job of it that never returns is the caller's.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/comm/activity_log.h"
#include "engine/comm/communicator.h"
#include "kernels/backend.h"

namespace paceline {

struct Placement {
  std::vector<std::string> devices;  // one per rank; empty: "cpu" for all
  int tp = 1;
  int pp = 1;
  int num_ranks() const { return tp * pp; }
  int deciding_rank() const { return (pp - 1) * tp; }
};

struct TeamOptions {
  Placement placement;
  int threads_per_rank = 1;
  double timeout_s = 60.0;  // longest silence of a rank that others wait for (kernels/rank_marks.h)
  int isa = -1;             // see BackendOptions::isa
  Numerics numerics = Numerics::strict;
  bool graphs = true;        // see BackendOptions::graphs
  bool early_starts = true;  // see BackendOptions::early_starts
};

/// What a job may use. Owned by the team; used on the rank's thread only.
struct Rank {
  int index = 0;
  int stage = 0;
  int shard = 0;
  ActivityLog activity;  // WorkScopes, and waits of world and shards, once a job has started it
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Communicator> world;   // all ranks
  std::unique_ptr<Communicator> shards;  // the ranks of this stage, by shard
  std::unique_ptr<Communicator> alone;   // size 1
  double busy_s = 0.0;                   // time inside jobs, waits of the communicators included
  RankMarks* marks = nullptr;            // of the team; a job that takes long makes some

  void mark(const RankPlace& place) { marks->mark(index, place); }
};

class RankTeam {
 public:
  using Job = std::function<void(Rank&)>;

  explicit RankTeam(const TeamOptions& options);
  /// Waits for the ranks' jobs, those of lost ones excepted.
  ~RankTeam();
  RankTeam(const RankTeam&) = delete;
  RankTeam& operator=(const RankTeam&) = delete;

  const TeamOptions& options() const { return options_; }
  int num_ranks() const { return options_.placement.num_ranks(); }
  int deciding_rank() const { return options_.placement.deciding_rank(); }
  /// True when the team's threads outnumber the cores that this process may use.
  bool oversubscribed() const;

  /// Appends a job to the rank's FIFO; returns its number. Throws the first error of the team, if there was one.
  uint64_t post(int rank, Job job);

  /// Runs the deciding rank's jobs up to and including number `job`. Throws the first error of any rank.
  void wait_deciding(uint64_t job);

  /// Runs a job of the deciding rank at once, ahead of its FIFO: for work that no other rank takes part in and
  /// that no job in the FIFO depends on (a draft model of its own between two micro-batches).
  void run_inline(const Job& job);

  /// Waits until every rank has run all jobs posted so far; Error(comm) where one makes no mark for timeout_s. When it
  /// throws, no rank is inside a job any more, lost ones excepted.
  void wait_all();

  /// Posts `job` to every rank and waits for all: set-up and tear-down of models. Loading makes no marks, and `job` may
  /// use what the caller's frame holds: a rank that is inside it is waited for without limit.
  void run_on_all(const Job& job);

  /// The same for a short job that owns what it uses.
  void post_on_all(const Job& job);

  /// After a failure: whether a rank is lost. Waits until that is known of all.
  bool has_lost_rank() noexcept;

  /// Only between jobs (after wait_all): statistics, set-up.
  Rank& rank(int index);

 private:
  struct Worker;
  struct Ranks;  // all that the threads use

  Worker& worker(int rank);
  uint64_t enqueue(int rank, Job job);
  void run_deciding(uint64_t job);
  /// Until the rank has run all its jobs; false: it is lost.
  bool wait_for(Worker& worker) noexcept;
  void stop() noexcept;
  void rethrow_if_failed();

  const TeamOptions options_;
  const std::shared_ptr<Ranks> ranks_;
};

}  // namespace paceline
