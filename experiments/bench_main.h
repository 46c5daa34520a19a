// The command line of every benchmark program: Google Benchmark's own options, and --smoke for the smallest size,
// measured once.
#pragma once

#include <benchmark/benchmark.h>

#include <cstring>
#include <vector>

namespace ompipe::bench {

// Calls add(smoke), which registers the benchmarks, and runs them. Returns the exit status: 2 for an unknown option.
template <class Add>
int bench_main(int argc, char** argv, Add add) {
  bool smoke = false;
  std::vector<char*> arguments;
  for (int i = 0; i < argc; ++i) {
    if (i > 0 && std::strcmp(argv[i], "--smoke") == 0) {
      smoke = true;
    } else {
      arguments.push_back(argv[i]);
    }
  }
  char once[] = "--benchmark_min_time=0";
  if (smoke) arguments.push_back(once);
  int count = static_cast<int>(arguments.size());
  benchmark::Initialize(&count, arguments.data());
  if (benchmark::ReportUnrecognizedArguments(count, arguments.data())) return 2;
  add(smoke);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

}  // namespace ompipe::bench
