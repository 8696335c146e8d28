#pragma once
// Files that are whole or absent: what a crash, a full disk or a second reader may never see half-written.

#include <filesystem>
#include <string_view>

namespace paceline {

/// Writes `content` to a temporary file beside `file`, fsyncs it, renames it over `file` and fsyncs the folder.
/// Throws Error(store) naming the file, the call and the system's reason; then `file` is as it was and the temporary
/// file is gone. A failed fsync is final: it is never retried (the kernel may have dropped the pages).
void write_file_atomic(const std::filesystem::path& file, std::string_view content);

/// Makes a folder that must not exist yet (parents are made as needed); false when it exists. Throws Error(store).
bool make_new_folder(const std::filesystem::path& folder);

/// Lets `link` point to `target` (relative to the link's folder), replacing an older link by rename. Throws
/// Error(store), also when `link` exists and is no symbolic link: a user's folder is never removed.
void replace_symlink(const std::filesystem::path& link, const std::filesystem::path& target);

}  // namespace paceline
