#pragma once
// What a run read its prompts from.

#include <cstdint>
#include <string>

namespace paceline {

struct WorkloadFacts {
  std::string format;       // of the file: "paceline", "spec_bench", ...; empty: not known
  int64_t prompts = 0;      // that the requests were taken from
  int64_t filtered = 0;     // left out by workload.categories and workload.max_prompt_chars
  int64_t bad_records = 0;  // left out by workload.skip_bad
  std::string first_bad;    // what was wrong with the first of them, with file and line
};

}  // namespace paceline
