// What the C interface refuses: every kind of wrong argument has its status and a reason, and nothing else is written.
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ompipe_kernels.h"
#include "refusals.h"

enum { K = 64, N = 24, M = 3 };

static _Alignas(64) unsigned char layout_memory[1024],
    call_memory[1024], packed[K * 32 * 4], shared[4096], scratch[1 << 16];
static _Alignas(64) unsigned char source_bytes[K * N * 4];
static float a[M * K], out[M * N];

static ompipe_matmul_layout* const layout = (ompipe_matmul_layout*)layout_memory;
static ompipe_call* const call = (ompipe_call*)call_memory;

static ompipe_matmul_weight blocks(void) {
  ompipe_matmul_weight weight = {.struct_bytes = sizeof weight, .k = K, .n = N, .format = OMPIPE_WEIGHT_NBITS};
  weight.bits = 4;
  weight.block = 32;
  weight.accuracy_level = 4;
  return weight;
}

static ompipe_matmul_weight floats(void) {
  return (ompipe_matmul_weight){
      .struct_bytes = sizeof(ompipe_matmul_weight), .k = K, .n = N, .format = OMPIPE_WEIGHT_F32};
}

// Refused, and the memory is as it was.
static void refuse_weight(ompipe_matmul_weight weight, ompipe_status status, const char* part, int line) {
  memset(layout_memory, 0x5a, sizeof layout_memory);
  const char* reason = "unset";
  expect(ompipe_matmul_layout_init(layout, sizeof layout_memory, &weight, &reason), status, &reason, part, line);
  expect_true(all_bytes_are(layout_memory, sizeof layout_memory, 0x5a), "the memory is untouched", line);
}
#define REFUSE_WEIGHT(change, status, part)   \
  do {                                        \
    ompipe_matmul_weight w = blocks();        \
    change;                                   \
    refuse_weight(w, status, part, __LINE__); \
  } while (0)

static void make(ompipe_matmul_weight weight) {
  const char* reason;
  expect(ompipe_matmul_layout_init(layout, sizeof layout_memory, &weight, &reason), OMPIPE_OK, &reason, NULL, __LINE__);
}

