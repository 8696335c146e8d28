#pragma once
// Activation functions, over float or a vector of floats.

#include "kernels/math/elementary.h"

namespace paceline {

enum class Activation : uint8_t { silu, gelu, gelu_tanh, relu };

namespace math {

/// x / (1 + e^-x)
template <class V>
PACELINE_MATH V silu(V x) {
  return x / (V(1.0f) + exp_of(V(0.0f) - x));
}

/// x Phi(x), the erf form. Phi(-a) = e^(-a^2 / 2) t h(t), t = 1 / (1 + 0.3 a): h fitted by Chebyshev
/// interpolation over a in [0, 13], relative error 4e-9 before rounding.
template <class V>
PACELINE_MATH V gelu(V x) {
  const V a = max_or_second(x, V(0.0f) - x);
  const V t = V(1.0f) / (V(1.0f) + V(0.3f) * a);
  V h = V(-2.078310664e-02f);
  h = h * t + V(1.133360376e-01f);
  h = h * t + V(-2.304079021e-01f);
  h = h * t + V(1.948082656e-01f);
  h = h * t + V(-8.201191891e-02f);
  h = h * t + V(9.757960259e-02f);
  h = h * t + V(7.788918857e-02f);
  h = h * t + V(1.103437014e-01f);
  h = h * t + V(1.195587760e-01f);
  h = h * t + V(1.196873542e-01f);
  const V tail = exp_of(V(-0.5f) * (a * a)) * (h * t);
  return x * select_less(x, V(0.0f), tail, V(1.0f) - tail);
}

/// 0.5 x (1 + tanh(u)) = x / (1 + e^-2u), u = sqrt(2 / pi) (x + 0.044715 x^3)
template <class V>
PACELINE_MATH V gelu_tanh(V x) {
  const V u2 = V(2.0f * 0.7978845608028654f) * (x + V(0.044715f) * (x * (x * x)));
  return x / (V(1.0f) + exp_of(V(0.0f) - u2));
}

/// max(x, 0); NaN stays NaN.
template <class V>
PACELINE_MATH V relu(V x) {
  return select_less(x, V(0.0f), V(0.0f), x);
}

/// cap tanh(x / cap), tanh(u) = 1 - 2 / (1 + e^2u): within 1e-7 cap, and within cap wherever e^2u is no number.
template <class V>
PACELINE_MATH V softcap(V x, float cap) {
  const V u = x / V(cap);
  return V(cap) * (V(1.0f) - V(2.0f) / (V(1.0f) + exp_of(u + u)));
}

template <class V>
PACELINE_MATH V activate(Activation activation, V x) {
  switch (activation) {
    case Activation::silu: return silu(x);
    case Activation::gelu: return gelu(x);
    case Activation::gelu_tanh: return gelu_tanh(x);
    case Activation::relu: return relu(x);
  }
  return x;
}

}  // namespace math
}  // namespace paceline
