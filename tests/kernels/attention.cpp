#include "ompipe/kernels/attention.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "ops_fixture.h"

using namespace ops_test;

TEST_SUITE_BEGIN("attention");

namespace {

struct Case {
  int64_t batch = 1, sequence = 1, heads = 4, kv_heads = 2, head_size = 16, capacity = 0;
  std::vector<int32_t> seqlens = {};  // as the operator takes them
  int64_t window = -1, pairs = 0;
  float softcap = 0;
  bool interleaved = false, packed = false, position_major_cache = false;
};

// Everything one call needs, with seeded contents; the caches hold garbage behind the past.
struct Problem {
  Case shape;
  std::vector<float> query, key, value, keys, values, cos, sin;
  AttentionArguments a;

  explicit Problem(const Case& c) : shape(c) {
    const int64_t total = 1 + *std::max_element(c.seqlens.begin(), c.seqlens.end());
    const int64_t q_row = c.heads * c.head_size, kv_row = c.kv_heads * c.head_size, rows = c.batch * c.sequence;
    const int64_t row = c.packed ? q_row + 2 * kv_row : 0;
    query = random_floats(size_t(rows * (c.packed ? row : q_row)), 1);
    key = random_floats(size_t(rows * kv_row), 2);
    value = random_floats(size_t(rows * kv_row), 3);
    keys = random_floats(size_t(c.batch * c.kv_heads * c.capacity * c.head_size), 4);
    values = random_floats(keys.size(), 5);
    cos = random_floats(size_t(c.capacity * c.pairs), 6, -1, 1);
    sin = random_floats(cos.size(), 7, -1, 1);
    a.query = query.data();
    a.key = c.packed ? a.query + q_row : key.data();
    a.value = c.packed ? a.key + kv_row : value.data();
    a.query_stride = c.packed ? row : q_row;
    a.key_stride = a.value_stride = c.packed ? row : kv_row;
    a.keys = a.values = cache_strides();
    a.capacity = c.capacity;
    a.seqlens_k = shape.seqlens.data();
    a.total_sequence_length = total;
    a.rotary = {cos.data(), sin.data(), c.capacity, c.pairs, c.interleaved};
    a.batch = c.batch;
    a.sequence = c.sequence;
    a.heads = c.heads;
    a.kv_heads = c.kv_heads;
    a.head_size = c.head_size;
    a.scale = 1 / std::sqrt(float(c.head_size));
    a.softcap = c.softcap;
    a.window = c.window;
  }

