#include "engine/weights/role_weights.h"

#include <algorithm>
#include <cstddef>

#include "engine/util/json_io.h"
#include "kernels/host_weight.h"

namespace paceline {
namespace {

std::string_view prefix_in(const TensorSource& source, const WeightTable& table) {
  const WeightSite* const embed = find_site(table, TensorRole::embed);
  PACELINE_CHECK(embed != nullptr, "a table without embedding");
  for (const std::string_view prefix : table.prefixes)
    if (source.find(tensor_name(prefix, *embed, TensorPiece::weight, 0))) return prefix;
  return table.prefixes.empty() ? std::string_view() : table.prefixes.front();
}

/// Row `row` of `view`; of a vector: its element.
HostWeight one_row(HostWeight view, bool is_vector, int64_t row) {
  view.data = static_cast<const std::byte*>(view.data) +
              size_t(is_vector ? row : row * view.row_stride) * dtype_bytes(view.dtype);
  (is_vector ? view.cols : view.rows) = 1;
  return view;
}

/// Rows of `from` in another order.
class OrderedRows final : public RowSource {
 public:
  /// rows[i]: which of `from` row i is.
  OrderedRows(TensorPart from, std::vector<int64_t> rows) : from_(std::move(from)), rows_(std::move(rows)) {}
  void make(int64_t begin, int64_t count, void* out) const override {
    const size_t row_bytes = size_t(from_.view.cols) * dtype_bytes(from_.view.dtype);
    for (int64_t i = 0; i < count; ++i)
      from_.made->make(rows_[size_t(begin + i)], 1, static_cast<std::byte*>(out) + size_t(i) * row_bytes);
  }

