#pragma once
// Runs one function per rank of a thread group and keeps what each threw.

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "engine/comm/communicator.h"

namespace paceline::test {

struct RankError {
  bool thrown = false;
  ExitCode code = ExitCode::ok;
  std::string text;
};

inline std::vector<RankError> run_group(const ThreadGroupOptions& options,
                                        const std::function<void(Communicator&)>& body) {
  auto ends = make_thread_group(options);
  std::vector<RankError> errors(ends.size());
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < ends.size(); ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(*ends[rank]);
      } catch (const Error& error) {
        errors[rank] = {true, error.code(), error.what()};
        ends[rank]->abort(error.what());
      }
    });
  }
  for (auto& thread : threads) thread.join();
  return errors;
}

}  // namespace paceline::test
