// What the C interface refuses of products of int8, DynamicQuantizeLinear and tuning: the status and the reason of each
// wrong argument, and that nothing else is written.
#define _POSIX_C_SOURCE 200809L
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "ompipe_kernels.h"
#include "refusals.h"

enum { K = 40, N = 24, M = 3 };

static _Alignas(64) unsigned char layout_memory[1024], tuning_memory[256],
    call_memory[1024], packed[4096], shared[4096];
static _Alignas(64) unsigned char zeros[4096];
static unsigned char a[M * K];
static int32_t out[M * N];

static ompipe_matmul_layout* const layout = (ompipe_matmul_layout*)layout_memory;
static ompipe_tuning* const tuning = (ompipe_tuning*)tuning_memory;
static ompipe_call* const call = (ompipe_call*)call_memory;

static void make(int32_t format) {
  const ompipe_matmul_weight weight = {.struct_bytes = sizeof weight, .k = K, .n = N, .format = format};
  const char* reason;
  expect(ompipe_matmul_layout_init(layout, sizeof layout_memory, &weight, &reason), OMPIPE_OK, &reason, NULL, __LINE__);
}

static ompipe_matmul_integer_product right_product(void) {
  return (ompipe_matmul_integer_product){.struct_bytes = sizeof(ompipe_matmul_integer_product),
                                         .layout = layout,
                                         .packed = packed,
                                         .m = M,
                                         .a = a,
                                         .lda = K,
                                         .out = out,
                                         .ldo = N,
                                         .shared_scratch = shared,
                                         .shared_scratch_bytes = sizeof shared};
}

static void refuse_product(ompipe_matmul_integer_product product, ompipe_status status, const char* part, int line) {
  memset(call_memory, 0x5a, sizeof call_memory);
  const char* reason = "unset";
  expect(ompipe_matmul_integer_call_init(call, sizeof call_memory, &product, &reason), status, &reason, part, line);
  expect_true(all_bytes_are(call_memory, sizeof call_memory, 0x5a), "the memory is untouched", line);
}
#define REFUSE(change, status, part)                   \
  do {                                                 \
    ompipe_matmul_integer_product p = right_product(); \
    change;                                            \
    refuse_product(p, status, part, __LINE__);         \
  } while (0)

static void check_products(void) {
  make(OMPIPE_WEIGHT_S8);
  ompipe_matmul_integer_product product = right_product();
  int64_t one, two;
  TRUE(ompipe_matmul_integer_scratch(&product, &one, &two) == OMPIPE_OK && one > 0 && two > 0);
  TRUE(one <= (int64_t)sizeof shared);
  TRUE(ompipe_matmul_integer_scratch(&product, NULL, &two) == OMPIPE_INVALID_ARGUMENT);
  TRUE(ompipe_matmul_integer_scratch(&product, &one, NULL) == OMPIPE_INVALID_ARGUMENT);
  TRUE(ompipe_matmul_integer_scratch(NULL, &one, &two) == OMPIPE_INVALID_ARGUMENT);
  product.m = -1;
  TRUE(ompipe_matmul_integer_scratch(&product, &one, &two) == OMPIPE_INVALID_ARGUMENT);

  REFUSE(p.struct_bytes -= 8, OMPIPE_UNKNOWN_FIELD, "struct_bytes");
  REFUSE(p.layout = NULL, OMPIPE_INVALID_ARGUMENT, "layout");
  REFUSE(p.layout = (void*)zeros, OMPIPE_INVALID_ARGUMENT, "layout");
  REFUSE(p.packed = NULL, OMPIPE_INVALID_ARGUMENT, "packed");
  REFUSE(p.packed = packed + 32, OMPIPE_MISALIGNED, "packed");
  REFUSE(p.m = -1, OMPIPE_INVALID_ARGUMENT, "m must");
  REFUSE(p.m = INT64_MAX, OMPIPE_INVALID_ARGUMENT, "m must");
  REFUSE(p.a = NULL, OMPIPE_INVALID_ARGUMENT, "null");
  REFUSE(p.out = NULL, OMPIPE_INVALID_ARGUMENT, "null");
  REFUSE(p.out = (void*)((char*)out + 2), OMPIPE_MISALIGNED, "int32");
  REFUSE(p.lda = K - 1, OMPIPE_INVALID_ARGUMENT, "lda");
  REFUSE(p.lda = INT64_MAX, OMPIPE_INVALID_ARGUMENT, "lda");
  REFUSE(p.ldo = N - 1, OMPIPE_INVALID_ARGUMENT, "ldo");
  REFUSE(p.ldo = INT64_MAX, OMPIPE_INVALID_ARGUMENT, "ldo");
  REFUSE(p.b_zero_point_stride = 2, OMPIPE_INVALID_ARGUMENT, "b_zero_point_stride");
  REFUSE(p.a_signed = -1, OMPIPE_INVALID_ARGUMENT, "a_signed");
  REFUSE(p.shared_scratch = NULL, OMPIPE_INVALID_ARGUMENT, "shared_scratch");
  REFUSE(p.shared_scratch_bytes = 1, OMPIPE_TOO_SMALL, "ompipe_matmul_integer_scratch");
  REFUSE(p.shared_scratch = shared + 16, OMPIPE_MISALIGNED, "shared_scratch");
  product = right_product();
  const char* reason;
  expect(ompipe_matmul_integer_call_init(call, 8, &product, &reason), OMPIPE_TOO_SMALL, &reason, "size", __LINE__);
  expect(ompipe_matmul_integer_call_init(call, sizeof call_memory, NULL, &reason), OMPIPE_INVALID_ARGUMENT, &reason,
         "product", __LINE__);

  product.m = 0;  // nothing of A and the result is looked at
  product.a = NULL;
  product.out = NULL;
  product.shared_scratch = NULL;
  product.shared_scratch_bytes = 0;
  expect(ompipe_matmul_integer_call_init(call, sizeof call_memory, &product, &reason), OMPIPE_OK, &reason, NULL,
         __LINE__);
  TRUE(ompipe_call_tiles(call, 0) == 0 && ompipe_call_tiles(call, 1) == 0);

  // Each kind of product refuses the other's layouts.
  ompipe_matmul_product floats = ompipe_matmul_product_default();
  floats.layout = layout;
  for (int32_t way = OMPIPE_PRODUCT_PACKED; way <= OMPIPE_PRODUCT_FUSED; ++way) {
    floats.way = way;
    TRUE(ompipe_matmul_scratch(&floats, &one, &two) == OMPIPE_INVALID_ARGUMENT);
    expect(ompipe_matmul_call_init(call, sizeof call_memory, &floats, &reason), OMPIPE_INVALID_ARGUMENT, &reason,
           "ompipe_matmul_integer_call_init", __LINE__);
  }
  make(OMPIPE_WEIGHT_F32);
  product = right_product();
  TRUE(ompipe_matmul_integer_scratch(&product, &one, &two) == OMPIPE_INVALID_ARGUMENT);
  REFUSE(, OMPIPE_INVALID_ARGUMENT, "OMPIPE_WEIGHT_U8");
}

