// Products of every weight format through the C interface: packed by ranges and computed as tiles, both on several
// threads in a shuffled order, and compared with a naive product in double precision.
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elements.h"
#include "ompipe_kernels.h"

enum { THREADS = 4 };

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

static void fill_floats(Weight* weight, uint32_t* random) {
  const int64_t k = weight->description.k, n = weight->description.n;
  const int element = weight->description.format == OMPIPE_WEIGHT_F32 ? 4 : 2;
  for (int64_t i = 0; i < k * n; ++i) {
    const int64_t row = weight->description.trans_b ? i % k : i / n,
                  column = weight->description.trans_b ? i / k : i % n;
    weight->values[row * n + column] = random_element(weight->b + i * element, weight->description.format, random);
  }
}

// Bits [at * bits, (at + 1) * bits) of a row of bytes, low bits first.
static int unpack(const unsigned char* row, int64_t at, int bits) {
  return row[at * bits / 8] >> at * bits % 8 & ((1 << bits) - 1);
}

// The zero point of column n and a block, of the kind that the weight has.
static double zero_point(const Weight* weight, int64_t n, int64_t block, int64_t blocks, uint32_t* random) {
  const ompipe_matmul_weight* d = &weight->description;
  switch (d->zero_points) {
    case OMPIPE_ZERO_POINTS_PACKED:
      return unpack(weight->zero_points + n * ((blocks * d->bits + 7) / 8), block, d->bits);
    case OMPIPE_ZERO_POINTS_F32:
      return random_element(weight->zero_points + (n * blocks + block) * 4, OMPIPE_WEIGHT_F32, random);
    case OMPIPE_ZERO_POINTS_F16:
      return random_element(weight->zero_points + (n * blocks + block) * 2, OMPIPE_WEIGHT_F16, random);
    default:
      return 1 << (d->bits - 1);
  }
}

static void fill_blocks(Weight* weight, uint32_t* random) {
  const ompipe_matmul_weight* d = &weight->description;
  const int64_t blocks = (d->k + d->block - 1) / d->block, blob = d->block * d->bits / 8;
  for (int64_t i = 0; i < weight->sizes.source_bytes; ++i) weight->b[i] = (unsigned char)next_random(random);
  for (int64_t i = 0; i < weight->sizes.zero_points_bytes; ++i) {
    weight->zero_points[i] = (unsigned char)next_random(random);
  }
  const int32_t scales = d->scales == OMPIPE_SCALES_F16 ? OMPIPE_WEIGHT_F16 : OMPIPE_WEIGHT_F32;
  for (int64_t n = 0; n < d->n; ++n) {
    for (int64_t block = 0; block < blocks; ++block) {
      unsigned char* at = weight->scales + (n * blocks + block) * (scales == OMPIPE_WEIGHT_F16 ? 2 : 4);
      double scale = random_element(at, scales, random);
      if (d->scales == OMPIPE_SCALES_F32_AS_F16) {
        scale = half_value(random_half(random));
        const float exact = (float)scale;
        memcpy(at, &exact, sizeof exact);
      }
      const double zero = zero_point(weight, n, block, blocks, random);
      for (int64_t i = 0; i < d->block && block * d->block + i < d->k; ++i) {
        const int quant = unpack(weight->b + (n * blocks + block) * blob, i, d->bits);
        weight->values[(block * d->block + i) * d->n + n] = (quant - zero) * scale;
      }
    }
  }
  const int64_t count = d->n * blocks;
  demand(d->scales != OMPIPE_SCALES_F32_AS_F16 || ompipe_scales_fit_f16((const float*)(void*)weight->scales, count),
         "scales that are halves");
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
  for (int32_t phase = 0; phase < ompipe_call_phases(call); ++phase) {
    Phase of = {call, phase};
    Work work = {
        .run = run_item, .arguments = &of, .count = ompipe_call_tiles(call, phase), .scratch_bytes = tile_bytes};
    run_on_threads(&work);
  }
  compare(weight, &product, a, c, out);

  // On one thread, in order: the same bits.
  const Rows again = make_rows(format, m * product.ldo);
  product.out = again.bytes;
  demand_done(ompipe_matmul_call_init(call, size.bytes, &product, &reason), &reason);
  void* scratch = allocate((size_t)tile_bytes, OMPIPE_ALIGNMENT);
  demand_done(ompipe_call_run(call, scratch, tile_bytes), NULL);
  const size_t bytes = (size_t)(m * product.ldo * element_bytes(format));
  demand(memcmp(out.bytes, again.bytes, bytes) == 0, "the order of tiles changes bits");
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
  static const int64_t rows[] = {1, 7, 33};
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
