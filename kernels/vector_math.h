// exp, sigmoid, erf, tanh and both forms of gelu on a Vector8: own minimax polynomials (Remez exchange in 50 digits,
// relative error given beside each), so every instruction set gives the same bits. Errors stated are the largest seen
// against double over the floats; tests/kernels/vector_math.cpp checks them.
#pragma once

namespace ompipe::kernels {
namespace {

template <class V>
V polynomial(V x, V coefficient) {
  (void)x;
  return coefficient;
}

// c0 + x (c1 + x (c2 + ...)), one fma for each step.
template <class V, class... More>
V polynomial(V x, V coefficient, More... more) {
  return V::fma(x, polynomial(x, more...), coefficient);
}

template <class V, class... C>
V evaluate(V x, C... coefficients) {
  return polynomial(x, V::broadcast(coefficients)...);
}

// e^x, at most 1 ulp off; right for subnormal results, infinities and NaN. x = n ln 2 + r, |r| <= ln 2 / 2.
template <class V>
V exp(V x) {
  x = V::minimum(V::broadcast(89.0f), V::maximum(V::broadcast(-104.0f), x));
  const V round = V::broadcast(12582912.0f);  // 1.5 * 2^23: adding and taking it off rounds to nearest even
  const V n = V::fma(x, V::broadcast(1.44269504f), round) - round;
  V r = V::fma(n, V::broadcast(-0.693147182464599609375f), x);
  r = V::fma(n, V::broadcast(1.90465429995776804525e-9f), r);
  // (e^r - 1 - r) / r^2 to 3.1e-9 of e^r.
  const V q = evaluate(r, 4.999999404e-01f, 1.666652113e-01f, 4.166838899e-02f, 8.368710987e-03f, 1.381461392e-03f);
  const V p = V::broadcast(1.0f) + V::fma(r * r, q, r);
  // 2^n in two factors, because n reaches from -150 to 128.
  const V half = V::fma(n, V::broadcast(0.5f), round) - round;
  return (p * V::pow2(half)) * V::pow2(n - half);
}

// 1 / (1 + e^-x), at most 2 ulp off; subnormal results too.
template <class V>
V sigmoid(V x) {
  const V one = V::broadcast(1.0f);
  const V e = exp(V::negate(V::abs(x)));
  return V::select_less(x, V::broadcast(0.0f), e, one) / (one + e);
}

// At most 1 ulp off.
template <class V>
V erf(V x) {
  const V t = V::abs(x);
  const V s = x * x;
  // erf(x) / x - 1 in x^2, to 4.6e-10, up to 0.93.
  const V near = V::fma(x,
                        evaluate(s, 1.283791661e-01f, -3.761263192e-01f, 1.128368750e-01f, -2.685894072e-02f,
                                 5.199906416e-03f, -8.130011847e-04f, 8.316770982e-05f),
                        x);
  // (ln(1 - erf t) + t) / t, from 0.90 to 3.95, to 3.1e-9 of erf; beyond, erf rounds to 1.
  const V u = V::minimum(V::broadcast(3.95f), t);
  const V g = V::fma(u,
                     evaluate(u, -1.285199523e-01f, -6.356993914e-01f, -1.052868441e-01f, 2.290602028e-02f,
                              -3.219971899e-03f, 2.145944891e-04f),
                     V::negate(u));
  const V far = V::copysign(V::broadcast(1.0f) - exp(g), x);
  return V::keep_nan(x, V::select_less(t, V::broadcast(0.92f), near, far));
}

// At most 1.5 ulp off.
template <class V>
V tanh(V x) {
  const V one = V::broadcast(1.0f);
  const V t = V::abs(x);
  const V s = x * x;
  // (tanh x - x) / x^3 in x^2, to 1.3e-9 of tanh, up to 0.56.
  const V near = V::fma(
      x * s, evaluate(s, -3.333331645e-01f, 1.333249956e-01f, -5.384228006e-02f, 2.102721855e-02f, -6.207429338e-03f),
      x);
  const V far = one - V::broadcast(2.0f) / (exp(t + t) + one);
  return V::keep_nan(x, V::select_less(t, V::broadcast(0.55f), near, V::copysign(far, x)));
}

// x/2 (1 + erf(x / sqrt 2)): ONNX Gelu with approximate = "none". The sum cancels for x below about -1, where the
// error is 2^-23 of |x| at most, not of the result; ONNX Runtime computes the same expression.
template <class V>
V gelu(V x) {
  return (V::broadcast(0.5f) * x) * (V::broadcast(1.0f) + erf(x * V::broadcast(0.707106769f)));
}

// x/2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))): ONNX Gelu with approximate = "tanh". It cancels like the exact form.
template <class V>
V gelu_tanh(V x) {
  const V one = V::broadcast(1.0f);
  const V cubic = x * V::fma(V::broadcast(0.044715f), x * x, one);
  return (V::broadcast(0.5f) * x) * (one + tanh(cubic * V::broadcast(0.797884561f)));
}

}  // namespace
}  // namespace ompipe::kernels
