#pragma once
// What this program was built from, fixed when it was built.

namespace paceline {

inline constexpr const char* kProgramVersion = "0.1.0";

struct BuildInfo {
  const char* commit;    // of the sources, 40 hex digits; empty: they were no git checkout
  bool dirty;            // files that git tracks differed from the commit
  const char* compiler;  // "GNU 12.2.0"
  const char* flags;     // of C++ sources: "-O3 -DNDEBUG"
  bool unity;            // the sources of a folder were compiled together (preset release), not one by one (dev)
};

/// Written by experiments/results/build_info.cmake; the file is compiled anew only when it changes.
const BuildInfo& build_info();

}  // namespace paceline
