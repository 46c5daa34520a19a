// Exact products of int8 and DynamicQuantizeLinear through the C interface, equal to naive ones, and the two together:
// a dynamically quantised product near that of floats. Tiles run on several threads in a shuffled order.
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ompipe_kernels.h"
#include "weights.h"
#include "work.h"

typedef enum ZeroPointKind { NO_ZERO_POINTS, ONE_ZERO_POINT, ZERO_POINT_A_COLUMN } ZeroPointKind;

static int byte_value(const unsigned char* at, int is_signed) { return is_signed ? (int8_t)*at : *at; }

static void random_bytes(unsigned char* at, int64_t count, uint32_t* random) {
  for (int64_t i = 0; i < count; ++i) at[i] = (unsigned char)next_random(random);
}

// Made, run on threads, and freed; what it shares has the size that was asked for.
static void run_integer_product(ompipe_matmul_integer_product product) {
  int64_t tile_bytes;
  demand_done(ompipe_matmul_integer_scratch(&product, &product.shared_scratch_bytes, &tile_bytes), NULL);
  product.shared_scratch = allocate((size_t)product.shared_scratch_bytes, OMPIPE_ALIGNMENT);
  const ompipe_size size = ompipe_call_size();
  ompipe_call* call = allocate(size.bytes, size.alignment);
  const char* reason;
  demand_done(ompipe_matmul_integer_call_init(call, size.bytes, &product, &reason), &reason);
  demand(ompipe_call_tile_scratch_bytes(call) == tile_bytes, "two answers about scratch");
  run_call_on_threads(call);
  free(product.shared_scratch);
  free(call);
}

// Rows of a and out have others between them; those of out stay as they were.
static void multiply(const Weight* weight, int64_t m, int a_signed, ZeroPointKind kind, uint32_t* random) {
  const int64_t k = weight->description.k, n = weight->description.n, lda = k + 3, ldo = n + 2;
  const int b_signed = weight->description.format == OMPIPE_WEIGHT_S8;
  unsigned char* const a = allocate((size_t)(m * lda), OMPIPE_ALIGNMENT);
  unsigned char* const zero_points = allocate((size_t)n + 1, OMPIPE_ALIGNMENT);
  int32_t* const out = allocate(sizeof(int32_t) * (size_t)(m * ldo), OMPIPE_ALIGNMENT);
  random_bytes(a, m * lda, random);
  random_bytes(zero_points, n + 1, random);  // the last one is a's
  ompipe_matmul_integer_product product = {.struct_bytes = sizeof product, .layout = weight->layout};
  product.packed = weight->packed;
  product.m = m;
  product.a = a;
  product.a_signed = a_signed;
  product.lda = lda;
  product.out = out;
  product.ldo = ldo;
  if (kind != NO_ZERO_POINTS) {
    product.a_zero_point = zero_points + n;
    product.b_zero_points = zero_points;
    product.b_zero_point_stride = kind == ZERO_POINT_A_COLUMN;
  }
  run_integer_product(product);
  for (int64_t row = 0; row < m; ++row) {
    demand(out[row * ldo + n] == -1 && out[row * ldo + n + 1] == -1, "something is written between the rows");
    for (int64_t column = 0; column < n; ++column) {
      const unsigned char* const b_zero = zero_points + (kind == ZERO_POINT_A_COLUMN ? column : 0);
      const int a_minus = kind == NO_ZERO_POINTS ? 0 : byte_value(zero_points + n, a_signed);
      const int b_minus = kind == NO_ZERO_POINTS ? 0 : byte_value(b_zero, b_signed);
      int64_t sum = 0;
      for (int64_t i = 0; i < k; ++i) {
        sum += (int64_t)(byte_value(a + row * lda + i, a_signed) - a_minus) *
               ((int)weight->values[i * n + column] - b_minus);
      }
      demand(out[row * ldo + column] == sum, "an exact product is wrong");
    }
  }
  free(a);
  free(zero_points);
  free(out);
}

// y, scale and zero point of x.
static void quantise(const float* x, int64_t count, unsigned char* y, float* scale, unsigned char* zero_point,
                     ompipe_isa isa) {
  ompipe_dynamic_quantize quantize = {.struct_bytes = sizeof quantize, .count = count, .isa = isa};
  int64_t tile_bytes;
  demand_done(ompipe_dynamic_quantize_scratch(&quantize, &quantize.shared_scratch_bytes, &tile_bytes), NULL);
  quantize.shared_scratch = allocate((size_t)quantize.shared_scratch_bytes, OMPIPE_ALIGNMENT);
  quantize.x = x;
  quantize.y = y;
  quantize.scale = scale;
  quantize.zero_point = zero_point;
  const ompipe_size size = ompipe_call_size();
  ompipe_call* call = allocate(size.bytes, size.alignment);
  const char* reason;
  demand_done(ompipe_dynamic_quantize_call_init(call, size.bytes, &quantize, &reason), &reason);
  demand(ompipe_call_tile_scratch_bytes(call) == tile_bytes, "two answers about scratch");
  run_call_on_threads(call);
  free(quantize.shared_scratch);
  free(call);
}

