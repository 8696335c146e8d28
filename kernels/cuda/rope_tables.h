#pragma once
// cos and sin of positions, kept on the device for each set of frequencies.

#include <algorithm>
#include <memory>
#include <vector>

#include "kernels/cuda/device.h"
#include "kernels/op_args.h"

namespace paceline::cuda {

/// Of all positions up to the largest seen.
struct RopeTable {
  std::vector<double> inv_freq;
  float attention_factor = 1.0f;
  DeviceMemory factors;  // float2 [positions][inv_freq]
  int32_t positions = 0;

  bool is_for(const RopeArgs& args) const {
    return attention_factor == args.attention_factor &&
           std::equal(inv_freq.begin(), inv_freq.end(), args.inv_freq.begin(), args.inv_freq.end());
  }
};

class RopeTables {
 public:
  /// An empty one if there is none yet. Stays where it is.
  RopeTable& of(const RopeArgs& args) {
    for (const auto& table : tables_)
      if (table->is_for(args)) return *table;
    tables_.push_back(std::make_unique<RopeTable>());
    tables_.back()->inv_freq.assign(args.inv_freq.begin(), args.inv_freq.end());
    tables_.back()->attention_factor = args.attention_factor;
    return *tables_.back();
  }

 private:
  std::vector<std::unique_ptr<RopeTable>> tables_;
};

}  // namespace paceline::cuda
