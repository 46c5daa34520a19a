#include "outputs.h"

#include <cmath>
#include <cstdio>
#include <random>

std::vector<float> random_rows(int64_t count, Element rows) {
  std::mt19937 random(7);
  std::vector<float> all(static_cast<size_t>(count));
  for (float& x : all) {
    x = std::uniform_real_distribution<float>(-1, 1)(random);
    if (rows == Element::f16) x = rounded_to_half(x);
  }
  return all;
}

namespace {

// One weight against its naive product, at some columns: rounding of K sums, at level 4 of each activation (at most 1)
// to 1 / 127, and of halves that are written.
bool equals_naive(const Ort& ort, const std::string& library, const Weight& weight, int64_t m) {
  Session session(ort, library, {kOurs}, {weight});
  const std::vector<float> a = random_rows(m * weight.size, weight.format.rows);
  std::vector<float> out(a.size(), NAN);
  session.bind(m, a, {&out});
  session.run();
  for (int64_t row = 0; row < m; ++row) {
    for (int64_t n = row; n < weight.size; n += 37) {
      double exact = weight.format.bias ? weight.bias[static_cast<size_t>(n)] : 0;
      double magnitude = std::fabs(exact), weights = 0;
      for (int64_t k = 0; k < weight.size; ++k) {
        const double value = weight.value(k, n), term = a[static_cast<size_t>(row * weight.size + k)] * value;
        exact += term;
        magnitude += std::fabs(term);
        weights += std::fabs(value);
      }
      double bound = magnitude * double(weight.size + 2) / (1 << 23);
      if (weight.format.level == 4) bound += weights / 254 * 1.001;
      if (weight.format.rows == Element::f16) bound += (std::fabs(exact) + bound) / (1 << 11) + 1e-7;
      const double difference = out[static_cast<size_t>(row * weight.size + n)] - exact;
      if (std::fabs(difference) <= bound) continue;
      std::fprintf(stderr, "row %lld column %lld: off by %g, %g allowed\n", static_cast<long long>(row),
                   static_cast<long long>(n), difference, bound);
      return false;
    }
  }
  return true;
}

double relative_difference(const std::vector<float>& one, const std::vector<float>& other) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < one.size(); ++i) {
    difference += (one[i] - other[i]) * double(one[i] - other[i]);
    norm += other[i] * double(other[i]);
  }
  return std::sqrt(difference / norm);
}

// Level 4 rounds each layer's input to 1 / 127 of a block's largest; which way, a last bit may decide. Theirs has
// blocks above 32, and computes as level 0 where it has no kernel: with fractions, and with 2 bits in blocks of 16.
// Float16 rows are rounded between layers.
double allowed_difference(const Format& format) {
  const bool same_kernel = format.block == 32 || (format.block == 16 && format.bits != 2);
  if (format.level == 4) return same_kernel && !has_fractions(format.zero_points) ? 2e-3 : 0.03;
  return format.rows == Element::f16 ? 1e-3 : 1e-4;
}

double difference_from_theirs(const Ort& ort, const std::string& library, const std::vector<Weight>& weights,
                              int64_t m) {
  const std::vector<float> a = random_rows(m * weights.front().size, weights.front().format.rows);
  std::vector<float> theirs(a.size(), NAN), ours(a.size(), NAN);
  Session both(ort, library, {kTheirs, kOurs}, weights);
  both.bind(m, a, {&theirs, &ours});
  both.run();
  return relative_difference(ours, theirs);
}

const char* name_of(ZeroPoints kind) {
  switch (kind) {
    case ZeroPoints::none:
      return "none";
    case ZeroPoints::packed:
      return "packed";
    case ZeroPoints::f32:
      return "f32";
    case ZeroPoints::f16:
      return "f16";
  }
  return "";
}

const char* name_of(Element element) { return element == Element::f16 ? "f16" : "f32"; }

bool theirs_takes(const Format& format) { return format.bits != 8 || !has_fractions(format.zero_points); }

bool check_format(const Ort& ort, const std::string& library, const Format& format, int64_t m) {
  constexpr int64_t kSize = 256;
  const std::vector<Weight> weights = {make_weight(kSize, format, 1), make_weight(kSize, format, 2)};
  std::printf("%d bits, block %3d, level %lld, zero points %-6s, scales %s, rows %s, %s bias, m %lld: ", format.bits,
              format.block, static_cast<long long>(format.level), name_of(format.zero_points), name_of(format.scales),
              name_of(format.rows), format.bias ? "with" : "no", static_cast<long long>(m));
  if (!equals_naive(ort, library, weights.front(), m)) return false;
  if (!theirs_takes(format)) {
    const std::string refusal = Session::refusal(ort, library, {kTheirs}, weights);
    std::printf("com.microsoft refuses it\n");
    if (refusal.empty()) std::fprintf(stderr, "com.microsoft takes it by now: compare with it\n");
    return !refusal.empty();
  }
  const double difference = difference_from_theirs(ort, library, weights, m);
  const double allowed = allowed_difference(format);
  std::printf("outputs differ by %.1e, %.0e allowed\n", difference, allowed);
  return difference <= allowed;
}

}  // namespace

bool outputs_agree(const Ort& ort, const std::string& library, const std::vector<Weight>& weights, int64_t m) {
  const Format& format = weights.front().format;
  if (!equals_naive(ort, library, weights.front(), m)) return false;
  const double difference = difference_from_theirs(ort, library, weights, m), allowed = allowed_difference(format);
  std::printf("level %lld, m %2lld: outputs differ by %.1e of their norm, %.0e allowed\n",
              static_cast<long long>(format.level), static_cast<long long>(m), difference, allowed);
  return difference <= allowed;
}

bool check_formats(const Ort& ort, const std::string& library) {
  const int blocks[] = {32, 128, 64, 16, 32, 256};
  size_t count = 0;
  bool right = true;
  for (int bits : {2, 4, 8}) {
    for (ZeroPoints zero_points : {ZeroPoints::none, ZeroPoints::packed, ZeroPoints::f32, ZeroPoints::f16}) {
      for (Element scales : {Element::f32, Element::f16}) {
        for (Element rows : {Element::f32, Element::f16}) {
          for (int level : {0, 4}) {
            for (bool bias : {false, true}) {
              const int block = blocks[count % std::size(blocks)];
              const Format format = {bits, block, level, zero_points, scales, rows, bias};
              right = check_format(ort, library, format, count % 3 == 0 ? 9 : 1) && right;
              ++count;
            }
          }
        }
      }
    }
  }
  return right;
}

bool check_refusals(const Ort& ort, const std::string& library) {
  const auto refused = [&](const Weight& weight, const char* reason) {
    const std::string refusal = Session::refusal(ort, library, {kOurs}, {weight});
    if (refusal.find(reason) != std::string::npos) return true;
    std::fprintf(stderr, "refused with '%s' instead of '%s'\n", refusal.c_str(), reason);
    return false;
  };
  Weight short_bias = make_weight(64, {.bias = true}, 1);
  short_bias.bias.resize(63);
  return refused(make_weight(64, {.level = 3}, 1), "accuracy_level must be 0 or 4") &&
         refused(make_weight(64, {.level = (int64_t{1} << 32) + 4}, 1), "accuracy_level is out of range") &&
         refused(short_bias, "the bias must have the shape [N]");
}
