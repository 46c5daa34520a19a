// ompipe::MatMulNBits beside com.microsoft::MatMulNBits, each in a session of ONNX Runtime over the same weights and
// one shared thread pool: first the outputs, then the times, interleaved in a random order.
//   ort_custom_op LIBRARY --smoke
//   ort_custom_op LIBRARY THREADS [SIZE [LAYERS]]
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

#include "model.h"
#include "outputs.h"

namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

// Sorts.
double median(std::vector<double>& of) {
  std::sort(of.begin(), of.end());
  return of[of.size() / 2];
}

void time_runs(const Ort& ort, const std::string& library, const std::vector<Weight>& weights, int64_t m,
               double run_ms) {
  const int64_t size = weights.front().size;
  Clock::time_point begin = Clock::now();
  Session theirs(ort, "", {kTheirs}, weights);
  const double theirs_made_ms = ms_since(begin);
  begin = Clock::now();
  Session ours(ort, library, {kOurs}, weights);
  const double ours_made_ms = ms_since(begin);

  const std::vector<float> a = random_rows(m * size, Element::f32);
  std::vector<float> out(a.size(), NAN);
  theirs.bind(m, a, {&out});
  ours.bind(m, a, {&out});
  theirs.run();
  ours.run();
  std::vector<double> theirs_ms, ours_ms;
  std::mt19937 random(1);
  begin = Clock::now();
  do {
    const bool ours_first = random() % 2 == 0;
    for (bool turn : {ours_first, !ours_first}) {
      const Clock::time_point started = Clock::now();
      (turn ? ours : theirs).run();
      (turn ? ours_ms : theirs_ms).push_back(ms_since(started));
    }
  } while (ms_since(begin) < run_ms);

  const double theirs_median = median(theirs_ms), ours_median = median(ours_ms);
  const double theirs_best = theirs_ms.front(), ours_best = ours_ms.front();
  const double elements = double(weights.size()) * double(size) * double(size);
  std::printf("  ms a run, median: %.2f theirs, %.2f ours: %.2f x; best: %.2f, %.2f: %.2f x; of %zu runs each\n",
              theirs_median, ours_median, theirs_median / ours_median, theirs_best, ours_best, theirs_best / ours_best,
              ours_ms.size());
  std::printf("  ours at best: %.1f GB/s of weight bytes, %.0f GOP/s; session made in %.0f ms theirs, %.0f ms ours\n",
              elements * (0.5 + 4.5 / weights.front().format.block) / ours_best / 1e6,
              2 * double(m) * elements / ours_best / 1e6, theirs_made_ms, ours_made_ms);
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 3) {
    std::fprintf(stderr, "ort_custom_op LIBRARY --smoke | ort_custom_op LIBRARY THREADS [SIZE [LAYERS]]\n");
    return 2;
  }
  const std::string library = arguments[1];
  const bool smoke = std::strcmp(arguments[2], "--smoke") == 0;
  const int threads = smoke ? 2 : static_cast<int>(std::strtol(arguments[2], nullptr, 10));
  const int64_t size = count > 3 ? std::strtol(arguments[3], nullptr, 10) : smoke ? 320 : 4096;
  const int64_t layers = count > 4 ? std::strtol(arguments[4], nullptr, 10) : smoke ? 2 : 6;
  if (threads < 1 || size < 32 || size % 32 != 0 || layers < 1) return 2;
  const Ort ort(threads);
  std::printf("%d threads\n", threads);
  if (!check_refusals(ort, library) || !check_formats(ort, library)) return 1;
  std::printf("%lld weights of %lld x %lld, block 32\n", static_cast<long long>(layers), static_cast<long long>(size),
              static_cast<long long>(size));
  for (int level : {4, 0}) {
    std::vector<Weight> weights;
    for (int64_t i = 0; i < layers; ++i) {
      weights.push_back(make_weight(size, {.level = level}, static_cast<uint32_t>(i + 1)));
    }
    for (int64_t m : {1, 32}) {
      if (!outputs_agree(ort, library, weights, m)) return 1;
      time_runs(ort, library, weights, m, smoke ? 0 : 2500);
    }
  }
  return 0;
}
