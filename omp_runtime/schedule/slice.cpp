#include "ompipe/schedule/slice.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace ompipe::schedule {
namespace {

// The kernel's struct sched_attr; glibc 2.36 has none.
struct SchedAttr {
  uint32_t size = sizeof(SchedAttr), policy = 0;
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t runtime = 0, deadline = 0, period = 0;
};

bool set_slice_ns(uint64_t slice_ns) {
  SchedAttr attr;
  attr.nice = getpriority(PRIO_PROCESS, 0);
  attr.runtime = slice_ns;
  return syscall(SYS_sched_setattr, 0, &attr, 0) == 0;
}

// A kernel before 6.12 takes the call and ignores the slice; it then reads 0 back.
uint64_t slice_in_force_ns() {
  SchedAttr attr;
  return syscall(SYS_sched_getattr, 0, &attr, sizeof attr, 0) == 0 ? attr.runtime : 0;
}

constexpr uint64_t kShortSliceNs = 100'000;

}  // namespace

bool ask_for_short_slice() { return set_slice_ns(kShortSliceNs) && slice_in_force_ns() == kShortSliceNs; }

void ask_for_default_slice() { set_slice_ns(0); }

bool make_nice() { return setpriority(PRIO_PROCESS, gettid(), 10) == 0; }

}  // namespace ompipe::schedule
