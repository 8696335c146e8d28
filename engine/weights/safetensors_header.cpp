#include "engine/weights/safetensors_header.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "engine/util/checked_math.h"
#include "engine/util/json_io.h"
#include "engine/util/json_io_sax.h"

namespace paceline {
namespace {

using nlohmann::json;

constexpr size_t kMaxDims = 32;

struct FileDType {
  std::string_view name;
  unsigned bits;
  std::optional<DType> dtype;
};

constexpr std::array<FileDType, 21> kFileDTypes = {{
    {"F32", 32, DType::f32}, {"F16", 16, DType::f16}, {"BF16", 16, DType::bf16}, {"F8_E4M3", 8, DType::fp8_e4m3},
    {"I8", 8, DType::i8},    {"I32", 32, DType::i32}, {"BOOL", 8, {}},           {"U8", 8, {}},
    {"F8_E5M2", 8, {}},      {"F8_E8M0", 8, {}},      {"I16", 16, {}},           {"U16", 16, {}},
    {"U32", 32, {}},         {"F64", 64, {}},         {"I64", 64, {}},           {"U64", 64, {}},
    {"C64", 64, {}},         {"F4", 4, {}},           {"F6_E2M3", 6, {}},        {"F6_E3M2", 6, {}},
    {"F8_E4M3FNUZ", 8, {}},
}};

std::string supported_dtypes() {
  std::string list;
  for (const FileDType& known : kFileDTypes) list += (list.empty() ? "" : ", ") + std::string(known.name);
  return list;
}

/// {"name": {"dtype": …, "shape": […], "data_offsets": [b, e]}, …, "__metadata__": {text: text}}; anything else is
/// refused where it stands, so nesting never goes deeper than three levels.
class HeaderReader : public nlohmann::json_sax<json> {
 public:
  HeaderReader(std::string_view text, const std::string& source, uint64_t first_byte)
      : text_(text), source_(source), first_byte_(first_byte) {}

  std::vector<TensorInfo> read() {
    sax_parse_counted(text_, this, &furthest_);
    return std::move(tensors_);
  }

  bool null() override { return value("null"); }
  bool boolean(bool) override { return value("a boolean"); }
  bool number_integer(number_integer_t number) override { return value(std::to_string(number)); }
  bool number_float(number_float_t, const string_t& text) override { return value(text); }
  bool binary(binary_t&) override { return false; }
  bool number_unsigned(number_unsigned_t number) override {
    if (place_ == Place::shape && tensor().shape.size() < kMaxDims) {
      if (number > uint64_t(std::numeric_limits<int64_t>::max())) {
        reject(fmt::format("tensor {}: dimension {} overflows 63 bits", json_literal(tensor().name), number));
      }
      tensor().shape.push_back(int64_t(number));
      return true;
    }
    if (place_ == Place::offsets && num_offsets_ < 2) {
      (num_offsets_++ == 0 ? tensor().offset : end_) = number;
      return true;
    }
    return value(std::to_string(number));
  }
  bool string(string_t& text) override {
    if (place_ == Place::metadata) return true;
    if (place_ == Place::tensor && field_ == Field::dtype) {
      tensor().file_dtype = std::move(text);
      return true;
    }
    return value(json_literal(text));
  }
  bool start_object(size_t) override {
    if (place_ == Place::start) {
      place_ = Place::top;
    } else if (place_ == Place::top) {
      place_ = in_metadata_ ? Place::metadata : Place::tensor;
      field_ = Field::none;
      seen_ = {};
    } else {
      return value("an object");
    }
    return true;
  }
  bool end_object() override {
    if (place_ == Place::tensor) finish_tensor();
    place_ = Place::top;
    return true;
  }
  bool start_array(size_t) override {
    if (place_ != Place::tensor || (field_ != Field::shape && field_ != Field::offsets)) return value("an array");
    place_ = field_ == Field::shape ? Place::shape : Place::offsets;
    num_offsets_ = 0;
    return true;
  }
  bool end_array() override {
    if (place_ == Place::offsets && num_offsets_ != 2)
      reject(fmt::format("tensor {}: data_offsets holds {} numbers, expected [begin, end]", json_literal(tensor().name),
                         num_offsets_));
    place_ = Place::tensor;
    return true;
  }
  bool key(string_t& name) override {
    switch (place_) {
      case Place::top:
        in_metadata_ = name == "__metadata__";
        if (in_metadata_ && std::exchange(metadata_seen_, true)) reject("duplicate key \"__metadata__\"");
        if (!in_metadata_) tensors_.emplace_back().name = std::move(name);
        break;
      case Place::metadata: metadata_key_ = std::move(name); break;
      default: field_ = field_of(name);
    }
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& error) override {
    reject("header is not JSON: " + json_error_text(error.what()));
  }

