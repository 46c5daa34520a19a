// An I/O service over gated memory: block i of one file is read by request i into block i of one buffer.
#pragma once

#include <doctest/doctest.h>

#include <memory>
#include <utility>
#include <vector>

#include "ompipe/io/gated_device.h"
#include "ompipe/io/io_service.h"
#include "ompipe/io/memory_device.h"
#include "support.h"

namespace ompipe::io::testing {

inline constexpr uint64_t kBlock = 1000;
inline constexpr uint64_t kBlocks = 64;

struct GatedService {
  std::vector<std::byte> expected = pattern(kBlock * kBlocks);
  std::vector<std::byte> destination = std::vector<std::byte>(kBlock * kBlocks);
  MemoryDevice memory;
  std::shared_ptr<const FileHandle> handle = memory.add("f", expected);
  GatedDevice device{memory};
  CollectingSink sink;
  IoService service;
  size_t submitted = 0;

  explicit GatedService(IoOptions options) : service(device, sink, std::move(options)) {}
  // The ledger: every accepted request is reported once, and nothing is left.
  ~GatedService() {
    device.open_all();
    service.close();
    CHECK(sink.all().size() == submitted);
    const IoUsage usage = service.usage();
    CHECK(usage.queued == 0);
    CHECK(usage.in_flight == 0);
    CHECK(usage.speculative_in_flight == 0);
    CHECK(usage.speculative_bytes == 0);
    CHECK(usage.critical_unfinished == 0);
    CHECK(handle.use_count() == 2);  // this one, and the memory device's
  }

  const FileHandle& file() const { return *handle; }
  std::span<std::byte> block(uint64_t id) { return std::span(destination).subspan(id * kBlock, kBlock); }

  ReadRequest request(uint64_t id, Priority priority, uint64_t position, uint64_t length = kBlock) {
    return {.id = id,
            .file = handle,
            .offset = id * kBlock,
            .length = length,
            .destination = std::span(destination).subspan(id * kBlock, length),
            .priority = priority,
            .plan_position = position};
  }
  void submit(uint64_t id, Priority priority, uint64_t position, uint64_t length = kBlock) {
    REQUIRE(service.submit(request(id, priority, position, length)) == SubmitResult::accepted);
    ++submitted;
  }
  // Submits a prefetch whose destination has an owner that only the request holds.
  std::weak_ptr<const void> give_owner(uint64_t id) {
    ReadRequest owned = request(id, Priority::prefetch, id);
    owned.destination_owner = std::make_shared<int>();
    std::weak_ptr<const void> seen = owned.destination_owner;
    REQUIRE(service.submit(std::move(owned)) == SubmitResult::accepted);
    ++submitted;
    return seen;
  }
};

}  // namespace ompipe::io::testing
