#include "engine/weights/save_checkpoint.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <span>
#include <system_error>
#include <unistd.h>

#include "engine/util/bytes.h"

namespace paceline {
namespace fs = std::filesystem;
namespace {

constexpr uint64_t kSmallFilesBytes = uint64_t{1} << 20;  // config, card, index, headers: rounded up
constexpr size_t kHeaderAlignment = 8;

[[noreturn]] void fail_call(const fs::path& file, const char* call) {
  fail(ExitCode::store, "{}: {}: {}", file.string(), call, std::generic_category().message(errno));
}

/// A new file, synced when it is closed.
class OutputFile {
 public:
  explicit OutputFile(const fs::path& path)
      : path_(path), fd_(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL, 0644)) {
    if (fd_ < 0) fail_call(path_, "open");
  }
  ~OutputFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) fail_call(path_, "write");
      bytes = bytes.subspan(size_t(written));
    }
  }
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }

  void close() {
    if (::fsync(fd_) != 0) fail_call(path_, "fsync");
    const int fd = std::exchange(fd_, -1);
    if (::close(fd) != 0) fail_call(path_, "close");
  }

 private:
  fs::path path_;
  int fd_;
};

void write_text(const fs::path& path, std::string_view text) {
  OutputFile file(path);
  file.write(text);
  file.close();
}

void sync_folder(const fs::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY);
  if (fd < 0) fail_call(folder, "open");
  const int result = ::fsync(fd);
  ::close(fd);
  if (result != 0) fail_call(folder, "fsync");
}

/// Tensors of one file, in the order of their bytes.
using Shard = std::vector<const TensorInfo*>;

std::vector<Shard> split_shards(const TensorSource& source, uint64_t max_bytes) {
  std::vector<Shard> shards;
  uint64_t used = 0;
  for (const std::string& name : source.names()) {
    const TensorInfo* tensor = source.find(name);
    if (shards.empty() || (used > 0 && used + tensor->bytes > max_bytes)) {
      shards.emplace_back();
      used = 0;
    }
    shards.back().push_back(tensor);
    used += tensor->bytes;
  }
  return shards;
}

std::string header_of(const Shard& shard) {
  nlohmann::ordered_json header = {{"__metadata__", {{"format", "pt"}}}};
  uint64_t offset = 0;
  for (const TensorInfo* tensor : shard) {
    header[tensor->name] = {
        {"dtype", tensor->file_dtype}, {"shape", tensor->shape}, {"data_offsets", {offset, offset + tensor->bytes}}};
    offset += tensor->bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + kHeaderAlignment - 1) / kHeaderAlignment * kHeaderAlignment, ' ');
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += char(uint64_t(text.size()) >> (8 * i) & 0xff);
  return bytes + text;
}

void write_tensor(const TensorSource& source, const TensorInfo& tensor, const SaveOptions& options, OutputFile& file) {
  const TensorRange whole = whole_range(tensor);
  const uint64_t row_bytes = uint64_t(whole.num_cols) * dtype_bytes(*tensor.dtype);
  const int64_t step = std::max<int64_t>(1, int64_t(options.max_part_bytes / row_bytes));
  for (int64_t row = 0; row < whole.num_rows; row += step) {
    if (options.before_part) options.before_part();
    const int64_t count = std::min(step, whole.num_rows - row);
    const TensorPart part = source.part(tensor.name, {.row_begin = row, .num_rows = count, .num_cols = whole.num_cols});
    PACELINE_CHECK(part.view.row_stride == part.view.cols, "rows of {} do not touch", tensor.name);
    file.write({static_cast<const std::byte*>(part.view.data), size_t(count) * row_bytes});
  }
  source.release(tensor.name);
}

void write_shards(const TensorSource& source, const fs::path& folder, const SaveOptions& options) {
  const std::vector<Shard> shards = split_shards(source, options.max_shard_bytes);
  nlohmann::json weight_map = nlohmann::json::object();
  uint64_t total = 0;
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string name = shards.size() == 1 ? "model.safetensors"
                                                : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
    OutputFile file(folder / name);
    file.write(header_of(shards[i]));
    for (const TensorInfo* tensor : shards[i]) {
      write_tensor(source, *tensor, options, file);
      weight_map[tensor->name] = name;
      total += tensor->bytes;
    }
    file.close();
  }
  if (shards.size() > 1)
    write_text(folder / "model.safetensors.index.json",
               nlohmann::json{{"metadata", {{"total_size", total}}}, {"weight_map", weight_map}}.dump(2) + "\n");
}

/// Of everything that will be written, and a little more.
uint64_t needed_bytes(const TensorSource& source, const SaveOptions& options) {
  uint64_t bytes = kSmallFilesBytes;
  for (const std::string& name : source.names()) bytes += source.find(name)->bytes + name.size() + 200;
  for (const fs::path& copy : options.copies) bytes += fs::file_size(copy);
  for (const auto& [name, text] : options.texts) bytes += text.size();
  return bytes;
}

void check_room(const fs::path& folder, uint64_t needed) {
  std::error_code error;
  const fs::space_info space = fs::space(folder, error);
  if (error) fail(ExitCode::store, "{}: cannot ask for its free space: {}", folder.string(), error.message());
  if (space.available < needed)
    fail(ExitCode::store, "{}: needs {} bytes ({:.1f} GiB), found {} ({:.1f} GiB) free; take another disk or make room",
         folder.string(), needed, double(needed) / kGiB, space.available, double(space.available) / kGiB);
}

fs::path whole_path(const fs::path& out) {
  const fs::path target = fs::absolute(out).lexically_normal();
  return target.has_filename() ? target : target.parent_path();
}

}  // namespace

void check_new_folder(const fs::path& out) {
  const fs::path final_name = whole_path(out), folder = final_name.parent_path();
  std::error_code error;
  if (fs::exists(fs::symlink_status(final_name, error)))
    fail(ExitCode::usage, "{}: exists, expected a new folder; remove it or name another one", final_name.string());
  if (!fs::is_directory(folder, error))
    fail(ExitCode::usage, "{}: no such folder, expected the parent of the new one; make it first", folder.string());
}

void save_checkpoint(const TensorSource& source, const fs::path& out, const SaveOptions& options) {
  check_new_folder(out);
  const fs::path final_name = whole_path(out), folder = final_name.parent_path();
  check_room(folder, needed_bytes(source, options));

  std::error_code error;
  const fs::path temporary = folder / fmt::format(".{}.{}.partial", final_name.filename().string(), ::getpid());
  if (!fs::create_directory(temporary, error))
    fail(ExitCode::store, "{}: cannot make the folder: {}", temporary.string(),
         error ? error.message() : std::string("it exists"));
  try {
    write_text(temporary / "config.json", options.config.dump(2) + "\n");
    write_text(temporary / "README.md", options.card);
    for (const auto& [name, text] : options.texts) write_text(temporary / name, text);
    for (const fs::path& copy : options.copies) {
      fs::copy_file(copy, temporary / copy.filename(), error);
      if (error) fail(ExitCode::store, "{}: cannot copy: {}", copy.string(), error.message());
      fs::permissions(temporary / copy.filename(), fs::perms::owner_write, fs::perm_options::add, error);
    }
    write_shards(source, temporary, options);
    sync_folder(temporary);
    if (::rename(temporary.c_str(), final_name.c_str()) != 0) fail_call(final_name, "rename");
  } catch (...) {
    fs::remove_all(temporary, error);
    throw;
  }
  sync_folder(folder);
}

}  // namespace paceline