static void check_weights(void) {
  REFUSE_WEIGHT(w.struct_bytes = sizeof w - 1, OMPIPE_UNKNOWN_FIELD, "struct_bytes");
  REFUSE_WEIGHT(w.struct_bytes = 0, OMPIPE_UNKNOWN_FIELD, "struct_bytes");
  REFUSE_WEIGHT(w.k = 0, OMPIPE_UNSUPPORTED, "at least 1");
  REFUSE_WEIGHT(w.n = -5, OMPIPE_UNSUPPORTED, "at least 1");
  REFUSE_WEIGHT(w.k = w.n = INT64_MAX, OMPIPE_UNSUPPORTED, "too large");
  REFUSE_WEIGHT(w.format = 0, OMPIPE_INVALID_ARGUMENT, "format");
  REFUSE_WEIGHT(w.format = 7, OMPIPE_INVALID_ARGUMENT, "format");
  REFUSE_WEIGHT(w.isa = -1, OMPIPE_INVALID_ARGUMENT, "isa");
  REFUSE_WEIGHT(w.isa = 1000, OMPIPE_INVALID_ARGUMENT, "isa");
  REFUSE_WEIGHT(w.trans_b = 1, OMPIPE_INVALID_ARGUMENT, "trans_b");
  REFUSE_WEIGHT(w.bits = 3, OMPIPE_UNSUPPORTED, "bits");
  REFUSE_WEIGHT(w.block = 48, OMPIPE_UNSUPPORTED, "block");
  REFUSE_WEIGHT(w.accuracy_level = 1, OMPIPE_UNSUPPORTED, "accuracy_level");
  REFUSE_WEIGHT(w.zero_points = 9, OMPIPE_INVALID_ARGUMENT, "zero_points");
  REFUSE_WEIGHT(w.scales = 9, OMPIPE_INVALID_ARGUMENT, "scales");
  REFUSE_WEIGHT(w = floats(); w.trans_b = 2, OMPIPE_INVALID_ARGUMENT, "trans_b");
  REFUSE_WEIGHT(w = floats(); w.format = OMPIPE_WEIGHT_U8; w.trans_b = 1, OMPIPE_UNSUPPORTED, "[K, N]");
  REFUSE_WEIGHT(w = floats(); w.format = OMPIPE_WEIGHT_S8; w.bits = 8, OMPIPE_INVALID_ARGUMENT, "OMPIPE_WEIGHT_NBITS");
  REFUSE_WEIGHT(w.tuning = (void*)source_bytes, OMPIPE_INVALID_ARGUMENT, "ompipe_tuning_init");
  REFUSE_WEIGHT(w = floats(); w.block = 32, OMPIPE_INVALID_ARGUMENT, "OMPIPE_WEIGHT_NBITS");
  for (ompipe_isa isa = 1; ompipe_isa_name(isa) != NULL; ++isa) {
    if (!ompipe_isa_available(isa)) REFUSE_WEIGHT(w.isa = isa, OMPIPE_ISA_UNAVAILABLE, "CPU");
  }

  const ompipe_matmul_weight weight = blocks();
  const ompipe_size size = ompipe_matmul_layout_size();
  const char* reason;
  expect(ompipe_matmul_layout_init(NULL, 1000, &weight, &reason), OMPIPE_INVALID_ARGUMENT, &reason, "memory", __LINE__);
  expect(ompipe_matmul_layout_init(layout, size.bytes - 1, &weight, &reason), OMPIPE_TOO_SMALL, &reason, "size",
         __LINE__);
  expect(ompipe_matmul_layout_init((void*)(layout_memory + 1), 1000, &weight, &reason), OMPIPE_MISALIGNED, &reason,
         "alignment", __LINE__);
  expect(ompipe_matmul_layout_init(layout, size.bytes, NULL, &reason), OMPIPE_INVALID_ARGUMENT, &reason, "null",
         __LINE__);
  TRUE(ompipe_matmul_layout_init(layout, size.bytes, NULL, NULL) == OMPIPE_INVALID_ARGUMENT);
}

// A younger program's structure: its new fields may be there as long as they are zero.
static void check_growth(void) {
  struct {
    ompipe_matmul_weight known;
    int64_t younger;
  } weight = {blocks(), 0};
  weight.known.struct_bytes = sizeof weight;
  const char* reason;
  expect(ompipe_matmul_layout_init(layout, 1024, &weight.known, &reason), OMPIPE_OK, &reason, NULL, __LINE__);
  weight.younger = 1;
  expect(ompipe_matmul_layout_init(layout, 1024, &weight.known, &reason), OMPIPE_UNKNOWN_FIELD, &reason, "zero",
         __LINE__);

  // An elder one, of version 1.0: what lies behind it isn't read. There is no version in between.
  weight.known = blocks();
  weight.known.tuning = (void*)1;
  weight.known.struct_bytes = 56;
  expect(ompipe_matmul_layout_init(layout, 1024, &weight.known, &reason), OMPIPE_OK, &reason, NULL, __LINE__);
  weight.known.struct_bytes = 60;
  expect(ompipe_matmul_layout_init(layout, 1024, &weight.known, &reason), OMPIPE_UNKNOWN_FIELD, &reason, "size",
         __LINE__);

  struct {
    ompipe_matmul_sizes known;
    int64_t younger;
  } sizes = {{.struct_bytes = sizeof sizes}, 0};
  TRUE(ompipe_matmul_layout_sizes(layout, &sizes.known) == OMPIPE_OK);
  TRUE(sizes.known.struct_bytes == sizeof sizes && sizes.known.packed_bytes > 0 && sizes.younger == 0);
  sizes.known.struct_bytes = 8;
  TRUE(ompipe_matmul_layout_sizes(layout, &sizes.known) == OMPIPE_UNKNOWN_FIELD);
}

