#include "engine/weights/gguf_checkpoint.h"

#include <utility>

#include "engine/util/json_io.h"
#include "engine/weights/gguf_blocks.h"
#include "engine/weights/made/generated_tensors.h"
#include "kernels/row_blocks.h"

namespace paceline {
namespace {

TensorInfo info_of(const GgufTensor& tensor, DType widened) {
  TensorInfo info{.name = tensor.name,
                  .file_dtype = std::string(tensor.type->name),
                  .dtype = plain_dtype(*tensor.type),
                  .shape = tensor.shape,
                  .offset = tensor.offset,
                  .bytes = tensor.bytes};
  if (info.dtype || !is_decodable(*tensor.type)) return info;
  info.dtype = tensor.shape.size() == 1 ? DType::f32 : widened;
  info.file_dtype = file_dtype_name(*info.dtype);
  const uint64_t num_blocks = tensor.bytes / tensor.type->block_bytes;
  info.bytes = num_blocks * tensor.type->block_elements * dtype_bytes(*info.dtype);
  return info;
}

/// `range` of the packed tensor at `data`, rows of `cols` values.
class PackedRows final : public RowSource {
 public:
  PackedRows(const GgufTypeInfo& type, const std::byte* data, int64_t cols, const TensorRange& range, DType dtype)
      : type_(type), data_(data), cols_(cols), range_(range), dtype_(dtype) {}
  void make(int64_t begin, int64_t count, void* out) const override {
    TensorRange rows = range_;
    rows.row_begin += begin;
    rows.num_rows = count;
    decode_gguf(type_, data_, cols_, rows, dtype_, out);
  }

 private:
  const GgufTypeInfo& type_;
  const std::byte* const data_;
  const int64_t cols_;
  const TensorRange range_;
  const DType dtype_;
};

}  // namespace

GgufCheckpoint::GgufCheckpoint(GgufFile file, DType widened) : file_(std::move(file)) {
  for (const auto& [name, tensor] : file_.tensors()) infos_.emplace(name, info_of(tensor, widened));
}

const GgufTensor& GgufCheckpoint::tensor(std::string_view name) const {
  const GgufTensor* const found = file_.find_tensor(name);
  if (!found) fail(ExitCode::model_file, "{}: tensor {} is missing", label(), json_literal(name));
  return *found;
}

const TensorInfo* GgufCheckpoint::find(std::string_view name) const {
  const auto found = infos_.find(name);
  return found == infos_.end() ? nullptr : &found->second;
}

std::vector<std::string> GgufCheckpoint::names() const {
  std::vector<std::string> result;
  for (const auto& each : infos_) result.push_back(each.first);
  return result;
}

HostWeight GgufCheckpoint::view_of(std::string_view name, const TensorRange& range) const {
  const GgufTensor& packed = tensor(name);
  const TensorInfo& info = *find(name);
  const MappedFile& file = file_.files()[packed.file];
  if (!info.dtype)
    fail(ExitCode::model_file, "{}: tensor {} has type {}; supported: {}", file.path().string(), json_literal(name),
         packed.type->name, decodable_gguf_types());
  if (info.shape.size() > 2)
    fail(ExitCode::model_file, "{}: tensor {}: shape {}; expected one or two dimensions", file.path().string(),
         json_literal(name), info.shape_text());
  const TensorRange whole = whole_range(info);
  PACELINE_CHECK(
      range.row_begin + range.num_rows <= whole.num_rows && range.col_begin + range.num_cols <= whole.num_cols,
      "{}: rows [{}, +{}), columns [{}, +{}) of [{}, {}]", name, range.row_begin, range.num_rows, range.col_begin,
      range.num_cols, whole.num_rows, whole.num_cols);
  file.check_size();
  HostWeight view{.dtype = *info.dtype, .rows = range.num_rows, .cols = range.num_cols, .row_stride = range.num_cols};
  if (plain_dtype(*packed.type)) {
    const int64_t first = range.row_begin * whole.num_cols + range.col_begin;
    view.data = file_.data(packed) + first * int64_t(dtype_bytes(*info.dtype));
    view.row_stride = whole.num_cols;
  }
  return view;
}

TensorPart GgufCheckpoint::rows_of(std::string_view name, const TensorRange& range) const {
  TensorPart part{.view = view_of(name, range), .owned = {}};
  if (part.view.data) return {};  // plain
  const GgufTensor& packed = tensor(name);
  part.made = std::make_shared<PackedRows>(*packed.type, file_.data(packed), whole_range(*find(name)).num_cols, range,
                                           part.view.dtype);
  part.view.made = part.made.get();
  return part;
}

TensorPart GgufCheckpoint::part_on(ThreadPool* pool, std::string_view name, const TensorRange& range) const {
  const TensorPart rows = rows_of(name, range);
  if (!rows.made) return {.view = view_of(name, range), .owned = {}};
  TensorPart part = room_for(range, rows.view.dtype);
  const int64_t row_bytes = range.num_cols * int64_t(dtype_bytes(rows.view.dtype));
  for_row_blocks(pool, range.num_rows, range.num_cols, [&](int64_t begin, int64_t end) {
    rows.made->make(begin, end - begin, static_cast<std::byte*>(part.owned.data()) + begin * row_bytes);
  });
  return part;
}

void GgufCheckpoint::release(std::string_view name) const {
  const GgufTensor& packed = tensor(name);
  const MappedFile& file = file_.files()[packed.file];
  file.check_size();
  file.release(packed.offset, packed.bytes);
}

}  // namespace paceline
