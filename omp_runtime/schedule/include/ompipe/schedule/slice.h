// A short scheduling slice for threads that sleep most of the time and must run at once when woken.
#pragma once

namespace ompipe::schedule {

// Asks for an EEVDF slice of 100 us for the calling thread (sched_setattr; Linux >= 6.12, no privilege needed): a woken
// thread then preempts one that computes. Measured: completion to coordinator p50 1 to 6 ms without, 11 to 16 us with.
// False where the kernel refuses, or takes the call without effect (before 6.12): the slice is read back. Method:
// EEVDF's custom slices, Linux 6.12, kernel/sched/syscalls.c. Any thread, for itself; so are the two below.
bool ask_for_short_slice();

// Undoes that: a thread inherits the slice of the one that created it, and compute threads must not have it.
void ask_for_default_slice();

// The fallback for compute threads: a higher nice value, with the same effect. False if it is refused.
bool make_nice();

}  // namespace ompipe::schedule
