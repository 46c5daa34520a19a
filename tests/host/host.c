// A program with OpenMP regions of its own that has ompipe as a guest: linked, or loaded by dlopen.
//   host MODEL HOSTS_RUNTIME GUESTS_RUNTIME [LIBRARY plain|deepbind]
#define _GNU_SOURCE
#include <dlfcn.h>
#include <omp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guest.h"

typedef int (*Guest)(const char*, int, char*, size_t);

#ifdef __clang__
void __kmpc_fork_call(void);
#define REGION_ENTRY __kmpc_fork_call
#else
void GOMP_parallel(void);
#define REGION_ENTRY GOMP_parallel
#endif

static atomic_int stopped;

// Regions whose sum is known; returns how many were wrong, or -1 if none had a team.
static int regions(int times) {
  int wrong = 0, teams = 0;
  for (int time = 0; time < times; ++time) {
    long sum = 0;
    int threads = 0;
#pragma omp parallel num_threads(3) reduction(+ : sum)
    {
#pragma omp single
      threads = omp_get_num_threads();
#pragma omp for
      for (long i = 0; i < 1000; ++i) sum += i;
    }
    wrong += sum != 499500;
    teams += threads == 3;
  }
  return teams == times ? wrong : -1;
}

static void* regions_meanwhile(void* wrong) {
  do *(int*)wrong |= regions(1);
  while (!atomic_load(&stopped));
  return NULL;
}

static int fail(const char* what, const char* found) {
  fprintf(stderr, "host: %s: %s\n", what, found);
  return 1;
}

int main(int count, char** arguments) {
  if (count != 4 && count != 6) return 2;
  Guest guest = NULL;
  if (count == 6) {
    const int deep = strcmp(arguments[5], "deepbind") == 0 ? RTLD_DEEPBIND : 0;
    void* const library = dlopen(arguments[4], RTLD_NOW | RTLD_LOCAL | deep);
    if (!library) return fail("dlopen", dlerror());
    *(void**)&guest = dlsym(library, "ompipe_guest");
  }
#ifdef HOST_IS_LINKED
  if (!guest) guest = ompipe_guest;
#endif
  if (!guest) return fail("no guest", "link it or name its library");

  Dl_info served;
  if (!dladdr((void*)REGION_ENTRY, &served)) return fail("dladdr", "nothing");
  if (!strstr(served.dli_fname, arguments[2])) return fail("the host's regions are served by", served.dli_fname);

  if (regions(10) != 0) return fail("regions before the guest", "wrong");
  pthread_t beside;
  int wrong = 0;
  pthread_create(&beside, NULL, regions_meanwhile, &wrong);
  char library[4096] = "";
  int failed = 0;
  for (int threads = 1; threads <= 4 && !failed; threads *= 2)
    failed = guest(arguments[1], threads, library, sizeof library);
  // The guest on a thread of the host's own team, too.
#pragma omp parallel num_threads(2)
  {
#pragma omp master
    failed |= guest(arguments[1], 2, library, sizeof library);
  }
  atomic_store(&stopped, 1);
  pthread_join(beside, NULL);
  if (failed) return 1;
  if (wrong) return fail("regions beside the guest", "wrong");
  if (!strstr(library, arguments[3])) return fail("the guest is served by", library);
  if (regions(10) != 0) return fail("regions after the guest", "wrong");
  printf("host: %s; guest: %s\n", served.dli_fname, library);
  return 0;
}
