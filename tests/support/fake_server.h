#pragma once
// A server that speaks as much of OpenAI's HTTP API as a client needs, with planted faults. Its answers are a rule: the
// same body gives the same tokens.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace paceline::test {

enum class PlantedFault : uint8_t {
  none,
  stall,            // after two events, until the server ends
  reset,            // RST after two events
  ended_early,      // FIN after two events, in place of the rest
  half_event,       // the stream ends within its last event, and well within HTTP
  no_done,          // all but [DONE]
  wrong_usage,      // one token more than it sends
  too_many_tokens,  // two more than were asked for, usage likewise
  status_429,
  status_500,
  not_json,
  wrong_type,   // text/html
  no_finish,    // no finish_reason
  error_event,  // {"error": …} in place of an event
  no_usage,     // and no ids
};

enum class StatedDrafts : uint8_t { none, response, timings, metrics };

struct FakeServerOptions {
  PlantedFault fault = PlantedFault::none;
  int fault_from = 0;    // the first request (from 0) that meets it
  bool with_ids = true;  // where they are asked for
  bool continuous_usage = true;
  bool honours_reset = true;  // POST /reset_prefix_cache
  int healthy_after = 0;      // GET /health answers 503 so many times before
  bool is_healthy = true;
  StatedDrafts drafts = StatedDrafts::response;
  int token_shift = 0;                 // added to every token: another model
  std::string api_key;                 // asked for, where it is not empty
  int port = 0;                        // 0: any
  bool ends_connections = false;       // behind each answer, without a word of it
  bool ends_when_asked_again = false;  // a connection, once another request comes on it
};

class FakeServer {
 public:
  explicit FakeServer(FakeServerOptions options = {});
  ~FakeServer();
  FakeServer(const FakeServer&) = delete;
  FakeServer& operator=(const FakeServer&) = delete;

  int port() const { return port_; }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }

  /// Bodies of completions that were asked for, in the order in which they came.
  std::vector<std::string> bodies() const;
  int num_resets() const { return num_resets_; }
  int num_connections() const { return num_connections_; }
  /// Most requests that were being answered at once.
  int most_at_once() const { return most_at_once_; }

 private:
  void accept_all();
  void serve(int fd);
  bool answer(int fd, const std::string& head, const std::string& body);
  bool complete(int fd, const std::string& path, const std::string& body);
  void wait_for_end();

  FakeServerOptions options_;
  int listener_ = -1, port_ = 0;
  mutable std::mutex mutex_;
  std::condition_variable ended_;
  bool ends_ = false;
  std::vector<std::string> bodies_;
  std::vector<int> open_;
  std::vector<std::thread> threads_;
  std::atomic<int> num_resets_{0}, num_connections_{0}, num_health_{0}, at_once_{0}, most_at_once_{0};
  std::atomic<int64_t> draft_steps_{0};
  std::thread acceptor_;
};

}  // namespace paceline::test