 private:
  const TensorPart from_;
  const std::vector<int64_t> rows_;
};

/// Rows `range` of a role whose tensor's are `all`.
TensorPart in_order(TensorPart all, const RowMap& rows, const TensorRange& range) {
  std::vector<int64_t> tensor_rows;
  for (int64_t row = 0; row < range.num_rows; ++row) tensor_rows.push_back(rows.tensor_row(range.row_begin + row));
  TensorPart part{.view = all.view, .owned = {}};
  part.view.rows = range.num_rows;
  part.made = std::make_shared<OrderedRows>(std::move(all), std::move(tensor_rows));
  part.view.made = part.made.get();
  return part;
}

}  // namespace

RoleWeights::RoleWeights(const TensorSource& source, const ModelSpec& spec, ThreadPool* pool)
    : source_(source), spec_(spec), pool_(pool), prefix_(prefix_in(source, *spec.table)) {}

TensorPart RoleWeights::read(std::string_view name, const TensorRange& range) const {
  return source_.part_on(pool_, name, range);
}

const WeightSite& RoleWeights::site(TensorRole role) const {
  const WeightSite* const found = find_site(*spec_.table, role);
  PACELINE_CHECK(found, "family {} keeps nothing in role {}", spec_.family, int(role));
  return *found;
}

std::string RoleWeights::name(TensorRole role, TensorPiece piece, int layer, int head) const {
  return tensor_name(prefix_, site(role), piece, layer, head);
}

TensorPart RoleWeights::part_of_heads(TensorRole role, TensorPiece piece, int layer, const TensorRange& range) const {
  const int64_t head_dim = spec_.head_dim;
  const bool own_tensors = is_per_head(site(role));
  TensorPart whole;
  for (int64_t done = 0; done < range.num_cols;) {
    const int64_t head = (range.col_begin + done) / head_dim, first = (range.col_begin + done) % head_dim;
    const int64_t count = std::min(head_dim - first, range.num_cols - done);
    const TensorPart one =
        read(name(role, piece, layer, own_tensors ? int(head) : 0),
             {.row_begin = own_tensors ? 0 : head, .num_rows = 1, .col_begin = first, .num_cols = count});
    if (!whole.owned.data()) whole = new_part(range, one.view.dtype);
    copy_into(one.view, CopyOrder::same, whole, 0, done);
    done += count;
  }
  return whole;
}

TensorPart RoleWeights::part(TensorRole role, TensorPiece piece, int layer, const TensorRange& range,
                             MadeRows made) const {
  const WeightSite& where = site(role);
  if (is_per_head(where) || has_head_rows(spec_, where, layer)) return part_of_heads(role, piece, layer, range);
  const std::string tensor = name(role, piece, layer);
  const RowMap rows(spec_, where, layer);
  // A vector's elements are its outputs, along the only dimension that it has.
  const bool is_vector = source_.find(tensor)->shape.size() == 1;
  const bool transposed = where.transposed && !is_vector;
  const CopyOrder order = transposed ? CopyOrder::transposed : CopyOrder::same;
  const int64_t begin = is_vector ? range.col_begin : range.row_begin;
  const int64_t count = is_vector ? range.num_cols : range.num_rows;
  const auto in_file = [&](int64_t first, int64_t run) -> TensorRange {
    if (is_vector) return {.row_begin = 0, .num_rows = 1, .col_begin = first, .num_cols = run};
    if (transposed)
      return {.row_begin = range.col_begin, .num_rows = range.num_cols, .col_begin = first, .num_cols = run};
    return {.row_begin = first, .num_rows = run, .col_begin = range.col_begin, .num_cols = range.num_cols};
  };
  if (count == 0) return read(tensor, in_file(0, 0));
  const bool when_asked = made == MadeRows::when_asked && !is_vector && !transposed;
  if (const RowRun all = rows.run(begin, count); !transposed && all.in_order && all.num_rows == count) {
    if (when_asked)
      if (TensorPart part = source_.rows_of(tensor, in_file(all.first, count)); part.made) return part;
    return read(tensor, in_file(all.first, count));
  }
  if (when_asked) {
    TensorPart all = source_.rows_of(tensor, in_file(0, whole_range(*source_.find(tensor)).num_rows));
    if (all.made) return in_order(std::move(all), rows, range);
  }

  TensorPart whole;
  for (int64_t done = 0; done < count;) {
    const RowRun run = rows.run(begin + done, count - done);
    TensorPart from = read(tensor, in_file(run.first, run.num_tensor_rows));
    if (!whole.owned.data())
      whole = is_vector ? new_part(range, from.view.dtype) : source_.room_for(range, from.view.dtype);
    if (run.in_order) {
      copy_into(from.view, order, whole, is_vector ? 0 : done, is_vector ? done : 0);
    } else {
      PACELINE_CHECK(!transposed, "{}: pairs of a tensor that lies transposed", tensor);
      for (int64_t i = 0; i < run.num_rows; ++i) {
        const int64_t at = rows.tensor_row(begin + done + i) - run.first;
        copy_into(one_row(from.view, is_vector, at), order, whole, is_vector ? 0 : done + i, is_vector ? done + i : 0);
      }
    }
    done += run.num_rows;
    source_.recycle(std::move(from));
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
  if (is_per_head(place))
    return fmt::format("tensor {} at [{}]", json_literal(name(role, piece, layer, int(col / spec_.head_dim))),
                       col % spec_.head_dim);
  const std::string tensor = name(role, piece, layer);
  const bool is_vector = source_.find(tensor)->shape.size() == 1;
  const RowMap rows(spec_, place, layer);
  std::string index;
  if (has_head_rows(spec_, place, layer))
    index = fmt::format("[{}, {}]", col / spec_.head_dim, col % spec_.head_dim);
  else if (is_vector)
    index = fmt::format("[{}]", rows.tensor_row(col));
  else if (place.transposed)
    index = fmt::format("[{}, {}]", col, rows.tensor_row(row));
  else
    index = fmt::format("[{}, {}]", rows.tensor_row(row), col);
  return fmt::format("tensor {} at {}", json_literal(tensor), index);
}

void RoleWeights::release(TensorRole role, TensorPiece piece, int layer) const {
  const WeightSite& place = site(role);
  const int num_tensors = is_per_head(place) ? int(role_shape(spec_, role, layer)->outputs / spec_.head_dim) : 1;
  for (int head = 0; head < num_tensors; ++head) source_.release(name(role, piece, layer, head));
}

}  // namespace paceline
