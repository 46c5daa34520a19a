// The reference document's limit, 5 MiB of prepared objects, on tiny-int4: what the model holds, what every step of
// every token takes, predicted and measured, and that no scheduler takes more.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "accounting_rig.h"
#include "ompipe/plan/print.h"

namespace ompipe::session::accounting {

using arenas::Domain;
using model::DType;

namespace {

constexpr int64_t kHidden = 512, kInner = 2048, kVocabulary = 8192, kPositions = 2048, kHalfHead = 32, kBlock = 32;
constexpr int kLayers = 4;

// INT4 weights, two in a byte, with a float32 scale for each block of 32; packed they take the same.
constexpr uint64_t int4_bytes(int64_t rows, int64_t columns) {
  return uint64_t(rows * columns / 2 + rows * columns / kBlock * int64_t(sizeof(float)));
}

struct Line {
  std::vector<DType> sources;
  uint64_t bytes;
};

// Each prepared object: what it is made of, and its bytes.
std::map<std::string, Line> table_of_objects() {
  constexpr uint64_t norm = kHidden * sizeof(float), rotary = kPositions * kHalfHead * sizeof(float);
  const std::vector<DType> int4{DType::u8, DType::f32};
  std::map<std::string, Line> lines{{"embedding.weight", {int4, int4_bytes(kVocabulary, kHidden)}},  // and the LM head
                                    {"cos_cache", {{DType::f32}, rotary}},
                                    {"sin_cache", {{DType::f32}, rotary}}};
  for (int i = 0; i < kLayers; ++i) {
    const std::string layer = "layer" + std::to_string(i) + ".";
    lines[layer + "qkv.weight"] = {int4, int4_bytes(3 * kHidden, kHidden)};
    lines[layer + "attn_out.weight"] = {int4, int4_bytes(kHidden, kHidden)};
    lines[layer + "gate_up.weight"] = {int4, int4_bytes(2 * kInner, kHidden)};
    lines[layer + "down.weight"] = {int4, int4_bytes(kHidden, kInner)};
  }
  // The nine norms, by the segment that uses them first.
  const int norms[] = {1, 2, 1, 1, 2, 1, 1};
  for (int i = 0; i < 7; ++i)
    lines["bundle." + std::to_string(i)] = {std::vector<DType>(size_t(norms[i]), DType::f32), norms[i] * norm};
  return lines;
}

Case five_mib(const std::string& scheduler, int threads) {
  Case wanted{"5 MiB", {.prepared_bytes = 5 * kMiB}};
  wanted.scheduler = scheduler;
  wanted.threads = threads;
  wanted.tokens = 5;
  return wanted;
}

const Measured& unlimited() {
  static Measured measured;
  if (!measured.tokens.empty()) return measured;
  Case wanted = five_mib("sequential", 1);
  wanted.limits = {};
  return measured = Stand(wanted).measure();
}

}  // namespace

TEST_SUITE_BEGIN("five_mib");

TEST_CASE("what tiny-int4 holds: dtypes, and every byte, norms and rotary caches too") {
  Stand stand(five_mib("sequential", 1));
  const plan::PreparedExecutionPlan& plan = stand.plan();
  const std::map<std::string, Line> lines = table_of_objects();
  const std::vector<std::string> names = plan::object_names(plan);
  uint64_t bytes = 0;
  CHECK(names.size() == lines.size());
  for (size_t id = 0; id < names.size(); ++id) {
    CAPTURE(names[id]);
    REQUIRE(lines.count(names[id]) == 1);
    const Line& line = lines.at(names[id]);
    std::vector<DType> sources;
    for (size_t i = 0; i < plan.objects[id].sources.size(); ++i)
      sources.push_back(plan.source_payload(plan::ObjectId(id), i).dtype);
    CHECK(sources == line.sources);
    CHECK(plan.objects[id].bytes == line.bytes);
    CHECK(plan.objects[id].source_bytes == line.bytes);
    bytes += line.bytes;
  }
  CHECK(bytes == plan.source_bytes);
  CHECK(5 * int4_bytes(kVocabulary, kHidden) + 512 * 1024 + 9 * 2048 == bytes);  // four layers and the table
}

TEST_CASE("token after token each step takes what was predicted, to the byte") {
  Stand stand(five_mib("sequential", 1));
  const Measured measured = stand.measure();
  CHECK(measured.tokens == unlimited().tokens);
  const Result<Accounting> predicted = stand.predict(measured.runs);
  REQUIRE_MESSAGE(predicted.ok(), (predicted.ok() ? "" : predicted.error().message()));
  REQUIRE(predicted->steps.size() == measured.steps.size());
  size_t tokens = 0;
  for (size_t i = 0; i < measured.steps.size(); ++i) {
    CAPTURE(i);
    check_step(predicted->steps[i], measured.steps[i]);
    tokens += measured.steps[i].published == plan::kNone && measured.steps[i].segment == plan::kNone;
  }
  CHECK(tokens == measured.runs.size());
  for (Domain domain : arenas::kDomains)
    CHECK(predicted->usage[domain].peak_bytes == measured.figures.arenas.at(arenas::domain_name(domain)).peak);
  CHECK(predicted->usage.global_peak_bytes == measured.figures.global_peak_bytes);
  CHECK(predicted->usage[Domain::prepared].peak_bytes <= 5 * kMiB);
  CHECK(predicted->evictions == measured.figures.evictions);
  CHECK(predicted->evictions > 0);
}

TEST_CASE("omp-tasks needs no more than was predicted, in any domain, and gives the same tokens") {
  for (const int threads : {1, 2}) {
    CAPTURE(threads);
    Case wanted = five_mib("omp-tasks", threads);
    Result<Accounting> predicted = Accounting();
    {
      Stand stand(wanted);
      const Measured measured = stand.measure();
      CHECK(measured.tokens == unlimited().tokens);
      predicted = stand.predict(measured.runs);
      REQUIRE(predicted.ok());
      const auto peak = [&](const char* domain) { return measured.figures.arenas.at(domain).peak; };
      CHECK(peak("prepared") <= 5 * kMiB);
      CHECK(peak("execution") == predicted->usage[Domain::execution].peak_bytes);
      CHECK(peak("io") == predicted->usage[Domain::io].peak_bytes);
    }
    // What was predicted as limits, of each domain and of all together.
    wanted.limits.global_bytes = predicted->usage.global_peak_bytes;
    wanted.limits.preparation_bytes = predicted->usage[Domain::preparation].peak_bytes;
    wanted.limits.prepared_bytes = predicted->usage[Domain::prepared].peak_bytes;
    wanted.limits.execution_bytes = predicted->usage[Domain::execution].peak_bytes;
    wanted.limits.io_bytes = predicted->usage[Domain::io].peak_bytes;
    wanted.limits.mapped_bytes = predicted->usage[Domain::mapped].peak_bytes;
    Stand stand(wanted);
    const Measured measured = stand.measure();
    CHECK(measured.tokens == unlimited().tokens);
    for (Domain domain : arenas::kDomains)
      CHECK(measured.figures.arenas.at(arenas::domain_name(domain)).peak <= predicted->usage[domain].peak_bytes);
    CHECK(measured.figures.global_peak_bytes <= predicted->usage.global_peak_bytes);
  }
}

TEST_SUITE_END();

}  // namespace ompipe::session::accounting
