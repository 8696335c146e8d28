#include "engine/weights/checkpoint.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <system_error>

#include "engine/util/json_io.h"

namespace paceline {
namespace fs = std::filesystem;
namespace {

constexpr const char* kSingleFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";

bool has_extension(const fs::path& path, std::initializer_list<const char*> extensions) {
  return std::any_of(extensions.begin(), extensions.end(),
                     [&](const char* extension) { return path.extension() == extension; });
}

std::string refusal_by_name(const fs::path& path) {
  if (has_extension(path, {".gguf"})) return kGgufRefused;
  if (has_extension(path, {".bin", ".pt", ".pth", ".ckpt", ".pkl"})) return kPickleRefused;
  return "";
}

void check_is_folder(const fs::path& dir) {
  std::error_code error;
  const fs::file_status status = fs::status(dir, error);
  if (error || !fs::exists(status)) {
    const auto reason = error ? error : std::make_error_code(std::errc::no_such_file_or_directory);
    fail(ExitCode::model_file, "{}: cannot open model folder: {}", dir.string(), reason.message());
  }
  if (!fs::is_directory(status)) {
    const std::string refusal = fs::is_regular_file(status) ? refusal_by_name(dir) : "";
    fail(ExitCode::model_file, "{}: {}", dir.string(),
         refusal.empty() ? "Not a directory; expected a folder with config.json and model.safetensors" : refusal);
  }
}

[[noreturn]] void no_weights(const fs::path& dir) {
  std::error_code error;
  fs::directory_iterator each(dir, error);
  if (error) fail(ExitCode::model_file, "{}: cannot read model folder: {}", dir.string(), error.message());
  std::string name, refusal;  // the first by name, so that the message does not depend on the directory's order
  for (const fs::directory_entry& entry : each) {
    const std::string hint = refusal_by_name(entry.path());
    if (!hint.empty() && (name.empty() || entry.path().filename().string() < name))
      name = entry.path().filename().string(), refusal = hint;
  }
  if (!refusal.empty()) fail(ExitCode::model_file, "{}: {}", (dir / name).string(), refusal);
  fail(ExitCode::model_file, "{}: found neither {} nor {}", dir.string(), kSingleFile, kIndexFile);
}

bool lies_inside(const fs::path& path, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first == folder.end();
}

/// `name` comes from the index: a hostile one must not make us open a file elsewhere.
fs::path shard_path(const fs::path& dir, const std::string& name) {
  const fs::path relative(name);
  const auto outside = [&] {
    fail(ExitCode::model_file, "{}: shard outside model folder: {}; expected a file name", (dir / kIndexFile).string(),
         json_literal(name));
  };
  if (name.empty() || name.find('\0') != name.npos || relative.is_absolute() ||
      std::find(relative.begin(), relative.end(), "..") != relative.end())
    outside();
  std::error_code error;
  const fs::path resolved = fs::canonical(dir / relative, error);
  if (error) fail(ExitCode::model_file, "{}: cannot open shard: {}", (dir / relative).string(), error.message());
  const fs::path root = fs::canonical(dir);
  // A Hugging Face cache keeps its files in ../../blobs and links to them from snapshots/<revision>.
  const bool in_cache =
      root.parent_path().filename() == "snapshots" && lies_inside(resolved, root.parent_path().parent_path() / "blobs");
  if (!lies_inside(resolved, root) && !in_cache) outside();
  if (const std::string refusal = refusal_by_name(relative); !refusal.empty())
    fail(ExitCode::model_file, "{}: {}", (dir / relative).string(), refusal);
  return dir / relative;
}

}  // namespace

Checkpoint Checkpoint::open(const fs::path& model_dir) {
  check_is_folder(model_dir);
  Checkpoint checkpoint;
  checkpoint.dir_ = model_dir;
  std::error_code ignored;
  const fs::path single = model_dir / kSingleFile, index_path = model_dir / kIndexFile;
  if (fs::exists(fs::symlink_status(single, ignored))) {
    checkpoint.add_file(single);
    return checkpoint;
  }
  if (!fs::exists(fs::symlink_status(index_path, ignored))) no_weights(model_dir);

  const nlohmann::json index = read_json_file(index_path, ExitCode::model_file);
  const auto map = index.is_object() ? index.find("weight_map") : index.end();
  if (!index.is_object() || map == index.end() || !map->is_object())
    fail(ExitCode::model_file, "{}: weight_map is missing; expected an object of tensor name to shard file",
         index_path.string());
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : map->items()) {
    if (!shard.is_string())
      fail(ExitCode::model_file, "{}: weight_map[{}]: found {}, expected a shard file name", index_path.string(),
           json_literal(tensor), short_dump(shard));
    shards.insert(shard.get<std::string>());
  }
  for (const std::string& shard : shards) checkpoint.add_file(shard_path(model_dir, shard));
  for (const auto& [tensor, shard] : map->items()) {
    const auto found = checkpoint.entries_.find(tensor);
    const fs::path named = model_dir / shard.get<std::string>();
    if (found == checkpoint.entries_.end() || checkpoint.files_[found->second.file].file().path() != named)
      fail(ExitCode::model_file, "{}: tensor {} is listed in shard {} but is not there", index_path.string(),
           json_literal(tensor), json_literal(shard.get<std::string>()));
  }
  return checkpoint;
}

