#include <doctest/doctest.h>

#include <cstring>
#include <numeric>

#include "ompipe/io/gated_device.h"
#include "ompipe/io/memory_device.h"
#include "service_fixture.h"

using namespace ompipe::io;
using namespace ompipe::io::testing;

namespace {

std::vector<uint64_t> offsets(const std::vector<StartedRead>& reads) {
  std::vector<uint64_t> result;
  for (const StartedRead& read : reads) result.push_back(read.offset / kBlock);
  return result;
}

}  // namespace

TEST_SUITE_BEGIN("service_order");

// Block i is read at offset i * kBlock with id i, so the order in which reads reach the device is a list of ids.

TEST_CASE("queued reads begin by priority, then plan position, then order of submission") {
  GatedService s({.threads = 1});
  s.submit(0, Priority::critical, 0);
  s.device.wait_started(1);
  s.submit(1, Priority::background, 0);
  s.submit(2, Priority::prefetch, 9);
  s.submit(3, Priority::prefetch, 5);
  s.submit(4, Priority::critical, 100);
  s.submit(5, Priority::prefetch, 5);
  s.submit(6, Priority::critical, 50);
  CHECK(s.service.usage().queued == 6);
  CHECK(s.service.usage().critical_unfinished == 3);
  s.device.open_all();
  s.sink.wait_for(7);
  CHECK(offsets(s.device.started()) == std::vector<uint64_t>{0, 6, 4, 3, 5, 2, 1});
  CHECK(s.sink.ids() == std::vector<RequestId>{0, 6, 4, 3, 5, 2, 1});
}

TEST_CASE("promotion moves a queued read up, and down again") {
  GatedService s({.threads = 1});
  s.submit(0, Priority::critical, 0);
  s.device.wait_started(1);
  s.submit(1, Priority::prefetch, 1);
  s.submit(2, Priority::background, 2);
  s.submit(3, Priority::background, 3);
  s.submit(4, Priority::critical, 4);
  CHECK(s.service.promote(3, Priority::critical));
  CHECK(s.service.promote(2, Priority::prefetch));
  CHECK(s.service.promote(4, Priority::background));
  CHECK(!s.service.promote(77, Priority::critical));
  CHECK(s.service.usage().promotions == 2);
  s.device.open_all();
  s.sink.wait_for(5);
  CHECK(offsets(s.device.started()) == std::vector<uint64_t>{0, 3, 1, 2, 4});
  CHECK(!s.service.promote(3, Priority::prefetch));  // reported
}

TEST_CASE("a queued read that is cancelled is withdrawn at once and never reaches the device") {
  GatedService s({.threads = 1});
  s.submit(0, Priority::critical, 0);
  s.device.wait_started(1);
  s.submit(1, Priority::prefetch, 1);
  s.submit(2, Priority::prefetch, 2);
  const std::weak_ptr<const void> owner = s.give_owner(3);
  CHECK(s.service.cancel(1) == CancelResult::withdrawn);
  CHECK(s.service.cancel(3) == CancelResult::withdrawn);
  CHECK(owner.expired());
  CHECK(s.sink.ids() == std::vector<RequestId>{1, 3});  // although the only slot is taken
  CHECK(s.sink.of(1).status == ReadStatus::cancelled);
  CHECK(s.sink.of(1).start_ns == 0);
  CHECK(s.service.cancel(1) == CancelResult::unknown);
  s.device.open_all();
  s.sink.wait_for(4);
  CHECK(offsets(s.device.started()) == std::vector<uint64_t>{0, 2});
}

TEST_CASE("withdrawing takes a queued read off, and leaves one in flight alone") {
  GatedService s({.threads = 1});
  s.submit(0, Priority::critical, 0);
  s.device.wait_started(1);
  s.submit(1, Priority::critical, 1);
  CHECK(!s.service.withdraw(0));
  CHECK(s.service.withdraw(1));
  CHECK(!s.service.withdraw(1));
  s.device.open_all();
  s.sink.wait_for(2);
  CHECK(s.sink.of(0).status == ReadStatus::done);
  CHECK(s.sink.of(1).status == ReadStatus::cancelled);
  CHECK(!s.service.withdraw(0));
}

TEST_CASE("a read in flight that is cancelled is reported as cancelled on arrival, and holds its slot until then") {
  GatedService s({.threads = 1});
  const std::weak_ptr<const void> owner = s.give_owner(0);
  s.device.wait_started(1);
  s.submit(1, Priority::critical, 1);
  CHECK(s.service.cancel(0) == CancelResult::in_flight);
  CHECK(s.service.usage().in_flight == 1);
  CHECK(s.sink.all().empty());
  CHECK(!owner.expired());  // the device may still write there
  s.device.open_next();
  s.sink.wait_for(1);
  CHECK(owner.expired());
  CHECK(s.sink.of(0).status == ReadStatus::cancelled);
  s.device.open_all();
  s.sink.wait_for(2);
  CHECK(s.sink.of(1).status == ReadStatus::done);
}

