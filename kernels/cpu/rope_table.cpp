#include "kernels/cpu/rope_table.h"

#include <algorithm>

#include "kernels/math/rope.h"

namespace paceline {

RopeTable::RopeTable(std::span<const double> inv_freq, float attention_factor)
    : inv_freq_(inv_freq.begin(), inv_freq.end()), attention_factor_(attention_factor) {}

bool RopeTable::matches(std::span<const double> inv_freq, float attention_factor) const {
  return attention_factor == attention_factor_ && std::ranges::equal(inv_freq, inv_freq_);
}

void RopeTable::prepare(int32_t position) {
  const size_t slab = size_t(position / kSlabRows);
  if (slab >= slab_.size()) slab_.resize(slab + 1);
  Slab& s = slab_[slab];
  if (!s.row) s.row = std::make_unique<float[]>(size_t{kSlabRows} * 2 * inv_freq_.size());
  const int at = position % kSlabRows;
  if (s.known[at]) return;
  float* cos = s.row.get() + size_t(at) * 2 * inv_freq_.size();
  float* sin = cos + inv_freq_.size();
  for (size_t i = 0; i < inv_freq_.size(); ++i) {
    const math::RopeFactor factor = math::rope_factor(position, inv_freq_[i], attention_factor_);
    cos[i] = factor.cos;
    sin[i] = factor.sin;
  }
  s.known[at] = true;
}

}  // namespace paceline