void Checkpoint::add_file(const fs::path& path) {
  const SafetensorsFile& file = files_.emplace_back(path);
  for (size_t i = 0; i < file.tensors().size(); ++i) {
    const TensorInfo& tensor = file.tensors()[i];
    const auto [where, is_new] = entries_.try_emplace(tensor.name, Entry{files_.size() - 1, i});
    if (!is_new)
      fail(ExitCode::model_file, "{}: tensor {} is in two shards: {} and {}", dir_.string(), json_literal(tensor.name),
           files_[where->second.file].file().path().filename().string(), path.filename().string());
    total_bytes_ += tensor.bytes;
  }
}

const Checkpoint::Entry& Checkpoint::entry(std::string_view name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end())
    fail(ExitCode::model_file, "{}: tensor {} is missing", dir_.string(), json_literal(name));
  return found->second;
}

const TensorInfo* Checkpoint::find(std::string_view name) const {
  const auto found = entries_.find(name);
  return found == entries_.end() ? nullptr : &files_[found->second.file].tensors()[found->second.tensor];
}

std::vector<std::string> Checkpoint::names() const {
  std::vector<std::string> result;
  for (const auto& each : entries_) result.push_back(each.first);
  return result;
}

HostWeight Checkpoint::weight(std::string_view name) const {
  const SafetensorsFile& file = files_[entry(name).file];
  const TensorInfo& tensor = file.tensors()[entry(name).tensor];
  const std::string source = file.file().path().string();
  if (tensor.dtype != DType::f32 && tensor.dtype != DType::f16 && tensor.dtype != DType::bf16)
    fail(ExitCode::model_file, "{}: tensor {}: dtype {}; supported for weights: F32, F16, BF16", source,
         json_literal(name), tensor.file_dtype);
  if (tensor.shape.empty() || tensor.shape.size() > 2)
    fail(ExitCode::model_file, "{}: tensor {}: shape {}; expected one or two dimensions", source, json_literal(name),
         tensor.shape_text());
  if (tensor.offset % dtype_bytes(*tensor.dtype) != 0)
    fail(ExitCode::model_file, "{}: tensor {}: begins at byte {}, misaligned for {}; save it again with safetensors",
         source, json_literal(name), tensor.offset, tensor.file_dtype);
  file.file().check_size();
  const int64_t cols = tensor.shape.back();
  return {.data = file.data(tensor),
          .dtype = *tensor.dtype,
          .rows = tensor.shape.size() == 2 ? tensor.shape.front() : 1,
          .cols = cols,
          .row_stride = cols};
}

std::vector<int64_t> Checkpoint::integers(std::string_view name) const {
  const SafetensorsFile& file = files_[entry(name).file];
  const TensorInfo& tensor = file.tensors()[entry(name).tensor];
  if (tensor.file_dtype != "I64" || tensor.shape.size() != 1)
    fail(ExitCode::model_file, "{}: tensor {}: found {} of shape {}, expected I64 of one dimension",
         file.file().path().string(), json_literal(name), tensor.file_dtype, tensor.shape_text());
  file.file().check_size();
  std::vector<int64_t> values(size_t(tensor.shape[0]));
  std::memcpy(values.data(), file.data(tensor), values.size() * sizeof(int64_t));
  return values;
}

TensorPart Checkpoint::part(std::string_view name, const TensorRange& range) const {
  HostWeight view = weight(name);
  PACELINE_CHECK(range.row_begin + range.num_rows <= view.rows && range.col_begin + range.num_cols <= view.cols,
                 "{}: rows [{}, +{}), columns [{}, +{}) of [{}, {}]", name, range.row_begin, range.num_rows,
                 range.col_begin, range.num_cols, view.rows, view.cols);
  const int64_t first = range.row_begin * view.row_stride + range.col_begin;
  view.data = static_cast<const char*>(view.data) + first * int64_t(dtype_bytes(view.dtype));
  view.rows = range.num_rows;
  view.cols = range.num_cols;
  return {.view = view, .owned = {}};
}

void Checkpoint::release(std::string_view name) const {
  const SafetensorsFile& file = files_[entry(name).file];
  const TensorInfo& tensor = file.tensors()[entry(name).tensor];
  file.file().check_size();
  file.file().release(tensor.offset, tensor.bytes);
}

}  // namespace paceline
