#pragma once
// What a repetition that was measured over HTTP leaves beside its requests.

#include <cstdint>
#include <string>
#include <string_view>

#include "experiments/results/fields.h"

namespace paceline {

/// Of RunCounters, what a server may state; over HTTP the others are not known.
inline bool is_told_by_servers(std::string_view counter) {
  return counter == "drafts" || counter == "drafted" || counter == "accepted" || counter == "accepted_by_position";
}

/// measure.level http: what the client knows of a repetition beside its requests.
struct ClientRecord {
  double late_p99_ms = 0;
  int64_t sent_again = 0;
  bool streamed = true;
  std::string prefix_cache, acceptance_from;

  template <class Visit>
  static void fields(Visit&& visit) {
    using R = ClientRecord;
    visit("late_p99_ms", &R::late_p99_ms,
          "99th percentile of how late the client was in sending a request or in reading what had come, the larger");
    visit("sent_again", &R::sent_again,
          "requests sent once more, as the server ended their kept connection before a byte of the answer");
    visit("streamed", &R::streamed, "");
    visit("prefix_cache", &R::prefix_cache,
          R"(of the server: "off", "reset" before the repetition, or why it is not known to be empty)");
    visit("acceptance_from", &R::acceptance_from,
          R"(where the server states it: "response", "timings" (llama.cpp's), "metrics", "none")");
  }
};

}  // namespace paceline
