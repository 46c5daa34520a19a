#include <doctest/doctest.h>

#include <cstring>
#include <filesystem>
#include <thread>

#include "ompipe/io/payload.h"
#include "support.h"

using namespace ompipe;
using namespace ompipe::io;
using namespace ompipe::io::testing;

namespace {

struct OnDisk {
  TemporaryDirectory directory;
  std::vector<std::byte> expected = pattern(10000);
  std::shared_ptr<const FileHandle> file;
  OnDisk() {
    write_file(directory.path("f"), expected);
    file = *FileHandle::open(directory.path("f"));
  }
};

}  // namespace

TEST_SUITE_BEGIN("payloads");

TEST_CASE_FIXTURE(OnDisk, "each state knows its size, and whether its bytes are in memory") {
  const Payload owned = OwnedBytes{pattern(10)};
  const Payload mapped = mapped_payload(*map_range(file, 100, 20));
  const auto text = std::make_shared<std::string>("caller");
  const Payload caller = caller_payload(bytes_of(*text), text);
  const Payload lazy = *lazy_payload(file, 100, 30);
  std::vector<std::byte> place(40);
  const Payload destination = *destination_payload(file, 100, place, std::make_shared<int>());
  CHECK(payload_bytes(owned) == 10);
  CHECK(payload_bytes(mapped) == 20);
  CHECK(payload_bytes(caller) == 6);
  CHECK(payload_bytes(lazy) == 30);
  CHECK(payload_bytes(destination) == 40);
  CHECK(bytes_in_memory(owned)->size() == 10);
  CHECK(bytes_in_memory(mapped)->data()[0] == expected[100]);
  CHECK(bytes_in_memory(caller)->size() == 6);
  CHECK(!bytes_in_memory(lazy));
  CHECK(!bytes_in_memory(destination));
}

TEST_CASE_FIXTURE(OnDisk, "ranges outside the file make no payload") {
  std::vector<std::byte> place(40);
  CHECK(lazy_payload(file, 9990, 11).error().kind == ErrorKind::bad_model);
  CHECK(lazy_payload(file, ~uint64_t{0}, 2).error().kind == ErrorKind::bad_model);
  CHECK(destination_payload(file, 9990, place, std::make_shared<int>()).error().kind == ErrorKind::bad_model);
  CHECK(map_range(file, 10001, 0).error().kind == ErrorKind::bad_model);
  CHECK(map_range(file, 10000, 0)->bytes.empty());
}

TEST_CASE_FIXTURE(OnDisk, "an owner lives as long as its payload, and is released with it") {
  const auto token = std::make_shared<int>();
  {
    const Payload caller = caller_payload(expected, token);
    const Payload copy = caller;
    CHECK(token.use_count() == 3);
  }
  CHECK(token.use_count() == 1);
  {
    const Payload mapped = mapped_payload(*map_range(file, 0, 100));
    CHECK(file.use_count() == 2);
  }
  CHECK(file.use_count() == 1);
}

TEST_CASE_FIXTURE(OnDisk,
                  "a mapping shows the file that was opened, not the one that took its name, to many threads at once") {
  const auto mapped = *map_range(file, 4096, 5000);
  write_file(directory.path("new"), std::vector<std::byte>(10000));
  std::filesystem::rename(directory.path("new"), directory.path("f"));
  file.reset();
  std::vector<std::thread> readers;
  for (int i = 0; i < 8; ++i) {
    readers.emplace_back(
        [view = mapped, this] { CHECK(std::memcmp(view.bytes.data(), expected.data() + 4096, 5000) == 0); });
  }
  for (std::thread& reader : readers) reader.join();
}

TEST_SUITE_END();
