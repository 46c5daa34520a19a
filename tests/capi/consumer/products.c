// Products of every weight format through the C interface: packed by ranges and computed as tiles, both on several
// threads in a shuffled order, and compared with a naive product in double precision.
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ompipe_kernels.h"

enum { THREADS = 4 };

static uint32_t next_random(uint32_t* state) {
  *state = *state * 1664525u + 1013904223u;
  return *state >> 8;
}

static float random_float(uint32_t* state) { return (float)next_random(state) / (1 << 23) - 1; }

static void* allocate(size_t bytes, size_t alignment) {
  void* memory = aligned_alloc(alignment, (bytes / alignment + 1) * alignment);
  if (memory == NULL) abort();
  memset(memory, 0xff, bytes);  // NaN: what is read before it is written shows
  return memory;
}

static void demand(int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "products: %s\n", what);
  exit(1);
}

static void demand_done(ompipe_status status, const char** reason) {
  demand(status == OMPIPE_OK, reason != NULL && *reason != NULL ? *reason : ompipe_status_text(status));
}

// Work of `count` items, taken by any thread in a shuffled order.
typedef struct Work {
  void (*run)(const struct Work*, int64_t item, void* scratch);
  void* arguments;
  int64_t count, scratch_bytes;
  int64_t* order;
  atomic_llong taken;
} Work;

static void* take_items(void* argument) {
  Work* work = argument;
  void* scratch = allocate((size_t)work->scratch_bytes, OMPIPE_ALIGNMENT);
  for (long long i; (i = atomic_fetch_add(&work->taken, 1)) < work->count;) work->run(work, work->order[i], scratch);
  free(scratch);
  return NULL;
}

static void run_on_threads(Work* work) {
  uint32_t random = 7;
  work->order = allocate(sizeof(int64_t) * (size_t)(work->count + 1), OMPIPE_ALIGNMENT);
  for (int64_t i = 0; i < work->count; ++i) work->order[i] = i;
  for (int64_t i = work->count - 1; i > 0; --i) {
    const int64_t j = next_random(&random) % (i + 1), moved = work->order[i];
    work->order[i] = work->order[j];
    work->order[j] = moved;
  }
  atomic_init(&work->taken, 0);
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; ++i) pthread_create(&threads[i], NULL, take_items, work);
  for (int i = 0; i < THREADS; ++i) pthread_join(threads[i], NULL);
  free(work->order);
}

// A weight's bytes, and its values [K, N].
typedef struct Weight {
  ompipe_matmul_weight description;
  ompipe_matmul_layout* layout;
  ompipe_matmul_sizes sizes;
  unsigned char *b, *scales, *zero_points, *packed;
  double* values;
} Weight;

// A half of at most 2, from its bits: normal ones and zero.
static double half_value(uint16_t half) {
  const int exponent = half >> 10 & 31;
  const double magnitude = exponent == 0 ? 0 : ldexp(1024 + (half & 1023), exponent - 25);
  return half >> 15 ? -magnitude : magnitude;
}

static uint16_t random_half(uint32_t* random) {
  return (uint16_t)((next_random(random) & 1) << 15 | (10 + next_random(random) % 6) << 10 |
                    (next_random(random) & 1023));
}

static double float_element(unsigned char* at, int32_t format, uint32_t* random) {
  if (format == OMPIPE_WEIGHT_F32) {
    const float value = random_float(random);
    memcpy(at, &value, sizeof value);
    return value;
  }
  uint16_t bits = random_half(random);
  if (format == OMPIPE_WEIGHT_F16) {
    memcpy(at, &bits, sizeof bits);
    return half_value(bits);
  }
  const float value = random_float(random);
  uint32_t whole;
  memcpy(&whole, &value, sizeof whole);
  bits = (uint16_t)(whole >> 16);
  whole = (uint32_t)bits << 16;
  float kept;
  memcpy(&kept, &whole, sizeof kept);
  memcpy(at, &bits, sizeof bits);
  return kept;
}

static void fill_floats(Weight* weight, uint32_t* random) {
  const int64_t k = weight->description.k, n = weight->description.n;
  const int element = weight->description.format == OMPIPE_WEIGHT_F32 ? 4 : 2;
  for (int64_t i = 0; i < k * n; ++i) {
    const int64_t row = weight->description.trans_b ? i % k : i / n,
                  column = weight->description.trans_b ? i / k : i % n;
    weight->values[row * n + column] = float_element(weight->b + i * element, weight->description.format, random);
  }
}

