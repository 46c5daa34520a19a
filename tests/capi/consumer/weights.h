// Random weights of every format with their values, made and packed through the C interface.
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elements.h"
#include "ompipe_kernels.h"
#include "work.h"

// A weight's bytes, and its values [K, N].
typedef struct Weight {
  ompipe_matmul_weight description;
  ompipe_matmul_layout* layout;
  ompipe_matmul_sizes sizes;
  unsigned char *b, *scales, *zero_points, *packed;
  double* values;
} Weight;

static inline void fill_floats(Weight* weight, uint32_t* random) {
  const int64_t k = weight->description.k, n = weight->description.n;
  const int element = weight->description.format == OMPIPE_WEIGHT_F32 ? 4 : 2;
  for (int64_t i = 0; i < k * n; ++i) {
    const int64_t row = weight->description.trans_b ? i % k : i / n,
                  column = weight->description.trans_b ? i / k : i % n;
    weight->values[row * n + column] = random_element(weight->b + i * element, weight->description.format, random);
  }
}

// Bits [at * bits, (at + 1) * bits) of a row of bytes, low bits first.
static inline int unpack(const unsigned char* row, int64_t at, int bits) {
  return row[at * bits / 8] >> at * bits % 8 & ((1 << bits) - 1);
}

// The zero point of column n and a block, of the kind that the weight has.
static inline double zero_point(const Weight* weight, int64_t n, int64_t block, int64_t blocks, uint32_t* random) {
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

static inline void fill_blocks(Weight* weight, uint32_t* random) {
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

static inline void fill_bytes(Weight* weight, uint32_t* random) {
  for (int64_t i = 0; i < weight->sizes.source_bytes; ++i) {
    weight->b[i] = (unsigned char)next_random(random);
    weight->values[i] = weight->description.format == OMPIPE_WEIGHT_S8 ? (int8_t)weight->b[i] : weight->b[i];
  }
}

// Ranges of a few units, the last one shorter.
static inline int64_t range_bytes(const Weight* weight) { return 37 * weight->sizes.range_unit_bytes; }

static inline void pack_item(const Work* work, int64_t item, void* scratch) {
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

static inline Weight make_weight(ompipe_matmul_weight description, uint32_t* random) {
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
  } else if (description.format == OMPIPE_WEIGHT_U8 || description.format == OMPIPE_WEIGHT_S8) {
    fill_bytes(&weight, random);
  } else {
    fill_floats(&weight, random);
  }
  Work work = {.run = pack_item, .arguments = &weight};
  work.count = (weight.sizes.source_bytes + range_bytes(&weight) - 1) / range_bytes(&weight);
  run_on_threads(&work);
  return weight;
}

static inline void free_weight(Weight* weight) {
  void* all[] = {weight->layout, weight->b, weight->scales, weight->zero_points, weight->packed, weight->values};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) free(all[i]);
}
