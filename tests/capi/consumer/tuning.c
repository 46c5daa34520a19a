// Tile sizes through the C interface: every field is read and set by its name, tiles follow, and a product's bits, the
// packed bytes and the layout's key don't.
#define _POSIX_C_SOURCE 200809L
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ompipe_kernels.h"
#include "weights.h"
#include "work.h"

enum { K = 300, N = 200, M = 50 };

static int64_t value_of(const ompipe_tuning* tuning, const char* name) {
  int64_t value;
  const char* reason;
  demand_done(ompipe_tuning_get(tuning, name, &value, &reason), &reason);
  return value;
}

static void set(ompipe_tuning* tuning, const char* name, int64_t value) {
  const char* reason;
  demand_done(ompipe_tuning_set(tuning, name, value, &reason), &reason);
}

static ompipe_tuning* make_tuning(void) {
  const ompipe_size size = ompipe_tuning_size();
  ompipe_tuning* const tuning = allocate(size.bytes, size.alignment);
  const char* reason;
  demand_done(ompipe_tuning_init(tuning, size.bytes, &reason), &reason);
  return tuning;
}

// All fields of two profiles are the same but the one of that name.
static void demand_only_change(const ompipe_tuning* one, const ompipe_tuning* other, const char* changed) {
  const char* name;
  for (int32_t i = 0; (name = ompipe_tuning_name(i)) != NULL; ++i) {
    demand((value_of(one, name) != value_of(other, name)) == (strcmp(name, changed) == 0), "another field is set");
  }
}

// The product's result, [M, N]. `tiles` receives the number of its tiles.
static float* multiply(const Weight* weight, const float* a, int64_t* tiles) {
  ompipe_matmul_product product = ompipe_matmul_product_default();
  int64_t tile_bytes;
  product.layout = weight->layout;
  product.m = M;
  demand_done(ompipe_matmul_scratch(&product, &product.shared_scratch_bytes, &tile_bytes), NULL);
  float* const out = allocate(sizeof(float) * M * N, OMPIPE_ALIGNMENT);
  product.packed = weight->packed;
  product.a = a;
  product.lda = K;
  product.out = out;
  product.ldo = N;
  product.shared_scratch = allocate((size_t)product.shared_scratch_bytes, OMPIPE_ALIGNMENT);
  const ompipe_size size = ompipe_call_size();
  ompipe_call* call = allocate(size.bytes, size.alignment);
  const char* reason;
  demand_done(ompipe_matmul_call_init(call, size.bytes, &product, &reason), &reason);
  *tiles = 0;
  for (int32_t phase = 0; phase < ompipe_call_phases(call); ++phase) *tiles += ompipe_call_tiles(call, phase);
  run_call_on_threads(call);
  free(product.shared_scratch);
  free(call);
  return out;
}

int main(void) {
  ompipe_tuning *const profile = make_tuning(), *const small = make_tuning();
  const char* name;
  for (int32_t i = 0; (name = ompipe_tuning_name(i)) != NULL; ++i) {
    const int64_t before = value_of(small, name);
    demand(before > 0 && before == value_of(profile, name), "a field differs in two profiles of one CPU");
    set(small, name, before > 96 ? before - 96 : before + 96);
    demand_only_change(profile, small, name);
    set(small, name, before);
  }
  set(small, "rows", 24);
  set(small, "tile-us", 1);

  // As a null tuning: this CPU's profile. A copy serves as well, and isn't needed any more once there is a layout.
  ompipe_matmul_weight description = {
      .struct_bytes = sizeof description, .k = K, .n = N, .format = OMPIPE_WEIGHT_NBITS, .bits = 4, .block = 32};
  uint32_t random = 1;
  Weight usual = make_weight(description, &random);
  const size_t bytes = ompipe_tuning_size().bytes;
  ompipe_tuning* const copy = allocate(bytes, ompipe_tuning_size().alignment);
  memcpy(copy, small, bytes);
  description.tuning = copy;
  random = 1;
  Weight tuned = make_weight(description, &random);
  free(copy);
  description.tuning = profile;
  random = 1;
  Weight same = make_weight(description, &random);

  float* const a = allocate(sizeof(float) * M * K, OMPIPE_ALIGNMENT);
  for (int64_t i = 0; i < M * K; ++i) a[i] = random_float(&random);
  int64_t usual_tiles, tuned_tiles, same_tiles;
  float *const wanted = multiply(&usual, a, &usual_tiles), *const found = multiply(&tuned, a, &tuned_tiles),
               *const again = multiply(&same, a, &same_tiles);
  demand(tuned_tiles > usual_tiles && same_tiles == usual_tiles, "tiles don't follow the tuning");
  demand(memcmp(wanted, found, sizeof(float) * M * N) == 0, "the tuning changes bits");
  demand(memcmp(wanted, again, sizeof(float) * M * N) == 0, "this CPU's profile changes bits");
  demand(memcmp(usual.packed, tuned.packed, (size_t)usual.sizes.packed_bytes) == 0, "the tuning changes packed bytes");
  char key[128], tuned_key[128];
  demand_done(ompipe_matmul_layout_key(usual.layout, key, sizeof key, NULL), NULL);
  demand_done(ompipe_matmul_layout_key(tuned.layout, tuned_key, sizeof tuned_key, NULL), NULL);
  demand(strcmp(key, tuned_key) == 0, "the tuning changes the layout's key");
  printf("%lld tiles, %lld with small ones\n", (long long)usual_tiles, (long long)tuned_tiles);

  free_weight(&usual);
  free_weight(&tuned);
  free_weight(&same);
  void* all[] = {profile, small, a, wanted, found, again};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) free(all[i]);
  return 0;
}
