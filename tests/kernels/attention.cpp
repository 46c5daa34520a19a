#include "ompipe/kernels/attention.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "attention_fixture.h"
#include "ops_fixture.h"

using namespace ops_test;

TEST_SUITE_BEGIN("attention");

TEST_CASE("decode equals double, at lengths around the block of keys") {
  for (int32_t last : {0, 1, 7, 62, 63, 64, 65, 127, 128, 200})
    check_attention({.capacity = 256, .seqlens = {last}, .pairs = 8});
}

TEST_CASE("prefill equals double, with and without a past") {
  for (int64_t sequence : {2, 5, 15, 16, 17, 64, 100}) {
    check_attention({.sequence = sequence, .capacity = sequence, .seqlens = {int32_t(sequence - 1)}, .pairs = 8});
    check_attention({.sequence = sequence, .capacity = 180, .seqlens = {int32_t(sequence + 69)}, .pairs = 8});
  }
}

TEST_CASE("groups, head sizes and rotary forms") {
  const auto check = [](int64_t heads, int64_t kv_heads, int64_t size) {
    AttentionCase c{.heads = heads, .kv_heads = kv_heads, .head_size = size, .capacity = 80, .seqlens = {70}};
    c.pairs = size / 2;
    check_attention(c);
    c.sequence = 3;
    c.pairs = 0;
    check_attention(c);
  };
  for (int64_t size : {4, 8, 12, 29, 30, 64, 72, 128}) check(14, 2, size);
  for (auto [heads, kv_heads] : {std::pair(8, 8), std::pair(8, 1), std::pair(3, 3)}) {
    for (int64_t size : {12, 29, 72}) check(heads, kv_heads, size);
  }
  check_attention({.sequence = 20, .head_size = 24, .capacity = 30, .seqlens = {25}, .pairs = 12, .interleaved = true});
  check_attention({.sequence = 20, .head_size = 24, .capacity = 30, .seqlens = {25}, .pairs = 8});
}

TEST_CASE("packed rows, position-major caches, windows and softcap") {
  check_attention({.sequence = 9, .capacity = 40, .seqlens = {30}, .pairs = 8, .packed = true});
  check_attention({.sequence = 9, .capacity = 40, .seqlens = {30}, .pairs = 8, .position_major_cache = true});
  for (int64_t window : {1, 5, 64, 70, 1000}) {
    check_attention({.sequence = 40, .capacity = 200, .seqlens = {179}, .window = window, .pairs = 8});
    check_attention({.capacity = 200, .seqlens = {179}, .window = window});
  }
  check_attention({.sequence = 10, .capacity = 100, .seqlens = {90}, .softcap = 0.7f});
}

TEST_CASE("batch rows of different lengths: decode, and a first prompt padded on the right") {
  check_attention({.batch = 3, .capacity = 100, .seqlens = {4, 99, 63}, .pairs = 8});
  check_attention({.batch = 3, .sequence = 20, .capacity = 100, .seqlens = {4, 19, 10}, .pairs = 8});
}

TEST_CASE("a decode step gives the same bits as the last row of a prefill with the same tile grouping") {
  for (const AttentionTypes types : kAttentionTypes) {
    AttentionCase prefill{.sequence = 33, .heads = 4, .kv_heads = 4, .capacity = 40, .seqlens = {32}, .pairs = 8};
    prefill.types = types;
    AttentionProblem whole(prefill);
    const AttentionResult all = run_attention(whole);
    AttentionCase decode = prefill;
    decode.sequence = 1;
    AttentionProblem step(decode);
    const size_t row = size_t(4 * 16);
    step.query.assign(whole.query.begin() + 32 * row, whole.query.end());
    step.key.assign(whole.key.begin() + 32 * row, whole.key.end());
    step.value.assign(whole.value.begin() + 32 * row, whole.value.end());
    step.keys = all.keys;
    step.values = all.values;
    const AttentionResult last = run_attention(step);
    CHECK(first_difference(last.outputs, {all.outputs.data() + 32 * row, row}) == -1);
  }
}

TEST_CASE("what the past holds beyond the length is never read") {
  for (const AttentionTypes types : kAttentionTypes) {
    AttentionProblem p({.sequence = 5, .capacity = 300, .seqlens = {69}, .types = types});
    const AttentionResult clean = run_attention(p);
    const auto spoil = [&](std::vector<float>& cache) {
      for (int64_t h = 0; h < 2; ++h) {
        for (int64_t i = 70 * 16; i < 300 * 16; ++i) cache[size_t(h * 300 * 16 + i)] = kNaN;
      }
    };
    spoil(p.keys);
    spoil(p.values);
    CHECK(first_difference(clean.outputs, run_attention(p).outputs) == -1);
  }
}