static void check_scales(void) {
  const float exact[] = {0.5f, -2048, 0}, inexact[] = {0.5f, 1.0001f};
  TRUE(ompipe_scales_fit_f16(exact, 3) && !ompipe_scales_fit_f16(inexact, 2) && ompipe_scales_fit_f16(inexact, 1));
  TRUE(!ompipe_scales_fit_f16(NULL, 1) && !ompipe_scales_fit_f16(exact, -1));
}

static void check_layout(void) {
  make(blocks());
  char text[128], small[4] = "abc";
  size_t needed = 0;
  TRUE(ompipe_matmul_layout_key(layout, text, sizeof text, &needed) == OMPIPE_OK && needed == strlen(text) + 1);
  TRUE(ompipe_matmul_layout_key(layout, small, sizeof small, &needed) == OMPIPE_TOO_SMALL);
  TRUE(needed == strlen(text) + 1 && strcmp(small, "abc") == 0);
  TRUE(ompipe_matmul_layout_key(layout, NULL, 0, &needed) == OMPIPE_TOO_SMALL);
  TRUE(ompipe_matmul_layout_key(layout, text, needed, NULL) == OMPIPE_OK);
  TRUE(ompipe_matmul_layout_key(layout, text, needed - 1, NULL) == OMPIPE_TOO_SMALL);

  ompipe_matmul_layout* const nothing = (void*)source_bytes;  // zeros: never made
  ompipe_matmul_sizes sizes = {.struct_bytes = sizeof sizes};
  TRUE(ompipe_matmul_layout_sizes(nothing, &sizes) == OMPIPE_INVALID_ARGUMENT);
  TRUE(ompipe_matmul_layout_sizes(NULL, &sizes) == OMPIPE_INVALID_ARGUMENT);
  TRUE(ompipe_matmul_layout_key(nothing, text, sizeof text, NULL) == OMPIPE_INVALID_ARGUMENT);
  TRUE(ompipe_matmul_layout_isa(nothing) == OMPIPE_ISA_BEST);
}

static void check_pack(void) {
  make(floats());
  ompipe_matmul_sizes sizes = {.struct_bytes = sizeof sizes};
  TRUE(ompipe_matmul_layout_sizes(layout, &sizes) == OMPIPE_OK && sizes.source_bytes == sizeof source_bytes);
  TRUE(sizes.packed_bytes == sizeof packed);
  const ompipe_matmul_source all_floats = {
      .struct_bytes = sizeof all_floats, .end = sizes.source_bytes, .range = source_bytes};
  const char* reason;
#define REFUSE_PACK(change, to, bytes, status, part)                                             \
  do {                                                                                           \
    ompipe_matmul_source s = all_floats;                                                         \
    change;                                                                                      \
    expect(ompipe_matmul_pack(layout, &s, to, bytes, &reason), status, &reason, part, __LINE__); \
  } while (0)
  const int64_t all = sizes.packed_bytes;
  REFUSE_PACK(s.begin = -4, packed, all, OMPIPE_INVALID_ARGUMENT, "lie in B");
  REFUSE_PACK(s.begin = s.end + 4, packed, all, OMPIPE_INVALID_ARGUMENT, "lie in B");
  REFUSE_PACK(s.end += 4, packed, all, OMPIPE_INVALID_ARGUMENT, "lie in B");
  REFUSE_PACK(s.begin = 2, packed, all, OMPIPE_INVALID_ARGUMENT, "multiples");
  REFUSE_PACK(s.end -= 1, packed, all, OMPIPE_INVALID_ARGUMENT, "multiples");
  REFUSE_PACK(s.range = NULL, packed, all, OMPIPE_INVALID_ARGUMENT, "null");
  REFUSE_PACK(s.scales = source_bytes, packed, all, OMPIPE_INVALID_ARGUMENT, "scales");
  REFUSE_PACK(s.zero_points = source_bytes, packed, all, OMPIPE_INVALID_ARGUMENT, "zero points");
  REFUSE_PACK(s.struct_bytes = 1, packed, all, OMPIPE_UNKNOWN_FIELD, "struct_bytes");
  REFUSE_PACK(, NULL, all, OMPIPE_INVALID_ARGUMENT, "null");
  REFUSE_PACK(, packed, all - 1, OMPIPE_TOO_SMALL, "packed_bytes");
  REFUSE_PACK(, packed + 4, all, OMPIPE_MISALIGNED, "OMPIPE_ALIGNMENT");
  REFUSE_PACK(, packed, all, OMPIPE_OK, NULL);
  expect(ompipe_matmul_pack(NULL, &all_floats, packed, all, &reason), OMPIPE_INVALID_ARGUMENT, &reason, "layout",
         __LINE__);
  expect(ompipe_matmul_pack(layout, NULL, packed, all, &reason), OMPIPE_INVALID_ARGUMENT, &reason, "source", __LINE__);

  make(blocks());
  REFUSE_PACK(s.end = 16, packed, all, OMPIPE_INVALID_ARGUMENT, "scales");
  REFUSE_PACK(s.end = 8; s.scales = source_bytes, packed, all, OMPIPE_INVALID_ARGUMENT, "multiples");
}

