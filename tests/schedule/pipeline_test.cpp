// Every scheduler runs the same pipeline in an order that its gates allow, whatever the team.
#include <doctest/doctest.h>

#include <cstdlib>

#include "pipeline_rig.h"

namespace ompipe::schedule {

TEST_SUITE_BEGIN("pipeline");

TEST_CASE("each scheduler keeps the order of the gates, for every team size") {
  for (const char* scheduler : {"sequential", "omp-tasks"}) {
    for (int threads : {1, 2, 4, 8}) {
      for (uint64_t seed = 1; seed <= 6; ++seed) {
        PipelineShape shape;
        shape.threads = threads;
        shape.seed = seed;
        shape.spin = seed % 3 == 0 ? 20'000 : 0;
        shape.resident_limit = seed % 2 == 0 ? 5 : 10;
        CAPTURE(scheduler);
        CAPTURE(threads);
        CAPTURE(seed);
        const PipelineResult result = run_pipeline(scheduler, shape);
        CHECK(result.wrong == 0);
        CHECK(result.segments == uint64_t(shape.slots * shape.segments));
        CHECK(result.tiles == result.segments * uint64_t(shape.tiles));
        CHECK(result.evictions > 0);
        CHECK(result.counters.ran_on_coordinator == 0);
      }
    }
  }
}

// Order must not depend on luck. OMPIPE_LONG: a thousand times in a row.
TEST_CASE("the pipeline runs again and again, each time in another shape") {
  const int times = std::getenv("OMPIPE_LONG") ? 1000 : 20;
  for (int time = 0; time < times; ++time) {
    PipelineShape shape;
    shape.seed = uint64_t(time) + 100;
    shape.threads = 1 << (time % 4);
    shape.objects = 12 + time % 9;
    shape.max_chunks = 1 + time % 4;
    shape.slots = 1 + time % 4;
    shape.per_segment = 1 + time % 3;
    shape.load_tokens = 6 + time % 5;
    shape.resident_limit = 2 * shape.slots * shape.per_segment + time % 4;
    shape.tiles = 1 + time % 12;
    shape.spin = time % 5 == 0 ? 30'000 : time % 5 * 100;
    CAPTURE(time);
    const PipelineResult result = run_pipeline("omp-tasks", shape);
    CHECK(result.wrong == 0);
    CHECK(result.segments == uint64_t(shape.slots * shape.segments));
    CHECK(result.counters.ran_on_coordinator == 0);
  }
}

TEST_SUITE_END();

}  // namespace ompipe::schedule
