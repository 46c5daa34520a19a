// One plan, one result: the bits of the logits don't depend on scheduler, team, mode, reads, chunks or room.
#include <doctest/doctest.h>

#include "rig.h"

namespace ompipe::session::testing {

namespace {

constexpr int kSteps = 2;

const Decoded& expected(int accuracy_level) {
  static Decoded results[2];
  Decoded& result = results[accuracy_level > 0];
  if (!result.tokens.empty()) return result;
  Rig rig({.scheduler = "sequential"});
  const Result<Decoded> decoded = decode(rig.open({}, model_path("tiny-int4", accuracy_level)), kSteps);
  REQUIRE(decoded.ok());
  return result = *decoded;
}

void check(const RuntimeOptions& runtime, const SessionOptions& options, int accuracy_level = 0) {
  Rig rig(runtime);
  RuntimeSession& session = rig.open(options, model_path("tiny-int4", accuracy_level));
  if (options.mode == Mode::eager) REQUIRE(session.Prepare().ok());
  const Result<Decoded> decoded = decode(session, kSteps);
  REQUIRE_MESSAGE(decoded.ok(), (decoded.ok() ? "" : decoded.error().message()));
  CHECK(*decoded == expected(accuracy_level));
}

}  // namespace

TEST_SUITE_BEGIN("identical");

TEST_CASE("every team, every mode") {
  for (const Mode mode : {Mode::streaming, Mode::eager, Mode::on_demand}) {
    CAPTURE(int(mode));
    check({.scheduler = "sequential"}, {.mode = mode});
    for (const int threads : {1, 2, 4, 8}) {
      CAPTURE(threads);
      if (mode == Mode::streaming || threads == 1 || threads == 4) check({.threads = threads}, {.mode = mode});
    }
  }
}

TEST_CASE("the sequential scheduler in seeded orders") {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    CAPTURE(seed);
    check({.scheduler = "sequential", .seed = seed}, {.chunk_bytes = 1u << 20});
  }
}

TEST_CASE("every way to read, every size of chunk") {
  for (const ReadMode read : {ReadMode::buffered, ReadMode::direct, ReadMode::mapped}) {
    for (const uint64_t chunk_bytes : {1u << 20, 4u << 20}) {
      CAPTURE(int(read));
      CAPTURE(chunk_bytes);
      check({.threads = 2}, {.chunk_bytes = chunk_bytes, .read = read});
      check({.scheduler = "sequential"}, {.chunk_bytes = chunk_bytes, .read = read});
    }
  }
}

TEST_CASE("accuracy level 4") {
  check({.threads = 1}, {}, 4);
  check({.threads = 4}, {.chunk_bytes = 1u << 20}, 4);
}

TEST_CASE("rows of the table instead of the table: a trusted list of digests, or none asked for") {
  std::string digests = model_path();
  digests.replace(digests.rfind('/') + 1, std::string::npos, "model.digests");
  check({.threads = 2}, {.mode = Mode::on_demand, .digests_path = digests});
  check({.threads = 2}, {.digests_path = digests});
  check({.threads = 2}, {.mode = Mode::on_demand, .verify = Verify::never});
}

TEST_CASE("a window, no inheritance, more I/O threads, few tokens, bounded speculation") {
  check({.threads = 2, .io_threads = 1}, {.look_ahead = {.segments = 1}});
  check({.threads = 2, .io_threads = 8}, {.look_ahead = {.bytes = 2u << 20}, .inheritance = false});
  check({.threads = 2, .load_tokens = 8, .publish_tokens = 8}, {.chunk_bytes = 1u << 20});
  check({.threads = 2, .limits = {.io_inflight_bytes = 1}}, {});
}

TEST_SUITE_END();

}  // namespace ompipe::session::testing
