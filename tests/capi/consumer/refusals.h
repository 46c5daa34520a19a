// What the programs about refusals expect of a status and its reason.
#pragma once

#include <stdio.h>
#include <string.h>

#include "ompipe_kernels.h"

static int failures;

// `reason` by its address: a caller's arguments are evaluated in any order.
static inline void expect(ompipe_status found, ompipe_status wanted, const char** reason, const char* part, int line) {
  const int right =
      found == wanted && (part == NULL ? *reason == NULL : *reason != NULL && strstr(*reason, part) != NULL);
  if (right) return;
  fprintf(stderr, "line %d: status %d (%s), reason '%s'; expected %d and '%s'\n", line, found,
          ompipe_status_text(found), *reason != NULL ? *reason : "", wanted, part != NULL ? part : "");
  ++failures;
}

static inline void expect_true(int holds, const char* what, int line) {
  if (holds) return;
  fprintf(stderr, "line %d: not so: %s\n", line, what);
  ++failures;
}
#define TRUE(condition) expect_true(condition, #condition, __LINE__)

static inline int all_bytes_are(const void* memory, size_t bytes, unsigned char value) {
  const unsigned char* const all = memory;
  size_t at = 0;
  while (at < bytes && all[at] == value) ++at;
  return at == bytes;
}
