// Products of every weight format through the C interface: packed by ranges and computed as tiles, both on several
// threads in a shuffled order, and compared with a naive product in double precision. Products on bytes that aren't
// packed have the same bits.
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elements.h"
#include "ompipe_kernels.h"
#include "weights.h"
#include "work.h"

// A product's activations, addend and result, of one element type.
typedef struct Rows {
  int32_t format;  // OMPIPE_WEIGHT_F32 or OMPIPE_WEIGHT_F16
  unsigned char* bytes;
} Rows;

static int64_t element_bytes(int32_t format) { return format == OMPIPE_WEIGHT_F16 ? 2 : 4; }

static Rows make_rows(int32_t format, int64_t count) {
  return (Rows){format, allocate((size_t)(count * element_bytes(format)), OMPIPE_ALIGNMENT)};
}

static void fill_rows(Rows rows, int64_t begin, int64_t count, uint32_t* random) {
  for (int64_t i = begin; i < begin + count; ++i) {
    random_element(rows.bytes + i * element_bytes(rows.format), rows.format, random);
  }
}

static double element(Rows rows, int64_t at) {
  return element_value(rows.bytes + at * element_bytes(rows.format), rows.format);
}

// Every output lies within a bound of the naive product: rounding of k additions, at level 4 of each activation to
// 1 / 127 of its block's largest (floats are at most 1 here, halves 2), and of halves that are written.
static void compare(const Weight* weight, const ompipe_matmul_product* product, Rows a, Rows c, Rows out) {
  const int64_t k = weight->description.k, n = weight->description.n;
  const int half = out.format == OMPIPE_WEIGHT_F16;
  for (int64_t row = 0; row < product->m; ++row) {
    for (int64_t i = (row * product->ldo + n) * element_bytes(out.format);
         i < (row + 1) * product->ldo * element_bytes(out.format); ++i) {
      demand(out.bytes[i] == 0xff, "something is written between the rows");
    }
    for (int64_t column = 0; column < n; ++column) {
      double exact = 0, magnitude = 0, weights = 0;
      for (int64_t i = 0; i < k; ++i) {
        const double value = weight->values[i * n + column], term = element(a, row * product->lda + i) * value;
        exact += term;
        magnitude += fabs(term);
        weights += fabs(value);
      }
      const double addend = element(c, row * product->c_row_stride + column * product->c_column_stride);
      const double wanted = product->alpha * exact + product->beta * addend;
      double bound = magnitude * (double)(k + 2) / (1 << 23);
      if (weight->description.accuracy_level == 4) bound += weights * (half ? 2 : 1) / 254 * 1.001;
      bound = fabs(product->alpha) * bound + fabs(product->beta * addend) / (1 << 22) + 1e-6;
      if (half) bound += (fabs(wanted) + bound) / (1 << 11);
      const double difference = element(out, row * product->ldo + column) - wanted;
      if (fabs(difference) <= bound) continue;
      fprintf(stderr, "products: m %lld n %lld: off by %g, %g allowed\n", (long long)row, (long long)column, difference,
              bound);
      exit(1);
    }
  }
}

enum { GUARD = 64 };

// The same product on B's own bytes, at an odd address: the same bits, and fused the same packed bytes.
static void multiply_source(const Weight* weight, ompipe_matmul_product product, int32_t way, Rows wanted) {
  const size_t packed_bytes = (size_t)weight->sizes.packed_bytes, b_bytes = (size_t)weight->sizes.source_bytes;
  ompipe_matmul_product shape = ompipe_matmul_product_default();
  int64_t tile_bytes;
  shape.layout = product.layout;
  shape.elements = product.elements;
  shape.way = way;
  shape.m = product.m;
  demand_done(ompipe_matmul_scratch(&shape, &product.shared_scratch_bytes, &tile_bytes), NULL);
  unsigned char* const b = allocate(b_bytes + 1, OMPIPE_ALIGNMENT);
  memcpy(b + 1, weight->b, b_bytes);
  const Rows out = make_rows(wanted.format, product.m * product.ldo);
  const ompipe_matmul_source source = {.struct_bytes = sizeof source,
                                       .end = weight->sizes.source_bytes,
                                       .range = b + 1,
                                       .scales = weight->scales,
                                       .zero_points = weight->zero_points};
  product.way = way;
  product.packed = NULL;
  product.source = &source;
  product.out = out.bytes;
  product.shared_scratch = allocate((size_t)product.shared_scratch_bytes + GUARD, OMPIPE_ALIGNMENT);
  if (way == OMPIPE_PRODUCT_FUSED) {
    product.pack_into = allocate(packed_bytes, OMPIPE_ALIGNMENT);
    product.pack_into_bytes = weight->sizes.packed_bytes;
  }
  const ompipe_size size = ompipe_call_size();
  ompipe_call* call = allocate(size.bytes, size.alignment);
  const char* reason;
  demand_done(ompipe_matmul_call_init(call, size.bytes, &product, &reason), &reason);
  demand(ompipe_call_tile_scratch_bytes(call) == tile_bytes, "two answers about scratch");
  run_call_on_threads(call);
  for (int64_t i = 0; i < GUARD; ++i) {
    const unsigned char* const shared = product.shared_scratch;
    demand(shared[product.shared_scratch_bytes + i] == 0xff, "something is written behind shared scratch");
  }
  const size_t bytes = (size_t)(product.m * product.ldo * element_bytes(out.format));
  demand(memcmp(out.bytes, wanted.bytes, bytes) == 0, "B's own bytes give other bits");
  if (way == OMPIPE_PRODUCT_FUSED) {
    demand(memcmp(product.pack_into, weight->packed, packed_bytes) == 0, "fused packs other bytes");
  }
  void* all[] = {b, out.bytes, product.shared_scratch, product.pack_into, call};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) free(all[i]);
}

