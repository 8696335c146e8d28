#pragma once
// What stands around a product by cuBLASLt: its rows, and the gated activation behind it.

#include "kernels/cuda/device.h"
#include "kernels/cuda/operand.h"
#include "kernels/op_args.h"

namespace paceline::cuda {

/// x [rows, k] f32 to a plain operand. REQUIRES an even k.
void pack_plain(const MatView& x, const Operand& operand, LaunchTo queue);

/// y = act(gate + bias) * (up + bias), for rows [first_row, first_row + num_rows) of the pass.
struct GatedRows {
  const __nv_bfloat16* product = nullptr;  // [num_rows][2 * width]: gates, then ups; 16-byte aligned
  const float* bias = nullptr;             // [2 * width] or null
  Activation activation = Activation::silu;
  int first_row = 0;
  int num_rows = 0;
  int width = 0;       // a multiple of 8
  float* y = nullptr;  // of row 0
  int64_t y_stride = 0;
  Operand operand;  // written in place of y where it has values
};
void gate_rows(const GatedRows& work, LaunchTo queue);

}  // namespace paceline::cuda