static void fill_blocks(Weight* weight, uint32_t* random) {
  const ompipe_matmul_weight* d = &weight->description;
  const int64_t blocks = (d->k + d->block - 1) / d->block, pairs = (blocks + 1) / 2;
  for (int64_t i = 0; i < weight->sizes.source_bytes; ++i) weight->b[i] = (unsigned char)next_random(random);
  for (int64_t i = 0; i < weight->sizes.zero_points_bytes; ++i)
    weight->zero_points[i] = (unsigned char)next_random(random);
  for (int64_t n = 0; n < d->n; ++n) {
    for (int64_t block = 0; block < blocks; ++block) {
      double scale;
      if (d->scales == OMPIPE_SCALES_F16) {
        const uint16_t half = random_half(random);
        memcpy(weight->scales + (n * blocks + block) * 2, &half, sizeof half);
        scale = half_value(half);
      } else {
        const float value = random_float(random);
        memcpy(weight->scales + (n * blocks + block) * 4, &value, sizeof value);
        scale = value;
      }
      int zero_point = 8;
      if (weight->sizes.zero_points_bytes)
        zero_point = weight->zero_points[n * pairs + block / 2] >> block % 2 * 4 & 15;
      for (int64_t i = 0; i < d->block && block * d->block + i < d->k; ++i) {
        const int quant = weight->b[((n * blocks + block) * d->block + i) / 2] >> i % 2 * 4 & 15;
        weight->values[(block * d->block + i) * d->n + n] = (quant - zero_point) * scale;
      }
    }
  }
}

// Ranges of a few units, the last one shorter.
static int64_t range_bytes(const Weight* weight) { return 37 * weight->sizes.range_unit_bytes; }

static void pack_item(const Work* work, int64_t item, void* scratch) {
  (void)scratch;
  const Weight* weight = work->arguments;
  ompipe_matmul_source source = {0};
  source.struct_bytes = sizeof source;
  source.begin = item * range_bytes(weight);
  source.end = source.begin + range_bytes(weight);
  if (source.end > weight->sizes.source_bytes) source.end = weight->sizes.source_bytes;
  source.range = weight->b + source.begin;
  source.scales = weight->scales;
  source.zero_points = weight->zero_points;
  const char* reason;
  const ompipe_status status =
      ompipe_matmul_pack(weight->layout, &source, weight->packed, weight->sizes.packed_bytes, &reason);
  demand_done(status, &reason);
}

static Weight make_weight(ompipe_matmul_weight description, uint32_t* random) {
  Weight weight = {.description = description};
  const ompipe_size size = ompipe_matmul_layout_size();
  const char* reason;
  weight.layout = allocate(size.bytes, size.alignment);
  demand_done(ompipe_matmul_layout_init(weight.layout, size.bytes, &description, &reason), &reason);
  weight.sizes.struct_bytes = sizeof weight.sizes;
  demand_done(ompipe_matmul_layout_sizes(weight.layout, &weight.sizes), NULL);
  weight.b = allocate((size_t)weight.sizes.source_bytes, OMPIPE_ALIGNMENT);
  if (weight.sizes.scales_bytes) weight.scales = allocate((size_t)weight.sizes.scales_bytes, OMPIPE_ALIGNMENT);
  if (weight.sizes.zero_points_bytes) {
    weight.zero_points = allocate((size_t)weight.sizes.zero_points_bytes, OMPIPE_ALIGNMENT);
  }
  weight.packed = allocate((size_t)weight.sizes.packed_bytes, OMPIPE_ALIGNMENT);
  weight.values = allocate(sizeof(double) * (size_t)(description.k * description.n), OMPIPE_ALIGNMENT);
  if (description.format == OMPIPE_WEIGHT_NBITS) {
    fill_blocks(&weight, random);
  } else {
    fill_floats(&weight, random);
  }
  Work work = {.run = pack_item, .arguments = &weight};
  work.count = (weight.sizes.source_bytes + range_bytes(&weight) - 1) / range_bytes(&weight);
  run_on_threads(&work);
  return weight;
}

static void free_weight(Weight* weight) {
  void* all[] = {weight->layout, weight->b, weight->scales, weight->zero_points, weight->packed, weight->values};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) free(all[i]);
}

typedef struct Phase {
  const ompipe_call* call;
  int32_t phase;
} Phase;

static void run_item(const Work* work, int64_t item, void* scratch) {
  const Phase* phase = work->arguments;
  const ompipe_status status = ompipe_call_run_tile(phase->call, phase->phase, item, scratch, work->scratch_bytes);
  demand_done(status, NULL);
}

