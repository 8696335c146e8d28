#include "engine/weights/renamed_checkpoint.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "engine/util/json_io.h"

namespace paceline {
namespace {

/// The sites of `table` whose tensor is that of `tensor`.
std::vector<const WeightSite*> sites_in(const ModelSpec& spec, const ExpectedTensor& tensor) {
  const WeightSite& first = *find_site(*spec.table, tensor.role);
  std::vector<const WeightSite*> sites;
  for (const WeightSite& site : spec.table->sites) {
    if (site.module != first.module) continue;
    const auto shape = role_shape(spec, site.role, tensor.layer);
    if (shape && (tensor.piece == TensorPiece::bias ? shape->has_bias : shape->has_weight)) sites.push_back(&site);
  }
  return sites;
}

/// What the stored values of one table are more than those of the other.
float difference(const WeightSite& from, const WeightSite& to) {
  return (from.plus_one ? 1.0f : 0.0f) - (to.plus_one ? 1.0f : 0.0f);
}

}  // namespace

RenamedCheckpoint::RenamedCheckpoint(const TensorSource& source, const ModelSpec& from, const ModelSpec& to)
    : source_(source), from_(from), to_(to), weights_(source, from) {
  for (ExpectedTensor& tensor : expected_tensors(to)) {
    const std::vector<const WeightSite*> sites = sites_in(to, tensor);
    std::optional<DType> dtype;
    for (const WeightSite* const site : sites) {
      const std::string name =
          tensor_name(weights_.prefix(), *find_site(*from.table, site->role), tensor.piece, tensor.layer);
      const TensorInfo& info = *source.find(name);
      if (!info.dtype) source.part(name, {});  // says which types can be read
      if (dtype && dtype != info.dtype)
        fail(ExitCode::model_file, "{}: tensor {} would hold {} and {}; expected parts of one type", source.label(),
             json_literal(tensor.name), dtype_name(*dtype), dtype_name(*info.dtype));
      dtype = info.dtype;
    }
    TensorInfo info = made_tensor(tensor.name, tensor.shape, *dtype);
    entries_.add({.tensor = std::move(tensor), .sites = sites, .info = std::move(info)});
  }
}

TensorPart RenamedCheckpoint::part(std::string_view name, const TensorRange& range) const {
  const Entry& found = entries_.at(name);
  TensorPart out = new_part(range, *found.info.dtype);
  for (const WeightSite* const site : found.sites) put_role(found, *site, range, out);
  return out;
}

/// Those rows of the role that lie in `range` of the tensor go to their places in `out`.
void RenamedCheckpoint::put_role(const Entry& entry, const WeightSite& site, const TensorRange& range,
                                 TensorPart& out) const {
  const bool is_vector = entry.tensor.shape.size() == 1;
  const bool transposed = site.transposed && !is_vector;
  const bool along_cols = is_vector || transposed;  // the role's rows
  const int64_t begin = along_cols ? range.col_begin : range.row_begin;
  const int64_t end = begin + (along_cols ? range.num_cols : range.num_rows);
  const RowMap rows(to_, site, entry.tensor.layer);
  const bool is_head = is_per_head(site);  // the tensor holds one head's rows
  const int64_t num_rows = is_head ? to_.head_dim : role_shape(to_, site.role, entry.tensor.layer)->outputs;
  const int64_t rows_before = is_head ? int64_t{entry.tensor.head} * to_.head_dim : 0;
  const float shift = difference(*find_site(*from_.table, site.role), site);
  for (int64_t row = 0; row < num_rows;) {
    const RowRun run = rows.run(row, num_rows - row);
    PACELINE_CHECK(run.in_order, "tensor {} with rows by pairs", entry.tensor.name);
    const int64_t first = std::max(run.first, begin), last = std::min(run.first + run.num_rows, end);
    const int64_t count = last - first, role_row = rows_before + row + first - run.first;
    row += run.num_rows;
    if (count <= 0) continue;
    TensorRange wanted{
        .row_begin = role_row, .num_rows = count, .col_begin = range.col_begin, .num_cols = range.num_cols};
    if (is_vector) wanted = {.row_begin = 0, .num_rows = 1, .col_begin = role_row, .num_cols = count};
    if (transposed)
      wanted = {.row_begin = role_row, .num_rows = count, .col_begin = range.row_begin, .num_cols = range.num_rows};
    const TensorPart read = weights_.part(site.role, entry.tensor.piece, entry.tensor.layer, wanted);
    const int64_t at = first - begin;
    copy_into(read.view, transposed ? CopyOrder::transposed : CopyOrder::same, out, along_cols ? 0 : at,
              along_cols ? at : 0);
    if (shift == 0.0f || entry.tensor.piece == TensorPiece::bias) continue;
    PACELINE_CHECK(is_vector && read.view.dtype == DType::f32, "tensor {} with a shift", entry.tensor.name);
    for (int64_t i = 0; i < count; ++i) out.owned.floats()[at + i] += shift;
  }
}

void RenamedCheckpoint::release(std::string_view name) const {
  const Entry& found = entries_.at(name);
  for (const WeightSite* const site : found.sites) weights_.release(site->role, found.tensor.piece, found.tensor.layer);
}

}  // namespace paceline