static ompipe_matmul_product right_product(void) {
  ompipe_matmul_product product = ompipe_matmul_product_default();
  product.layout = layout;
  product.packed = packed;
  product.m = M;
  product.a = a;
  product.lda = K;
  product.out = out;
  product.ldo = N;
  product.shared_scratch = shared;
  product.shared_scratch_bytes = sizeof shared;
  return product;
}

static const ompipe_matmul_source whole = {
    .struct_bytes = sizeof whole, .end = K * N / 2, .range = source_bytes, .scales = source_bytes};

static ompipe_matmul_product fused_product(void) {
  ompipe_matmul_product product = right_product();
  product.way = OMPIPE_PRODUCT_FUSED;
  product.packed = NULL;
  product.source = &whole;
  product.pack_into = packed;
  product.pack_into_bytes = sizeof packed;
  return product;
}

static void check_scratch(void) {
  make(blocks());
  ompipe_matmul_product product = right_product();
  int64_t one, two;
  TRUE(ompipe_matmul_scratch(&product, &one, &two) == OMPIPE_OK && one > 0 && two > 0);
  TRUE(ompipe_matmul_scratch(&product, &one, NULL) == OMPIPE_INVALID_ARGUMENT);
  TRUE(ompipe_matmul_scratch(NULL, &one, &two) == OMPIPE_INVALID_ARGUMENT);
  product.m = -1;
  TRUE(ompipe_matmul_scratch(&product, &one, &two) == OMPIPE_INVALID_ARGUMENT);
  product.m = M;
  product.elements = -1;
  TRUE(ompipe_matmul_scratch(&product, &one, &two) == OMPIPE_INVALID_ARGUMENT);
  product.elements = 0;
  product.way = -1;
  TRUE(ompipe_matmul_scratch(&product, &one, &two) == OMPIPE_INVALID_ARGUMENT);
  product.way = OMPIPE_PRODUCT_PORTABLE;
  TRUE(ompipe_matmul_scratch(&product, &one, &two) == OMPIPE_OK);
  product.m = INT64_MAX;
  TRUE(ompipe_matmul_scratch(&product, &one, &two) == OMPIPE_INVALID_ARGUMENT);
  product = right_product();
  product.layout = (void*)source_bytes;  // zeros: never made
  TRUE(ompipe_matmul_scratch(&product, &one, &two) == OMPIPE_INVALID_ARGUMENT);
  product.struct_bytes = 0;
  TRUE(ompipe_matmul_scratch(&product, &one, &two) == OMPIPE_UNKNOWN_FIELD);
}

