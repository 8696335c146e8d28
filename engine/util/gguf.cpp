#include "engine/util/gguf.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "engine/util/checked_math.h"
#include "engine/util/json_io.h"

namespace paceline {
namespace fs = std::filesystem;
namespace {

using Kind = GgufValue::Kind;

constexpr uint64_t kMinEntryBytes = 8 + 4 + 1;       // an empty key and one byte
constexpr uint64_t kMinTensorBytes = 8 + 4 + 4 + 8;  // an empty name and no dimension
constexpr uint64_t kDefaultAlignment = 32;
constexpr uint64_t kMinAlignment = 8, kMaxAlignment = uint64_t{1} << 20;
constexpr uint32_t kMaxDims = 4;
constexpr uint64_t kMaxParts = 99999;  // five digits of a name

constexpr std::array<std::string_view, 13> kKindNames = {"u8",   "i8",      "u16",    "i16", "u32", "i32", "f32",
                                                         "bool", "strings", "arrays", "u64", "i64", "f64"};

/// 0: no fixed size.
constexpr uint64_t kind_bytes(Kind kind) {
  switch (kind) {
    case Kind::u8:
    case Kind::i8:
    case Kind::boolean: return 1;
    case Kind::u16:
    case Kind::i16: return 2;
    case Kind::u32:
    case Kind::i32:
    case Kind::f32: return 4;
    case Kind::u64:
    case Kind::i64:
    case Kind::f64: return 8;
    case Kind::string:
    case Kind::array: break;
  }
  return 0;
}

template <class T>
T load_as(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

/// The double that `value` is short for: 1e-05, not 9.99999974e-06, as the model's own configuration had it.
double shortest(float value) {
  char text[32];
  const auto written = std::to_chars(text, text + sizeof text, value);
  double result = value;
  std::from_chars(text, written.ptr, result);
  return result;
}

/// Walks through the head of a file. Throws Error(model_file) with file and byte.
class HeadReader {
 public:
  HeadReader(std::span<const std::byte> bytes, std::string source) : bytes_(bytes), source_(std::move(source)) {}

  uint64_t at() const { return at_; }
  uint64_t left() const { return bytes_.size() - at_; }

  std::span<const std::byte> take(uint64_t count, std::string_view what) {
    if (count > left())
      reject(fmt::format("{} needs {} bytes, but {} follow: truncated or damaged; download it again", what, count,
                         left()));
    const std::span<const std::byte> taken = bytes_.subspan(at_, count);
    at_ += count;
    return taken;
  }
  template <class T>
  T number(std::string_view what) {
    return load_as<T>(take(sizeof(T), what).data());
  }
  std::string_view text(std::string_view what) {
    const auto length = number<uint64_t>(what);
    const std::span<const std::byte> taken = take(length, what);
    return {reinterpret_cast<const char*>(taken.data()), taken.size()};
  }

  [[noreturn]] void reject(const std::string& reason) const {
    fail(ExitCode::model_file, "{}: byte {}: {}", source_, at_, reason);
  }
  const std::string& source() const { return source_; }

 private:
  std::span<const std::byte> bytes_;
  std::string source_;
  uint64_t at_ = 0;
};

/// The elements at the reader's place; `label` names the entry.
std::span<const std::byte> take_elements(HeadReader& reader, Kind kind, uint64_t count, const std::string& label) {
  if (kind != Kind::string) {
    const std::optional<uint64_t> bytes = checked_mul(count, kind_bytes(kind));
    if (!bytes) reader.reject(fmt::format("{}: the size of {} elements overflows 64 bits", label, count));
    return reader.take(*bytes, label);
  }
  if (count > reader.left() / sizeof(uint64_t))
    reader.reject(fmt::format("{}: {} strings do not fit in the {} bytes that follow: truncated or damaged", label,
                              count, reader.left()));
  HeadReader ahead = reader;
  for (uint64_t i = 0; i < count; ++i) ahead.text(label);
  return reader.take(ahead.at() - reader.at(), label);
}

Kind read_kind(HeadReader& reader, const std::string& label) {
  const auto number = reader.number<uint32_t>(label);
  if (number >= kKindNames.size())
    reader.reject(fmt::format("{}: unknown value type {}; expected 0 to {}", label, number, kKindNames.size() - 1));
  return Kind(number);
}

GgufValue read_value(HeadReader& reader, const std::string& label) {
  Kind kind = read_kind(reader, label);
  const bool is_array = kind == Kind::array;
  uint64_t count = 1;
  if (is_array) {
    kind = read_kind(reader, label);
    if (kind == Kind::array) reader.reject(fmt::format("{}: an array of arrays; expected numbers or strings", label));
    count = reader.number<uint64_t>(label);
  }
  const std::span<const std::byte> bytes = take_elements(reader, kind, count, label);
  if (kind == Kind::boolean)
    for (const std::byte each : bytes)
      if (each > std::byte{1}) reader.reject(fmt::format("{}: found {}, expected 0 or 1", label, int(each)));
  return {kind, is_array, count, bytes};
}

GgufTensor read_tensor(HeadReader& reader) {
  GgufTensor tensor;
  tensor.name = std::string(reader.text("the name of a tensor"));
  const std::string label = "tensor " + json_literal(tensor.name);
  const auto num_dims = reader.number<uint32_t>(label);
  if (num_dims == 0 || num_dims > kMaxDims)
    reader.reject(fmt::format("{}: {} dimensions; expected 1 to {}", label, num_dims, kMaxDims));
  std::optional<uint64_t> elements = 1;
  for (uint32_t i = 0; i < num_dims; ++i) {
    const auto size = reader.number<uint64_t>(label);
    if (size == 0 || size > uint64_t(std::numeric_limits<int64_t>::max()))
      reader.reject(fmt::format("{}: a dimension of {}; expected 1 to 2^63 - 1", label, size));
    tensor.shape.insert(tensor.shape.begin(), int64_t(size));
    if (elements) elements = checked_mul(*elements, size);
  }
  const auto number = reader.number<uint32_t>(label);
  tensor.type = find_gguf_type(number);
  if (!tensor.type) reader.reject(fmt::format("{}: unknown type {}; written by a newer program?", label, number));
  if (tensor.shape.back() % tensor.type->block_elements != 0)
    reader.reject(fmt::format("{}: rows of {} values are not whole blocks of {} ({})", label, tensor.shape.back(),
                              tensor.type->block_elements, tensor.type->name));
  const std::optional<uint64_t> bytes =
      elements ? checked_mul(*elements / tensor.type->block_elements, tensor.type->block_bytes) : std::nullopt;
  if (!bytes)
    reader.reject(fmt::format("{}: the size of [{}] x {} overflows 64 bits", label, fmt::join(tensor.shape, ", "),
                              tensor.type->name));
  tensor.bytes = *bytes;
  tensor.offset = reader.number<uint64_t>(label);
  return tensor;
}

/// Numbers as they stand in the file, made ones that count in the file; checks them against each other.
void place_tensors(std::vector<GgufTensor>& tensors, const HeadReader& reader, uint64_t alignment,
                   uint64_t file_bytes) {
  const std::string& source = reader.source();
  const auto label = [](const GgufTensor& tensor) { return json_literal(tensor.name); };
  const uint64_t padding = (alignment - reader.at() % alignment) % alignment;
  const uint64_t data_begin = reader.at() + padding;  // less than a file's size and 2^20
  for (GgufTensor& tensor : tensors) {
    if (tensor.offset % alignment != 0)
      fail(ExitCode::model_file, "{}: tensor {}: offset {} is no multiple of general.alignment {}", source,
           label(tensor), tensor.offset, alignment);
    const std::optional<uint64_t> begin = checked_add(tensor.offset, data_begin);
    const std::optional<uint64_t> end = begin ? checked_add(*begin, tensor.bytes) : std::nullopt;
    if (!end || *end > file_bytes)
      fail(ExitCode::model_file,
           "{}: tensor {}: {} bytes from data byte {} on end beyond the file of {}: truncated; download it again",
           source, label(tensor), tensor.bytes, tensor.offset, file_bytes);
    tensor.offset = *begin;
  }
  std::vector<const GgufTensor*> order;
  for (const GgufTensor& tensor : tensors) order.push_back(&tensor);
  std::sort(order.begin(), order.end(), [](const GgufTensor* a, const GgufTensor* b) { return a->offset < b->offset; });
  for (size_t i = 1; i < order.size(); ++i)
    if (order[i]->offset < order[i - 1]->offset + order[i - 1]->bytes)
      fail(ExitCode::model_file, "{}: tensors {} and {} overlap at byte {}", source, label(*order[i - 1]),
           label(*order[i]), order[i]->offset);
}

/// What a value that must be one whole number says; `label` for messages.
uint64_t whole_number(const GgufValue& value, const std::string& source, std::string_view key, uint64_t most) {
  const std::vector<int64_t> numbers = value.integers();
  if (value.is_array() || numbers.empty() || numbers[0] < 0 || uint64_t(numbers[0]) > most)
    fail(ExitCode::model_file, "{}: {}: found {}, expected an integer from 0 to {}", source, key, value.text(), most);
  return uint64_t(numbers[0]);
}

/// "NAME" of NAME-00001-of-00003.gguf; empty where `path` has another name.
std::string split_stem(const fs::path& path, uint64_t index, uint64_t count) {
  const std::string name = path.filename().string(), end = fmt::format("-{:05}-of-{:05}.gguf", index + 1, count);
  return name.size() > end.size() && name.ends_with(end) ? name.substr(0, name.size() - end.size()) : "";
}

struct FileHead {
  std::map<std::string, GgufValue, std::less<>> metadata;
  std::vector<GgufTensor> tensors;
};

FileHead read_head(const MappedFile& file) {
  const std::string source = file.path().string();
  HeadReader reader(file.bytes(), source);
  const std::span<const std::byte> magic = reader.take(4, "\"GGUF\"");
  if (std::memcmp(magic.data(), "GGUF", 4) != 0)
    fail(ExitCode::model_file, "{}: does not begin with \"GGUF\"; expected a GGUF file", source);
  const auto version = reader.number<uint32_t>("the version");
  if (version != 2 && version != 3) {
    if (version == __builtin_bswap32(2) || version == __builtin_bswap32(3))
      fail(ExitCode::model_file, "{}: is big-endian; expected a little-endian file: convert the model again", source);
    fail(ExitCode::model_file, "{}: GGUF version {}; supported: 2, 3", source, version);
  }
  const auto num_tensors = reader.number<uint64_t>("the number of tensors");
  const auto num_entries = reader.number<uint64_t>("the number of entries");
  if (num_entries > reader.left() / kMinEntryBytes)
    reader.reject(fmt::format("{} entries do not fit in the {} bytes that follow: truncated or damaged", num_entries,
                              reader.left()));
  FileHead head;
  for (uint64_t i = 0; i < num_entries; ++i) {
    const std::string key(reader.text("the key of an entry"));
    const GgufValue value = read_value(reader, json_literal(key));
    if (!head.metadata.emplace(key, value).second) reader.reject(fmt::format("{} is given twice", json_literal(key)));
  }
  if (num_tensors > reader.left() / kMinTensorBytes)
    reader.reject(fmt::format("{} tensors do not fit in the {} bytes that follow: truncated or damaged", num_tensors,
                              reader.left()));
  for (uint64_t i = 0; i < num_tensors; ++i) head.tensors.push_back(read_tensor(reader));
  uint64_t alignment = kDefaultAlignment;
  if (const auto found = head.metadata.find("general.alignment"); found != head.metadata.end()) {
    alignment = whole_number(found->second, source, "general.alignment", kMaxAlignment);
    if (alignment < kMinAlignment || (alignment & (alignment - 1)) != 0)
      fail(ExitCode::model_file, "{}: general.alignment: found {}, expected a power of two from {} to {}", source,
           alignment, kMinAlignment, kMaxAlignment);
  }
  place_tensors(head.tensors, reader, alignment, file.bytes().size());
  return head;
}

/// 0 where the file is whole.
struct SplitPlace {
  uint64_t index = 0;
  uint64_t count = 0;
};

SplitPlace split_place(const FileHead& head, const std::string& source) {
  const auto read = [&](const char* key, uint64_t most) {
    const auto found = head.metadata.find(key);
    return found == head.metadata.end() ? 0 : whole_number(found->second, source, key, most);
  };
  SplitPlace place{.index = read("split.no", kMaxParts), .count = read("split.count", kMaxParts)};
  if (place.count <= 1) return {};
  if (place.index >= place.count)
    fail(ExitCode::model_file, "{}: split.no is {} of split.count {}; expected less", source, place.index, place.count);
  return place;
}

fs::path part_path(const fs::path& any, const std::string& stem, uint64_t index, uint64_t count) {
  return any.parent_path() / fmt::format("{}-{:05}-of-{:05}.gguf", stem, index + 1, count);
}

}  // namespace

std::vector<int64_t> GgufValue::integers() const {
  std::vector<int64_t> out;
  if (kind_ == Kind::string || kind_ == Kind::boolean || kind_ == Kind::f32 || kind_ == Kind::f64) return out;
  out.reserve(count_);
  for (uint64_t i = 0; i < count_; ++i) {
    const std::byte* const at = bytes_.data() + i * kind_bytes(kind_);
    switch (kind_) {
      case Kind::u8: out.push_back(load_as<uint8_t>(at)); break;
      case Kind::i8: out.push_back(load_as<int8_t>(at)); break;
      case Kind::u16: out.push_back(load_as<uint16_t>(at)); break;
      case Kind::i16: out.push_back(load_as<int16_t>(at)); break;
      case Kind::u32: out.push_back(load_as<uint32_t>(at)); break;
      case Kind::i32: out.push_back(load_as<int32_t>(at)); break;
      case Kind::i64: out.push_back(load_as<int64_t>(at)); break;
      default: {
        const auto value = load_as<uint64_t>(at);
        if (value > uint64_t(std::numeric_limits<int64_t>::max())) return {};
        out.push_back(int64_t(value));
      }
    }
  }
  return out;
}

std::vector<double> GgufValue::reals() const {
  std::vector<double> out;
  if (kind_ == Kind::f32 || kind_ == Kind::f64) {
    for (uint64_t i = 0; i < count_; ++i)
      out.push_back(kind_ == Kind::f32 ? shortest(load_as<float>(bytes_.data() + i * sizeof(float)))
                                       : load_as<double>(bytes_.data() + i * sizeof(double)));
    return out;
  }
  for (const int64_t value : integers()) out.push_back(double(value));
  return out;
}

std::vector<std::string_view> GgufValue::strings() const {
  std::vector<std::string_view> out;
  if (kind_ != Kind::string) return out;
  out.reserve(count_);
  for (const std::byte* at = bytes_.data(); out.size() < count_;) {
    const auto length = load_as<uint64_t>(at);
    out.emplace_back(reinterpret_cast<const char*>(at + sizeof length), length);
    at += sizeof length + length;
  }
  return out;
}

std::vector<bool> GgufValue::booleans() const {
  std::vector<bool> out;
  if (kind_ != Kind::boolean) return out;
  for (const std::byte each : bytes_) out.push_back(each == std::byte{1});
  return out;
}

bool GgufValue::is_true() const { return !is_array_ && booleans() == std::vector<bool>{true}; }

std::string GgufValue::text() const {
  if (is_array_) return fmt::format("array of {} {}", count_, kKindNames[size_t(kind_)]);
  if (kind_ == Kind::string) return json_literal(strings()[0]);
  if (kind_ == Kind::boolean) return is_true() ? "true" : "false";
  if (kind_ == Kind::u64) return std::to_string(load_as<uint64_t>(bytes_.data()));
  if (kind_ == Kind::f32 || kind_ == Kind::f64) return fmt::format("{}", reals()[0]);
  return std::to_string(integers()[0]);
}

GgufFile::GgufFile(const fs::path& path) {
  const MappedFile opened(path);
  const SplitPlace place = split_place(read_head(opened), path.string());
  if (place.count == 0) {
    add_file(path, 0);
    return;
  }
  const std::string stem = split_stem(path, place.index, place.count);
  if (stem.empty())
    fail(ExitCode::model_file, "{}: is part {} of {} by split.no; expected its name to end in -{:05}-of-{:05}.gguf",
         path.string(), place.index + 1, place.count, place.index + 1, place.count);
  std::error_code ignored;
  for (uint64_t part = 0; part < place.count; ++part) {
    const fs::path each = part_path(path, stem, part, place.count);
    if (!fs::exists(fs::symlink_status(each, ignored)))
      fail(ExitCode::model_file, "{}: part {} of {} is missing: found no {}; put all parts into one folder",
           path.string(), part + 1, place.count, each.filename().string());
    add_file(each, place.count);
  }
  if (const GgufValue* const total = find("split.tensors.count")) {
    const uint64_t expected = whole_number(*total, this->path().string(), "split.tensors.count",
                                           uint64_t(std::numeric_limits<int32_t>::max()));
    if (expected != tensors_.size())
      fail(ExitCode::model_file, "{}: its {} parts hold {} tensors, expected {} by split.tensors.count",
           this->path().string(), place.count, tensors_.size(), expected);
  }
}

void GgufFile::add_file(const fs::path& path, uint64_t num_parts) {
  const size_t index = files_.size();
  const MappedFile& file = files_.emplace_back(path);
  FileHead head = read_head(file);
  const SplitPlace place = split_place(head, path.string());
  if (place.index != index || place.count != num_parts)
    fail(ExitCode::model_file, "{}: is part {} of {} by split.no and split.count; expected part {} of {} by its name",
         path.string(), place.index + 1, place.count, index + 1, num_parts);
  if (index == 0) metadata_ = std::move(head.metadata);
  for (GgufTensor& tensor : head.tensors) {
    tensor.file = index;
    std::string name = tensor.name;
    const auto [where, is_new] = tensors_.try_emplace(std::move(name), std::move(tensor));
    if (!is_new) fail(ExitCode::model_file, "{}: tensor {} is there twice", path.string(), json_literal(where->first));
  }
}

const GgufValue* GgufFile::find(std::string_view key) const {
  const auto found = metadata_.find(key);
  return found == metadata_.end() ? nullptr : &found->second;
}

const GgufTensor* GgufFile::find_tensor(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

bool is_gguf_path(const fs::path& path) {
  std::error_code ignored;
  return path.extension() == ".gguf" && !fs::is_directory(path, ignored);
}

bool is_later_gguf_part(const fs::path& path) {
  const std::string name = path.filename().string();
  constexpr size_t kEnd = std::string_view("00002-of-00003.gguf").size(),
                   kCount = std::string_view("00003.gguf").size();
  if (name.size() <= kEnd) return false;
  uint64_t number = 0, count = 0;
  const char* const end = name.data() + name.size();
  std::from_chars(end - kEnd, end, number);
  std::from_chars(end - kCount, end, count);
  return number > 1 && !split_stem(path, number - 1, count).empty();
}

}  // namespace paceline
