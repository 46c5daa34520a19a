// Work on threads for the C programs: memory, items taken in a shuffled order, and the tiles of a call run so.
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elements.h"
#include "ompipe_kernels.h"

enum { THREADS = 4 };

static inline void* allocate(size_t bytes, size_t alignment) {
  void* memory = aligned_alloc(alignment, (bytes / alignment + 1) * alignment);
  if (memory == NULL) abort();
  memset(memory, 0xff, bytes);  // NaN: what is read before it is written shows
  return memory;
}

static inline void demand(int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "%s\n", what);
  exit(1);
}

static inline void demand_done(ompipe_status status, const char** reason) {
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

static inline void* take_items(void* argument) {
  Work* work = argument;
  void* scratch = allocate((size_t)work->scratch_bytes, OMPIPE_ALIGNMENT);
  for (long long i; (i = atomic_fetch_add(&work->taken, 1)) < work->count;) work->run(work, work->order[i], scratch);
  free(scratch);
  return NULL;
}

static inline void run_on_threads(Work* work) {
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

typedef struct Phase {
  const ompipe_call* call;
  int32_t phase;
} Phase;

static inline void run_item(const Work* work, int64_t item, void* scratch) {
  const Phase* phase = work->arguments;
  const ompipe_status status = ompipe_call_run_tile(phase->call, phase->phase, item, scratch, work->scratch_bytes);
  demand_done(status, NULL);
}

// Each phase's tiles on several threads.
static inline void run_call_on_threads(const ompipe_call* call) {
  for (int32_t phase = 0; phase < ompipe_call_phases(call); ++phase) {
    Phase of = {call, phase};
    Work work = {.run = run_item,
                 .arguments = &of,
                 .count = ompipe_call_tiles(call, phase),
                 .scratch_bytes = ompipe_call_tile_scratch_bytes(call)};
    run_on_threads(&work);
  }
}