static void check_products(void) {
  make(blocks());
  const char* reason;
  memset(call_memory, 0x5a, sizeof call_memory);
#define REFUSE_FROM(right, change, status, part)                                                             \
  do {                                                                                                       \
    ompipe_matmul_product p = right;                                                                         \
    change;                                                                                                  \
    expect(ompipe_matmul_call_init(call, sizeof call_memory, &p, &reason), status, &reason, part, __LINE__); \
    TRUE(all_bytes_are(call_memory, sizeof call_memory, 0x5a));                                              \
  } while (0)
#define REFUSE(change, status, part) REFUSE_FROM(right_product(), change, status, part)
  REFUSE(p.struct_bytes = 3, OMPIPE_UNKNOWN_FIELD, "struct_bytes");
  REFUSE(p.layout = NULL, OMPIPE_INVALID_ARGUMENT, "layout");
  REFUSE(p.packed = NULL, OMPIPE_INVALID_ARGUMENT, "packed");
  REFUSE(p.packed = packed + 32, OMPIPE_MISALIGNED, "packed");
  REFUSE(p.m = -1, OMPIPE_INVALID_ARGUMENT, "m must");
  REFUSE(p.m = INT64_MAX, OMPIPE_INVALID_ARGUMENT, "m must");
  REFUSE(p.a = NULL, OMPIPE_INVALID_ARGUMENT, "null");
  REFUSE(p.out = NULL, OMPIPE_INVALID_ARGUMENT, "null");
  REFUSE(p.a = (void*)((char*)a + 2), OMPIPE_MISALIGNED, "elements");
  REFUSE(p.c = (void*)((char*)a + 2), OMPIPE_MISALIGNED, "elements");
  REFUSE(p.elements = 2, OMPIPE_INVALID_ARGUMENT, "elements");
  REFUSE(p.elements = OMPIPE_ELEMENTS_F16; p.a = (void*)((char*)a + 1), OMPIPE_MISALIGNED, "elements");
  REFUSE(p.way = 3, OMPIPE_INVALID_ARGUMENT, "way");
  REFUSE(p.lda = K - 1, OMPIPE_INVALID_ARGUMENT, "lda");
  REFUSE(p.ldo = N - 1, OMPIPE_INVALID_ARGUMENT, "ldo");
  REFUSE(p.ldo = INT64_MAX, OMPIPE_INVALID_ARGUMENT, "ldo");
  REFUSE(p.c = a; p.c_row_stride = -1, OMPIPE_INVALID_ARGUMENT, "strides");
  REFUSE(p.c = a; p.c_column_stride = INT64_MAX, OMPIPE_INVALID_ARGUMENT, "strides");
  REFUSE(p.shared_scratch = NULL, OMPIPE_INVALID_ARGUMENT, "shared_scratch");
  REFUSE(p.shared_scratch_bytes = 1, OMPIPE_TOO_SMALL, "shared_scratch");
  REFUSE(p.shared_scratch = shared + 16, OMPIPE_MISALIGNED, "shared_scratch");
  REFUSE(p.source = &whole, OMPIPE_INVALID_ARGUMENT, "source belongs");
  REFUSE(p.pack_into = packed, OMPIPE_INVALID_ARGUMENT, "pack_into belongs");
  REFUSE(p.pack_into_bytes = 1, OMPIPE_INVALID_ARGUMENT, "pack_into belongs");

  // On B's own bytes.
#define REFUSE_SOURCE(change, status, part) REFUSE_FROM(fused_product(), change, status, part)
  REFUSE_SOURCE(p.packed = packed, OMPIPE_INVALID_ARGUMENT, "packed belongs");
  REFUSE_SOURCE(p.source = NULL, OMPIPE_INVALID_ARGUMENT, "source");
  REFUSE_SOURCE(p.pack_into = NULL, OMPIPE_INVALID_ARGUMENT, "packed");
  REFUSE_SOURCE(p.pack_into = packed + 8, OMPIPE_MISALIGNED, "packed");
  REFUSE_SOURCE(p.pack_into_bytes = 100, OMPIPE_TOO_SMALL, "packed_bytes");
  REFUSE_SOURCE(p.way = OMPIPE_PRODUCT_PORTABLE, OMPIPE_INVALID_ARGUMENT, "pack_into belongs");
  REFUSE_SOURCE(p.shared_scratch_bytes = 1, OMPIPE_TOO_SMALL, "shared_scratch");
  REFUSE_SOURCE(p.lda = 1, OMPIPE_INVALID_ARGUMENT, "lda");
#define REFUSE_RANGE(change, status, part)                     \
  do {                                                         \
    ompipe_matmul_source s = whole;                            \
    change;                                                    \
    REFUSE_FROM(fused_product(), p.source = &s, status, part); \
  } while (0)
  REFUSE_RANGE(s.struct_bytes = 47, OMPIPE_UNKNOWN_FIELD, "struct_bytes");
  REFUSE_RANGE(s.begin = 16, OMPIPE_INVALID_ARGUMENT, "whole of B");
  REFUSE_RANGE(s.end -= 16, OMPIPE_INVALID_ARGUMENT, "whole of B");
  REFUSE_RANGE(s.range = NULL, OMPIPE_INVALID_ARGUMENT, "null");
  REFUSE_RANGE(s.scales = NULL, OMPIPE_INVALID_ARGUMENT, "scales");
  REFUSE_RANGE(s.zero_points = scratch, OMPIPE_INVALID_ARGUMENT, "zero points");

  // A program of version 1.0: what lies behind its structure isn't read.
  ompipe_matmul_product elder = right_product();
  elder.source = (void*)1;
  elder.struct_bytes = 120;
  expect(ompipe_matmul_call_init(call, sizeof call_memory, &elder, &reason), OMPIPE_OK, &reason, NULL, __LINE__);
  const ompipe_matmul_product product = right_product();
  const size_t bytes = ompipe_call_size().bytes;
  expect(ompipe_matmul_call_init(call, bytes - 1, &product, &reason), OMPIPE_TOO_SMALL, &reason, "size", __LINE__);
  expect(ompipe_matmul_call_init((void*)(call_memory + 4), bytes, &product, &reason), OMPIPE_MISALIGNED, &reason,
         "alignment", __LINE__);
  expect(ompipe_matmul_call_init(call, bytes, NULL, &reason), OMPIPE_INVALID_ARGUMENT, &reason, "product", __LINE__);
}