TEST_CASE("a NaN or an infinity at one position reaches the rows that see it, and no other") {
  constexpr int64_t kSequence = 70, kSize = 16;
  for (const int64_t kv_heads : {1, 2, 4}) {
    for (const int64_t window : {-1, 3, 66}) {
      AttentionProblem p({.sequence = kSequence, .kv_heads = kv_heads, .capacity = kSequence, .seqlens = {69}});
      p.a.window = window;
      const AttentionResult clean = run_attention(p);
      const std::vector<float> keys = p.key, values = p.value;
      for (const int64_t spoilt : {2, 21, 63, 69}) {
        for (const bool is_key : {false, true}) {
          std::vector<float>& rows = is_key ? p.key : p.value;
          std::fill_n(rows.begin() + spoilt * kv_heads * kSize, kv_heads * kSize, is_key ? kNaN : kInfinity);
          const AttentionResult got = run_attention(p);
          int64_t wrong = 0;
          for (int64_t i = 0; i < kSequence * 4 * kSize; ++i) {
            const int64_t s = i / (4 * kSize);
            const bool sees = spoilt <= s && (window < 0 || spoilt > s - window);
            const float value = got.outputs[size_t(i)];
            wrong += sees ? std::isfinite(value) : value != clean.outputs[size_t(i)];
          }
          CAPTURE(kv_heads);
          CAPTURE(window);
          CAPTURE(spoilt);
          CAPTURE(is_key);
          CHECK(wrong == 0);
          p.key = keys;
          p.value = values;
        }
      }
    }
  }
}

TEST_CASE("what goes into a float16 cache is rounded once to nearest even, a key after its rotation") {
  const AttentionCase wide{.sequence = 20, .heads = 2, .head_size = 13, .capacity = 25, .seqlens = {22}, .pairs = 6};
  AttentionCase narrow = wide;
  narrow.types.cache = ElementType::f16;
  AttentionProblem of_floats(wide), of_halves(narrow);
  of_floats.keys = of_halves.keys;
  of_floats.values = of_halves.values;
  const AttentionResult floats = run_attention(of_floats), halves = run_attention(of_halves);
  CHECK(first_difference(rounded(ElementType::f16, floats.keys), halves.keys) == -1);
  CHECK(first_difference(rounded(ElementType::f16, floats.values), halves.values) == -1);

  // Ties, overflow, a subnormal, what vanishes.
  AttentionProblem p({.heads = 1, .kv_heads = 1, .head_size = 8, .capacity = 1, .seqlens = {0}, .types = narrow.types});
  p.value = {1 + 0x1p-11f, 1 + 0x3p-11f, 65519, 65520, -0x1.8p-24f, 0x1p-25f, -0x1.8p-25f, -0.0f};
  const std::vector<float> wanted{1, 1 + 0x1p-9f, 65504, kInfinity, -0x1p-23f, 0, -0x1p-24f, -0.0f};
  CHECK(first_difference(run_attention(p).values, wanted) == -1);
}

TEST_CASE("the type in memory changes no bit where it holds the numbers, and rounds the output once") {
  for (const int64_t sequence : {1, 21}) {
    const AttentionCase base{.sequence = sequence, .heads = 6, .head_size = 27, .capacity = 90, .seqlens = {80}};
    AttentionProblem in_halves = [&] {
      AttentionCase c = base;
      c.types = {ElementType::f16, ElementType::f16};
      return AttentionProblem(c);
    }();
    const AttentionResult halves = run_attention(in_halves);
    AttentionProblem in_floats(base);
    in_floats.query = in_halves.query;
    in_floats.key = in_halves.key;
    in_floats.value = in_halves.value;
    in_floats.keys = in_halves.keys;
    in_floats.values = in_halves.values;
    const AttentionResult floats = run_attention(in_floats);
    CHECK(first_difference(halves.keys, floats.keys) == -1);
    CHECK(first_difference(halves.values, floats.values) == -1);
    CHECK(first_difference(halves.outputs, rounded(ElementType::f16, floats.outputs)) == -1);
  }
}

TEST_CASE("arguments that do not fit are refused with a reason") {
  const AttentionCase good{.batch = 2, .sequence = 4, .capacity = 20, .seqlens = {10, 19}, .pairs = 8};
  CHECK(attention_error(AttentionProblem(good).a) == nullptr);
  const auto error = [](const AttentionCase& c, auto change) {
    AttentionProblem p(c);
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
  CHECK(error(good, [](AttentionArguments& a) { a.type = ElementType::bf16; }));
  CHECK(error(good, [](AttentionArguments& a) { a.cache_type = ElementType::i8; }));
  CHECK(error(good, [](AttentionArguments& a) { a.rotary.type = ElementType::f64; }));
}

TEST_SUITE_END();
