// Exact int8 products against 64-bit sums: every sign, zero point and size around units, groups and row tiles.
#include "ompipe/kernels/matmul_integer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

#include "matmul_fixture.h"

using namespace ompipe::kernels;
using namespace ompipe::kernels::test;

TEST_SUITE_BEGIN("matmul_integer");

namespace {

using Bytes = std::vector<std::byte>;

enum class Fill { random, largest };

Bytes make_bytes(int64_t count, std::mt19937& random, Fill fill, bool is_signed) {
  Bytes bytes(count);
  const std::byte largest{is_signed ? uint8_t{0x80} : uint8_t{0xff}};
  for (std::byte& byte : bytes) byte = fill == Fill::largest ? largest : static_cast<std::byte>(random());
  return bytes;
}

int64_t value(const Bytes& bytes, int64_t i, bool is_signed) {
  const int unsigned_value = static_cast<int>(bytes[i]);
  return is_signed && unsigned_value > 127 ? unsigned_value - 256 : unsigned_value;
}

// Zero points: of A, and of B 0 (none), 1 or N elements.
struct Product {
  int64_t m, k, n;
  bool a_signed, b_signed;
  Bytes a, b, a_zero, b_zeros;
  Product(int64_t rows, int64_t depth, int64_t columns, bool a_is_signed, bool b_is_signed, int kind, Fill fill)
      : m(rows), k(depth), n(columns), a_signed(a_is_signed), b_signed(b_is_signed) {
    std::mt19937 random(static_cast<uint32_t>(m * 1009 + k * 31 + n + kind));
    a = make_bytes(m * k, random, fill, a_signed);
    b = make_bytes(k * n, random, fill, b_signed);
    if (kind > 0) a_zero = make_bytes(1, random, Fill::random, a_signed);
    if (kind > 0) b_zeros = make_bytes(kind == 1 ? 1 : n, random, Fill::random, b_signed);
  }
  MatMulSpec spec() const { return {.format = b_signed ? WeightFormat::s8 : WeightFormat::u8, .k = k, .n = n}; }

  int32_t expected(int64_t row, int64_t column) const {
    const int64_t a_zero_point = a_zero.empty() ? 0 : value(a_zero, 0, a_signed);
    const int64_t b_zero_point = b_zeros.empty() ? 0 : value(b_zeros, b_zeros.size() == 1 ? 0 : column, b_signed);
    int64_t sum = 0;
    for (int64_t i = 0; i < k; ++i) {
      sum += (value(a, row * k + i, a_signed) - a_zero_point) * (value(b, i * n + column, b_signed) - b_zero_point);
    }
    return static_cast<int32_t>(static_cast<uint32_t>(static_cast<uint64_t>(sum)));
  }
};

Buffer pack_bytes(const PackedLayout& layout, const Bytes& b, std::vector<int64_t> cuts = {}, bool reverse = false) {
  Weights weights;
  weights.spec = layout.spec;
  weights.b = b;
  return pack(layout, weights, std::move(cuts), reverse);
}

// out[m, N + 2]; what lies past N stays as it was. Rows of A start at an odd byte and have others between them.
std::vector<int32_t> compute(const Product& product, Isa isa, Order order) {
  const PackedLayout layout = make_layout(product.spec(), isa).value();
  const Buffer packed = pack_bytes(layout, product.b);
  const int64_t lda = product.k + 3, ldc = product.n + 2;
  Bytes a(1 + product.m * lda, std::byte{0x77});
  for (int64_t row = 0; row < product.m; ++row) {
    std::copy_n(product.a.begin() + row * product.k, product.k, a.begin() + 1 + row * lda);
  }
  std::vector<int32_t> out(product.m * ldc, 77);
  Buffer shared(integer_scratch_bytes(layout, product.m));
  MatMulIntegerArgs args;
  args.layout = &layout, args.packed = packed.data(), args.m = product.m;
  args.a_signed = product.a_signed, args.a = a.data() + 1, args.lda = lda;
  args.a_zero_point = product.a_zero.empty() ? nullptr : product.a_zero.data();
  args.b_zero_points = product.b_zeros.empty() ? nullptr : product.b_zeros.data();
  args.b_zero_point_stride = product.b_zeros.size() > 1 ? 1 : 0;
  args.out = out.data(), args.ldc = ldc, args.shared_scratch = shared.data();
  const TiledCall call = matmul_integer_call(args);
  for (int phase = 0; phase < call.phase_count; ++phase) {
    std::vector<int64_t> tiles(call.tile_counts[phase]);
    std::iota(tiles.begin(), tiles.end(), int64_t{0});
    if (order == Order::reverse) std::reverse(tiles.begin(), tiles.end());
    for (int64_t tile : tiles) {
      Buffer scratch(static_cast<int64_t>(call.tile_scratch_bytes));
      call.run(phase, tile, scratch.data());
      CHECK(scratch.guard_intact());
    }
  }
  CHECK(shared.guard_intact());
  return out;
}

int count_wrong(const Product& product, const std::vector<int32_t>& out) {
  int wrong = 0;
  for (int64_t row = 0; row < product.m; ++row) {
    const int32_t* got = out.data() + row * (product.n + 2);
    for (int64_t column = 0; column < product.n; ++column) wrong += got[column] != product.expected(row, column);
    wrong += got[product.n] != 77 || got[product.n + 1] != 77;
  }
  return wrong;
}

void check(int64_t m, int64_t k, int64_t n, int kind, Fill fill) {
  CAPTURE(m);
  CAPTURE(k);
  CAPTURE(n);
  CAPTURE(kind);
  for (const bool a_signed : {false, true}) {
    for (const bool b_signed : {false, true}) {
      CAPTURE(a_signed);
      CAPTURE(b_signed);
      const Product product(m, k, n, a_signed, b_signed, kind, fill);
      for (Isa isa : isas()) {
        CAPTURE(isa_name(isa));
        CHECK(count_wrong(product, compute(product, isa, Order::forward)) == 0);
      }
    }
  }
}

}  // namespace