// Every output lies within a bound of the naive product: rounding of k additions, and at level 4 of each activation to
// 1 / 127 of its block's largest, here at most 1.
static void compare(const Weight* weight, const ompipe_matmul_product* product) {
  const int64_t k = weight->description.k, n = weight->description.n;
  for (int64_t row = 0; row < product->m; ++row) {
    for (int64_t column = 0; column < n; ++column) {
      double exact = 0, magnitude = 0, weights = 0;
      for (int64_t i = 0; i < k; ++i) {
        const double value = weight->values[i * n + column], a = product->a[row * product->lda + i];
        exact += a * value;
        magnitude += fabs(a * value);
        weights += fabs(value);
      }
      const double c = product->c[row * product->c_row_stride + column * product->c_column_stride];
      double bound = magnitude * (double)(k + 2) / (1 << 23);
      if (weight->description.accuracy_level == 4) bound += weights / 254 * 1.001;
      bound = fabs(product->alpha) * bound + fabs(product->beta * c) / (1 << 22) + 1e-6;
      const double difference =
          product->out[row * product->ldo + column] - (product->alpha * exact + product->beta * c);
      if (fabs(difference) <= bound) continue;
      fprintf(stderr, "products: m %lld n %lld: off by %g, %g allowed\n", (long long)row, (long long)column, difference,
              bound);
      exit(1);
    }
  }
}

static void multiply(const Weight* weight, int64_t m, uint32_t* random) {
  const int64_t k = weight->description.k, n = weight->description.n;
  ompipe_matmul_product product = ompipe_matmul_product_default();
  int64_t tile_bytes;
  product.layout = weight->layout;
  product.m = m;
  demand_done(ompipe_matmul_scratch(&product, &product.shared_scratch_bytes, &tile_bytes), NULL);
  product.lda = k + 3;
  product.ldo = n + 5;
  float* a = allocate(sizeof(float) * (size_t)(m * product.lda), OMPIPE_ALIGNMENT);
  float* c = allocate(sizeof(float) * (size_t)n, OMPIPE_ALIGNMENT);
  for (int64_t i = 0; i < m * k; ++i) a[i / k * product.lda + i % k] = random_float(random);
  for (int64_t i = 0; i < n; ++i) c[i] = random_float(random);
  product.packed = weight->packed;
  product.a = a;
  product.out = allocate(sizeof(float) * (size_t)(m * product.ldo), OMPIPE_ALIGNMENT);
  product.c = c;
  product.alpha = 0.5f;
  product.beta = -2;
  product.shared_scratch = allocate((size_t)product.shared_scratch_bytes, OMPIPE_ALIGNMENT);

  const ompipe_size size = ompipe_call_size();
  ompipe_call* call = allocate(size.bytes, size.alignment);
  const char* reason;
  demand_done(ompipe_matmul_call_init(call, size.bytes, &product, &reason), &reason);
  demand(ompipe_call_tile_scratch_bytes(call) == tile_bytes, "two answers about scratch");
  for (int32_t phase = 0; phase < ompipe_call_phases(call); ++phase) {
    Phase of = {call, phase};
    Work work = {
        .run = run_item, .arguments = &of, .count = ompipe_call_tiles(call, phase), .scratch_bytes = tile_bytes};
    run_on_threads(&work);
  }
  compare(weight, &product);

  // On one thread, in order: the same bits, and nothing between the rows.
  float* first = product.out;
  product.out = allocate(sizeof(float) * (size_t)(m * product.ldo), OMPIPE_ALIGNMENT);
  demand_done(ompipe_matmul_call_init(call, size.bytes, &product, &reason), &reason);
  void* scratch = allocate((size_t)tile_bytes, OMPIPE_ALIGNMENT);
  demand_done(ompipe_call_run(call, scratch, tile_bytes), NULL);
  demand(memcmp(first, product.out, sizeof(float) * (size_t)(m * product.ldo)) == 0, "the order of tiles changes bits");
  void* all[] = {a, c, first, product.out, product.shared_scratch, call, scratch};
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
  };
  static const int64_t rows[] = {1, 7, 33};
  uint32_t random = 1;
  for (size_t i = 0; i < sizeof weights / sizeof *weights; ++i) {
    ompipe_matmul_weight description = weights[i];
    description.struct_bytes = sizeof description;
    Weight weight = make_weight(description, &random);
    char key[128];
    demand_done(ompipe_matmul_layout_key(weight.layout, key, sizeof key, NULL), NULL);
    for (size_t j = 0; j < sizeof rows / sizeof *rows; ++j) multiply(&weight, rows[j], &random);
    printf("%s on %s\n", key, ompipe_isa_name(ompipe_matmul_layout_isa(weight.layout)));
    free_weight(&weight);
  }
  return 0;
}