  CacheView cache_strides() const {
    const Case& c = shape;
    if (c.position_major_cache) {
      return {nullptr, c.capacity * c.kv_heads * c.head_size, c.head_size, c.kv_heads * c.head_size};
    }
    return {nullptr, c.kv_heads * c.capacity * c.head_size, c.capacity * c.head_size, c.head_size};
  }
};

std::vector<double> rotated(const Problem& p, const float* head, int64_t position) {
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
std::vector<double> naive_row(const Problem& p, const std::vector<float>& keys, const std::vector<float>& values,
                              int64_t b, int64_t s, int64_t head) {
  const AttentionArguments& a = p.a;
  const int64_t past = past_length(a, b), end = std::min<int64_t>(past + s + 1, a.seqlens_k[b] + 1);
  const int64_t first = a.window > 0 ? std::max<int64_t>(0, end - a.window) : 0;
  const int64_t kv = head / (a.heads / a.kv_heads);
  const std::vector<double> q =
      rotated(p, a.query + (b * a.sequence + s) * a.query_stride + head * a.head_size, past + s);
  const auto at = [&](int64_t t) { return b * a.keys.batch_stride + kv * a.keys.head_stride + t * a.keys.row_stride; };
  std::vector<double> scores;
  double largest = -1e300, total = 0;
  for (int64_t t = first; t < end; ++t) {
    double score = 0;
    for (int64_t i = 0; i < a.head_size; ++i) score += q[size_t(i)] * keys[size_t(at(t) + i)];
    score *= a.scale;
    if (a.softcap > 0) score = a.softcap * std::tanh(score / a.softcap);
    scores.push_back(score);
    largest = std::max(largest, score);
  }
  std::vector<double> result(size_t(a.head_size), 0.0);
  for (double& score : scores) total += score = std::exp(score - largest);
  for (int64_t t = first; t < end; ++t) {
    for (int64_t i = 0; i < a.head_size; ++i) {
      result[size_t(i)] += scores[size_t(t - first)] / total * values[size_t(at(t) + i)];
    }
  }
  return result;
}

// Runs the call on copies of the caches and returns output, key cache and value cache, joined.
std::vector<float> run(Problem& p) {
  const size_t outputs = size_t(p.a.batch * p.a.sequence * p.a.heads * p.a.head_size), cache = p.keys.size();
  std::vector<float> initial(outputs, kNaN);
  initial.insert(initial.end(), p.keys.begin(), p.keys.end());
  initial.insert(initial.end(), p.values.begin(), p.values.end());
  REQUIRE(attention_error(p.a) == nullptr);
  return run_everywhere(initial, [&](Isa isa, float* to) {
    p.a.output = to;
    p.a.keys.base = to + outputs;
    p.a.values.base = to + outputs + cache;
    return attention_call(p.a, isa);
  });
}

void check_appended(const Problem& p, const std::vector<float>& keys, const std::vector<float>& values) {
  const AttentionArguments& a = p.a;
  for (int64_t b = 0; b < a.batch; ++b) {
    const int64_t past = past_length(a, b);
    for (int64_t h = 0; h < a.kv_heads; ++h) {
      for (int64_t t = 0; t < a.capacity; ++t) {
        const int64_t at = b * a.keys.batch_stride + h * a.keys.head_stride + t * a.keys.row_stride, s = t - past;
        const bool is_new = s >= 0 && s < a.sequence;
        const int64_t row = b * a.sequence + s;
        const std::vector<double> key =
            is_new ? rotated(p, a.key + row * a.key_stride + h * a.head_size, t) : std::vector<double>();
        for (int64_t i = 0; i < a.head_size; ++i) {
          const size_t cell = size_t(at + i);
          if (is_new) {
            REQUIRE(values[cell] == a.value[row * a.value_stride + h * a.head_size + i]);
            REQUIRE(std::abs(keys[cell] - key[size_t(i)]) <= 1e-6);
          } else {
            REQUIRE(values[cell] == p.values[cell]);
            REQUIRE(keys[cell] == p.keys[cell]);
          }
        }
      }
    }
  }
}

void check(const Case& c) {
  Problem p(c);
  const std::vector<float> all = run(p);
  const size_t outputs = all.size() - 2 * p.keys.size();
  const std::vector<float> keys(all.begin() + int64_t(outputs), all.begin() + int64_t(outputs + p.keys.size()));
  const std::vector<float> values(all.begin() + int64_t(outputs + p.keys.size()), all.end());
  check_appended(p, keys, values);
  // Scores are below 2 * 2 * d * scale * 2; their relative rounding d * eps becomes an absolute error of weights that
  // sum to 1 over values below 2.
  const double score = 8 * double(c.head_size) * p.a.scale;
  const double bound = 2 * kEpsilon * (score * (double(c.head_size) / 8 + 8) + double(p.a.total_sequence_length));
  for (int64_t b = 0; b < c.batch; ++b) {
    for (int64_t s = 0; s < c.sequence; ++s) {
      for (int64_t head = 0; head < c.heads; ++head) {
        const std::vector<double> want = naive_row(p, keys, values, b, s, head);
        const float* got = all.data() + ((b * c.sequence + s) * c.heads + head) * c.head_size;
        for (int64_t i = 0; i < c.head_size; ++i) REQUIRE(std::abs(got[i] - want[size_t(i)]) <= bound);
      }
    }
  }
}

}  // namespace

TEST_CASE("decode equals double, at lengths around the block of keys") {
  for (int32_t last : {0, 1, 7, 62, 63, 64, 65, 127, 128, 200}) check({.capacity = 256, .seqlens = {last}, .pairs = 8});
}

TEST_CASE("prefill equals double, with and without a past") {
  for (int64_t sequence : {2, 5, 15, 16, 17, 64, 100}) {
    check({.sequence = sequence, .capacity = sequence, .seqlens = {int32_t(sequence - 1)}, .pairs = 8});
    check({.sequence = sequence, .capacity = 180, .seqlens = {int32_t(sequence + 69)}, .pairs = 8});
  }
}

TEST_CASE("groups, head sizes and rotary forms") {
  for (auto [heads, kv_heads] : {std::pair(14, 2), std::pair(8, 8), std::pair(8, 1), std::pair(3, 3)}) {
    for (int64_t size : {4, 8, 12, 30, 64, 72, 128}) {
      check({.sequence = 3, .heads = heads, .kv_heads = kv_heads, .head_size = size, .capacity = 80, .seqlens = {70}});
      check({.heads = heads,
             .kv_heads = kv_heads,
             .head_size = size,
             .capacity = 80,
             .seqlens = {70},
             .pairs = size / 2});
    }
  }
  check({.sequence = 20, .head_size = 24, .capacity = 30, .seqlens = {25}, .pairs = 12, .interleaved = true});
  check({.sequence = 20, .head_size = 24, .capacity = 30, .seqlens = {25}, .pairs = 8});
}

TEST_CASE("packed rows, position-major caches, windows and softcap") {
  check({.sequence = 9, .capacity = 40, .seqlens = {30}, .pairs = 8, .packed = true});
  check({.sequence = 9, .capacity = 40, .seqlens = {30}, .pairs = 8, .position_major_cache = true});
  for (int64_t window : {1, 5, 64, 70, 1000}) {
    check({.sequence = 40, .capacity = 200, .seqlens = {179}, .window = window, .pairs = 8});
    check({.capacity = 200, .seqlens = {179}, .window = window});
  }
  check({.sequence = 10, .capacity = 100, .seqlens = {90}, .softcap = 0.7f});
}

TEST_CASE("batch rows of different lengths: decode, and a first prompt padded on the right") {
  check({.batch = 3, .capacity = 100, .seqlens = {4, 99, 63}, .pairs = 8});
  check({.batch = 3, .sequence = 20, .capacity = 100, .seqlens = {4, 19, 10}, .pairs = 8});
}

TEST_CASE("a decode step gives the same bits as the last row of a prefill with the same tile grouping") {
  const Case prefill{.sequence = 33, .heads = 4, .kv_heads = 4, .capacity = 40, .seqlens = {32}, .pairs = 8};
  Problem whole(prefill);
  const std::vector<float> all = run(whole);
  Case decode = prefill;
  decode.sequence = 1;
  Problem step(decode);
  const size_t row = size_t(4 * 16), outputs = 33 * row;
  step.query.assign(whole.query.begin() + 32 * row, whole.query.end());
  step.key.assign(whole.key.begin() + 32 * row, whole.key.end());
  step.value.assign(whole.value.begin() + 32 * row, whole.value.end());
  step.a.query = step.query.data();
  step.a.key = step.key.data();
  step.a.value = step.value.data();
  step.keys.assign(all.begin() + outputs, all.begin() + int64_t(outputs + whole.keys.size()));
  step.values.assign(all.begin() + int64_t(outputs + whole.keys.size()), all.end());
  const std::vector<float> last = run(step);
  CHECK(first_difference({last.data(), row}, {all.data() + 32 * row, row}) == -1);
}

TEST_CASE("what the past holds beyond the length is never read") {
  Problem p({.sequence = 5, .capacity = 300, .seqlens = {69}});
  const std::vector<float> clean = run(p);
  const auto spoil = [&](std::vector<float>& cache) {
    for (int64_t h = 0; h < 2; ++h) {
      for (int64_t i = 70 * 16; i < 300 * 16; ++i) cache[size_t(h * 300 * 16 + i)] = kNaN;
    }
  };
  spoil(p.keys);
  spoil(p.values);
  const std::vector<float> spoilt = run(p);
  const size_t outputs = 5 * 4 * 16;
  CHECK(first_difference({clean.data(), outputs}, {spoilt.data(), outputs}) == -1);
}

TEST_CASE("arguments that do not fit are refused with a reason") {
  const Case good{.batch = 2, .sequence = 4, .capacity = 20, .seqlens = {10, 19}, .pairs = 8};
  CHECK(attention_error(Problem(good).a) == nullptr);
  const auto error = [](const Case& c, auto change) {
    Problem p(c);
    change(p.a);
    return attention_error(p.a) != nullptr;
  };
  CHECK(error(good, [](AttentionArguments& a) { a.kv_heads = 3; }));
  CHECK(error(good, [](AttentionArguments& a) { a.kv_heads = 0; }));
  CHECK(error(good, [](AttentionArguments& a) { a.capacity = 19; }));
  CHECK(error(good, [](AttentionArguments& a) { a.rotary.positions = 19; }));
  CHECK(error(good, [](AttentionArguments& a) { a.rotary.pairs = 9; }));
  CHECK(error(good, [](AttentionArguments& a) { a.total_sequence_length = 19; }));
  CHECK(error({.sequence = 4, .capacity = 20, .seqlens = {2}},
              [](AttentionArguments& a) { a.total_sequence_length = 5; }));
  CHECK(error({.capacity = 20, .seqlens = {-1}}, [](AttentionArguments&) {}));
}

TEST_SUITE_END();
