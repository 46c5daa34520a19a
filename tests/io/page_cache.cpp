#include "ompipe/io/page_cache.h"

#include <doctest/doctest.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "ompipe/io/payload.h"
#include "ompipe/io/posix_device.h"
#include "support.h"

using namespace ompipe::io;
using namespace ompipe::io::testing;

namespace {

constexpr long kTmpfsMagic = 0x01021994;

struct Cached {
  TemporaryDirectory directory;
  std::shared_ptr<const FileHandle> file;
  bool droppable;
  Cached() {
    write_file(directory.path("f"), pattern(4 * kSliceBytes));
    file = *FileHandle::open(directory.path("f"));
    struct statfs info;
    REQUIRE(fstatfs(file->descriptor(), &info) == 0);
    droppable = info.f_type != kTmpfsMagic;
  }
};

}  // namespace

TEST_SUITE_BEGIN("page_cache");

TEST_CASE_FIXTURE(Cached, "written pages are cached; dropped they are not; what is read again is") {
  CHECK(*resident_fraction(*file, 0, file->size_bytes()) == 1);
  CHECK(drop_cached_pages(*file).ok() == droppable);
  if (!droppable) return;
  CHECK(*resident_fraction(*file, 0, file->size_bytes()) == 0);
  PosixDevice device;
  std::vector<std::byte> out(8192);
  REQUIRE(device.read(*file, kSliceBytes, out, ReadMode::buffered) == 8192);
  CHECK(device.counts().physical_bytes >= 8192);
  CHECK(*resident_fraction(*file, kSliceBytes, 8192) == 1);
  CHECK(*resident_fraction(*file, 0, file->size_bytes()) < 1);
  REQUIRE(drop_cached_pages(*file).ok());
  if (file->direct_descriptor() < 0) return;
  const uint64_t before = device.counts().physical_bytes;
  std::vector<std::byte> large(kSliceBytes);
  REQUIRE(device.read(*file, 0, large, ReadMode::direct) > 0);
  CHECK(device.counts().physical_bytes > before);
  CHECK(*resident_fraction(*file, 0, file->size_bytes()) == 0);
}

TEST_CASE_FIXTURE(Cached, "pages that somebody maps stay, and dropping says so") {
  const auto mapped = *map_range(file, 0, 4096);
  CHECK(mapped.bytes[0] == pattern(1)[0]);
  const auto dropped = drop_cached_pages(*file);
  REQUIRE(!dropped.ok());
  CHECK(dropped.error().reason.find("stayed in the page cache") != std::string::npos);
}

TEST_CASE_FIXTURE(Cached, "ranges are checked") {
  CHECK(*resident_fraction(*file, 5, 0) == 1);
  CHECK(resident_fraction(*file, 0, file->size_bytes() + 1).error().kind == ompipe::ErrorKind::bad_model);
}

TEST_SUITE_END();