static void multiply(const Weight* weight, int64_t m, int32_t elements, uint32_t* random) {
  const int64_t k = weight->description.k, n = weight->description.n;
  const int32_t format = elements == OMPIPE_ELEMENTS_F16 ? OMPIPE_WEIGHT_F16 : OMPIPE_WEIGHT_F32;
  ompipe_matmul_product product = ompipe_matmul_product_default();
  int64_t tile_bytes;
  product.layout = weight->layout;
  product.m = m;
  product.elements = elements;
  demand_done(ompipe_matmul_scratch(&product, &product.shared_scratch_bytes, &tile_bytes), NULL);
  product.lda = k + 3;
  product.ldo = n + 5;
  const Rows a = make_rows(format, m * product.lda), c = make_rows(format, n), out = make_rows(format, m * product.ldo);
  for (int64_t row = 0; row < m; ++row) fill_rows(a, row * product.lda, k, random);
  fill_rows(c, 0, n, random);
  product.packed = weight->packed;
  product.a = a.bytes;
  product.c = c.bytes;
  product.out = out.bytes;
  product.alpha = 0.5f;
  product.beta = -2;
  product.shared_scratch = allocate((size_t)product.shared_scratch_bytes, OMPIPE_ALIGNMENT);

  const ompipe_size size = ompipe_call_size();
  ompipe_call* call = allocate(size.bytes, size.alignment);
  const char* reason;
  demand_done(ompipe_matmul_call_init(call, size.bytes, &product, &reason), &reason);
  demand(ompipe_call_tile_scratch_bytes(call) == tile_bytes, "two answers about scratch");
  run_call_on_threads(call);
  compare(weight, &product, a, c, out);

  // On one thread, in order: the same bits.
  const Rows again = make_rows(format, m * product.ldo);
  product.out = again.bytes;
  demand_done(ompipe_matmul_call_init(call, size.bytes, &product, &reason), &reason);
  void* scratch = allocate((size_t)tile_bytes, OMPIPE_ALIGNMENT);
  demand_done(ompipe_call_run(call, scratch, tile_bytes), NULL);
  const size_t bytes = (size_t)(m * product.ldo * element_bytes(format));
  demand(memcmp(out.bytes, again.bytes, bytes) == 0, "the order of tiles changes bits");
  multiply_source(weight, product, OMPIPE_PRODUCT_PORTABLE, out);
  multiply_source(weight, product, OMPIPE_PRODUCT_FUSED, out);
  void* all[] = {a.bytes, c.bytes, out.bytes, again.bytes, product.shared_scratch, call, scratch};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) free(all[i]);
}

int main(void) {
  static const ompipe_matmul_weight weights[] = {
      {.format = OMPIPE_WEIGHT_F32, .k = 300, .n = 130},
      {.format = OMPIPE_WEIGHT_F32, .k = 65, .n = 47, .trans_b = 1, .isa = OMPIPE_ISA_SCALAR},
      {.format = OMPIPE_WEIGHT_F16, .k = 129, .n = 80, .trans_b = 1},
      {.format = OMPIPE_WEIGHT_BF16, .k = 128, .n = 33},
      {.format = OMPIPE_WEIGHT_NBITS, .k = 320, .n = 130, .bits = 4, .block = 32},
      {.format = OMPIPE_WEIGHT_NBITS, .k = 200, .n = 70, .bits = 4, .block = 16, .scales = OMPIPE_SCALES_F16},
      {.format = OMPIPE_WEIGHT_NBITS, .k = 300, .n = 130, .bits = 4, .block = 64, .accuracy_level = 4},
      {.format = OMPIPE_WEIGHT_NBITS,
       .k = 257,
       .n = 33,
       .bits = 4,
       .block = 32,
       .accuracy_level = 4,
       .zero_points = OMPIPE_ZERO_POINTS_PACKED,
       .scales = OMPIPE_SCALES_F16},
      {.format = OMPIPE_WEIGHT_NBITS,
       .k = 130,
       .n = 41,
       .bits = 8,
       .block = 32,
       .accuracy_level = 4,
       .zero_points = OMPIPE_ZERO_POINTS_F32},
      {.format = OMPIPE_WEIGHT_NBITS,
       .k = 264,
       .n = 24,
       .bits = 2,
       .block = 128,
       .zero_points = OMPIPE_ZERO_POINTS_PACKED,
       .scales = OMPIPE_SCALES_F32_AS_F16},
      {.format = OMPIPE_WEIGHT_NBITS,
       .k = 96,
       .n = 19,
       .bits = 4,
       .block = 32,
       .accuracy_level = 4,
       .zero_points = OMPIPE_ZERO_POINTS_F16,
       .scales = OMPIPE_SCALES_F32_AS_F16},
  };
  static const int64_t rows[] = {0, 1, 7, 33};
  uint32_t random = 1;
  for (size_t i = 0; i < sizeof weights / sizeof *weights; ++i) {
    ompipe_matmul_weight description = weights[i];
    description.struct_bytes = sizeof description;
    Weight weight = make_weight(description, &random);
    char key[128];
    demand_done(ompipe_matmul_layout_key(weight.layout, key, sizeof key, NULL), NULL);
    for (size_t j = 0; j < sizeof rows / sizeof *rows; ++j) {
      multiply(&weight, rows[j], OMPIPE_ELEMENTS_F32, &random);
      multiply(&weight, rows[j], OMPIPE_ELEMENTS_F16, &random);
    }
    printf("%s on %s\n", key, ompipe_isa_name(ompipe_matmul_layout_isa(weight.layout)));
    free_weight(&weight);
  }
  return 0;
}
