// A small pipeline that any scheduler can run: objects in chunks are loaded, packed and published; chains of segments
// need them. Every step checks that what it stands on has happened, so a wrong order fails.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "ompipe/schedule/scheduler.h"

namespace ompipe::schedule {

struct PipelineShape {
  int threads = 2;
  int objects = 16;
  int max_chunks = 3;   // object i has i % max_chunks + 1
  int slots = 2;        // chains at once
  int segments = 40;    // of each chain
  int per_segment = 2;  // objects that a segment needs
  int load_tokens = 8, publish_tokens = 8;
  int resident_limit = 8;  // objects
  int tiles = 8;           // of each segment's kernel
  int64_t spin = 0;        // work of a body
  uint64_t seed = 1;
};

struct PipelineResult {
  Counters counters;
  uint64_t prepacks = 0, segments = 0, tiles = 0, wrong = 0, evictions = 0;
  uint64_t warm_bytes = 0, end_bytes = 0;  // resident memory after a fifth of the segments, and after the last
};

// Runs the shape to its end on a scheduler of that name.
PipelineResult run_pipeline(const std::string& scheduler, const PipelineShape& shape);

}  // namespace ompipe::schedule
