#include "ompipe/io/atomic_file.h"

#include <doctest/doctest.h>

#include <cerrno>
#include <filesystem>
#include <optional>

#include "support.h"

using namespace ompipe;
using namespace ompipe::io;
using namespace ompipe::io::testing;

namespace {

const std::string kOld = "the old contents", kNew = "the new contents, which are longer";

// Fails the n-th call with EIO; in a crash every later call fails too, the clean-up's included.
class FailingOperations final : public FileOperations {
 public:
  FailingOperations(int fails_at, bool crash) : fails_at_(fails_at), crash_(crash) {}
  int calls() const { return calls_; }

  int create(const std::string& path) override { return fails() ? -EIO : FileOperations::create(path); }
  ssize_t write(int descriptor, std::span<const std::byte> bytes) override {
    // Half a write before the failure: the worst that a real one leaves behind.
    if (!fails()) return FileOperations::write(descriptor, bytes.first((bytes.size() + 1) / 2));
    (void)FileOperations::write(descriptor, bytes.first(bytes.size() / 2));
    return -EIO;
  }
  int sync(int descriptor) override { return fails() ? -EIO : FileOperations::sync(descriptor); }
  int rename(const std::string& from, const std::string& to) override {
    return fails() ? -EIO : FileOperations::rename(from, to);
  }
  int sync_directory(const std::string& directory) override {
    return fails() ? -EIO : FileOperations::sync_directory(directory);
  }
  int unlink(const std::string& path) override { return fails() ? -EIO : FileOperations::unlink(path); }

 private:
  bool fails() { return ++calls_ == fails_at_ || (crash_ && calls_ > fails_at_); }
  const int fails_at_;
  const bool crash_;
  int calls_ = 0;
};

std::optional<std::string> contents(const std::string& path) {
  if (!std::filesystem::exists(path)) return std::nullopt;
  return read_text(path);
}

}  // namespace

TEST_SUITE_BEGIN("atomic_file");

TEST_CASE("a file appears whole, replaces an old one, and leaves nothing else") {
  const size_t descriptors = open_descriptors();
  TemporaryDirectory directory;
  FileOperations operations;
  const std::string path = directory.path("out put.bin");
  for (const std::string& text : {kOld, kNew, std::string()}) {
    const auto identity = publish_bytes(path, bytes_of(text), operations);
    REQUIRE(identity.ok());
    CHECK(read_text(path) == text);
    CHECK((*FileHandle::open(path))->identity() == *identity);
    CHECK(directory.names() == std::vector<std::string>{"out put.bin"});
  }
  CHECK(open_descriptors() == descriptors);
}

TEST_CASE("a file may be published in the current directory by its name alone") {
  TemporaryDirectory directory;
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(directory.root());
  FileOperations operations;
  CHECK(publish_bytes("bare", bytes_of(kNew), operations).ok());
  std::filesystem::current_path(before);
  CHECK(read_text(directory.path("bare")) == kNew);
}

TEST_CASE("whichever step fails, old or new contents stand there, whole") {
  for (const bool crash : {false, true}) {
    for (const bool replaces : {false, true}) {
      int steps = 0;
      for (int fails_at = 1;; ++fails_at) {
        CAPTURE(crash);
        CAPTURE(replaces);
        CAPTURE(fails_at);
        TemporaryDirectory directory;
        const std::string path = directory.path("f");
        if (replaces) write_file(path, bytes_of(kOld));
        const std::optional<std::string> old = contents(path);
        const size_t descriptors = open_descriptors();
        FailingOperations operations(fails_at, crash);
        const auto published = publish_bytes(path, bytes_of(kNew), operations);
        CHECK(open_descriptors() == descriptors);
        if (published.ok()) {
          CHECK(operations.calls() < fails_at);
          CHECK(contents(path) == kNew);
          break;
        }
        ++steps;
        CHECK(published.error().kind == ErrorKind::environment);
        CHECK(published.error().phase == "write");
        CHECK(published.error().file == path);
        const bool directory_flush =
            published.error().reason.find("its directory cannot be flushed") != std::string::npos;
        CHECK(contents(path) == (directory_flush ? kNew : old));
        if (!crash) CHECK(directory.names().size() == (contents(path) ? 1 : 0));
      }
      CHECK(steps == 4 + 6);  // create, sync, rename, sync_directory, and 34 bytes written by halves: 17, 9, 4, 2, 1, 1
    }
  }
}

TEST_CASE("what doesn't pass validation is not published") {
  TemporaryDirectory directory;
  write_file(directory.path("f"), bytes_of(kOld));
  FileOperations operations;
  auto file = AtomicFile::create(directory.path("f"), operations);
  REQUIRE(file.ok());
  REQUIRE(file->write(bytes_of(kNew)).ok());
  CHECK(file->size_bytes() == kNew.size());
  {
    AtomicFile moved = std::move(*file);
    const auto published = moved.publish([&](const std::shared_ptr<const FileHandle>& written) -> Status {
      CHECK(written->size_bytes() == kNew.size());
      return Error{.phase = "write", .subject = "", .reason = "not good enough"};
    });
    REQUIRE(!published.ok());
    CHECK(published.error().reason == "not good enough");
    CHECK(read_text(directory.path("f")) == kOld);
  }
  CHECK(directory.names() == std::vector<std::string>{"f"});
}

TEST_CASE("a write that failed can't be published, and an unfinished file disappears") {
  struct FullDisk final : FileOperations {
    ssize_t write(int, std::span<const std::byte>) override { return -ENOSPC; }
  } operations;
  TemporaryDirectory directory;
  {
    auto file = AtomicFile::create(directory.path("f"), operations);
    REQUIRE(file.ok());
    CHECK(file->write(bytes_of(kNew)).error().errno_value == ENOSPC);
    CHECK(!file->write(bytes_of(kNew)).ok());
    CHECK(!file->publish([](const auto&) { return ok_status(); }).ok());
  }
  CHECK(directory.names().empty());
}

TEST_CASE("a directory that doesn't exist is an error with its reason") {
  TemporaryDirectory directory;
  FileOperations operations;
  const auto file = AtomicFile::create(directory.path("no/f"), operations);
  REQUIRE(!file.ok());
  CHECK(file.error().errno_value == ENOENT);
}

TEST_SUITE_END();
