#include "engine/weights/role_weights.h"

#include <algorithm>
#include <cstring>

#include "engine/util/json_io.h"
#include "engine/weights/shard_weights_values.h"

namespace paceline {
namespace {

std::string_view prefix_in(const TensorSource& source, const WeightTable& table) {
  const WeightSite* const embed = find_site(table, TensorRole::embed);
  PACELINE_CHECK(embed != nullptr, "a table without embedding");
  for (const std::string_view prefix : table.prefixes)
    if (source.find(tensor_name(prefix, *embed, TensorPiece::weight, 0))) return prefix;
  return table.prefixes.empty() ? std::string_view() : table.prefixes.front();
}

/// to[col, row] = from[row, col], in squares that stay in the cache. Shapes: from [rows, cols], to [cols, rows].
template <class Bits>
void transpose_into(const HostWeight& from, Bits* to, int64_t to_stride) {
  constexpr int64_t kSquare = 32;
  const auto* const data = static_cast<const Bits*>(from.data);
  for (int64_t row = 0; row < from.rows; row += kSquare)
    for (int64_t col = 0; col < from.cols; col += kSquare)
      for (int64_t c = col; c < std::min(col + kSquare, from.cols); ++c)
        for (int64_t r = row; r < std::min(row + kSquare, from.rows); ++r)
          to[c * to_stride + r] = data[r * from.row_stride + c];
}

/// Puts `from`, rows of the tensor as the file has them, where rows of the part begin at `row`.
void put_rows(const HostWeight& from, bool transposed, TensorPart& to, int64_t row) {
  const size_t element = dtype_bytes(from.dtype);
  auto* const bytes = static_cast<std::byte*>(to.owned.data()) + size_t(row * to.view.row_stride) * element;
  if (transposed) {
    if (element == 2)
      transpose_into(from, reinterpret_cast<uint16_t*>(bytes), to.view.row_stride);
    else
      transpose_into(from, reinterpret_cast<uint32_t*>(bytes), to.view.row_stride);
    return;
  }
  for (int64_t r = 0; r < from.rows; ++r)
    std::memcpy(bytes + size_t(r * to.view.row_stride) * element,
                static_cast<const std::byte*>(from.data) + size_t(r * from.row_stride) * element,
                size_t(from.cols) * element);
}

}  // namespace

RoleWeights::RoleWeights(const TensorSource& source, const ModelSpec& spec)
    : source_(source), spec_(spec), prefix_(prefix_in(source, *spec.table)) {}

const WeightSite& RoleWeights::site(TensorRole role) const {
  const WeightSite* const found = find_site(*spec_.table, role);
  PACELINE_CHECK(found, "family {} keeps nothing in role {}", spec_.family, int(role));
  return *found;
}

std::string RoleWeights::name(TensorRole role, TensorPiece piece, int layer) const {
  return tensor_name(prefix_, site(role), piece, layer);
}

TensorPart RoleWeights::part_of_heads(TensorRole role, TensorPiece piece, int layer, const TensorRange& range) const {
  const int64_t head_dim = spec_.head_dim;
  TensorPart whole;
  for (int64_t done = 0; done < range.num_cols; done += head_dim) {
    const int head = int((range.col_begin + done) / head_dim);
    const TensorPart one = source_.part(tensor_name(prefix_, site(role), piece, layer, head),
                                        {.row_begin = 0, .num_rows = 1, .col_begin = 0, .num_cols = head_dim});
    if (!whole.owned.data()) whole = new_part(range, one.view.dtype);
    const size_t bytes = size_t(head_dim) * dtype_bytes(one.view.dtype);
    std::memcpy(static_cast<std::byte*>(whole.owned.data()) + size_t(done / head_dim) * bytes, one.view.data, bytes);
  }
  return whole;
}

TensorPart RoleWeights::part(TensorRole role, TensorPiece piece, int layer, const TensorRange& range) const {
  const WeightSite& where = site(role);
  if (is_per_head(where)) return part_of_heads(role, piece, layer, range);
  const std::string tensor = name(role, piece, layer);
  const RowMap rows(spec_, where, layer);
  // A vector's elements are its outputs, along the only dimension that it has.
  const bool is_vector = source_.find(tensor)->shape.size() == 1;
  const bool transposed = where.transposed && !is_vector;
  const int64_t begin = is_vector ? range.col_begin : range.row_begin;
  const int64_t count = is_vector ? range.num_cols : range.num_rows;
  const auto in_file = [&](int64_t first, int64_t run) -> TensorRange {
    if (is_vector) return {.row_begin = 0, .num_rows = 1, .col_begin = first, .num_cols = run};
    if (transposed)
      return {.row_begin = range.col_begin, .num_rows = range.num_cols, .col_begin = first, .num_cols = run};
    return {.row_begin = first, .num_rows = run, .col_begin = range.col_begin, .num_cols = range.num_cols};
  };
  if (count == 0 || (!transposed && rows.run_length(begin) >= count))
    return source_.part(tensor, in_file(count == 0 ? 0 : rows.tensor_row(begin), count));

  TensorPart whole;
  for (int64_t done = 0; done < count;) {
    const int64_t run = std::min(rows.run_length(begin + done), count - done);
    const TensorPart piece_of = source_.part(tensor, in_file(rows.tensor_row(begin + done), run));
    if (!whole.owned.data()) whole = new_part(range, piece_of.view.dtype);
    if (is_vector) {
      const size_t element = dtype_bytes(piece_of.view.dtype);
      std::memcpy(static_cast<std::byte*>(whole.owned.data()) + size_t(done) * element, piece_of.view.data,
                  size_t(run) * element);
    } else {
      put_rows(piece_of.view, transposed, whole, done);
    }
    done += run;
  }
  return whole;
}

std::vector<float> RoleWeights::floats(const TensorPart& part, TensorRole role, TensorPiece piece) const {
  std::vector<float> values = to_floats(part.view);
  if (piece == TensorPiece::weight && site(role).plus_one)
    for (float& value : values) value += 1.0f;
  return values;
}

std::string RoleWeights::where(TensorRole role, TensorPiece piece, int layer, int64_t row, int64_t col) const {
  const WeightSite& place = site(role);
  const std::string tensor = name(role, piece, layer);
  const bool is_vector = source_.find(tensor)->shape.size() == 1;
  const RowMap rows(spec_, place, layer);
  std::string index;
  if (is_vector)
    index = fmt::format("[{}]", rows.tensor_row(col));
  else if (place.transposed)
    index = fmt::format("[{}, {}]", col, rows.tensor_row(row));
  else
    index = fmt::format("[{}, {}]", rows.tensor_row(row), col);
  return fmt::format("tensor {} at {}", json_literal(tensor), index);
}

void RoleWeights::release(TensorRole role, TensorPiece piece, int layer) const {
  source_.release(name(role, piece, layer));
}

}  // namespace paceline