TEST_CASE("every pair of signs and kind of zero points, at sizes around units, groups and row tiles") {
  for (int64_t k : {1, 4, 31, 32, 33, 70}) {
    for (int64_t n : {1, 8, 9, 35}) {
      for (int64_t m : {1, 2, 3, 7, 13}) {
        for (int kind : {0, 1, 2}) check(m, k, n, kind, Fill::random);
      }
    }
  }
}

TEST_CASE("the largest values neither saturate nor wrap before 32 bits") {
  for (int64_t k : {64, 1000}) {
    for (int64_t m : {1, 6}) {
      for (int kind : {0, 1, 2}) check(m, k, 9, kind, Fill::largest);
    }
  }
}

TEST_CASE("sums beyond 32 bits wrap") {
  for (int64_t m : {1, 6}) check(m, 70'000, 9, 2, Fill::largest);
}

TEST_CASE("many tiles, in any order") {
  const Product product(203, 150, 300, false, true, 2, Fill::random);
  for (Isa isa : isas()) {
    const std::vector<int32_t> forward = compute(product, isa, Order::forward);
    CHECK(count_wrong(product, forward) == 0);
    CHECK(compute(product, isa, Order::reverse) == forward);
  }
  const Product row(1, 600, 1300, false, false, 1, Fill::random);
  CHECK(count_wrong(row, compute(row, best_isa(), Order::reverse)) == 0);
}

TEST_CASE("packed bytes are the same for every cutting, order and ISA, and each range writes its own") {
  std::mt19937 random(3);
  for (const bool b_signed : {false, true}) {
    for (int64_t k : {3, 37, 64}) {
      for (int64_t n : {5, 16, 50}) {
        const Product product(1, k, n, false, b_signed, 0, Fill::random);
        const PackedLayout layout = make_layout(product.spec(), Isa::scalar).value();
        const Buffer whole = pack_bytes(layout, product.b);
        for (int64_t i = 0; i < k * n; ++i) {
          const int64_t row = i / n, column = i % n;
          const int64_t at = (column / 8 * ((k + 31) / 32) * 8 + row / 4) * 32 + column % 8 * 4 + row % 4;
          CHECK(whole.data()[at] == (product.b[i] ^ std::byte{b_signed ? uint8_t{128} : uint8_t{0}}));
        }
        for (Isa isa : isas()) {
          const PackedLayout other = make_layout(product.spec(), isa).value();
          for (int count : {1, 4, 20}) {
            std::vector<int64_t> cuts;
            for (int i = 0; i < count; ++i) cuts.push_back(static_cast<int64_t>(random() % (k * n + 1)));
            CHECK(pack_bytes(other, product.b, cuts, count == 4).same_bytes(whole));
          }
        }
        // Two halves over different poison: each byte is written by one of them.
        const int64_t cut = static_cast<int64_t>(random() % (k * n + 1));
        Buffer first(layout.packed_bytes), second(layout.packed_bytes);
        for (int64_t i = 0; i < layout.packed_bytes; ++i) {
          first.data()[i] = second.data()[i] = whole.data()[i] ^ std::byte{0xff};
        }
        pack_range(layout, {.range = product.b.data()}, 0, cut, first.data());
        pack_range(layout, {.range = product.b.data() + cut}, cut, k * n, second.data());
        int wrong = 0;
        for (int64_t i = 0; i < layout.packed_bytes; ++i) {
          wrong += (first.data()[i] == whole.data()[i]) == (second.data()[i] == whole.data()[i]);
        }
        CHECK(wrong == 0);
      }
    }
  }
}

TEST_CASE("layouts of bytes: keys of their own, transposed ones refused, scratch never falls with the rows") {
  const MatMulSpec u8 = {.format = WeightFormat::u8, .k = 64, .n = 16};
  MatMulSpec s8 = u8;
  s8.format = WeightFormat::s8;
  CHECK(layout_key(*make_layout(u8, Isa::scalar)) != layout_key(*make_layout(s8, Isa::scalar)));
  s8.trans_b = true;
  CHECK(unsupported_reason(s8) != nullptr);
  const PackedLayout layout = *make_layout(u8, Isa::scalar);
  int64_t shared = 0;
  for (int64_t m = 0; m < 300; ++m) {
    MatMulIntegerArgs args;
    args.layout = &layout, args.m = m;
    if (m == 0) CHECK(matmul_integer_call(args).tile_counts[1] == 0);
    CHECK(integer_scratch_bytes(layout, m) >= shared);
    shared = integer_scratch_bytes(layout, m);
  }
}

TEST_SUITE_END();
