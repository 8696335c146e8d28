#pragma once
// Files that are whole or absent: what a crash, a full disk, a second reader or writer may never see half-written.

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "engine/util/user_file.h"

namespace paceline {

/// How files of a results folder are opened: all but the journal and the requests are small.
inline constexpr FileRule kResultFile{.code = ExitCode::store, .max_bytes = size_t{8} << 30};

/// Writes `content` to a temporary file beside `file`, fsyncs it, renames it over `file` and fsyncs the folder.
/// Throws Error(store) naming the file, the call and the system's reason; then `file` is as it was and the temporary
/// file is gone. A failed fsync is final: it is never retried (the kernel may have dropped the pages).
void write_file_atomic(const std::filesystem::path& file, std::string_view content);

/// Makes a folder that must not exist yet (parents are made as needed); false when it exists. Throws Error(store).
bool make_new_folder(const std::filesystem::path& folder);

/// What appended bytes are to survive: the end of the process, or of the machine as well.
enum class Durability : uint8_t { process, machine };

/// A file that only grows, and of which every acknowledged byte survives. One thread.
class AppendOnlyFile {
 public:
  /// Opens `file`, made if absent (and its folder synced), cut to `length` bytes: what lies behind was never
  /// acknowledged. Throws Error(store); also where the file is shorter than that.
  AppendOnlyFile(std::filesystem::path file, int64_t length);
  AppendOnlyFile(const AppendOnlyFile&) = delete;
  AppendOnlyFile& operator=(const AppendOnlyFile&) = delete;
  ~AppendOnlyFile();

  /// Appends; unless `durability` says otherwise the bytes then survive a crash of the machine, too. Throws
  /// Error(store) naming file, call and reason; from then on every call throws: a failed write may have left a part of
  /// a line, and after a failed fsync the kernel may have dropped the pages.
  void append(std::string_view bytes, Durability durability = Durability::machine);

  int64_t size() const { return size_; }

 private:
  std::filesystem::path file_;
  int fd_ = -1;
  int64_t size_ = 0;
  bool is_broken_ = false;
};

/// Lets `link` point to `target` (relative to the link's folder), replacing an older link by rename. Throws
/// Error(store), also when `link` exists and is no symbolic link: a user's folder is never removed.
void replace_symlink(const std::filesystem::path& link, const std::filesystem::path& target);

/// One process at a time writes to a run folder. Holds <folder>/lock by flock(2), which the kernel lets go when the
/// process ends, however it ends; so no lock is stale. The file holds the process id, for messages. Movable; one
/// thread.
class RunLock {
 public:
  /// Throws Error(store) naming the process that holds it, or why the file cannot be had.
  explicit RunLock(const std::filesystem::path& folder);
  RunLock(const RunLock&) = delete;
  ~RunLock();

  /// Whether some process holds it now.
  static bool is_held(const std::filesystem::path& folder);

 private:
  int fd_ = -1;
};

}  // namespace paceline