static void check_quantise(int64_t count, float offset, ompipe_isa isa, uint32_t* random) {
  float* const x = allocate(sizeof(float) * (size_t)count, OMPIPE_ALIGNMENT);
  unsigned char* const y = allocate((size_t)count + 1, OMPIPE_ALIGNMENT);
  float low = 0, high = 0, scale;
  for (int64_t i = 0; i < count; ++i) {
    x[i] = random_float(random) + offset;
    low = fminf(low, x[i]);
    high = fmaxf(high, x[i]);
  }
  unsigned char zero_point;
  quantise(x, count, y, &scale, &zero_point, isa);
  const float wanted = high == low ? 1 : (high - low) / 255;
  const float zero = nearbyintf(fminf(fmaxf(-low / wanted, 0), 255));
  demand(scale == wanted && zero_point == zero, "another scale or zero point");
  for (int64_t i = 0; i < count; ++i) {
    demand(y[i] == fminf(fmaxf(nearbyintf(x[i] / wanted) + zero, 0), 255), "an element is quantised otherwise");
  }
  demand(y[count] == 0xff, "something is written behind y");
  free(x);
  free(y);
}

// Each activation is off by half a scale at most, and as much again where rounding the zero point made it clamp.
static void check_dynamic_product(const Weight* weight, int64_t m, uint32_t* random) {
  const int64_t k = weight->description.k, n = weight->description.n;
  float* const x = allocate(sizeof(float) * (size_t)(m * k), OMPIPE_ALIGNMENT);
  unsigned char* const y = allocate((size_t)(m * k), OMPIPE_ALIGNMENT);
  int32_t* const out = allocate(sizeof(int32_t) * (size_t)(m * n), OMPIPE_ALIGNMENT);
  for (int64_t i = 0; i < m * k; ++i) x[i] = random_float(random);
  float scale;
  unsigned char zero_point;
  quantise(x, m * k, y, &scale, &zero_point, OMPIPE_ISA_BEST);
  run_integer_product((ompipe_matmul_integer_product){.struct_bytes = sizeof(ompipe_matmul_integer_product),
                                                      .layout = weight->layout,
                                                      .packed = weight->packed,
                                                      .m = m,
                                                      .a = y,
                                                      .lda = k,
                                                      .out = out,
                                                      .ldo = n,
                                                      .a_zero_point = &zero_point});
  for (int64_t row = 0; row < m; ++row) {
    for (int64_t column = 0; column < n; ++column) {
      double exact = 0, weights = 0;
      for (int64_t i = 0; i < k; ++i) {
        exact += x[row * k + i] * weight->values[i * n + column];
        weights += fabs(weight->values[i * n + column]);
      }
      const double difference = fabs(out[row * n + column] * (double)scale - exact);
      demand(difference <= weights * scale * 1.001, "a dynamically quantised product is too far off");
    }
  }
  free(x);
  free(y);
  free(out);
}

int main(void) {
  static const int64_t rows[] = {0, 1, 5, 40}, counts[] = {0, 1, 7, 8, 16384, 40001};
  uint32_t random = 1;
  for (ompipe_isa isa = 1; ompipe_isa_name(isa) != NULL; ++isa) {
    if (!ompipe_isa_available(isa)) continue;
    for (int32_t format = OMPIPE_WEIGHT_U8; format <= OMPIPE_WEIGHT_S8; ++format) {
      Weight weight = make_weight(
          (ompipe_matmul_weight){
              .struct_bytes = sizeof(ompipe_matmul_weight), .k = 131, .n = 70, .format = format, .isa = isa},
          &random);
      for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
        for (int a_signed = 0; a_signed < 2; ++a_signed) {
          for (ZeroPointKind kind = NO_ZERO_POINTS; kind <= ZERO_POINT_A_COLUMN; ++kind) {
            multiply(&weight, rows[i], a_signed, kind, &random);
          }
        }
      }
      check_dynamic_product(&weight, 9, &random);
      char key[128];
      demand_done(ompipe_matmul_layout_key(weight.layout, key, sizeof key, NULL), NULL);
      printf("%s on %s\n", key, ompipe_isa_name(ompipe_matmul_layout_isa(weight.layout)));
      free_weight(&weight);
    }
    for (size_t i = 0; i < sizeof counts / sizeof *counts; ++i) {
      for (int offset = -2; offset <= 2; ++offset) check_quantise(counts[i], (float)offset, isa, &random);
    }
  }
  return 0;
}
