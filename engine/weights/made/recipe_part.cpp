#include "engine/weights/made/recipe_part.h"

#include <algorithm>
#include <type_traits>

#include "engine/weights/made/generated_tensors.h"
#include "kernels/host_weight.h"
#include "kernels/row_blocks.h"

namespace paceline {
namespace {

/// Makes rows of a part as `recipe` says.
template <class Storage>
class RowMaker {
 public:
  using Bits = typename Storage::Bits;

  RowMaker(const TensorRecipe& recipe, const math::WeightKey& key, const HostWeight& parent, const TensorRange& range)
      : recipe_(recipe), key_(key), parent_(parent), range_(range) {
    const auto begin = recipe.cols.begin() + range.col_begin, end = begin + range.num_cols;
    const auto is_old = [](int32_t from) { return from >= 0; };
    const auto last_old = std::find_if(std::make_reverse_iterator(end), std::make_reverse_iterator(begin), is_old);
    num_live_ = recipe.new_cols == Fill::zero ? last_old.base() - begin : range.num_cols;
    has_zero_cols_ = std::find(begin, end, TensorRecipe::kZero) != end;
  }

  /// Rows [begin, end) of the range, into `out` [end - begin, num_cols]. REQUIRES zeros there.
  void make(int64_t begin, int64_t end, Bits* out) {
    for (int64_t row = begin; row < end; ++row, out += range_.num_cols) {
      const int64_t at = range_.row_begin + row;
      make_row(at, recipe_.rows[size_t(at)], out);
      if (const auto& carrier = recipe_.carrier;
          carrier && carrier->col >= range_.col_begin && carrier->col < range_.col_begin + range_.num_cols)
        Storage::put(carrier->value(at, recipe_.rows[size_t(at)] >= 0), out + (carrier->col - range_.col_begin));
    }
  }

 private:
  void make_row(int64_t row, int32_t from_row, Bits* out) {
    const bool new_row = from_row == TensorRecipe::kNew;
    if (from_row == TensorRecipe::kZero ||
        (new_row && recipe_.new_rows == Fill::zero && recipe_.new_cols == Fill::zero))
      return;
    const int64_t first = row * int64_t(recipe_.cols.size()) + range_.col_begin;
    if constexpr (std::is_same_v<Storage, AsBFloat>) {  // most of a big model
      if (new_row && recipe_.new_rows == Fill::random && recipe_.new_cols == Fill::random && !has_zero_cols_) {
        fill_random(key_, kInflateDeviation, first, {out, size_t(range_.num_cols)});
        return;
      }
    }
    noise_.resize(size_t(num_live_));
    if (recipe_.new_cols == Fill::random || (new_row && recipe_.new_rows == Fill::random))
      fill_random(key_, kInflateDeviation, first, noise_);
    for (int64_t i = 0; i < num_live_; ++i) {
      const int32_t from_col = recipe_.cols[size_t(range_.col_begin + i)];
      float value = 0.0f;
      if (from_col == TensorRecipe::kNew)
        value = filled(recipe_.new_cols, i);
      else if (from_col != TensorRecipe::kZero)
        value = new_row ? filled(recipe_.new_rows, i) : recipe_.scale * value_at(parent_, from_row, from_col);
      Storage::put(value, out + i);
    }
  }

  float filled(Fill fill, int64_t i) const {
    return fill == Fill::zero ? 0.0f : fill == Fill::one ? 1.0f : to_f32(BFloat{noise_[size_t(i)]});
  }

  const TensorRecipe& recipe_;
  const math::WeightKey key_;
  const HostWeight& parent_;
  const TensorRange range_;
  int64_t num_live_ = 0;  // columns from the first on that may be other than zero
  bool has_zero_cols_ = false;
  std::vector<uint16_t> noise_;  // [num_live_] bits of bfloat16
};

template <class Storage>
TensorPart make_part_of(const TensorRecipe& recipe, const math::WeightKey& key, const HostWeight& parent,
                        const TensorRange& range, DType dtype) {
  TensorPart part = new_part(range, dtype);
  auto* const out = static_cast<typename Storage::Bits*>(part.owned.data());
  for_row_blocks(range.num_rows, range.num_cols, [&](int64_t begin, int64_t end) {
    RowMaker<Storage>(recipe, key, parent, range).make(begin, end, out + begin * range.num_cols);
  });
  return part;
}

}  // namespace

TensorPart make_part(const TensorRecipe& recipe, const math::WeightKey& key, const HostWeight& parent,
                     const TensorRange& range, DType dtype) {
  return with_storage(dtype,
                      [&]<class Storage>(Storage) { return make_part_of<Storage>(recipe, key, parent, range, dtype); });
}

}  // namespace paceline