static void check_tiles(void) {
  ompipe_matmul_product product = right_product();
  const char* reason;
  expect(ompipe_matmul_call_init(call, sizeof call_memory, &product, &reason), OMPIPE_OK, &reason, NULL, __LINE__);
  const int64_t needed = ompipe_call_tile_scratch_bytes(call);
  TRUE(needed > 0 && needed <= (int64_t)sizeof scratch && ompipe_call_predicted_ns(call) > 0);
  TRUE(ompipe_call_phases(call) == 2 && ompipe_call_tiles(call, 0) > 0 && ompipe_call_tiles(call, 1) > 0);
  TRUE(ompipe_call_tiles(call, 2) == 0 && ompipe_call_tiles(call, -1) == 0);
  TRUE(ompipe_call_run_tile(call, -1, 0, scratch, needed) == OMPIPE_INVALID_ARGUMENT);
  TRUE(ompipe_call_run_tile(call, 2, 0, scratch, needed) == OMPIPE_INVALID_ARGUMENT);
  TRUE(ompipe_call_run_tile(call, 0, -1, scratch, needed) == OMPIPE_INVALID_ARGUMENT);
  TRUE(ompipe_call_run_tile(call, 1, ompipe_call_tiles(call, 1), scratch, needed) == OMPIPE_INVALID_ARGUMENT);
  TRUE(ompipe_call_run_tile(call, 0, 0, NULL, needed) == OMPIPE_INVALID_ARGUMENT);
  TRUE(ompipe_call_run_tile(call, 0, 0, scratch, needed - 1) == OMPIPE_TOO_SMALL);
  TRUE(ompipe_call_run_tile(call, 0, 0, scratch + 8, needed) == OMPIPE_MISALIGNED);
  TRUE(ompipe_call_run(call, scratch, needed - 1) == OMPIPE_TOO_SMALL);
  TRUE(ompipe_call_run(NULL, scratch, needed) == OMPIPE_INVALID_ARGUMENT);

  // A copy points into the original; it is refused.
  static _Alignas(64) unsigned char copy[sizeof call_memory];
  memcpy(copy, call_memory, sizeof copy);
  TRUE(ompipe_call_run((ompipe_call*)copy, scratch, needed) == OMPIPE_INVALID_ARGUMENT);
  TRUE(ompipe_call_phases((ompipe_call*)copy) == 0 && ompipe_call_predicted_ns((ompipe_call*)copy) == 0);

}

