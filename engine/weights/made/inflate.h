#pragma once
// Inflation: a small trained checkpoint inside a big shape that computes the same function. Steps then cost what the
// big model's cost, and acceptance is that of learned text. Arithmetic only: nothing here reads a weight.
//
// With d, h, … of the parent and D, H, … of the shape:
// - Residual: 0 in the new dimensions, of the embedding and of what o and down write. Columns that read them are
// random.
//   RMSNorm: weight * sqrt(d / D), eps * d / D.
// - Rotary pair i of a head (dimensions i and i + h/2) lies at pair i * H/h, where the same theta gives the same
//   frequency. In old heads the q rows of new pairs are 0 and the k rows random; q * sqrt(H/h) makes up for the scale
//   1/sqrt(H). New v dimensions are random, and the o columns that read them 0.
// - New query heads, KV heads and MLP rows are random, and the o and down columns that read them 0. Query head j of KV
//   head g becomes head g * group' + j mod group. New layers are random with o and down of 0, spread evenly.
// - Vocabulary: residual dimension d carries kCarrierEmbed from every embedding to the last norm (inner norms have
//   weight 0 there), and the head's column d gives new ids a logit near -2^10 / rms: no engine ever draws one. Their
//   rows are random. A tied head has kCarrierEmbed in the column of real ids too: their logits all move by
//   2^-25 / rms, which is why the carrier is as small as the last norm's weight is large.
// Exact where sqrt(D/d) and sqrt(H/h) are powers of two; elsewhere scaled weights are rounded.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "engine/model/model_shape.h"
#include "engine/model/model_spec.h"
#include "engine/model/weight_table.h"

namespace paceline {

/// Of the random part; one constant, so that a name and a shape mean one model.
inline constexpr uint64_t kInflateSeed = 1;
inline constexpr double kInflateDeviation = 0.02;

// Powers of two that float16 can store: a new id's logit is -2^(-20 + 15 + 15) / rms.
inline constexpr float kCarrierEmbed = 0x1p-20f;
inline constexpr float kCarrierNorm = 0x1p15f;
inline constexpr float kCarrierHead = -0x1p15f;

enum class Fill : uint8_t { zero, one, random };

/// How one tensor [rows, cols] of the big model is made (one dimension: [1, n]). The first rule that fits:
/// column `carrier->col`: the carrier's value; a kZero row or column: 0; a kNew column: `new_cols`; a kNew row:
/// `new_rows`; else scale * parent[rows[row], cols[col]].
struct TensorRecipe {
  static constexpr int32_t kNew = -1;
  static constexpr int32_t kZero = -2;

  struct Carrier {
    int64_t col = 0;
    float old_row = 0.0f;  // in rows that the parent has
    float new_row = 0.0f;
    int64_t only_row = -1;  // set: in this row alone, others have 0

    float value(int64_t row, bool is_old) const {
      return only_row >= 0 && row != only_row ? 0.0f : is_old ? old_row : new_row;
    }
  };

  std::string parent;         // the parent's tensor; empty: no row comes from it
  std::vector<int32_t> rows;  // [rows] the parent's row, kNew or kZero
  std::vector<int32_t> cols;  // [cols] the parent's column, kNew or kZero
  Fill new_rows = Fill::random;
  Fill new_cols = Fill::random;
  float scale = 1.0f;
  std::optional<Carrier> carrier;
};

/// config.json of the inflated model: the parent's, with the shape's sizes and the scaled eps, and what was done under
/// "paceline_inflate".
/// Throws Error(usage), one line naming the shape's field, what was found, what this parent needs and the fix: when the
/// shape is smaller than the parent, heads do not nest, or the parent has what inflation does not know.
nlohmann::json inflated_config(const nlohmann::json& parent_config, const ModelSpec& parent,
                               const std::string& parent_label, const ModelShape& shape);

/// Whether only rounding beyond float64 tells inflated and parent apart: every factor is a power of two.
bool inflates_exactly(const ModelSpec& parent, const ModelSpec& inflated);

/// The parent's layer that lies at `layer` of the inflated model, or -1 for a new one.
int parent_layer(const ModelSpec& parent, const ModelSpec& inflated, int layer);

/// REQUIRES `inflated` parsed from inflated_config, and a tensor of expected_tensors(inflated).
TensorRecipe inflate_recipe(const ModelSpec& parent, const ModelSpec& inflated, const ExpectedTensor& tensor);

}  // namespace paceline