 private:
  enum class Place : uint8_t { start, top, metadata, tensor, shape, offsets };
  enum class Field : uint8_t { none, dtype, shape, offsets };

  TensorInfo& tensor() { return tensors_.back(); }

  [[noreturn]] void reject(const std::string& reason) const {
    fail(ExitCode::model_file, "{}: byte {}: {}", source_, first_byte_ + uint64_t(furthest_ - text_.data()) - 1,
         reason);
  }

  Field field_of(const std::string& name) {
    const Field field = name == "dtype"          ? Field::dtype
                        : name == "shape"        ? Field::shape
                        : name == "data_offsets" ? Field::offsets
                                                 : Field::none;
    if (field == Field::none)
      reject(fmt::format("tensor {}: unknown field {}; expected dtype, shape, data_offsets",
                         json_literal(tensor().name), json_literal(name)));
    if (std::exchange(seen_[size_t(field)], true))
      reject(fmt::format("tensor {}: field {} given twice", json_literal(tensor().name), name));
    return field;
  }

  /// A value that its place does not allow.
  bool value(const std::string& found) {
    switch (place_) {
      case Place::start: reject(fmt::format("found {}, expected an object of tensors", found));
      case Place::top:
        if (in_metadata_) reject(fmt::format("__metadata__ is {}, expected an object of strings", found));
        reject(fmt::format("tensor {} is {}, expected an object", json_literal(tensor().name), found));
      case Place::metadata:
        reject(fmt::format("__metadata__ key {} holds {}, expected a string", json_literal(metadata_key_), found));
      case Place::shape:
        reject(fmt::format("tensor {}: shape holds {}, expected at most {} non-negative integers",
                           json_literal(tensor().name), found, kMaxDims));
      case Place::offsets:
        reject(fmt::format("tensor {}: data_offsets holds {}, expected two non-negative integers",
                           json_literal(tensor().name), found));
      case Place::tensor: break;
    }
    const char* expected = field_ == Field::dtype   ? "dtype to be a string"
                           : field_ == Field::shape ? "shape to be an array"
                                                    : "data_offsets to be an array";
    reject(fmt::format("tensor {}: found {}, expected {}", json_literal(tensor().name), found, expected));
  }

  void finish_tensor() {
    TensorInfo& done = tensor();
    const std::string name = json_literal(done.name);
    for (const auto& [field, label] : {std::pair{Field::dtype, "dtype"}, std::pair{Field::shape, "shape"},
                                       std::pair{Field::offsets, "data_offsets"}})
      if (!seen_[size_t(field)]) reject(fmt::format("tensor {}: field {} is missing", name, label));
    const auto known = std::find_if(kFileDTypes.begin(), kFileDTypes.end(),
                                    [&](const FileDType& each) { return each.name == done.file_dtype; });
    if (known == kFileDTypes.end())
      reject(fmt::format("tensor {}: unknown dtype {}; supported: {}", name, json_literal(done.file_dtype),
                         supported_dtypes()));
    done.dtype = known->dtype;
    std::optional<uint64_t> bits = known->bits;
    for (const int64_t dim : done.shape)
      if (bits) bits = checked_mul(*bits, uint64_t(dim));
    if (!bits) reject(fmt::format("tensor {}: size of shape {} overflows 64 bits", name, done.shape_text()));
    if (*bits % 8 != 0)
      reject(fmt::format("tensor {}: {} x {} is {} bits, not whole bytes (misaligned)", name, done.shape_text(),
                         done.file_dtype, *bits));
    if (end_ < done.offset)
      reject(fmt::format("tensor {}: data_offsets [{}, {}] run backwards", name, done.offset, end_));
    done.bytes = end_ - done.offset;
    if (done.bytes != *bits / 8)
      reject(fmt::format("tensor {}: data_offsets [{}, {}] hold {} bytes, but shape {} x {} needs {}", name,
                         done.offset, end_, done.bytes, done.shape_text(), done.file_dtype, *bits / 8));
  }

