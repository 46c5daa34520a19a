// One region that lives long: memory stays flat however many loads and segments it has run.
#include <doctest/doctest.h>

#include <cstdlib>

#include "pipeline_rig.h"

namespace ompipe::schedule {

TEST_SUITE_BEGIN("longevity");

// A depend address that is never reused costs libomp 855 bytes, and so does each reader of one that is never written
// again: 80,000 more of either would be 68 MB. Allowed: 2 MB, for what the allocator's arenas of 3 threads drift.
TEST_CASE("memory is flat over more than a hundred thousand loads and segments with sixteen tokens") {
  PipelineShape shape;
  shape.objects = 48;
  shape.max_chunks = 3;
  shape.slots = 2;
  shape.segments = (std::getenv("OMPIPE_LONG") ? 1'100'000 : 110'000) / shape.slots;
  shape.per_segment = 1;
  shape.load_tokens = shape.publish_tokens = 16;
  shape.resident_limit = 6;
  shape.tiles = 2;
  const PipelineResult result = run_pipeline("omp-tasks", shape);
  CHECK(result.wrong == 0);
  CHECK(result.segments == uint64_t(shape.slots * shape.segments));
  CHECK(result.prepacks >= 100'000);  // and a million when it is long
  CHECK(result.counters.ran_on_coordinator == 0);
  CHECK(result.warm_bytes > 0);
  CAPTURE(result.warm_bytes);
  CAPTURE(result.end_bytes);
  CHECK(result.end_bytes <= result.warm_bytes + (2 << 20));
  MESSAGE(result.prepacks, " loads, ", result.segments, " segments; bytes ", result.warm_bytes, " to ",
          result.end_bytes);
}

TEST_SUITE_END();

}  // namespace ompipe::schedule