TEST_CASE("while a critical read is unfinished, speculative reads leave it a slot") {
  for (const uint32_t threads : {1u, 2u, 4u}) {
    CAPTURE(threads);
    GatedService s({.threads = threads});
    s.submit(0, Priority::critical, 0);
    s.device.wait_started(1);
    for (uint64_t id = 1; id <= 8; ++id) s.submit(id, Priority::prefetch, id);
    s.device.wait_started(threads);
    CHECK(s.service.usage().speculative_in_flight == threads - 1);
    // A speculative read arrives; a critical one, submitted meanwhile, takes its place before the older speculative
    // ones.
    s.submit(9, Priority::critical, 9);
    s.device.open_next();
    s.device.wait_started(threads + 1);
    CHECK(s.device.started().back().offset == 9 * kBlock);
    s.device.open_all();
    s.sink.wait_for(10);
    CHECK(s.service.usage().critical_unfinished == 0);
  }
}

TEST_CASE("speculative bytes in flight are bounded, critical ones are not") {
  GatedService s({.threads = 4, .inflight_bytes = 2 * kBlock});
  for (uint64_t id = 0; id < 4; ++id) s.submit(id, Priority::prefetch, id);
  s.device.wait_started(2);
  CHECK(s.service.usage().speculative_bytes == 2 * kBlock);
  s.submit(4, Priority::critical, 4);
  s.device.wait_started(s.file(), 4 * kBlock);
  CHECK(s.service.usage().in_flight == 3);
  SUBCASE("a finished one lets the next begin") {
    s.device.open(s.file(), 0);
    s.device.wait_started(s.file(), 2 * kBlock);
    CHECK(s.service.usage().speculative_bytes == 2 * kBlock);
  }
  SUBCASE("one that is promoted in flight counts no more") {
    CHECK(s.service.promote(0, Priority::critical));
    s.device.wait_started(s.file(), 2 * kBlock);
    CHECK(s.service.usage().speculative_bytes == 2 * kBlock);
    CHECK(s.service.usage().critical_unfinished == 2);
  }
  SUBCASE("one that is promoted in the queue doesn't wait for bytes") {
    CHECK(s.service.promote(3, Priority::critical));
    s.device.wait_started(s.file(), 3 * kBlock);
    CHECK(s.service.usage().in_flight == 4);
  }
  s.device.open_all();
  s.sink.wait_for(5);
  CHECK(s.service.usage().peak_speculative_bytes == 2 * kBlock);
}

TEST_CASE("a speculative read above the bound goes alone, and nothing overtakes it") {
  GatedService s({.threads = 3, .inflight_bytes = 2 * kBlock});
  s.submit(0, Priority::prefetch, 0);
  s.device.wait_started(1);
  s.submit(1, Priority::prefetch, 1, 5 * kBlock);
  s.submit(6, Priority::background, 0);
  s.submit(7, Priority::critical, 7);
  s.device.wait_started(s.file(), 7 * kBlock);
  CHECK(s.service.usage().in_flight == 2);
  s.device.open(s.file(), 0);
  s.device.wait_started(s.file(), kBlock);
  CHECK(s.service.usage().queued == 1);
  CHECK(s.service.usage().speculative_bytes == 5 * kBlock);
  s.device.open_all();
  s.sink.wait_for(4);
  CHECK(s.device.started().back().offset == 6 * kBlock);
}

TEST_CASE("withdrawing the head of the queue lets those behind it begin") {
  GatedService s({.threads = 3, .inflight_bytes = 2 * kBlock});
  s.submit(0, Priority::prefetch, 0);
  s.device.wait_started(1);
  s.submit(1, Priority::prefetch, 1, 5 * kBlock);
  s.submit(6, Priority::prefetch, 6);
  CHECK(s.service.cancel(1) == CancelResult::withdrawn);
  s.device.wait_started(s.file(), 6 * kBlock);
  s.device.open_all();
  s.sink.wait_for(3);
}

TEST_CASE("bytes that one read frees let several others begin") {
  // Repeated, because a thread that is still awake from submit() would take the second read without being woken for it.
  for (int round = 0; round < 50; ++round) {
    GatedService s({.threads = 3, .inflight_bytes = 2 * kBlock});
    s.submit(0, Priority::prefetch, 0, 2 * kBlock);
    s.submit(2, Priority::prefetch, 2);
    s.submit(3, Priority::prefetch, 3);
    s.submit(4, Priority::critical, 4);
    s.device.wait_started(2);
    s.device.open(s.file(), 4 * kBlock);
    s.sink.wait_for(1);
    s.device.open(s.file(), 0);
    s.device.wait_started(4);  // the thread that became free has taken one only
    CHECK(s.service.usage().in_flight == 2);
  }
}

TEST_CASE("reads arrive in any order that the device chooses") {
  GatedService s({.threads = 3});
  for (uint64_t id = 0; id < 3; ++id) s.submit(id, Priority::critical, id);
  s.device.wait_started(3);
  size_t arrived = 0;
  for (const uint64_t id : {2, 0, 1}) {
    s.device.open(s.file(), id * kBlock);
    s.sink.wait_for(++arrived);
  }
  CHECK(s.sink.ids() == std::vector<RequestId>{2, 0, 1});
  for (const Completion& completion : s.sink.all()) {
    CHECK(completion.status == ReadStatus::done);
    CHECK(completion.bytes == kBlock);
    CHECK(completion.thread < 3);
    CHECK(completion.start_ns > 0);
    CHECK(completion.end_ns >= completion.start_ns);
    CHECK(std::memcmp(s.block(completion.id).data(), s.expected.data() + completion.id * kBlock, kBlock) == 0);
  }
}

TEST_SUITE_END();