  std::string_view text_;
  const std::string& source_;
  uint64_t first_byte_;
  const char* furthest_ = nullptr;
  Place place_ = Place::start;
  Field field_ = Field::none;
  std::array<bool, 4> seen_ = {};
  bool in_metadata_ = false;
  bool metadata_seen_ = false;
  std::string metadata_key_;
  int num_offsets_ = 0;
  uint64_t end_ = 0;
  std::vector<TensorInfo> tensors_;
};

void check_names(const std::vector<TensorInfo>& tensors, const std::string& source) {
  std::vector<std::string_view> names;
  names.reserve(tensors.size());
  for (const TensorInfo& tensor : tensors) names.push_back(tensor.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end())
    fail(ExitCode::model_file, "{}: tensor {} is listed twice; expected each name once", source, json_literal(*twice));
}

/// `tensors` ordered by offset.
void check_coverage(const std::vector<TensorInfo>& tensors, const std::string& source, uint64_t data_bytes) {
  uint64_t covered = 0;
  const auto previous = [&](size_t index) {
    return index == 0 ? std::string("the start of the data") : json_literal(tensors[index - 1].name);
  };
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TensorInfo& tensor = tensors[i];
    if (tensor.offset < covered)
      fail(ExitCode::model_file, "{}: tensors {} and {} overlap: {} ends at {}, {} begins at {}", source, previous(i),
           json_literal(tensor.name), previous(i), covered, json_literal(tensor.name), tensor.offset);
    if (tensor.offset > covered)
      fail(ExitCode::model_file, "{}: hole of {} bytes between {} and tensor {}; expected tensors without gaps", source,
           tensor.offset - covered, previous(i), json_literal(tensor.name));
    covered = tensor.offset + tensor.bytes;
    if (covered > data_bytes)
      fail(ExitCode::model_file,
           "{}: tensor {} ends at data byte {}, but the file holds {} data bytes: truncated; download it again", source,
           json_literal(tensor.name), covered, data_bytes);
  }
  if (covered != data_bytes)
    fail(ExitCode::model_file, "{}: {} trailing bytes after {}; expected the data to end at byte {}", source,
         data_bytes - covered, tensors.empty() ? "the header" : "the last tensor " + json_literal(tensors.back().name),
         covered);
}

}  // namespace

std::vector<TensorInfo> parse_safetensors_header(std::string_view header, const std::string& source,
                                                 uint64_t data_bytes, uint64_t first_byte) {
  if (header.empty() || header.front() != '{')
    fail(ExitCode::model_file, "{}: byte {}: header must begin with '{{'", source, first_byte);
  // The parser takes a raw NUL for the end of its input and would ignore what follows.
  if (const size_t nul = header.find('\0'); nul != header.npos)
    fail(ExitCode::model_file, "{}: byte {}: header is not JSON: NUL byte", source, first_byte + nul);
  std::vector<TensorInfo> tensors = HeaderReader(header, source, first_byte).read();
  check_names(tensors, source);
  std::stable_sort(tensors.begin(), tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return std::pair(a.offset, a.bytes) < std::pair(b.offset, b.bytes);
  });
  check_coverage(tensors, source, data_bytes);
  return tensors;
}

}  // namespace paceline
