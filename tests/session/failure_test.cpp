// Failure at run time: damaged bytes, files that shrink, devices that fail; what is said, and who is not affected.
#include <doctest/doctest.h>
#include <errno.h>

#include <atomic>
#include <filesystem>
#include <fstream>

#include "ompipe/io/faulty_device.h"
#include "ompipe/io/posix_device.h"
#include "rig.h"

namespace ompipe::session::testing {

namespace {

namespace fs = std::filesystem;

constexpr int kSteps = 2;

// Damages one byte of what is read, the first time that it is or always.
class FlippingDevice : public io::Device {
 public:
  ssize_t read(const io::FileHandle& file, uint64_t offset, std::span<std::byte> out, io::ReadMode mode) override {
    const ssize_t got = disk_.read(file, offset, out, mode);
    const bool holds = got > 0 && offset <= flip_once_at && flip_once_at < offset + uint64_t(got);
    if (holds && (!only || only == &file) && (!flipped_.exchange(true) || always))
      out[flip_once_at - offset] ^= std::byte{0x10};
    return got;
  }
  io::MapOutcome map(const std::shared_ptr<const io::FileHandle>& file, uint64_t offset, uint64_t length) override {
    return disk_.map(file, offset, length);
  }
  int populate(const io::FileHandle& file, uint64_t offset, std::span<const std::byte> part) override {
    return disk_.populate(file, offset, part);
  }
  io::DeviceCounts counts() const override { return disk_.counts(); }

  // Set before the first read.
  uint64_t flip_once_at = UINT64_MAX;
  const io::FileHandle* only = nullptr;
  bool always = false;

 private:
  io::PosixDevice disk_;
  std::atomic<bool> flipped_{false};
};

const Decoded& expected() {
  static Decoded result;
  if (!result.tokens.empty()) return result;
  Rig rig({.threads = 2});
  return result = *decode(rig.open(), kSteps);
}

// An object of the last layer, and where its first chunk lies.
plan::ObjectId late_object(const RuntimeSession& session) {
  const auto& objects = session.plan().objects;
  for (size_t i = objects.size(); i-- > 0;) {
    if (objects[i].uses.front() + 2 == plan::SegmentId(session.plan().segments.size()) &&
        objects[i].kind == plan::ObjectKind::packed_matmul)
      return plan::ObjectId(i);
  }
  FAIL("the plan has no such object");
  return -1;
}

void check_says(const Error& error, const char* phase, const std::string& subject, const std::string& file) {
  const std::string message = error.message();
  CAPTURE(message);
  CHECK(error.phase == phase);
  CHECK(error.subject == subject);
  CHECK(fs::path(error.file).filename() == fs::path(file).filename());
  CHECK(error.offset.has_value());
  CHECK(error.length.has_value());
  CHECK(message.find(subject) != std::string::npos);
}

}  // namespace

TEST_SUITE_BEGIN("failure");

TEST_CASE("a byte flipped on the way is a digest's error that names tensor, file and range; a later run is right") {
  for (const char* scheduler : {"sequential", "omp-tasks"}) {
    for (const ReadMode read : {ReadMode::buffered, ReadMode::direct}) {
      CAPTURE(scheduler);
      CAPTURE(int(read));
      FlippingDevice device;
      Rig rig({.scheduler = scheduler, .threads = 2, .device = &device});
      // On demand: a prefetch that fails before it is waited for would fail nobody.
      RuntimeSession& session = rig.open({.mode = Mode::on_demand, .read = read});
      const plan::ObjectId id = late_object(session);
      const plan::PreparedObject& object = session.plan().objects[size_t(id)];
      device.flip_once_at = object.chunks[0].reads[0].offset + 1234;
      Decoder decoder(session);
      decoder.feed(kPrompt);
      const ExecutionHandle run = session.RunAsync(decoder.context);
      const Status status = run.Wait();
      REQUIRE_FALSE(status.ok());
      CHECK(status.error().kind == ErrorKind::bad_model);
      check_says(status.error(), "digest", object.name, "model.data");
      CHECK(run.diagnostics().failed_task == "prepack " + object.name);
      CHECK_FALSE(run.diagnostics().suppressed.empty());
      CHECK(decoder.length() == 0);  // a failed run appends nothing
      const Result<Decoded> decoded = decode(session, kSteps);
      REQUIRE_MESSAGE(decoded.ok(), (decoded.ok() ? "" : decoded.error().message()));
      CHECK(*decoded == expected());
      CHECK(session.objects()[size_t(id)].generation == 2);
    }
  }
}

TEST_CASE("a damaged file is found for every way to read, unless nobody wants it checked") {
  const ModelCopy copy;
  uint64_t offset = 0;
  std::string name;
  {
    Rig rig({.scheduler = "sequential"});
    RuntimeSession& session = rig.open({}, copy.model());
    const plan::PreparedObject& object = session.plan().objects[size_t(late_object(session))];
    offset = object.chunks[0].reads[0].offset + 1234;
    name = object.name;
  }
  copy.flip(offset);
  for (const ReadMode read : {ReadMode::buffered, ReadMode::direct, ReadMode::mapped}) {
    CAPTURE(int(read));
    Rig rig({.threads = 2});
    for (int attempt = 0; attempt < 2; ++attempt) {
      const Result<Decoded> decoded = decode(attempt ? rig.session() : rig.open({.read = read}, copy.model()), kSteps);
      REQUIRE_FALSE(decoded.ok());
      check_says(decoded.error(), "digest", name, "model.data");
    }
    CHECK(decode(rig.open({.read = read, .verify = Verify::never}, copy.model()), kSteps).ok());
  }
}

TEST_CASE("a file that changes while it is in use, or is cut short, for every way to read") {
  for (const ReadMode read : {ReadMode::buffered, ReadMode::direct, ReadMode::mapped}) {
    for (const bool shorter : {false, true}) {
      CAPTURE(int(read));
      CAPTURE(shorter);
      const ModelCopy copy;
      Rig rig({.threads = 2});
      RuntimeSession& session = rig.open({.read = read}, copy.model());
      const uint64_t offset = session.plan().objects[size_t(late_object(session))].chunks[0].reads[0].offset;
      if (shorter) fs::resize_file(copy.data(), offset + 100);
      if (!shorter) copy.flip(offset);
      const Result<Decoded> decoded = decode(session, kSteps);
      REQUIRE_FALSE(decoded.ok());
      CHECK(decoded.error().kind == ErrorKind::environment);
      CHECK(decoded.error().phase == "read");
      CHECK_FALSE(decoded.error().subject.empty());
      CHECK(decoded.error().message().find("model.data") != std::string::npos);
    }
  }
}

TEST_CASE("a device that fails now and then: errors with errno, and every run that succeeds is right") {
  io::PosixDevice disk;
  int failed = 0;
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    CAPTURE(seed);
    io::FaultyDevice device(disk, {.short_read = 0.1, .interrupted = 0.1, .io_error = 0.05, .delay = 0.2}, seed);
    Rig rig({.scheduler = seed % 2 ? "omp-tasks" : "sequential", .threads = 2, .device = &device});
    RuntimeSession& session = rig.open();
    for (int attempt = 0;; ++attempt) {
      REQUIRE(attempt < 50);
      const Result<Decoded> decoded = decode(session, kSteps);
      if (decoded.ok()) {
        CHECK(*decoded == expected());
        break;
      }
      ++failed;
      CHECK(decoded.error().kind == ErrorKind::environment);
      CHECK(decoded.error().phase == "read");
      CHECK(decoded.error().errno_value == EIO);
    }
  }
  CHECK(failed > 0);
}

