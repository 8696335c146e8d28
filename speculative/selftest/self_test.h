#pragma once
// Can the certificate fail? Plants each known fault in a small engine and looks whether the comparison with plain
// decoding, or with fresh drafts, finds it; and runs engines without a fault, in which it must find nothing.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "speculative/selftest/sabotage.h"

namespace paceline {

struct SelfTestOptions {
  std::filesystem::path target, draft, head;  // the head is made for this target
  std::vector<std::vector<int32_t>> prompts;  // token ids; at least 4
  std::string device = "cpu";                 // or "cuda"
  int max_tokens = 64;                        // of an answer
  int clean_runs = 200;
  std::function<void(const std::string& line)> progress = {};
  std::function<bool()> stop_now = {};  // asked between runs
};

struct SabotageOutcome {
  enum class Status : uint8_t { killed, alive, void_here };
  Status status = Status::alive;
  std::string detail;  // what found it; why it is void; what was looked at in vain
};

struct SelfTestReport {
  struct Row {
    const Sabotage* sabotage = nullptr;
    SabotageOutcome greedy, coupled;
  };
  std::vector<Row> rows;
  int clean_runs = 0, alarms = 0;
  std::string first_alarm;
  int64_t tokens = 0;  // compared in clean runs
  int64_t drafts = 0;  // proposals made again in clean runs
  double seconds = 0;
  bool was_stopped = false;

  int num_killed() const { return count(SabotageOutcome::Status::killed); }
  int num_alive() const { return count(SabotageOutcome::Status::alive); }
  bool passed() const { return !was_stopped && num_alive() == 0 && alarms == 0; }

 private:
  int count(SabotageOutcome::Status status) const;
};

/// Threads: the caller's, and those of the ranks. Throws what loading the models throws.
SelfTestReport run_self_test(const SelfTestOptions& options);

/// A table of faults by rule, and what clean runs found; ends with a newline.
std::string self_test_text(const SelfTestReport& report);

}  // namespace paceline
