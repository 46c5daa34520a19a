// What a body's times say about CPU time: its own thread's, and its helpers'.
#include "body_clock.h"

#include <doctest/doctest.h>

namespace ompipe::session {
namespace {

struct Helped : schedule::Worker {
  explicit Helped(uint64_t ns) : helpers_ns(ns) {}
  int index() const override { return 3; }
  void run_tiles(int64_t, schedule::TileFunction, void*, double) override {}
  uint64_t helpers_cpu_ns() const override { return helpers_ns; }
  void expect(double) override {}
  uint64_t helpers_ns;
};

}  // namespace

TEST_SUITE_BEGIN("body_clock");

TEST_CASE("the body's CPU time and its helpers' are one sum") {
  constexpr uint64_t kOwnNs = 2'000'000, kHelpersNs = 3'600'000'000'000;
  Helped worker(0);
  const uint64_t before_ns = now_ns();
  const BodyClock clock(worker);
  const uint64_t until_ns = thread_cpu_ns() + kOwnNs;
  while (thread_cpu_ns() < until_ns) {
  }
  const BodyTimes alone = clock.stop();
  worker.helpers_ns = kHelpersNs;
  const BodyTimes helped = clock.stop();
  CHECK(alone.start_ns >= before_ns);
  CHECK(alone.end_ns >= alone.start_ns + kOwnNs);
  CHECK(alone.lane == 3);
  CHECK(alone.cpu_ns >= kOwnNs);
  CHECK(alone.cpu_ns < kHelpersNs);
  CHECK(helped.cpu_ns >= kHelpersNs + alone.cpu_ns);
}

TEST_SUITE_END();

}  // namespace ompipe::session
