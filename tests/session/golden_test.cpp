// ONNX Runtime's tokens and logits, through sessions and schedulers.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "rig.h"

namespace ompipe::session::testing {

namespace {

using Json = nlohmann::json;

Json golden(const std::string& name) {
  std::ifstream file(std::string(OMPIPE_GOLDENS) + "/" + name + ".json");
  REQUIRE(file.good());
  return Json::parse(file);
}

double norm_of(const Floats& values) {
  double sum = 0;
  for (const float value : values) sum += double(value) * double(value);
  return std::sqrt(sum);
}

// Level 0 is float32 throughout. At level 4 two right implementations may round an activation to different integers.
double tolerance_of(int level) { return level == 0 ? 1e-4 : 1e-2; }

// Each step is fed the golden's token, so that steps can be compared one by one whatever rounds differently.
void check_decoder(const std::string& preset, int level, const std::string& scheduler) {
  const Json expected = golden(preset + "-acc" + std::to_string(level));
  Rig rig({.scheduler = scheduler, .threads = 2});
  RuntimeSession& session = rig.open({}, model_path(preset, level));
  Decoder decoder(session);
  Tokens next = expected["prompt"];
  double largest = 0;
  for (size_t i = 0; i < expected["tokens"].size(); ++i) {
    CAPTURE(i);
    decoder.feed(next);
    REQUIRE(session.Run(decoder.context).ok());
    const Floats logits = decoder.take_logits();
    const Json& step = expected["steps"][i];
    const double norm = step["norm"];
    largest = std::max(largest, std::abs(norm_of(logits) - norm) / norm);
    for (size_t rank = 0; rank < step["ids"].size(); ++rank) {
      const double found = double(logits[step["ids"][rank].get<size_t>()]);
      largest = std::max(largest, std::abs(found - step["values"][rank].get<double>()) / norm);
    }
    const double gap = (step["values"][0].get<double>() - step["values"][1].get<double>()) / norm;
    if (level == 0 || gap > tolerance_of(level)) CHECK(best_of(logits) == expected["tokens"][i].get<int64_t>());
    next = {expected["tokens"][i].get<int64_t>()};
  }
  CHECK(largest <= tolerance_of(level));
  MESSAGE(preset, " level ", level, ", ", scheduler, ": largest difference ", largest, " of the norm");
}

}  // namespace

TEST_SUITE_BEGIN("golden");

TEST_CASE("tiny-int4, float32: token for token over 32 steps") {
  check_decoder("tiny-int4", 0, "sequential");
  check_decoder("tiny-int4", 0, "omp-tasks");
}

TEST_CASE("tiny-int4, int8 blocks: within a hundredth of the logits' norm") {
  check_decoder("tiny-int4", 4, "sequential");
  check_decoder("tiny-int4", 4, "omp-tasks");
}

TEST_CASE("tiny-int4 left to itself generates ONNX Runtime's tokens") {
  const Json expected = golden("tiny-int4-acc0");
  Rig rig({.threads = 2});
  const Result<Decoded> decoded = decode(rig.open(), 32, expected["prompt"]);
  REQUIRE(decoded.ok());
  CHECK(decoded->tokens == expected["tokens"].get<Tokens>());
}

TEST_CASE("qwen-0.5b-int4, both levels" * doctest::skip(!long_tests())) {
  check_decoder("qwen-0.5b-int4", 0, "omp-tasks");
  check_decoder("qwen-0.5b-int4", 4, "omp-tasks");
}

TEST_SUITE_END();

}  // namespace ompipe::session::testing