static float x[4], scale;
static uint8_t y[4], zero_point;

static ompipe_dynamic_quantize right_quantize(void) {
  return (ompipe_dynamic_quantize){.struct_bytes = sizeof(ompipe_dynamic_quantize),
                                   .count = 4,
                                   .x = x,
                                   .y = y,
                                   .scale = &scale,
                                   .zero_point = &zero_point,
                                   .shared_scratch = shared,
                                   .shared_scratch_bytes = sizeof shared};
}

static void refuse_quantize(ompipe_dynamic_quantize quantize, ompipe_status status, const char* part, int line) {
  memset(call_memory, 0x5a, sizeof call_memory);
  const char* reason = "unset";
  expect(ompipe_dynamic_quantize_call_init(call, sizeof call_memory, &quantize, &reason), status, &reason, part, line);
  expect_true(all_bytes_are(call_memory, sizeof call_memory, 0x5a), "the memory is untouched", line);
}
#define REFUSE_QUANTIZE(change, status, part)     \
  do {                                            \
    ompipe_dynamic_quantize q = right_quantize(); \
    change;                                       \
    refuse_quantize(q, status, part, __LINE__);   \
  } while (0)

static void check_quantize(void) {
  ompipe_dynamic_quantize quantize = right_quantize();
  int64_t one, two;
  TRUE(ompipe_dynamic_quantize_scratch(&quantize, &one, &two) == OMPIPE_OK && one > 0);
  TRUE(ompipe_dynamic_quantize_scratch(&quantize, NULL, &two) == OMPIPE_INVALID_ARGUMENT);
  TRUE(ompipe_dynamic_quantize_scratch(&quantize, &one, NULL) == OMPIPE_INVALID_ARGUMENT);
  TRUE(ompipe_dynamic_quantize_scratch(NULL, &one, &two) == OMPIPE_INVALID_ARGUMENT);
  quantize.count = -1;
  TRUE(ompipe_dynamic_quantize_scratch(&quantize, &one, &two) == OMPIPE_INVALID_ARGUMENT);

  REFUSE_QUANTIZE(q.struct_bytes = 0, OMPIPE_UNKNOWN_FIELD, "struct_bytes");
  REFUSE_QUANTIZE(q.unused = 1, OMPIPE_UNKNOWN_FIELD, "zero");
  REFUSE_QUANTIZE(q.count = -1, OMPIPE_INVALID_ARGUMENT, "count");
  REFUSE_QUANTIZE(q.count = INT64_MAX, OMPIPE_INVALID_ARGUMENT, "count");
  REFUSE_QUANTIZE(q.isa = 1000, OMPIPE_INVALID_ARGUMENT, "isa");
  REFUSE_QUANTIZE(q.x = NULL, OMPIPE_INVALID_ARGUMENT, "null");
  REFUSE_QUANTIZE(q.y = NULL, OMPIPE_INVALID_ARGUMENT, "null");
  REFUSE_QUANTIZE(q.scale = NULL, OMPIPE_INVALID_ARGUMENT, "null");
  REFUSE_QUANTIZE(q.zero_point = NULL, OMPIPE_INVALID_ARGUMENT, "null");
  REFUSE_QUANTIZE(q.x = (void*)((char*)x + 1), OMPIPE_MISALIGNED, "float");
  REFUSE_QUANTIZE(q.scale = (void*)((char*)x + 1), OMPIPE_MISALIGNED, "float");
  REFUSE_QUANTIZE(q.shared_scratch = NULL, OMPIPE_INVALID_ARGUMENT, "shared_scratch");
  REFUSE_QUANTIZE(q.shared_scratch_bytes = 4, OMPIPE_TOO_SMALL, "ompipe_dynamic_quantize_scratch");
  REFUSE_QUANTIZE(q.shared_scratch = shared + 4, OMPIPE_MISALIGNED, "shared_scratch");
  for (ompipe_isa isa = 1; ompipe_isa_name(isa) != NULL; ++isa) {
    if (!ompipe_isa_available(isa)) REFUSE_QUANTIZE(q.isa = isa, OMPIPE_ISA_UNAVAILABLE, "CPU");
  }
}

