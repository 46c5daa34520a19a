#include <doctest/doctest.h>
#include <sys/fsuid.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <limits>
#include <thread>

#include "ompipe/io/file_set.h"
#include "support.h"

namespace fs = std::filesystem;
using namespace ompipe;
using namespace ompipe::io;
using namespace ompipe::io::testing;

namespace {

constexpr uint64_t kHuge = std::numeric_limits<uint64_t>::max();

// A directory with a model and its weights; checks at the end that every descriptor is closed.
struct ModelDirectory {
  size_t descriptors = open_descriptors();
  TemporaryDirectory directory;
  std::string model = directory.path("modèle à un.onnx");

  ModelDirectory() {
    write_file(model, pattern(100));
    write_file(directory.path("poids à un.data"), pattern(5000));
  }
  ~ModelDirectory() { CHECK(open_descriptors() == descriptors); }

  FileSet open() {
    auto files = FileSet::open(model);
    REQUIRE(files.ok());
    return std::move(*files);
  }
  Error refused(const std::string& location) {
    auto files = open();
    const auto file = files.open_external(location, "w");
    REQUIRE(!file.ok());
    CHECK(file.error().subject == "w");
    CHECK(file.error().phase == "open");
    return file.error();
  }
};

}  // namespace

TEST_SUITE_BEGIN("file_opening");

TEST_CASE_FIXTURE(ModelDirectory, "a model and its weights open, with blanks and non-ASCII letters in their names") {
  auto files = open();
  CHECK(files.model()->size_bytes() == 100);
  const auto weights = files.open_external("poids à un.data", "w");
  REQUIRE(weights.ok());
  CHECK((*weights)->size_bytes() == 5000);
  CHECK((*weights)->check_unchanged().ok());
}

TEST_CASE_FIXTURE(ModelDirectory, "two names of one file give one handle") {
  fs::create_hard_link(directory.path("poids à un.data"), directory.path("hard"));
  fs::create_symlink("poids à un.data", directory.path("soft"));
  auto files = open();
  const auto first = files.open_external("poids à un.data", "a");
  for (const char* name : {"hard", "soft", "./hard", "x/../soft", "poids à un.data"}) {
    const auto other = files.open_external(name, "b");
    REQUIRE(other.ok());
    CHECK(*other == *first);
  }
  CHECK(*files.open_external("modèle à un.onnx", "c") == files.model());
}

TEST_CASE("a hub's cache keeps model and weights as links into a folder of blobs") {
  TemporaryDirectory hub;
  fs::create_directories(hub.root() / "blobs");
  fs::create_directories(hub.root() / "snapshots/rev/onnx");
  write_file(hub.path("blobs/aaa"), pattern(10));
  write_file(hub.path("blobs/bbb"), pattern(20));
  fs::create_symlink("../../../blobs/aaa", hub.root() / "snapshots/rev/onnx/model.onnx");
  fs::create_symlink("../../../blobs/bbb", hub.root() / "snapshots/rev/onnx/model.onnx_data");
  auto files = FileSet::open(hub.path("snapshots/rev/onnx/model.onnx"));
  REQUIRE(files.ok());
  const auto weights = files->open_external("model.onnx_data", "w");
  REQUIRE(weights.ok());
  CHECK((*weights)->size_bytes() == 20);
  CHECK((*weights)->real_path() == hub.path("blobs/bbb"));

  SUBCASE("a link to a third folder is refused") {
    fs::create_directories(hub.root() / "elsewhere");
    write_file(hub.path("elsewhere/secret"), pattern(30));
    fs::create_symlink(hub.root() / "elsewhere/secret", hub.root() / "snapshots/rev/onnx/escape");
    const auto escaped = files->open_external("escape", "w");
    REQUIRE(!escaped.ok());
    CHECK(escaped.error().kind == ErrorKind::bad_model);
  }
  SUBCASE("a folder whose name begins like an allowed one is not in it") {
    fs::create_directories(hub.root() / "blobs2");
    write_file(hub.path("blobs2/ccc"), pattern(30));
    fs::create_symlink("../../../blobs2/ccc", hub.root() / "snapshots/rev/onnx/near");
    CHECK(files->open_external("near", "w").error().kind == ErrorKind::bad_model);
  }
}

TEST_CASE("weights beside the real model are found through a link to the model alone") {
  TemporaryDirectory place;
  fs::create_directories(place.root() / "real");
  write_file(place.path("real/model.onnx"), pattern(10));
  write_file(place.path("real/model.data"), pattern(20));
  fs::create_symlink("real/model.onnx", place.root() / "link.onnx");
  auto files = FileSet::open(place.path("link.onnx"));
  REQUIRE(files.ok());
  const auto weights = files->open_external("model.data", "w");
  REQUIRE(weights.ok());
  CHECK((*weights)->size_bytes() == 20);
}

TEST_CASE("a model named without a directory opens, and so does one in a directory that is a link") {
  TemporaryDirectory place;
  fs::create_directories(place.root() / "real");
  write_file(place.path("real/m"), pattern(10));
  write_file(place.path("real/w"), pattern(20));
  fs::create_directory_symlink("real", place.root() / "link");
  auto linked = FileSet::open(place.path("link/m"));
  REQUIRE(linked.ok());
  CHECK(linked->open_external("w", "w").ok());
  const fs::path before = fs::current_path();
  fs::current_path(place.root() / "real");
  auto bare = FileSet::open("m");
  REQUIRE(bare.ok());
  CHECK(bare->open_external("w", "w").ok());
  fs::current_path(before);
}

