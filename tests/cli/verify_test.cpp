#include <doctest/doctest.h>

#include "../no_new_threads.h"
#include "ompipe/io/digest.h"
#include "ompipe/io/memory_device.h"
#include "verify_payloads.h"

namespace {

using namespace ompipe;

model::Payload payload(const std::string& name, uint64_t offset, uint64_t length, const std::string& digest) {
  model::Payload made;
  made.name = name;
  made.file = 0;
  made.offset = offset;
  made.length = length;
  made.digest = digest;
  return made;
}

}  // namespace

TEST_SUITE("verify") {
  TEST_CASE("every payload that states a digest is read and judged") {
    std::vector<std::byte> bytes((5u << 20) + 123);
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = std::byte(i * 2654435761u >> 13);
    const auto digest = [&](uint64_t offset, uint64_t length) {
      return io::format_digest(io::digest_of(std::span(bytes).subspan(offset, length)));
    };
    io::MemoryDevice device;
    model::ModelGraph graph;
    graph.payloads = {payload("long", 0, bytes.size(), digest(0, bytes.size())),
                      payload("inner", 77, 1 << 20, digest(77, 1 << 20)), payload("silent", 0, 10, ""),
                      payload("wrong", 5, 100, digest(6, 100)), payload("empty", 9, 0, digest(9, 0))};
    graph.files.push_back(
        {.location = {}, .path = "memory", .bytes = bytes.size(), .sha1 = {}, .handle = device.add("memory", bytes)});
    const auto results = cli::verify_payloads(graph, device);
    REQUIRE(results.ok());
    REQUIRE(results->size() == 5);
    CHECK((*results)[0].verdict == cli::Verdict::right);
    CHECK((*results)[1].verdict == cli::Verdict::right);
    CHECK((*results)[2].verdict == cli::Verdict::unknown);
    CHECK((*results)[3].verdict == cli::Verdict::wrong);
    CHECK((*results)[3].found == digest(5, 100));
    CHECK((*results)[4].verdict == cli::Verdict::right);
    CHECK(device.counts().logical_bytes == bytes.size() + (1 << 20) + 100);  // no digest, no read
  }

  TEST_CASE("I/O threads that the system refuses are an error, not a verdict") {
    ompipe::testing::without_new_threads([] {
      io::MemoryDevice device;
      const auto results = cli::verify_payloads(model::ModelGraph{}, device);
      REQUIRE_FALSE(results.ok());
      CHECK(results.error().kind == ErrorKind::environment);
      CHECK(results.error().subject == "I/O threads");
    });
  }
}
