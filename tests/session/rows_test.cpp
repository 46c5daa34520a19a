// The recipe `rows`, and the one object behind a tied table and head: which of its bytes are read, when, and how often.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "ompipe/io/posix_device.h"
#include "rig.h"

namespace ompipe::session::testing {
namespace {

namespace fs = std::filesystem;

const Tokens kOneId{1};  // its row lies in the first of the table's two slices
constexpr const char* kTable = "embedding.weight";
constexpr uint64_t kMiB = 1u << 20, kTableBytes = 2 * kMiB, kScalesBytes = kMiB / 2;

struct Loaded {
  std::vector<Seen> first;  // reads of the table before the first segment ran
  uint64_t bytes = 0;       // of all its reads
  Result<Decoded> decoded;

  uint64_t first_bytes() const {
    uint64_t sum = 0;
    for (const Seen& seen : first) sum += seen.bytes;
    return sum;
  }
};

Loaded run(const RuntimeOptions& base, const SessionOptions& options, const std::string& model, int steps,
           const Tokens& prompt) {
  Watcher watcher;
  RuntimeOptions runtime = base;
  runtime.observer = &watcher;
  Rig rig(runtime);
  RuntimeSession& session = rig.open(options, model);
  Loaded loaded{{}, 0, decode(session, steps, prompt)};
  bool ran = false;
  for (const Seen& seen : watcher.seen()) {
    ran = ran || seen.kind == TaskKind::segment;
    if (seen.kind != TaskKind::read || seen.name != kTable) continue;
    loaded.bytes += seen.bytes;
    if (!ran) loaded.first.push_back(seen);
  }
  return loaded;
}

const SessionOptions kOnDemand{.mode = Mode::on_demand};

}  // namespace

TEST_SUITE_BEGIN("rows");

TEST_CASE("slices are read instead of the table, and the bits are the same; the head's form serves the next run") {
  const Loaded whole =
      run({.scheduler = "sequential"}, {.mode = Mode::eager, .verify = Verify::always}, model_path(), 2, kOneId);
  REQUIRE(whole.decoded.ok());
  for (const char* scheduler : {"sequential", "omp-tasks"}) {
    CAPTURE(scheduler);
    const Loaded rows = run({.scheduler = scheduler, .threads = 2}, kOnDemand, model_path(), 2, kOneId);
    REQUIRE(rows.decoded.ok());
    CHECK(*rows.decoded == *whole.decoded);
    // One slice of the table and one of its scales; then the head, once; nothing for the second step.
    REQUIRE(rows.first.size() == 2);
    CHECK(rows.first_bytes() == kMiB + kScalesBytes);
    CHECK(rows.first[0].chunk == 0);
    CHECK(rows.bytes == kMiB + kScalesBytes + kTableBytes + kScalesBytes);
  }
}

TEST_CASE("a table and a head over the same bytes: each byte of the model is read once, but for the rows") {
  for (const char* scheduler : {"sequential", "omp-tasks"}) {
    for (const Mode mode : {Mode::streaming, Mode::eager, Mode::on_demand}) {
      CAPTURE(scheduler);
      CAPTURE(int(mode));
      Rig rig({.scheduler = scheduler, .threads = 2});
      RuntimeSession& session = rig.open({.mode = mode});
      const uint64_t once = session.plan().model->source_bytes();
      CHECK(session.plan().source_bytes == once);
      if (mode == Mode::eager) REQUIRE(session.Prepare().ok());
      REQUIRE(decode(session, 2, kOneId).ok());
      // The first run's two slices, unless the table was there before.
      const uint64_t rows = mode == Mode::eager ? 0 : kMiB + kScalesBytes;
      CHECK(rig.runtime().figures().logical_read_bytes == once + rows);
    }
  }
}

TEST_CASE("a slice whose hash is wrong fails the invocation, and no other") {
  const ModelCopy copy;
  copy.flip(100);  // in row 0, of the same slice as row 1
  const Loaded rows = run({.threads = 2}, kOnDemand, copy.model(), 1, kOneId);
  REQUIRE_FALSE(rows.decoded.ok());
  CHECK(rows.decoded.error().kind == ErrorKind::bad_model);
  CHECK(rows.decoded.error().phase == "digest");
  CHECK(rows.decoded.error().subject == kTable);
  CHECK(rows.decoded.error().length == kMiB);
  // Row 5000 lies in the other slice, which is whole; the head, packed from the same bytes, is what then fails.
  const Loaded other = run({.threads = 2}, kOnDemand, copy.model(), 1, {5000});
  REQUIRE_FALSE(other.decoded.ok());
  CHECK(other.decoded.error().subject == kTable);
  CHECK(other.decoded.error().length == kTableBytes);
  REQUIRE(other.first.size() == 2);
  CHECK(other.first[0].chunk == 1);
}

TEST_CASE("a slice of the scales is checked, too") {
  const ModelCopy copy;
  copy.flip(kTableBytes + 100);
  const Loaded rows = run({.threads = 2}, kOnDemand, copy.model(), 1, kOneId);
  REQUIRE_FALSE(rows.decoded.ok());
  CHECK(rows.decoded.error().phase == "digest");
  CHECK(rows.decoded.error().subject == "embedding.scales");
}

TEST_CASE("without slice hashes the whole table is read, unless nothing is verified") {
  const ModelCopy copy;
  fs::remove(copy.file("model.digests"));
  const Loaded whole = run({.threads = 2}, kOnDemand, copy.model(), 1, kOneId);
  REQUIRE(whole.decoded.ok());
  CHECK(whole.first_bytes() == kTableBytes + kScalesBytes);
  CHECK(whole.bytes == kTableBytes + kScalesBytes);
  const Loaded unverified =
      run({.threads = 2}, {.mode = Mode::on_demand, .verify = Verify::never}, copy.model(), 1, kOneId);
  REQUIRE(unverified.decoded.ok());
  CHECK(unverified.first_bytes() == kMiB + kScalesBytes);
  CHECK(*unverified.decoded == *whole.decoded);
}

TEST_CASE("slices that would not fit the staging limit are not asked for") {
  Watcher watcher;
  Rig probe({.threads = 1});
  uint64_t staging = 0;
  for (const plan::Gang& gang : probe.open().plan().gangs) staging = std::max(staging, gang.staging_bytes);
  RuntimeOptions tight{.threads = 1};
  tight.limits.preparation_bytes = staging;
  const Loaded whole = run(tight, kOnDemand, model_path(), 1, kOneId);
  REQUIRE(whole.decoded.ok());
  CHECK(whole.first_bytes() == kTableBytes + kScalesBytes);
}

TEST_SUITE_END();

}  // namespace ompipe::session::testing
