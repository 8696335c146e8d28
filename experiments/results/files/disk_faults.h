#pragma once
// Faults of a disk on demand, so that tests can see what each of them costs. Off unless the environment variable
// PACELINE_FAIL names one: "CALL:ACTION:N" makes the N-th CALL of the process (from 1) fail. CALL: open, write, fsync,
// rename, mkdir, symlink, or any. ACTION: an error (ENOSPC, EIO, EDQUOT, EROFS, EACCES), "short" (half of a write, then
// ENOSPC), or "kill" (the process ends there and then, as by kill -9).

#include <cstdint>

namespace paceline {

enum class DiskCall : uint8_t { open, write, fsync, rename, mkdir, symlink };

struct DiskFault {
  int error = 0;            // errno to fail with; 0: none
  bool after_half = false;  // write: when half is written
};

/// Counts one call and says whether it is to fail. Throws Error(usage) for a PACELINE_FAIL that it cannot read.
DiskFault count_disk_call(DiskCall call);

}  // namespace paceline