TEST_CASE_FIXTURE(ModelDirectory, "locations that leave the model's directories are refused") {
  TemporaryDirectory outside;
  write_file(outside.path("secret"), pattern(10));
  fs::create_symlink(outside.path("secret"), directory.path("escape"));
  fs::create_directory_symlink(outside.root(), directory.path("folder"));
  const std::string up = "../" + outside.root().filename().string() + "/secret";
  for (const std::string& location : {std::string("../x"), std::string("a/../../x"), up, outside.path("secret"),
                                      std::string("/etc/passwd"), std::string(), std::string("."), std::string("a/.."),
                                      std::string("escape"), std::string("folder/secret"), std::string("a\0b", 3)}) {
    CAPTURE(location);
    CHECK(refused(location).kind == ErrorKind::bad_model);
  }
}

TEST_CASE("a location is normalised without looking at the file system") {
  CHECK(*normalise_location("a//./b/../c", "w") == "a/c");
  CHECK(*normalise_location("...", "w") == "...");
  CHECK(*normalise_location("a/..b", "w") == "a/..b");
}

TEST_CASE_FIXTURE(ModelDirectory, "what is not a readable regular file is refused as an error of the environment") {
  fs::create_directory(directory.path("folder"));
  REQUIRE(mkfifo(directory.path("fifo").c_str(), 0600) == 0);
  fs::create_symlink("nowhere", directory.path("dangling"));
  fs::create_symlink("loop", directory.path("loop"));
  const auto expect = [&](const char* name, const char* reason) {
    const Error error = refused(name);
    CHECK(error.kind == ErrorKind::environment);
    CHECK(error.message().find(reason) != std::string::npos);
    CHECK(error.message().find('\n') == std::string::npos);
  };
  expect("folder", "is a directory, expected a regular file");
  expect("fifo", "is a fifo");  // opening it for reading would wait for a writer for ever
  expect("missing", "No such file");
  expect("dangling", "No such file");
  expect("loop", "Too many levels");
  expect("fifo/x", "Not a directory");
}

TEST_CASE("a model that is missing, a directory, a fifo or a socket is refused the same way") {
  TemporaryDirectory place;
  REQUIRE(mkfifo(place.path("fifo").c_str(), 0600) == 0);
  CHECK(FileSet::open(place.path("missing")).error().errno_value == ENOENT);
  CHECK(FileSet::open(place.root().string()).error().reason == "is a directory, expected a regular file");
  CHECK(FileSet::open(place.path("fifo")).error().reason == "is a fifo, expected a regular file");
  CHECK(FileSet::open("").error().kind == ErrorKind::environment);
  CHECK(FileSet::open("/dev/null").error().reason == "is a device, expected a regular file");
}

TEST_CASE_FIXTURE(ModelDirectory, "an unreadable file is refused") {
  fs::permissions(directory.root(), fs::perms::owner_all | fs::perms::others_all);
  fs::permissions(model, fs::perms::none);
  // The file system's user of one thread: root's right to read everything goes with it.
  std::thread([&] {
    if (geteuid() == 0) setfsuid(65534);
    const auto files = FileSet::open(model);
    REQUIRE(!files.ok());
    CHECK(files.error().kind == ErrorKind::environment);
    CHECK(files.error().errno_value == EACCES);
  }).join();
}

TEST_CASE_FIXTURE(ModelDirectory, "ranges are checked against the file, overflow included") {
  auto files = open();
  const auto& file = *files.model();
  CHECK(file.check_range(0, 100).ok());
  CHECK(file.check_range(100, 0).ok());
  CHECK(file.check_range(99, 1).ok());
  for (const auto& [offset, length] : {std::pair<uint64_t, uint64_t>{0, 101},
                                       {99, 2},
                                       {101, 0},
                                       {kHuge, 1},
                                       {kHuge, 2},
                                       {1, kHuge},
                                       {50, kHuge - 49},
                                       {kHuge, kHuge}}) {
    CAPTURE(offset);
    CAPTURE(length);
    const Status status = file.check_range(offset, length);
    REQUIRE(!status.ok());
    CHECK(status.error().kind == ErrorKind::bad_model);
    CHECK(status.error().offset == offset);
    CHECK(status.error().length == length);
  }
}

TEST_CASE_FIXTURE(ModelDirectory, "a changed file is seen; a replaced one stays what was opened") {
  auto files = open();
  const auto handle = files.model();
  SUBCASE("shorter") {
    fs::resize_file(model, 50);
    const Status changed = handle->check_unchanged();
    REQUIRE(!changed.ok());
    CHECK(changed.error().reason.find("had 100 bytes and has 50") != std::string::npos);
  }
  SUBCASE("same size, other bytes") {
    fs::last_write_time(model, fs::last_write_time(model) + std::chrono::seconds(5));
    CHECK(!handle->check_unchanged().ok());
  }
  SUBCASE("another file under its name") {
    write_file(directory.path("new"), pattern(7));
    fs::rename(directory.path("new"), model);
    CHECK(handle->size_bytes() == 100);
    std::byte first;
    CHECK(pread(handle->descriptor(), &first, 1, 99) == 1);
    CHECK(first == pattern(100)[99]);
  }
}

TEST_SUITE_END();
