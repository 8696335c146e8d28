#pragma once
// The one way to open a file that somebody else wrote: of a model, a template, a data set, a configuration, a result.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "kernels/error.h"

namespace paceline {

/// What a kind of file may be, and the exit code of that kind (`runexp explain exit-codes`).
struct FileRule {
  ExitCode code = ExitCode::model_file;
  size_t max_bytes = SIZE_MAX;
  /// Also what a shell passes for <(...). A FIFO that lies in a folder is refused all the same: nobody may write it.
  bool takes_pipes = false;
};

/// An open descriptor for reading; owns it. One thread.
class UserFile {
 public:
  /// Never waits, whatever lies at `path`. Throws Error(rule.code) with the system's reason where it cannot be opened,
  /// is no regular file, or is longer than the rule allows.
  UserFile(const std::filesystem::path& path, const FileRule& rule);
  UserFile(UserFile&& other) noexcept;
  ~UserFile();

  const std::filesystem::path& path() const { return path_; }
  const FileRule& rule() const { return rule_; }
  int fd() const { return fd_; }
  /// When it was opened; 0 for a pipe.
  size_t size() const { return size_; }
  /// Bytes that it has now. Throws Error(rule.code).
  size_t size_now() const;

 private:
  void close() noexcept;

  std::filesystem::path path_;
  FileRule rule_;
  int fd_ = -1;
  size_t size_ = 0;
};

/// All bytes of the file. Throws Error(rule.code), as UserFile does.
std::string read_user_file(const std::filesystem::path& path, const FileRule& rule);

/// The same for a file that may be missing or damaged without harm: nullopt where read_user_file() would throw.
std::optional<std::string> try_read_user_file(const std::filesystem::path& path, const FileRule& rule);

}  // namespace paceline