TEST_CASE("short and interrupted reads are nobody's error") {
  io::PosixDevice disk;
  io::FaultyDevice device(disk, {.short_read = 0.4, .interrupted = 0.3, .delay = 0.3}, 7);
  Rig rig({.threads = 2, .device = &device});
  const Result<Decoded> decoded = decode(rig.open({.chunk_bytes = 1u << 20}), kSteps);
  REQUIRE(decoded.ok());
  CHECK(*decoded == expected());
}

TEST_CASE("one session's failure never fails another's run") {
  FlippingDevice device;
  const ModelCopy copy;
  Rig rig({.threads = 2, .device = &device});
  RuntimeSession& damaged = rig.open({}, copy.model());
  RuntimeSession& whole = rig.open();
  device.flip_once_at = damaged.plan().objects[size_t(late_object(damaged))].chunks[0].reads[0].offset;
  device.only = damaged.plan().model->files()[1].handle.get();
  device.always = true;  // a load that makes way for the other run is dropped, damaged or not, and read again
  const ExecutionHandle prepared = damaged.PrepareAsync();
  Decoder decoder(whole);
  decoder.feed(kPrompt);
  const ExecutionHandle run = whole.RunAsync(decoder.context);
  CHECK_FALSE(prepared.Wait().ok());
  CHECK(run.Wait().ok());
  CHECK(decoder.take_logits() == expected().logits[0]);
}

TEST_CASE("what doesn't fit the model is said at once, and nothing is read") {
  io::PosixDevice device;
  Rig rig({.threads = 2, .device = &device});
  RuntimeSession& session = rig.open();
  exec::RuntimeContext empty;
  const ExecutionHandle run = session.RunAsync(empty);
  CHECK(run.IsReady());
  REQUIRE_FALSE(run.Wait().ok());
  CHECK(run.Wait().error().kind == ErrorKind::usage);
  CHECK(device.counts().calls == 0);
  CHECK(decode(session, 1).ok());
}

TEST_SUITE_END();

}  // namespace ompipe::session::testing
