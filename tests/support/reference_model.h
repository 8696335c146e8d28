#pragma once
// The forward pass of a Llama-like model in float64, straight from its tensors: what others are compared with.

#include <cmath>
#include <string>
#include <vector>

#include <Eigen/Dense>

#include "engine/model/rope.h"
#include "engine/model/weight_table.h"
#include "engine/weights/tensor_source.h"
#include "kernels/host_weight.h"

namespace paceline::test {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// A tensor as float64, [rows, cols]; one dimension n gives [1, n].
inline Matrix read_matrix(const TensorSource& source, const std::string& name) {
  const TensorInfo* const info = source.find(name);
  PACELINE_CHECK(info != nullptr, "no tensor {}", name);
  const TensorPart part = source.part(name, whole_range(*info));
  Matrix matrix(part.view.rows, part.view.cols);
  for (int64_t row = 0; row < part.view.rows; ++row)
    for (int64_t col = 0; col < part.view.cols; ++col) matrix(row, col) = double(value_at(part.view, row, col));
  return matrix;
}

class ReferenceModel {
 public:
  ReferenceModel(const TensorSource& source, const ModelSpec& spec) : source_(source), spec_(spec) {}

  /// Logits of every position, [num_tokens, vocab]: causal attention over the whole text, nothing cached.
  Matrix logits(const std::vector<int32_t>& tokens) const {
    const Matrix last = norm(residual(tokens, spec_.num_layers), TensorRole::final_norm, 0);
    return last * read(spec_.tied_head ? TensorRole::embed : TensorRole::head).transpose();
  }

  /// What the first `num_layers` layers leave of every position, [num_tokens, hidden].
  Matrix residual(const std::vector<int32_t>& tokens, int num_layers) const {
    const Matrix embed = read(TensorRole::embed);
    Matrix rows(long(tokens.size()), long(spec_.hidden_size));
    for (size_t i = 0; i < tokens.size(); ++i) rows.row(long(i)) = embed.row(tokens[i]);
    for (int layer = 0; layer < num_layers; ++layer) {
      const AttentionSpec& attention = spec_.layer(layer).attention;
      const bool mlp_bias = spec_.layer(layer).mlp.has_bias;
      const Matrix attention_in = norm(rows, TensorRole::attn_norm, layer);
      const Matrix q = rotated(linear(attention_in, TensorRole::q, layer, attention.has_bias), spec_.num_heads);
      const Matrix k = rotated(linear(attention_in, TensorRole::k, layer, attention.has_bias), spec_.num_kv_heads);
      const Matrix v = linear(attention_in, TensorRole::v, layer, attention.has_bias);
      rows += linear(attend(q, k, v), TensorRole::o, layer, attention.has_out_bias);
      const Matrix mlp_in = norm(rows, TensorRole::mlp_norm, layer);
      Matrix gate = linear(mlp_in, TensorRole::gate, layer, mlp_bias);
      gate = gate.unaryExpr([](double x) { return x / (1.0 + std::exp(-x)); });
      rows +=
          linear(gate.cwiseProduct(linear(mlp_in, TensorRole::up, layer, mlp_bias)), TensorRole::down, layer, mlp_bias);
    }
    return rows;
  }

 private:
  /// A tensor that is its role's alone, as in all Llama-like models.
  Matrix read(TensorRole role, int layer = 0, TensorPiece piece = TensorPiece::weight) const {
    return read_matrix(source_,
                       tensor_name(spec_.table->prefixes.front(), *find_site(*spec_.table, role), piece, layer));
  }

  Matrix norm(const Matrix& rows, TensorRole role, int layer) const {
    const Matrix weight = read(role, layer);
    Matrix out(rows.rows(), rows.cols());
    for (long i = 0; i < rows.rows(); ++i)
      out.row(i) = rows.row(i).cwiseProduct(weight) /
                   std::sqrt(rows.row(i).squaredNorm() / double(rows.cols()) + double(spec_.norm.eps));
    return out;
  }

  Matrix linear(const Matrix& rows, TensorRole role, int layer, bool with_bias) const {
    Matrix out = rows * read(role, layer).transpose();
    if (with_bias) out.rowwise() += read(role, layer, TensorPiece::bias).row(0);
    return out;
  }

  Matrix rotated(Matrix rows, int num_heads) const {
    const std::vector<double> frequencies = rope_inv_freq(spec_.rope, spec_.max_position);
    const int half = spec_.head_dim / 2;
    for (long position = 0; position < rows.rows(); ++position) {
      for (int head = 0; head < num_heads; ++head) {
        for (int pair = 0; pair < half; ++pair) {
          const double angle = double(position) * frequencies[size_t(pair)];
          double& a = rows(position, head * spec_.head_dim + pair);
          double& b = rows(position, head * spec_.head_dim + pair + half);
          const double x = a, y = b;
          a = x * std::cos(angle) - y * std::sin(angle);
          b = y * std::cos(angle) + x * std::sin(angle);
        }
      }
    }
    return rows;
  }

  Matrix attend(const Matrix& q, const Matrix& k, const Matrix& v) const {
    const int dim = spec_.head_dim, group = spec_.num_heads / spec_.num_kv_heads;
    Matrix out(q.rows(), q.cols());
    for (int head = 0; head < spec_.num_heads; ++head) {
      const auto keys = k.middleCols(head / group * dim, dim), values = v.middleCols(head / group * dim, dim);
      for (long row = 0; row < q.rows(); ++row) {
        Eigen::VectorXd score =
            keys.topRows(row + 1) * q.row(row).segment(head * dim, dim).transpose() / std::sqrt(double(dim));
        score = (score.array() - score.maxCoeff()).exp();
        out.row(row).segment(head * dim, dim) = (score / score.sum()).transpose() * values.topRows(row + 1);
      }
    }
    return out;
  }

  const TensorSource& source_;
  const ModelSpec& spec_;
};

}  // namespace paceline::test
