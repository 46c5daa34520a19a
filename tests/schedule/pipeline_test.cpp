// Every scheduler runs the same pipeline in an order that its gates allow, whatever the team.
#include <doctest/doctest.h>

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

TEST_SUITE_END();

}  // namespace ompipe::schedule
