#pragma once
// One process at a time writes to a run folder.

#include <filesystem>
#include <string>

namespace paceline {

/// Holds <folder>/lock by flock(2), which the kernel lets go when the process ends, however it ends; so no lock is
/// stale. The file holds the process id, for messages. Movable; one thread.
class RunLock {
 public:
  /// Throws Error(store) naming the process that holds it, or why the file cannot be had.
  explicit RunLock(const std::filesystem::path& folder);
  RunLock(RunLock&& other) noexcept;
  RunLock(const RunLock&) = delete;
  RunLock& operator=(RunLock&&) = delete;
  ~RunLock();

  /// Whether some process holds it now.
  static bool is_held(const std::filesystem::path& folder);

 private:
  int fd_ = -1;
};

}  // namespace paceline
