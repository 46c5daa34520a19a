#include "attention_fixture.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ops_fixture.h"

namespace ops_test {
namespace {

constexpr float kGuard = 12345;  // float16 rounds it, alike each time

CacheView cache_strides(const AttentionCase& c) {
  if (c.position_major_cache) {
    return {nullptr, c.capacity * c.kv_heads * c.head_size, c.head_size, c.kv_heads * c.head_size};
  }
  return {nullptr, c.kv_heads * c.capacity * c.head_size, c.capacity * c.head_size, c.head_size};
}

std::vector<double> rotated(const AttentionProblem& p, const float* head, int64_t position) {
  const int64_t pairs = p.shape.pairs;
  std::vector<double> result(head, head + p.shape.head_size);
  for (int64_t i = 0; i < pairs; ++i) {
    const int64_t first = p.shape.interleaved ? 2 * i : i, second = p.shape.interleaved ? 2 * i + 1 : i + pairs;
    const double c = p.cos[size_t(position * pairs + i)], s = p.sin[size_t(position * pairs + i)];
    result[size_t(first)] = head[first] * c - head[second] * s;
    result[size_t(second)] = head[first] * s + head[second] * c;
  }
  return result;
}

// One query row in double, over caches that the call has filled.
std::vector<double> naive_row(const AttentionProblem& p, const AttentionResult& got, int64_t b, int64_t s,
                              int64_t head) {
  const AttentionArguments& a = p.a;
  const int64_t past = past_length(a, b), end = std::min<int64_t>(past + s + 1, a.seqlens_k[b] + 1);
  const int64_t first = a.window > 0 ? std::max<int64_t>(0, end - a.window) : 0;
  const int64_t kv = head / (a.heads / a.kv_heads);
  const std::vector<double> q = rotated(p, p.query_row(b, s, head), past + s);
  const auto at = [&](int64_t t) { return b * a.keys.batch_stride + kv * a.keys.head_stride + t * a.keys.row_stride; };
  std::vector<double> scores;
  double largest = -1e300, total = 0;
  for (int64_t t = first; t < end; ++t) {
    double score = 0;
    for (int64_t i = 0; i < a.head_size; ++i) score += q[size_t(i)] * got.keys[size_t(at(t) + i)];
    score *= a.scale;
    if (a.softcap > 0) score = a.softcap * std::tanh(score / a.softcap);
    scores.push_back(score);
    largest = std::max(largest, score);
  }
  std::vector<double> result(size_t(a.head_size), 0.0);
  for (double& score : scores) total += score = std::exp(score - largest);
  for (int64_t t = first; t < end; ++t) {
    for (int64_t i = 0; i < a.head_size; ++i) {
      result[size_t(i)] += scores[size_t(t - first)] / total * got.values[size_t(at(t) + i)];
    }
  }
  return result;
}

float rounded(ElementType type, float value) {
  return type == ElementType::f16 ? float(static_cast<_Float16>(value)) : value;
}

// Whether `got` is what elements of `type` hold of a number within `error` of `wanted`: rounding is monotonous.
bool holds(ElementType type, float got, double wanted, double error) {
  if (type == ElementType::f32) return std::abs(got - wanted) <= error;
  return got >= rounded(type, float(wanted - error)) && got <= rounded(type, float(wanted + error));
}

void check_appended(const AttentionProblem& p, const AttentionResult& got) {
  const AttentionArguments& a = p.a;
  int64_t wrong = 0;
  for (int64_t b = 0; b < a.batch; ++b) {
    const int64_t past = past_length(a, b);
    for (int64_t h = 0; h < a.kv_heads; ++h) {
      for (int64_t t = 0; t < a.capacity; ++t) {
        const int64_t at = b * a.keys.batch_stride + h * a.keys.head_stride + t * a.keys.row_stride, s = t - past;
        const bool is_new = s >= 0 && s < a.sequence;
        const std::vector<double> key = is_new ? rotated(p, p.key_row(b, s, h), t) : std::vector<double>();
        for (int64_t i = 0; i < a.head_size; ++i) {
          const size_t cell = size_t(at + i);
          if (is_new) {
            wrong += got.values[cell] != rounded(a.cache_type, p.value_row(b, s, h)[i]);
            wrong += !holds(a.cache_type, got.keys[cell], key[size_t(i)], 1e-6);
          } else {
            wrong += got.values[cell] != p.values[cell];
            wrong += got.keys[cell] != p.keys[cell];
          }
        }
      }
    }
  }
  CHECK(wrong == 0);
}

void check_in_its_types(const AttentionCase& c) {
  AttentionProblem p(c);
  const AttentionResult got = run_attention(p);
  check_appended(p, got);
  // Scores are below 2 * 2 * d * scale * 2; their relative rounding d * eps becomes an absolute error of weights that
  // sum to 1 over values below 2.
  const double score = 8 * double(c.head_size) * p.a.scale;
  const double bound = 2 * kEpsilon * (score * (double(c.head_size) / 8 + 8) + double(p.a.total_sequence_length));
  int64_t wrong = 0;
  for (int64_t b = 0; b < c.batch; ++b) {
    for (int64_t s = 0; s < c.sequence; ++s) {
      for (int64_t head = 0; head < c.heads; ++head) {
        const std::vector<double> want = naive_row(p, got, b, s, head);
        const float* row = got.outputs.data() + ((b * c.sequence + s) * c.heads + head) * c.head_size;
        for (int64_t i = 0; i < c.head_size; ++i) wrong += !holds(c.types.rows, row[i], want[size_t(i)], bound);
      }
    }
  }
  CHECK(wrong == 0);
}

}  // namespace

std::vector<float> rounded(ElementType type, std::vector<float> values) {
  for (float& value : values) value = rounded(type, value);
  return values;
}

Elements::Elements(ElementType type, const std::vector<float>& values)
    : type_(type), bytes_((values.size() + 2) * element_bytes(type)) {
  std::byte* to = bytes_.data() + element_bytes(type);
  const auto put = [&](float value) {
    const auto half = static_cast<_Float16>(value);
    std::memcpy(to, type == ElementType::f16 ? static_cast<const void*>(&half) : &value, element_bytes(type));
    to += element_bytes(type);
  };
  for (const float value : values) put(value);
  put(kGuard);
}

void* Elements::data() { return bytes_.data() + element_bytes(type_); }

std::vector<float> Elements::floats() const {
  std::vector<float> result;
  for (size_t at = element_bytes(type_); at + element_bytes(type_) < bytes_.size(); at += element_bytes(type_)) {
    _Float16 half;
    float value = 0;
    std::memcpy(type_ == ElementType::f16 ? static_cast<void*>(&half) : &value, bytes_.data() + at,
                element_bytes(type_));
    result.push_back(type_ == ElementType::f16 ? float(half) : value);
  }
  return result;
}

bool Elements::guard_intact() const {
  const Elements guard(type_, {});
  return std::equal(bytes_.end() - ptrdiff_t(element_bytes(type_)), bytes_.end(),
                    guard.bytes_.begin() + ptrdiff_t(element_bytes(type_)));
}

AttentionProblem::AttentionProblem(const AttentionCase& c) : shape(c) {
  const int64_t q_row = c.heads * c.head_size, kv_row = c.kv_heads * c.head_size, rows = c.batch * c.sequence;
  const int64_t row = c.packed ? q_row + 2 * kv_row : 0;
  const auto numbers = [](ElementType type, int64_t count, uint32_t seed, float limit) {
    return rounded(type, random_floats(size_t(count), seed, -limit, limit));
  };
  query = numbers(c.types.rows, rows * (c.packed ? row : q_row), 1, 2);
  key = numbers(c.types.rows, rows * kv_row, 2, 2);
  value = numbers(c.types.rows, rows * kv_row, 3, 2);
  keys = numbers(c.types.cache, c.batch * c.kv_heads * c.capacity * c.head_size, 4, 2);
  values = numbers(c.types.cache, int64_t(keys.size()), 5, 2);
  cos = numbers(c.types.rows, c.capacity * c.pairs, 6, 1);
  sin = numbers(c.types.rows, c.capacity * c.pairs, 7, 1);
  a.type = c.types.rows;
  a.cache_type = c.types.cache;
  a.query_stride = c.packed ? row : q_row;
  a.key_stride = a.value_stride = c.packed ? row : kv_row;
  a.keys = a.values = cache_strides(c);
  a.capacity = c.capacity;
  a.seqlens_k = shape.seqlens.data();
  a.total_sequence_length = 1 + *std::max_element(c.seqlens.begin(), c.seqlens.end());
  a.rotary = {nullptr, nullptr, c.capacity, c.pairs, c.interleaved, c.types.rows};
  a.batch = c.batch;
  a.sequence = c.sequence;
  a.heads = c.heads;
  a.kv_heads = c.kv_heads;
  a.head_size = c.head_size;
  a.scale = 1 / std::sqrt(float(c.head_size));
  a.softcap = c.softcap;
  a.window = c.window;
}

const float* AttentionProblem::query_row(int64_t b, int64_t s, int64_t head) const {
  return query.data() + (b * shape.sequence + s) * a.query_stride + head * shape.head_size;
}

const float* AttentionProblem::key_row(int64_t b, int64_t s, int64_t head) const {
  if (shape.packed) return query_row(b, s, shape.heads + head);
  return key.data() + (b * shape.sequence + s) * a.key_stride + head * shape.head_size;
}

const float* AttentionProblem::value_row(int64_t b, int64_t s, int64_t head) const {
  if (shape.packed) return query_row(b, s, shape.heads + shape.kv_heads + head);
  return value.data() + (b * shape.sequence + s) * a.value_stride + head * shape.head_size;
}

AttentionResult run_attention(AttentionProblem& p) {
  const AttentionCase& c = p.shape;
  Elements query(c.types.rows, p.query), key(c.types.rows, p.key), value(c.types.rows, p.value),
      cos(c.types.rows, p.cos), sin(c.types.rows, p.sin);
  AttentionArguments& a = p.a;
  a.query = query.data();
  a.key = key.data();
  a.value = value.data();
  if (c.packed) {
    const auto* row = static_cast<const std::byte*>(a.query);
    a.key = row + size_t(c.heads * c.head_size) * element_bytes(c.types.rows);
    a.value = row + size_t((c.heads + c.kv_heads) * c.head_size) * element_bytes(c.types.rows);
  }
  a.rotary.cos = cos.data();
  a.rotary.sin = sin.data();
  REQUIRE(attention_error(a) == nullptr);
  const auto run_on = [&](Isa isa, Order order) {
    const std::vector<float> unset(size_t(c.batch * c.sequence * c.heads * c.head_size), kNaN);
    Elements outputs(c.types.rows, unset), keys(c.types.cache, p.keys), values(c.types.cache, p.values);
    a.output = outputs.data();
    a.keys.base = keys.data();
    a.values.base = values.data();
    run_tiles(attention_call(a, isa), order);
    CHECK(outputs.guard_intact());
    CHECK(keys.guard_intact());
    CHECK(values.guard_intact());
    return AttentionResult{outputs.floats(), keys.floats(), values.floats()};
  };
  const AttentionResult reference = run_on(Isa::scalar, Order::forward);
  for (const Isa isa : kIsas) {
    if (!isa_available(isa)) continue;
    const AttentionResult result = run_on(isa, Order::backward);
    CHECK(first_difference(result.outputs, reference.outputs) == -1);
    CHECK(first_difference(result.keys, reference.keys) == -1);
    CHECK(first_difference(result.values, reference.values) == -1);
  }
  return reference;
}

void check_attention(const AttentionCase& shape) {
  for (const AttentionTypes types : kAttentionTypes) {
    AttentionCase typed = shape;
    typed.types = types;
    check_in_its_types(typed);
  }
}

}  // namespace ops_test
