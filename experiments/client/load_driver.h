#pragma once
// Sends the requests of a repetition to a server, in a closed or an open loop or all at once, on the calling thread:
// poll() over non-blocking sockets. Connections are kept and used again; those that a closed loop needs are made before
// the clock starts. A request whose kept connection ends before a byte of its answer is sent once more, on a new one.
//
// Times are milliseconds since the clock started. A request's time begins when it is to be sent, whenever it is: in an
// open loop at its arrival, in a closed loop when the answer before it was whole, offline at 0.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "experiments/client/openai_client.h"

namespace paceline {

struct DrivenRequest {
  std::string bytes;  // request_bytes()
  bool as_chat = false;
  int max_tokens = 0;    // that it asks for
  double send_at_s = 0;  // open loop: since the clock starts; never falls
};

struct DrivenAnswer {
  ServedAnswer answer;
  double intended_ms = 0, sent_ms = 0;  // sent: when the client turned to it
  bool is_over = false;
};

enum class SendOrder : uint8_t {
  closed,  // `concurrency` in flight
  open,    // each at its send_at_s
};

struct DriveOptions {
  ServerUrl url;
  Delivery delivery = Delivery::streamed;
  SendOrder order = SendOrder::closed;
  size_t concurrency = 1;               // closed; 0: all at once
  double stall_timeout_s = 60;          // without a byte: the request has failed
  double timeout_s = 600;               // of all together: throws Error(device)
  std::function<bool()> stop_now = {};  // asked 50 times a second; true throws Error(interrupted)
  /// Told as answers end or events come, ten times a second at most.
  std::function<void(std::span<const DrivenAnswer> so_far, double now_ms)> on_progress = {};
};

struct DriveResult {
  std::vector<DrivenAnswer> answers;  // as the requests
  double start_s = 0, wall_s = 0;     // start: of the monotonic clock
  double idle_s = 0;                  // open loop: without a request in flight
  int64_t sent_again = 0;             // requests
  // Between a request's intended time and when the client turned to it. Empty for all at once, where one waits for the
  // sending of those before it.
  std::vector<double> send_late_ms;
  std::vector<double> read_late_ms;  // by piece: between poll() telling of it and its being read
};

/// Never throws for a request that fails: that is in its answer. Throws Error(device) for a host that is not known.
DriveResult drive(std::span<const DrivenRequest> requests, const DriveOptions& options);

}  // namespace paceline
