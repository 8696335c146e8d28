#pragma once
// What the benchmark programs share.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "kernels/cpu/cores.h"

namespace paceline {

/// The environment's PACELINE_BENCH_`name`; `otherwise` where it is not set.
inline std::string bench_setting(const std::string& name, const std::string& otherwise = {}) {
  const char* const value = std::getenv(("PACELINE_BENCH_" + name).c_str());
  return value ? value : otherwise;
}

inline int bench_threads() {
  return std::max(1, std::atoi(bench_setting("THREADS", std::to_string(usable_cores())).c_str()));
}

/// main() of a benchmark program: an error is one line and exit code 1.
template <class Body>
int bench_main(const char* program, Body&& body) {
  try {
    return body();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", program, error.what());
    return 1;
  }
}

}  // namespace paceline
