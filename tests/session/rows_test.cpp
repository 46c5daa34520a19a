// The recipe `rows`: a table that is looked up by the caller's ids is read by the slices that hold their rows, each
// checked.
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

struct Loaded {
  std::vector<Seen> table;  // reads of the table
  bool resident = false;    // afterwards
  Result<Decoded> decoded;
};

Loaded run(const RuntimeOptions& base, const SessionOptions& options, const std::string& model, int steps,
           const Tokens& prompt) {
  Watcher watcher;
  RuntimeOptions runtime = base;
  runtime.observer = &watcher;
  Rig rig(runtime);
  RuntimeSession& session = rig.open(options, model);
  Loaded loaded{{}, false, decode(session, steps, prompt)};
  const auto table_object = [&](int32_t object) {
    const plan::PreparedObject& spec = session.plan().objects[size_t(object)];
    return spec.name == kTable && spec.kind == plan::ObjectKind::source_form;
  };
  for (const Seen& seen : watcher.seen()) {
    if (seen.kind == TaskKind::read && table_object(seen.object)) loaded.table.push_back(seen);
  }
  for (const ObjectFigures& figures : session.objects()) {
    if (figures.name == kTable && figures.layout == "source") loaded.resident = figures.state == "resident";
  }
  return loaded;
}

const SessionOptions kOnDemand{.mode = Mode::on_demand};

}  // namespace

TEST_SUITE_BEGIN("rows");

TEST_CASE("one slice is read instead of the table, and the bits are the same") {
  const Loaded whole =
      run({.scheduler = "sequential"}, {.mode = Mode::eager, .verify = Verify::always}, model_path(), 2, kOneId);
  REQUIRE(whole.decoded.ok());
  for (const char* scheduler : {"sequential", "omp-tasks"}) {
    CAPTURE(scheduler);
    const Loaded rows = run({.scheduler = scheduler, .threads = 2}, kOnDemand, model_path(), 2, kOneId);
    REQUIRE(rows.decoded.ok());
    CHECK(*rows.decoded == *whole.decoded);
    CHECK_FALSE(rows.resident);
    REQUIRE(rows.table.size() == 2);  // one slice for each step
    CHECK(rows.table[0].chunk == 0);
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
  CHECK(rows.decoded.error().length == uint64_t(1) << 20);
  // Row 5000 lies in the other slice, which is whole; the head, packed from the same bytes, is what then fails.
  const Loaded other = run({.threads = 2}, kOnDemand, copy.model(), 1, {5000});
  REQUIRE_FALSE(other.decoded.ok());
  CHECK(other.decoded.error().subject != "");
  CHECK(other.table.size() == 1);
  CHECK(other.table[0].chunk == 1);
}

TEST_CASE("without slice hashes the whole table is read, unless nothing is verified") {
  const ModelCopy copy;
  fs::remove(copy.file("model.digests"));
  const Loaded whole = run({.threads = 2}, kOnDemand, copy.model(), 1, kOneId);
  REQUIRE(whole.decoded.ok());
  CHECK(whole.resident);
  const Loaded unverified =
      run({.threads = 2}, {.mode = Mode::on_demand, .verify = Verify::never}, copy.model(), 1, kOneId);
  REQUIRE(unverified.decoded.ok());
  CHECK_FALSE(unverified.resident);
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
  CHECK(whole.resident);
}

TEST_SUITE_END();

}  // namespace ompipe::session::testing