static void check_quantize_of_nothing(void) {
  ompipe_dynamic_quantize quantize = right_quantize();
  quantize.count = 0;
  quantize.x = NULL;
  quantize.y = NULL;
  scale = 7;
  zero_point = 7;
  const char* reason;
  expect(ompipe_dynamic_quantize_call_init(call, sizeof call_memory, &quantize, &reason), OMPIPE_OK, &reason, NULL,
         __LINE__);
  TRUE(ompipe_call_run(call, NULL, 0) == OMPIPE_OK && scale == 1 && zero_point == 0);
  quantize.scale = NULL;
  expect(ompipe_dynamic_quantize_call_init(call, sizeof call_memory, &quantize, &reason), OMPIPE_INVALID_ARGUMENT,
         &reason, "null", __LINE__);
}

static void check_tuning(void) {
  const ompipe_size size = ompipe_tuning_size();
  const char* reason;
  memset(tuning_memory, 0x5a, sizeof tuning_memory);
  expect(ompipe_tuning_init(NULL, 100, &reason), OMPIPE_INVALID_ARGUMENT, &reason, "memory", __LINE__);
  expect(ompipe_tuning_init(tuning, size.bytes - 1, &reason), OMPIPE_TOO_SMALL, &reason, "size", __LINE__);
  expect(ompipe_tuning_init((void*)(tuning_memory + 1), 200, &reason), OMPIPE_MISALIGNED, &reason, "alignment",
         __LINE__);
  int64_t value = 77;
  expect(ompipe_tuning_get(tuning, "rows", &value, &reason), OMPIPE_INVALID_ARGUMENT, &reason, "ompipe_tuning_init",
         __LINE__);
  expect(ompipe_tuning_set(tuning, "rows", 96, &reason), OMPIPE_INVALID_ARGUMENT, &reason, "ompipe_tuning_init",
         __LINE__);
  TRUE(all_bytes_are(tuning_memory, sizeof tuning_memory, 0x5a));

  expect(ompipe_tuning_init(tuning, size.bytes, &reason), OMPIPE_OK, &reason, NULL, __LINE__);
  unsigned char before[sizeof tuning_memory];
  memcpy(before, tuning_memory, sizeof before);
  expect(ompipe_tuning_get(tuning, "columns", &value, &reason), OMPIPE_INVALID_ARGUMENT, &reason, "names", __LINE__);
  expect(ompipe_tuning_get(tuning, NULL, &value, &reason), OMPIPE_INVALID_ARGUMENT, &reason, "null", __LINE__);
  expect(ompipe_tuning_get(tuning, "rows", NULL, &reason), OMPIPE_INVALID_ARGUMENT, &reason, "null", __LINE__);
  expect(ompipe_tuning_set(tuning, "columns", 8, &reason), OMPIPE_INVALID_ARGUMENT, &reason, "names", __LINE__);
  expect(ompipe_tuning_set(tuning, NULL, 8, &reason), OMPIPE_INVALID_ARGUMENT, &reason, "null", __LINE__);
  expect(ompipe_tuning_set(tuning, "rows", 25, &reason), OMPIPE_INVALID_ARGUMENT, &reason, "multiple of 6", __LINE__);
  TRUE(value == 77 && memcmp(before, tuning_memory, sizeof before) == 0);
  TRUE(ompipe_tuning_name(-1) == NULL && ompipe_tuning_name(INT_MAX) == NULL && ompipe_tuning_name(0) != NULL);

  const ompipe_matmul_weight weight = {
      .struct_bytes = sizeof weight, .k = K, .n = N, .format = OMPIPE_WEIGHT_U8, .tuning = tuning};
  expect(ompipe_matmul_layout_init(layout, sizeof layout_memory, &weight, &reason), OMPIPE_INVALID_ARGUMENT, &reason,
         "tuning", __LINE__);
}

int main(void) {
  TRUE(ompipe_tuning_size().bytes <= sizeof tuning_memory);
  check_products();
  check_quantize();
  check_quantize_of_nothing();
  check_tuning();
  printf("errors_integer: %d failures\n", failures);
  return failures != 0;
}
