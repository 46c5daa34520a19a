// A place where the system refuses every new thread, as it does at a user's limit.
#pragma once

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <thread>

namespace ompipe::testing {

// Runs `body` on a thread that may create none. Limits count the threads of a user, and don't bind root: so that thread
// becomes nobody.
template <class Body>
void without_new_threads(const Body& body) {
  std::thread([&] {
    if (geteuid() == 0) REQUIRE(syscall(SYS_setresuid, 65534, 65534, 65534) == 0);
    rlimit old;
    REQUIRE(getrlimit(RLIMIT_NPROC, &old) == 0);
    const rlimit none{0, old.rlim_max};
    REQUIRE(setrlimit(RLIMIT_NPROC, &none) == 0);
    body();
    REQUIRE(setrlimit(RLIMIT_NPROC, &old) == 0);
  }).join();
}

}  // namespace ompipe::testing