// Without rows nothing of A and the result is looked at, and a fused product packs all the same.
static void check_no_rows(void) {
  make(blocks());
  const char* reason;
  ompipe_matmul_product product = right_product();
  product.m = 0;
  product.a = product.out = NULL;
  product.c = (void*)((char*)a + 2);
  product.shared_scratch = NULL;
  product.shared_scratch_bytes = 0;
  expect(ompipe_matmul_call_init(call, sizeof call_memory, &product, &reason), OMPIPE_OK, &reason, NULL, __LINE__);
  TRUE(ompipe_call_tiles(call, 0) == 0 && ompipe_call_tiles(call, 1) == 0);

  product = fused_product();
  product.m = 0;
  product.a = product.out = NULL;
  expect(ompipe_matmul_call_init(call, sizeof call_memory, &product, &reason), OMPIPE_OK, &reason, NULL, __LINE__);
  TRUE(ompipe_call_tile_scratch_bytes(call) <= (int64_t)sizeof scratch);
  static _Alignas(64) unsigned char expected[sizeof packed];
  TRUE(ompipe_matmul_pack(layout, &whole, expected, sizeof expected, &reason) == OMPIPE_OK);
  memset(packed, 0x5a, sizeof packed);
  TRUE(ompipe_call_run(call, scratch, sizeof scratch) == OMPIPE_OK);
  ompipe_matmul_sizes sizes = {.struct_bytes = sizeof sizes};
  TRUE(ompipe_matmul_layout_sizes(layout, &sizes) == OMPIPE_OK);
  TRUE(memcmp(packed, expected, (size_t)sizes.packed_bytes) == 0);
}

static void check_isas(void) {
  ompipe_isa isa = 77;
  TRUE(ompipe_isa_name(OMPIPE_ISA_BEST) == NULL && ompipe_isa_name(-1) == NULL && ompipe_isa_name(1000) == NULL);
  TRUE(!ompipe_isa_available(OMPIPE_ISA_BEST) && !ompipe_isa_available(1000) &&
       ompipe_isa_available(OMPIPE_ISA_SCALAR));
  TRUE(ompipe_isa_available(ompipe_isa_best()));
  TRUE(ompipe_isa_parse("sse", &isa) == OMPIPE_INVALID_ARGUMENT &&
       ompipe_isa_parse(NULL, &isa) == OMPIPE_INVALID_ARGUMENT);
  TRUE(ompipe_isa_parse("scalar", NULL) == OMPIPE_INVALID_ARGUMENT && isa == 77);
  int names = 0;
  for (ompipe_isa each = 1; ompipe_isa_name(each) != NULL; ++each, ++names) {
    TRUE(ompipe_isa_parse(ompipe_isa_name(each), &isa) == OMPIPE_OK && isa == each);
  }
  TRUE(names >= OMPIPE_ISA_NEON_DOTPROD);
}

int main(void) {
  TRUE(ompipe_kernels_version() >= (OMPIPE_KERNELS_VERSION_MAJOR << 16 | OMPIPE_KERNELS_VERSION_MINOR));
  TRUE(strcmp(ompipe_status_text(-3), "unknown status") == 0);
  TRUE(ompipe_matmul_layout_size().bytes <= sizeof layout_memory && ompipe_call_size().bytes <= sizeof call_memory);
  check_isas();
  check_weights();
  check_growth();
  check_scales();
  check_layout();
  check_pack();
  check_scratch();
  check_products();
  check_tiles();
  check_no_rows();
  printf("errors: %d failures\n", failures);
  return failures != 0;
}
