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

namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

std::vector<float> random_rows(int64_t count) {
  std::mt19937 random(7);
  std::vector<float> rows(static_cast<size_t>(count));
  for (float& x : rows) x = std::uniform_real_distribution<float>(-1, 1)(random);
  return rows;
}

// One weight against its naive product, at some columns: rounding of K sums, and at level 4 of each activation (at most
// 1) to 1 / 127.
bool check_one(const Ort& ort, const std::string& library, const Weight& weight, int level, int64_t m) {
  Session session(ort, library, {"ompipe"}, {weight}, level);
  std::vector<float> a = random_rows(m * weight.size), out(a.size(), NAN);
  session.bind(m, a, {&out});
  session.run();
  for (int64_t row = 0; row < m; ++row) {
    for (int64_t n = row; n < weight.size; n += 37) {
      double exact = 0, magnitude = 0, weights = 0;
      for (int64_t k = 0; k < weight.size; ++k) {
        const double value = weight.value(k, n), term = a[static_cast<size_t>(row * weight.size + k)] * value;
        exact += term;
        magnitude += std::fabs(term);
        weights += std::fabs(value);
      }
      const double bound = magnitude * double(weight.size + 2) / (1 << 23) + (level == 4 ? weights / 254 * 1.001 : 0);
      const double difference = out[static_cast<size_t>(row * weight.size + n)] - exact;
      if (std::fabs(difference) <= bound) continue;
      std::fprintf(stderr, "row %lld column %lld: off by %g, %g allowed\n", static_cast<long long>(row),
                   static_cast<long long>(n), difference, bound);
      return false;
    }
  }
  return true;
}

double relative_difference(const std::vector<float>& one, const std::vector<float>& other) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < one.size(); ++i) {
    difference += (one[i] - other[i]) * double(one[i] - other[i]);
    norm += other[i] * double(other[i]);
  }
  return std::sqrt(difference / norm);
}

// Sorts.
double median(std::vector<double>& of) {
  std::sort(of.begin(), of.end());
  return of[of.size() / 2];
}

struct Case {
  int level;
  int64_t m;
  double run_ms;  // to measure for; once at least
};

constexpr const char* kTheirs = "com.microsoft";
constexpr const char* kOurs = "ompipe";

// Both operators in one model. False if an output is wrong.
bool outputs_agree(const Ort& ort, const std::string& library, const std::vector<Weight>& weights, const Case& each) {
  if (!check_one(ort, library, weights.front(), each.level, each.m)) return false;
  Session both(ort, library, {kTheirs, kOurs}, weights, each.level);
  std::vector<float> a = random_rows(each.m * weights.front().size), theirs(a.size(), NAN), ours(a.size(), NAN);
  both.bind(each.m, a, {&theirs, &ours});
  both.run();
  // Level 4 rounds each layer's input to 1 / 127 of a block's largest; which way, a last bit may decide.
  const double difference = relative_difference(ours, theirs), allowed = each.level == 4 ? 0.01 : 1e-4;
  std::printf("level %d, m %2lld: outputs differ by %.1e of their norm, %.0e allowed\n", each.level,
              static_cast<long long>(each.m), difference, allowed);
  return difference <= allowed;
}

void time_runs(const Ort& ort, const std::string& library, const std::vector<Weight>& weights, const Case& each) {
  const int64_t size = weights.front().size;
  Clock::time_point begin = Clock::now();
  Session theirs(ort, "", {kTheirs}, weights, each.level);
  const double theirs_made_ms = ms_since(begin);
  begin = Clock::now();
  Session ours(ort, library, {kOurs}, weights, each.level);
  const double ours_made_ms = ms_since(begin);

  std::vector<float> a = random_rows(each.m * size), out(a.size(), NAN);
  theirs.bind(each.m, a, {&out});
  ours.bind(each.m, a, {&out});
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
  } while (ms_since(begin) < each.run_ms);

  const double theirs_median = median(theirs_ms), ours_median = median(ours_ms);
  const double theirs_best = theirs_ms.front(), ours_best = ours_ms.front();
  const double elements = double(weights.size()) * double(size) * double(size);
  std::printf("  ms a run, median: %.2f theirs, %.2f ours: %.2f x; best: %.2f, %.2f: %.2f x; of %zu runs each\n",
              theirs_median, ours_median, theirs_median / ours_median, theirs_best, ours_best, theirs_best / ours_best,
              ours_ms.size());
  std::printf("  ours at best: %.1f GB/s of weight bytes, %.0f GOP/s; session made in %.0f ms theirs, %.0f ms ours\n",
              elements * (0.5 + 4.5 / weights.front().block) / ours_best / 1e6,
              2 * double(each.m) * elements / ours_best / 1e6, theirs_made_ms, ours_made_ms);
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
  std::vector<Weight> weights;
  for (int64_t i = 0; i < layers; ++i) weights.push_back(make_weight(size, 32, static_cast<uint32_t>(i + 1)));
  std::printf("%d threads, %lld weights of %lld x %lld, block 32\n", threads, static_cast<long long>(layers),
              static_cast<long long>(size), static_cast<long long>(size));
  const std::string refusal = Session::refusal(ort, library, {kOurs}, {weights.front()}, 3);
  if (refusal.find("accuracy_level must be 0 or 4") == std::string::npos) {
    std::fprintf(stderr, "accuracy_level 3 isn't refused as it should be: '%s'\n", refusal.c_str());
    return 1;
  }
  for (int level : {4, 0}) {
    for (int64_t m : {1, 32}) {
      const Case each = {level, m, smoke ? 0.0 : 2500.0};
      if (!outputs_agree(ort, library, weights, each)) return 1;
      time_runs(ort, library, weights, each);
    }
  }
  return 0;
}
