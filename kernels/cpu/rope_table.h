#pragma once
// cos and sin of the positions that have been asked for, computed once each (kernels/math/rope.h).

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace paceline {

class RopeTable {
 public:
  RopeTable(std::span<const double> inv_freq, float attention_factor);

  bool matches(std::span<const double> inv_freq, float attention_factor) const;
  /// Computes the row of `position` >= 0 if it is new. Not concurrent with anything.
  void prepare(int32_t position);
  /// [half] cosines, then [half] sines of a prepared position.
  const float* row(int32_t position) const { return slab(position) + int64_t(position % kSlabRows) * 2 * half(); }
  int half() const { return int(inv_freq_.size()); }

 private:
  static constexpr int kSlabRows = 256;
  struct Slab {
    std::unique_ptr<float[]> row;  // [kSlabRows][2 * half]
    bool known[kSlabRows] = {};
  };
  const float* slab(int32_t position) const { return slab_[size_t(position / kSlabRows)].row.get(); }

  std::vector<double> inv_freq_;
  float attention_factor_;
  std::vector<Slab> slab_;
};

}  // namespace paceline
